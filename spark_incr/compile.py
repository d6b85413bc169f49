"""From the text of a query to the plan that maintains it.

Spark analyses the query first: its error is ours, and its output is what the plan has to give,
column by column. The text that sqlglot prints from its own reading is analysed too, and has to be
the same query for Spark; so a misreading is refused and never maintained.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from sqlglot import exp

from spark_incr.errors import IncrementalError, Position, error
from spark_incr.plan.build import build_plan
from spark_incr.plan.collations import check_keys
from spark_incr.plan.context import Analyzer, Context
from spark_incr.plan.environment import Catalog
from spark_incr.plan.full import BY_POLICY, full_plan
from spark_incr.plan.functions import read_functions, refuse_bare_calls
from spark_incr.plan.grouping_sets import havings_beside_windows
from spark_incr.plan.nodes import Node, Scan, SortKey, walk
from spark_incr.plan.output_order import output_order, unread_keys
from spark_incr.plan.scope import Names, folded, names_compared, spelled
from spark_incr.plan.types import Schema, arrow_type, type_text, unkept
from spark_incr.rules import PACKS
from spark_incr.rules.executor import run_packs, validate
from spark_incr.serve.analysis import SparkAnalysis
from spark_incr.sql.dialect import parse_query, print_sql
from spark_incr.sql.statements import Policy
from spark_incr.sql.written_names import Name

_START = Position(1, 1)
_TAKEN_WHOLE = frozenset(
    """INCR_UNSUPPORTED INCR_SYNTAX INCR_READING_DIFFERS INCR_SCHEMA_DIFFERS INCR_TYPE_UNSUPPORTED
    INCR_KEY_TYPE""".split()
)
_MISREAD = ("INCR_SYNTAX", "INCR_READING_DIFFERS")
_WHOLE = "REFRESH POLICY AUTO maintains it as a whole, computed anew with each batch."


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
    policy: Policy = Policy.INCREMENTAL_STRICT,
) -> Compiled:
    """Compile a query whose columns are renamed to `names` if any are given.

    The query stands at a place of a statement, which is where Spark's errors point to. The policy
    says what becomes of one that cannot be taken apart.
    """
    with analysis.analysed(text, place) as schema:
        return _compiled(text, schema, names, catalog, analysis, policy)


def _compiled(
    text: str,
    schema: Schema,
    names: tuple[str, ...],
    catalog: Catalog,
    analysis: SparkAnalysis,
    policy: Policy,
) -> Compiled:
    if names:
        if len(names) != len(schema):
            raise error("INCR_COLUMN_COUNT", expected=len(schema), actual=len(names))
        schema = tuple(replace(f, name=name) for name, f in zip(names, schema, strict=True))
    with names_compared(analysis.case_sensitive):
        _check_output(schema)
    if policy is not Policy.FULL:
        try:
            return Compiled(text, _incremental(text, schema, catalog, analysis), schema)
        except IncrementalError as refusal:
            if refusal.condition not in _TAKEN_WHOLE:
                raise
            if policy is not Policy.AUTO:
                refusal.advise(f"{refusal.hint} {_WHOLE}".strip())
                raise
            reason = refusal.message
    else:
        reason = BY_POLICY
    _check_stable(text, analysis)
    analysis.take_whole(text)
    analysis.recompute_because(reason)
    plan = compile_plan(text, catalog, analysis)
    _check_plan(plan, schema)
    return Compiled(text, plan, schema)


def _incremental(text: str, schema: Schema, catalog: Catalog, analysis: SparkAnalysis) -> Node:
    analysis.check_settings(text)
    analysis.check_programs(text)
    analysis.learn_identifiers(text)
    try:
        _check_reading(text, analysis)
    except IncrementalError as failure:
        if failure.condition not in _MISREAD:
            raise
        analysis.learn_names(text)
        _check_reading(text, analysis)
    analysis.check_clock(text)
    analysis.learn_havings(text, havings_beside_windows(_read(text, analysis)))
    plan = compile_plan(text, catalog, analysis)
    _check_plan(plan, schema)
    check_keys(walk(plan))
    return plan


def _check_reading(text: str, analysis: SparkAnalysis) -> None:
    """The query has to be read as Spark reads it."""
    tree = _read(text, analysis)
    refuse_bare_calls(tree, lambda: analysis.functions_in(text))
    if not analysis.same_reading(text, tree):
        raise error("INCR_READING_DIFFERS", detail=f"Read as: {print_sql(tree)}")


def _check_stable(text: str, analysis: SparkAnalysis) -> None:
    """Refuse what is not deterministic, as far as the query can be read."""
    try:
        _read(text, analysis)
    except IncrementalError as refusal:
        if refusal.condition == "INCR_NONDETERMINISTIC":
            raise


def _check_plan(plan: Node, schema: Schema) -> None:
    """What a plan keeps can be kept, and it gives what Spark says."""
    for node in walk(plan):
        _check_types(node.schema)
    actual = [f.type for f in plan.schema]
    if [type_text(t) for t in actual] != [type_text(f.type) for f in schema]:
        raise error(
            "INCR_SCHEMA_DIFFERS",
            actual=", ".join(map(type_text, actual)),
            expected=", ".join(type_text(f.type) for f in schema),
        )


def compile_plan(text: str, catalog: Catalog, analyzer: Analyzer) -> Node:
    """The incremental plan of a query that is known to be valid."""
    with names_compared(analyzer.case_sensitive):
        if analyzer.recomputed:
            return full_plan(text, catalog, analyzer)
        plan = build_plan(_read(text, analyzer), catalog, analyzer)
    validate(plan, "build_plan")
    names = Names({folded(name) for node in walk(plan) for name in node.names})
    return run_packs(plan, PACKS, Context(analyzer, names))


@lru_cache(maxsize=1_000)
def read_order(text: str, schema: Schema, names: tuple[Name, ...] = ()) -> tuple[SortKey, ...]:
    """The order in which the columns of a query are to be read."""
    tree = _written(text, names)
    return () if tree is None else output_order(tree, [f.name for f in schema])


def order_note(text: str, schema: Schema, names: tuple[Name, ...] = ()) -> str:
    """What a reader of a query's rows should know of their order, if it is not all of ORDER BY."""
    tree = _written(text, names)
    if tree is None:
        return "rows are read in no order: it is not known whether ORDER BY gives one"
    unread = unread_keys(tree, [f.name for f in schema])
    if not unread:
        return ""
    return f"rows are read without ORDER BY {', '.join(unread)}: it is no column of the view"


def _written(text: str, names: tuple[Name, ...]) -> exp.Query | None:
    """The syntax tree of a query; there may be none if it is computed anew as a whole."""
    try:
        return parse_query(text, names)
    except IncrementalError:
        return None


def _read(text: str, analyzer: Analyzer) -> exp.Query:
    """The syntax tree of a query that is a function of its tables."""
    tree = parse_query(text, analyzer.names(text))
    read_functions(tree, analyzer)
    return tree


def _check_output(schema: Schema) -> None:
    seen: set[str] = set()
    for field in schema:
        if spelled(field.name) in seen:
            raise error("INCR_DUPLICATE_COLUMN", name=field.name)
        if folded(field.name).startswith("__incr_"):
            raise error("INCR_RESERVED_NAME", name=field.name)
        seen.add(spelled(field.name))
    _check_types(schema)


def _check_types(schema: Schema) -> None:
    for field in schema:
        if arrow_type(field.type) is None:
            raise unkept(field)
