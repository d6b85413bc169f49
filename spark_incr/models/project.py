"""A folder of model files: what they are called, what they read, and in which order they come.

A model is one `.sql` file, named by the file. Sources, and what is said about models outside their
files, stand in `.yml` files beside them, as dbt has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from spark_incr.errors import error


@dataclass(frozen=True)
class ModelFile:
    """A model as it is written; `settings` come from the `.yml` files."""

    name: str
    path: Path
    text: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Folder:
    """The models of a folder, and the names of its sources: (source, table) -> schema.table.

    Seeds are tables that dbt fills from the files in a folder `seeds` beside that of the models.
    """

    models: Mapping[str, ModelFile]
    sources: Mapping[tuple[str, str], str]
    seeds: frozenset[str] = frozenset()


def read_folder(root: Path) -> Folder:
    """Read every model and every declaration under a folder."""
    if not root.is_dir():
        raise error("INCR_MODEL", model=root, what="it is not a folder")
    sources: dict[tuple[str, str], str] = {}
    settings: dict[str, Mapping[str, Any]] = {}
    for path in sorted([*root.rglob("*.yml"), *root.rglob("*.yaml")]):
        declared = _yaml(path)
        for source in declared.get("sources") or ():
            schema = source.get("schema", source["name"])
            for table in source.get("tables") or ():
                name = table.get("identifier", table["name"])
                sources[source["name"], table["name"]] = f"{schema}.{name}"
        for model in declared.get("models") or ():
            settings[model["name"]] = {
                **(model.get("config") or {}),
                **({"comment": model["description"]} if model.get("description") else {}),
            }
    models: dict[str, ModelFile] = {}
    for path in sorted(root.rglob("*.sql")):
        if path.stem in models:
            what = f"{models[path.stem].path} has the same name"
            raise error("INCR_MODEL", model=path, what=what)
        text = path.read_text(encoding="utf-8")
        models[path.stem] = ModelFile(path.stem, path, text, settings.get(path.stem, {}))
    if not models:
        raise error(
            "INCR_MODEL", model=root, what="the folder holds no models: no .sql file is in it"
        )
    seeds = frozenset(path.stem for path in (root.resolve().parent / "seeds").rglob("*.csv"))
    return Folder(models, sources, seeds)


def ordered(reads: Mapping[str, Iterable[str]]) -> list[str]:
    """The names after all that they read; a cycle is an error that shows its path.

    >>> ordered({"b": ["a"], "a": [], "c": ["b", "a"]})
    ['a', 'b', 'c']
    """
    done: list[str] = []
    path: list[str] = []

    def visit(name: str) -> None:
        if name in path:
            circle = [*path[path.index(name) :], name]
            raise error("INCR_MODEL", model=name, what=f"it reads itself: {' -> '.join(circle)}")
        if name in done:
            return
        path.append(name)
        for other in sorted(reads[name]):
            visit(other)
        path.pop()
        done.append(name)

    for name in sorted(reads):
        visit(name)
    return done


def _yaml(path: Path) -> Mapping[str, Any]:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as failure:
        what = " ".join(str(failure).split())
        raise error("INCR_MODEL", model=path, what=what) from failure
