"""Pictures of plans: every operator of EXPLAIN has a box, and nothing falls outside."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from spark_incr.plan.picture import plan_picture

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "plans").glob("*.txt"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_every_operator_and_edge_is_drawn(path: Path) -> None:
    explained = path.read_text().split("-- EXPLAIN\n")[1].split("\n\n-- EXPLAIN SQL")[0]
    drawn = ElementTree.fromstring(plan_picture(explained, "a <view>"))
    boxes = [r for r in drawn.iter(f"{SVG}rect") if r.get("class") == "box"]
    heads = re.findall(r"^r\d+ := \w+\[((?:r\d+(?:, )?)*)", explained, re.MULTILINE)
    edges = [p for p in drawn.iter(f"{SVG}path") if p.get("class") == "edge"]
    assert len(boxes) == len(heads) + 1
    assert len(edges) == sum(len(re.findall(r"r\d+", head)) for head in heads) + 1
    width, height = float(drawn.get("width", 0)), float(drawn.get("height", 0))
    for group in drawn.iter(f"{SVG}g"):
        found = re.match(r"translate\(([\d.]+) ([\d.]+)\)", group.get("transform", ""))
        box = group.find(f"{SVG}rect")
        if found and box is not None:
            assert float(found[1]) + float(box.get("width", 0)) <= width
            assert float(found[2]) + float(box.get("height", 0)) <= height
    texts = {"".join(node.itertext()) for node in drawn.iter(f"{SVG}text")}
    assert "How a <view> is maintained" in texts
