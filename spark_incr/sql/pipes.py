"""`query |> step |> step`: each step is written over the rows, and the names, that the one before gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from sqlglot.generator import Generator
    from sqlglot.parser import Parser


class Piped(exp.Expression, exp.Query):
    """A query and the steps that follow it, with clauses of the whole behind them."""

    arg_types: ClassVar[dict[str, bool]] = {
        **dict.fromkeys(exp.Select.arg_types, False),
        "this": True,
        "expressions": True,
    }

    @property
    def selects(self) -> list[exp.Expr]:
        return []


class Step(exp.Expression):
    """A step: its words, and what follows them; `group` is what AGGREGATE groups by.

    SELECT, WHERE, JOIN, ORDER BY and the like hold themselves as a clause in `this`.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,
        "this": False,
        "expressions": False,
        "group": False,
    }


_OF_THE_WHOLE = ("order", "limit", "offset", "sort", "distribute", "cluster")


def parse_step(parser: Parser) -> Step:
    """What stands behind `|>`."""
    if parser._match_text_seq("EXTEND"):
        return Step(kind="EXTEND", expressions=parser._parse_expressions())
    if parser._match(TokenType.SET):
        return Step(kind="SET", expressions=parser._parse_csv(lambda: _assignment(parser)))
    if parser._match(TokenType.DROP):
        return Step(kind="DROP", expressions=parser._parse_csv(parser._parse_id_var))
    if parser._match(TokenType.ALIAS):
        return Step(kind="AS", this=parser._parse_id_var())
    if parser._match_text_seq("AGGREGATE"):
        return _aggregation(parser)
    if parser._match(TokenType.SELECT, advance=False):
        select = parser._parse_select(parse_set_operation=False, consume_pipe=False)
        return Step(kind="SELECT", this=select)
    for kind, parse in (
        ("WHERE", parser._parse_where),
        ("TABLESAMPLE", parser._parse_table_sample),
        ("PIVOT", parser._parse_pivot),
    ):
        clause = parse()
        if clause is not None:
            return Step(kind=kind, this=clause)
    # These begin with the same words as joins do, so they are tried first.
    operation = parser.parse_set_operation(exp.select("*"))
    if operation is not None:
        return Step(kind="SET OPERATION", this=operation)
    join = parser._parse_join()
    if join is not None:
        return Step(kind="JOIN", this=join)
    result = parser._parse_query_modifiers(exp.Subquery())
    if not any(result.args.values()):
        parser.raise_error("Unknown step of a pipe")
    return Step(kind="RESULT", this=result)


def clauses_behind(last: Step) -> list[tuple[str, exp.Expr]]:
    """The clauses that are read with the last query of a set operation and belong to the whole."""
    query = last.this.expression if last.args["kind"] == "SET OPERATION" else None
    if not isinstance(query, exp.Select):
        return []
    found = [(key, query.args[key]) for key in _OF_THE_WHOLE if query.args.get(key)]
    for key, _ in found:
        query.set(key, None)
    return found


def _assignment(parser: Parser) -> exp.Expr | None:
    name = parser._parse_id_var()
    if name is None or not parser._match(TokenType.EQ):
        return None
    return exp.PropertyEQ(this=name, expression=parser._parse_disjunction())


def _aggregation(parser: Parser) -> Step:
    values: list[exp.Expr] = []
    if not parser._match(TokenType.GROUP_BY, advance=False):
        values = parser._parse_expressions()
    group = parser._parse_expressions() if parser._match(TokenType.GROUP_BY) else None
    return Step(kind="AGGREGATE", expressions=values, group=group)


def step_sql(step: Step, generator: Generator) -> str:
    """A step as text."""
    kind, written = step.args["kind"], step.this
    if kind in ("EXTEND", "DROP"):
        return f"|> {kind} {generator.expressions(step, flat=True)}"
    if kind == "SET":
        pairs = (
            f"{generator.sql(e.this)} = {generator.sql(e.expression)}" for e in step.expressions
        )
        return f"|> SET {', '.join(pairs)}"
    if kind == "AS":
        return f"|> AS {generator.sql(written)}"
    if kind == "AGGREGATE":
        values = generator.expressions(step, flat=True)
        group = generator.expressions(step, key="group", flat=True)
        return f"|> AGGREGATE {values}{f' GROUP BY {group}' if group else ''}"
    text = generator.sql(written).strip()
    if kind == "SET OPERATION":
        text = text[text.index("*") + 1 :].strip()
    elif kind == "RESULT":
        text = generator.query_modifiers(written).strip()
    return f"|> {text}"
