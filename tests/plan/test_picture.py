"""Pictures of plans: every operator of EXPLAIN has a box, and nothing falls outside.

`--update-golden` draws those of the documents anew.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from spark_incr.models.run import graph_svg, load
from spark_incr.plan.picture import plan_picture

ROOT = Path(__file__).parents[2]
FIXTURES = sorted((ROOT / "tests" / "fixtures" / "plans").glob("*.txt"))
SVG = "{http://www.w3.org/2000/svg}"

RECURSIVE = """\
r0 := Scan[edges: a, b]
r1 := Recompute[r0, WITH RECURSIVE reach AS (SELECT a, b FROM r0) SELECT * FROM reach]
    tier       affected (recursion: Spark runs it anew over all rows that it reads)
    lineage    none (all rows)
    state      rows 8000 rows 384000 bytes; head 1 rows 16 bytes
output: 1 distinct rows, 843 bytes"""


def explain_of(path: Path) -> str:
    return path.read_text().split("-- EXPLAIN\n")[1].split("\n\n-- EXPLAIN SQL")[0]


def texts_of(drawn: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()) for node in drawn.iter(f"{SVG}text")]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_every_operator_and_edge_is_drawn(path: Path) -> None:
    explained = explain_of(path)
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
    assert "How a <view> is maintained" in texts_of(drawn)


def test_sizes_are_in_units_that_a_person_reads_and_none_is_cut() -> None:
    drawn = ElementTree.fromstring(plan_picture(RECURSIVE, "reach"))
    texts = texts_of(drawn)
    assert "state rows: 8,000 rows, 384 kB" in texts
    assert "      head: 1 row, 16 B" in texts
    assert "1 distinct row, 843 B" in texts
    assert len([p for p in drawn.iter(f"{SVG}path") if p.get("class") == "edge"]) == 2
    widest = max(map(len, texts))
    assert widest <= 52
    assert " ".join(texts).count("over all rows that it reads") == 1, "the tier takes two lines"


def test_the_pictures_of_the_documents_are_drawn_by_this_code(update_golden: bool) -> None:
    plan = explain_of(ROOT / "tests" / "fixtures" / "plans" / "join_group_by.txt")
    models = load(ROOT / "sql_examples" / "models", "default", {})
    for name, drawn in (
        ("join_group_by", plan_picture(plan, "mean_by_country")),
        ("models", graph_svg(models, "Models in sql_examples/models/")),
    ):
        path = ROOT / "docs" / "pictures" / f"{name}.svg"
        if update_golden:
            path.write_text(drawn, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == drawn
