"""The tier `full`: a query that is not taken apart at all, but computed anew with each batch.

The text stays as it was written, so it means what Spark says. Around it, each relation that it names
becomes a CTE over the rows that the view keeps of it; a name of several parts becomes its last one.
"""

from __future__ import annotations

from spark_incr.errors import IncrementalError, error
from spark_incr.plan.context import Analyzer, Context, Read
from spark_incr.plan.environment import Catalog
from spark_incr.plan.nodes import RELATION, Node, Scan
from spark_incr.plan.recursion import Input, recompute
from spark_incr.plan.scope import Names, spelled
from spark_incr.plan.types import Field, arrow_type
from spark_incr.sql.dialect import quoted
from spark_incr.sql.names import join_name

FULL = "full"
BY_POLICY = "REFRESH POLICY FULL"


def full_plan(text: str, catalog: Catalog, analyzer: Analyzer) -> Node:
    """The plan of a query that is computed anew with each batch."""
    context = Context(analyzer, Names())
    scans: dict[str, tuple[str, Scan]] = {}
    for read in reversed(analyzer.reads(text)):
        name = read.parts[-1]
        scan = _scan(read, catalog, context.names)
        _, other = scans.setdefault(spelled(name), (name, scan))
        if other.relation != scan.relation or (read.hidden and len(read.parts) > 1):
            raise _ambiguous(read)
        text = f"{text[: read.start]}{quoted(name)}{text[read.stop :]}"
    inputs: list[Input] = []
    ctes = []
    for number, (name, scan) in enumerate(reversed(scans.values())):
        relation = f"{RELATION}_{number}"
        inputs.append((relation, scan, scan.columns))
        ctes.append(f"{quoted(name)} AS (SELECT * FROM {quoted(relation)})")
    query = f"WITH {', '.join(ctes)} SELECT * FROM (\n{text}\n)" if ctes else text
    return recompute(inputs, query, context, FULL, analyzer.recomputed).node


def _scan(read: Read, catalog: Catalog, names: Names) -> Scan:
    known = catalog.relation(read.parts)
    if known is None:
        raise error("INCR_RELATION_NOT_FOUND", kind="table or view", name=join_name(read.parts))
    kept = [f for f in known.schema if arrow_type(f.type) is not None]
    renamed = tuple(Field(names.fresh(f.name), f.type) for f in kept)
    columns = tuple(f.name for f in kept)
    return Scan(renamed, known.name, columns, known.unique, known.append_only)


def _ambiguous(read: Read) -> IncrementalError:
    return error(
        "INCR_UNSUPPORTED",
        what=f"{join_name(read.parts)} beside another relation or CTE of that last name",
        hint="Give the CTE another name, or read one of the relations by a view.",
    )
