"""The forms that a query may have in Spark beside SELECT: VALUES, TABLE, FROM first, and steps of a pipe."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from spark_incr.sql.pipes import Piped, clauses_behind, parse_step


class QueryParser(SparkParser):
    """Spark's parser, with queries of every form wherever a query may stand."""

    SUPPORTS_TABLE_QUERY = True
    SUBQUERY_TOKENS = SparkParser.SUBQUERY_TOKENS | {
        *(TokenType.FROM, TokenType.TABLE, TokenType.VALUES)
    }

    def _parse_value(self, values: bool = True) -> exp.Tuple | None:
        """A row of VALUES, in parentheses unless it has one column; only all rows have an alias."""
        if self._match(TokenType.L_PAREN, advance=False):
            return super()._parse_value(values)
        value = self._parse_disjunction()
        return self.expression(exp.Tuple(expressions=[value])) if value else None

    def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> exp.Values | None:
        """VALUES, in parentheses only if nothing but an alias stands beside it there."""
        first = self._index
        if self._match_pair(TokenType.L_PAREN, TokenType.VALUES):
            self._parse_csv(self._parse_value)
            self._parse_table_alias()
            alone = self._match(TokenType.R_PAREN, advance=False)
            self._retreat(first)
            if not alone:
                return None
        return super()._parse_derived_table_values(allow_value_synonym)

    def _parse_select(
        self,
        nested: bool = False,
        table: bool = False,
        parse_subquery_alias: bool = True,
        parse_set_operation: bool = True,
        consume_pipe: bool = True,
    ) -> exp.Expr | None:
        """Steps of a pipe belong to the whole query, and not to the last relation of its FROM."""
        return super()._parse_select(
            nested, table, parse_subquery_alias, parse_set_operation, consume_pipe and not table
        )

    def _is_table_query(self) -> bool:
        names = self.ID_VAR_TOKENS | {TokenType.IDENTIFIER}
        return self._curr.token_type == TokenType.TABLE and self._next.token_type in names

    def _parse_select_query(
        self,
        nested: bool = False,
        table: bool = False,
        parse_subquery_alias: bool = True,
        parse_set_operation: bool = True,
    ) -> exp.Expr | None:
        """VALUES where a query may stand is one of all its columns."""
        if table or not self._match(TokenType.VALUES, advance=False):
            return super()._parse_select_query(
                nested, table, parse_subquery_alias, parse_set_operation
            )
        rows = self._parse_derived_table_values()
        this = self._parse_query_modifiers(
            exp.Select(expressions=[exp.Star()], from_=exp.From(this=rows))
        )
        return self._parse_set_operations(this) if parse_set_operation else this

    def _parse_wrapped_select(self, table: bool = False) -> exp.Expr | None:
        result = super()._parse_wrapped_select(table)
        if isinstance(result, exp.Values) and result.args.get("joins"):
            result = self.expression(exp.Table(this=result))
        if isinstance(result, exp.Table) and isinstance(result.this, exp.Values):
            values = result.this
            for clause in ("pivots", "joins"):
                for part in values.args.get(clause) or []:
                    result.append(clause, part)
                values.set(clause, None)
        if result is None or not self._match(TokenType.PIPE_GT, advance=False):
            return result
        return self._parse_pipe_syntax_query(result)

    def _parse_pipe_syntax_query(self, query: exp.Expr) -> exp.Expr:  # type: ignore[override]
        """The query with its steps, as they are written."""
        while self._match(TokenType.PIPE_GT, advance=False):
            steps = []
            while self._match(TokenType.PIPE_GT):
                steps.append(parse_step(self))
            piped = Piped(this=query, expressions=steps)
            for key, clause in clauses_behind(steps[-1]):
                piped.set(key, clause)
            query = self._parse_set_operations(piped) or piped
        return query

    def _parse_lateral(self) -> exp.Lateral | None:
        """LATERAL VIEW may name its columns without AS."""
        result = super()._parse_lateral()
        alias = result.args.get("alias") if result is not None and result.args.get("view") else None
        names = (TokenType.VAR, TokenType.IDENTIFIER)
        if alias is not None and not alias.args.get("columns") and self._curr.token_type in names:
            alias.set("columns", self._parse_csv(self._parse_id_var))
        return result
