"""`f(TABLE(relation) PARTITION BY ... ORDER BY ...)`: a relation as a whole, given to a table function."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from sqlglot.generator import Generator
    from sqlglot.parser import Parser


class TableArgument(exp.Expression):
    """A relation, by its name or as a query, and how its rows are split and sorted.

    They are one partition if it is to be a `single` one, and as many as Spark likes if nothing is said.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "partition_by": False,
        "single": False,
        "order": False,
    }


def parse_table_argument(parser: Parser) -> TableArgument:
    """What stands at `TABLE (`; several keys stand in parentheses."""
    parser._advance(2)
    relation = parser._parse_wrapped_select() or parser._parse_table_parts()
    parser._match_r_paren()
    argument = TableArgument(this=relation)
    if parser._match_text_seq("WITH", "SINGLE", "PARTITION"):
        argument.set("single", True)
    elif parser._match_set((TokenType.PARTITION_BY, TokenType.DISTRIBUTE_BY)):
        keys = parser._parse_disjunction()
        listed = keys.expressions if isinstance(keys, exp.Tuple) else [keys]
        argument.set("partition_by", listed)
    if parser._match_set((TokenType.ORDER_BY, TokenType.SORT_BY)):
        sorted_by = parser._try_parse(lambda: _list_of_keys(parser)) or [parser._parse_ordered()]
        argument.set("order", exp.Order(expressions=sorted_by))
    return parser.expression(argument)


def _list_of_keys(parser: Parser) -> list[exp.Ordered | None] | None:
    """Keys in parentheses, unless these belong to the first part of one key."""
    keys: list[exp.Ordered | None] = [*parser._parse_wrapped_csv(parser._parse_ordered)]
    behind = (TokenType.COMMA, TokenType.R_PAREN)
    return keys if parser._match_set(behind, advance=False) else None


def table_argument_sql(argument: TableArgument, generator: Generator) -> str:
    """The argument as Spark reads it; a relation with an alias is a query of all its columns."""
    relation = argument.this
    if isinstance(relation, exp.Table) and relation.args.get("alias"):
        relation = exp.select("*").from_(relation.copy())
    text = f"TABLE({generator.sql(relation)})"
    if argument.args.get("single"):
        text += " WITH SINGLE PARTITION"
    if argument.args.get("partition_by"):
        text += f" PARTITION BY ({generator.expressions(argument, key='partition_by', flat=True)})"
    order = argument.args.get("order")
    if order is not None:
        text += f" ORDER BY ({generator.expressions(order, flat=True)})"
    return text
