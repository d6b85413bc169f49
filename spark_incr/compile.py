"""From the text of a query to the plan that maintains it.

Spark analyses the query first: its error is ours, and its output is what the plan has to give,
column by column. The text that sqlglot prints from its own reading is analysed too, and has to be
the same query for Spark; so a misreading is refused and never maintained.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from spark_incr.errors import Position, error
from spark_incr.plan.build import build_plan
from spark_incr.plan.collations import check_keys
from spark_incr.plan.context import Analyzer, Context
from spark_incr.plan.environment import Catalog
from spark_incr.plan.functions import read_functions
from spark_incr.plan.nodes import Node, Scan, SortKey, walk
from spark_incr.plan.output_order import output_order, unread_keys
from spark_incr.plan.scope import Names, folded, names_compared
from spark_incr.plan.types import Field, Schema, arrow_type, type_text, unkept
from spark_incr.rules import PACKS
from spark_incr.rules.executor import run_packs, validate
from spark_incr.serve.analysis import SparkAnalysis
from spark_incr.sql.dialect import bracketed, parse_query, print_sql

_START = Position(1, 1)


@dataclass(frozen=True)
class Compiled:
    """A maintainable query: its plan, and the columns as users see them."""

    text: str
    plan: Node
    schema: Schema

    @property
    def relations(self) -> frozenset[str]:
        return frozenset(n.relation for n in walk(self.plan) if isinstance(n, Scan))


def compile_query(
    text: str,
    names: tuple[str, ...],
    catalog: Catalog,
    analysis: SparkAnalysis,
    place: Position = _START,
) -> Compiled:
    """Compile a query whose columns are renamed to `names` if any are given.

    The query stands at a place of a statement, which is where Spark's errors point to.
    """
    schema = analysis.query_schema("\n" * (place.line - 1) + " " * (place.column - 1) + text)
    if names:
        if len(names) != len(schema):
            raise error("INCR_COLUMN_COUNT", expected=len(schema), actual=len(names))
        schema = tuple(Field(name, f.type) for name, f in zip(names, schema, strict=True))
    _check_output(schema)
    tree = _read(text, analysis)
    if not analysis.same_query(text, print_sql(bracketed(tree))):
        raise error("INCR_READING_DIFFERS", detail=f"Read as: {print_sql(tree)}")
    plan = compile_plan(text, catalog, analysis)
    for node in walk(plan):
        _check_types(node.schema)
    check_keys(walk(plan))
    actual = [f.type for f in plan.schema]
    if [type_text(t) for t in actual] != [type_text(f.type) for f in schema]:
        raise error(
            "INCR_SCHEMA_DIFFERS",
            actual=", ".join(map(type_text, actual)),
            expected=", ".join(type_text(f.type) for f in schema),
        )
    return Compiled(text, plan, schema)


def compile_plan(text: str, catalog: Catalog, analyzer: Analyzer) -> Node:
    """The incremental plan of a query that is known to be valid."""
    with names_compared(analyzer.case_sensitive):
        plan = build_plan(_read(text, analyzer), catalog, analyzer)
    validate(plan, "build_plan")
    names = Names({folded(name) for node in walk(plan) for name in node.names})
    return run_packs(plan, PACKS, Context(analyzer, names))


@lru_cache(maxsize=1_000)
def read_order(text: str, schema: Schema) -> tuple[SortKey, ...]:
    """The order in which the columns of a query are to be read."""
    return output_order(parse_query(text), [f.name for f in schema])


def order_note(text: str, schema: Schema) -> str:
    """What a reader of a query's rows should know of their order, if it is not all of ORDER BY."""
    unread = unread_keys(parse_query(text), [f.name for f in schema])
    if not unread:
        return ""
    return f"rows are read without ORDER BY {', '.join(unread)}: it is no column of the view"


def _read(text: str, analyzer: Analyzer) -> exp.Query:
    """The syntax tree of a query that is a function of its tables."""
    tree = parse_query(text)
    read_functions(tree, analyzer)
    return tree


def _check_output(schema: Schema) -> None:
    seen: set[str] = set()
    for field in schema:
        if folded(field.name) in seen:
            raise error("INCR_DUPLICATE_COLUMN", name=field.name)
        if folded(field.name).startswith("__incr_"):
            raise error("INCR_RESERVED_NAME", name=field.name)
        seen.add(folded(field.name))
    _check_types(schema)


def _check_types(schema: Schema) -> None:
    for field in schema:
        if arrow_type(field.type) is None:
            raise unkept(field)
