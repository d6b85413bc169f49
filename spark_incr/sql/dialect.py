"""Spark SQL as sqlglot reads and prints it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers import spark as sqlglot_parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from spark_incr.errors import Position, error
from spark_incr.sql.identifiers import said_by_expressions, with_identifiers
from spark_incr.sql.pipes import Piped, step_sql
from spark_incr.sql.query_parser import QueryParser
from spark_incr.sql.table_arguments import TableArgument, parse_table_argument, table_argument_sql
from spark_incr.sql.written_names import Name, Place, hide_names, show_names

DIALECT = "spark"


_INFIX = "infix"
_TYPED_LITERAL = "typed literal"
_SUFFIXED = "suffixed"
_LEVEL = "level"
_BRACKETS = "brackets"
_WRITTEN = "name"
_SUFFIXES = {"BIGINT": "L", "SMALLINT": "S", "TINYINT": "Y", "DOUBLE": "D", "FLOAT": "F"}

# Functions that become nodes of their own: aggregates, and what has a kernel. sqlglot prints them as
# they were written. Every other function stays a plain call, to be printed word for word.
_TYPED = frozenset(
    """abs any_value avg bit_and bit_or bit_xor bool_and bool_or ceil coalesce collect_list
    collect_set concat contains count count_if datediff date_add day
    dayofmonth dayofweek dayofyear element_at endswith exp first first_value floor greatest
    hour if isnan last last_value least left length ln lpad ltrim max max_by median min minute
    min_by month negative nullif nvl2 power quarter replace round rpad rtrim second sign size
    sqrt startswith stddev stddev_pop stddev_samp substring sum trim variance var_pop year
    explode posexplode inline explode_outer posexplode_outer mod row_number rank dense_rank
    percent_rank cume_dist ntile lag lead nth_value array map struct grouping grouping_id""".split()
)
_PLAIN = frozenset(
    """approx_percentile percentile percentile_approx listagg string_agg argmax argmin arg_max arg_min
    max_by min_by char chr decode initcap json_object json_objectagg json_table match normalize openjson
    weight_string xmlelement xmltable gap_fill""".split()
)
# Functions that share a node with another name, and are printed under the one that was written.
_ALIASES = frozenset(
    """nvl ifnull substr pow ceiling signum var_samp array_agg char_length character_length len""".split()
)


# Spark's binary operators from + and || outwards. Those of a level bind alike, from the left.
_COMPARISONS: dict[TokenType, type[exp.Binary]] = {
    TokenType.EQ: exp.EQ,
    TokenType.NEQ: exp.NEQ,
    TokenType.NULLSAFE_EQ: exp.NullSafeEQ,
    TokenType.LT: exp.LT,
    TokenType.LTE: exp.LTE,
    TokenType.GT: exp.GT,
    TokenType.GTE: exp.GTE,
}
_BITS: tuple[tuple[TokenType, type[exp.Binary]], ...] = (
    (TokenType.AMP, exp.BitwiseAnd),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.PIPE, exp.BitwiseOr),
)

# Functions whose first operand of three is a unit, which is no column.
_WITH_UNIT = ("TIMESTAMPADD", "TIMESTAMPDIFF", "DATEADD", "DATE_DIFF", "TIMEDIFF")


def _build_with_unit(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    def build(operands: list[exp.Expr]) -> exp.Expr:
        unit, *rest = operands
        if len(rest) == 2 and isinstance(unit, exp.Column) and len(unit.parts) == 1:
            operands = [exp.var(unit.name), *rest]
        return exp.Anonymous(this=name, expressions=operands)

    return build


def _build_best(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    """max_by and min_by; sqlglot does not print how many are wanted."""

    def build(operands: list[exp.Expr]) -> exp.Expr:
        if len(operands) == 2:
            kind = exp.ArgMax if name == "MAX_BY" else exp.ArgMin
            return kind(this=operands[0], expression=operands[1])
        return exp.Anonymous(this=name, expressions=operands)

    return build


class SparkText(Spark):
    """Spark's dialect, read and printed as Spark reads it where sqlglot takes liberties.

    Two spellings that mean the same to sqlglot are two trees to Spark's analyser; printing gives
    back the one that was read, so that both analyse to the same plan.
    """

    # A call remembers the name that it was written by; sqlglot has two words for it, by its version.
    PRESERVE_ORIGINAL_NAMES = True
    ORIGINAL_NAME_META_KEY = _WRITTEN

    class Tokenizer(Spark.Tokenizer):
        # A quote is doubled or escaped by a backslash.
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012, as sqlglot declares it

    class Parser(QueryParser):
        ADD_JOIN_ON_TRUE = False
        TERM = SparkParser.TERM | {TokenType.DPIPE: exp.DPipe}
        # FOR stands in PIVOT; comprehensions are not Spark's.
        RANGE_PARSERS = {  # noqa: RUF012, as sqlglot declares it
            token: parser
            for token, parser in SparkParser.RANGE_PARSERS.items()
            if token is not TokenType.FOR
        }
        # Aggregates that sqlglot reads with options of its own are plain calls.
        FUNCTION_PARSERS = {  # noqa: RUF012, as sqlglot declares it
            name: parser
            for name, parser in SparkParser.FUNCTION_PARSERS.items()
            if name.lower() not in _PLAIN
        }
        FUNCTIONS = {
            name: builder
            for name, builder in SparkParser.FUNCTIONS.items()
            if name.lower() in _TYPED | _ALIASES
        } | {name: _build_with_unit(name) for name in _WITH_UNIT}
        FUNCTIONS |= {name: _build_best(name) for name in ("MAX_BY", "MIN_BY")}
        # `v:path` is a part of a VARIANT.
        COLON_IS_VARIANT_EXTRACT = True
        COLON_CHAIN_IS_SINGLE_EXTRACT = False

        # What stands behind the name of a field in a type.
        _BEHIND_NAMES = SparkParser.TYPE_TOKENS | {TokenType.COLON, TokenType.VAR}

        def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
            """`window` is a word of its own only where it names a window; else it is a name.

            So is `current_date` without parentheses: Spark looks for a column first.
            """
            for place, token in enumerate(raw_tokens):
                following = [t.token_type for t in raw_tokens[place + 1 : place + 4]]
                if token.token_type == TokenType.WINDOW:
                    names = following[1:] != [TokenType.ALIAS, TokenType.L_PAREN]
                elif token.token_type in SparkParser.NO_PAREN_FUNCTIONS:
                    names = following[:1] != [TokenType.L_PAREN]
                else:
                    continue
                if names:
                    token.token_type = TokenType.VAR
            return super().parse(_with_hexadecimals(raw_tokens), sql)

        def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
            """Comparisons of every kind, and then a predicate over all of it."""
            this = self._parse_bitwise()
            while (kind := self._parse_comparing()) is not None:
                this = self._build_predicate(kind, this, self._parse_bitwise())
            return self._parse_range(this, parse_is=True) if parse_is else this

        def _parse_comparing(self) -> type[exp.Binary] | None:
            for token, kind in ((TokenType.GT, exp.LTE), (TokenType.LT, exp.GTE)):
                if self._match_pair(TokenType.NOT, token):  # !> and !<
                    return kind
            return _COMPARISONS[self._prev.token_type] if self._match_set(_COMPARISONS) else None

        def _parse_bitwise(self, level: int = len(_BITS)) -> exp.Expr | None:
            """Shifts bind tighter than &, that tighter than ^, and that tighter than |."""
            if level == 0:
                return self._parse_shift()
            token, kind = _BITS[level - 1]
            this = self._parse_bitwise(level - 1)
            while self._match(token):
                this = self.expression(kind(this=this, expression=self._parse_bitwise(level - 1)))
            return this

        def _parse_shift(self) -> exp.Expr | None:
            this = self._parse_term()
            while True:
                if self._match_pair(TokenType.LT, TokenType.LT):
                    kind: type[exp.Expr] = exp.BitwiseLeftShift
                elif self._match_pair(TokenType.GT, TokenType.GT):
                    kind = exp.BitwiseRightShift
                else:
                    return this
                unsigned = kind is exp.BitwiseRightShift and self._match(TokenType.GT)
                operand = self._parse_term()
                this = self.expression(
                    exp.Anonymous(this="shiftrightunsigned", expressions=[this, operand])
                    if unsigned
                    else kind(this=this, expression=operand)
                )

        def _parse_join(
            self,
            skip_join_token: bool = False,
            parse_bracket: bool = False,
            alias_tokens: Collection[TokenType] | None = None,
        ) -> exp.Join | None:
            """A comma is an inner join to Spark; sqlglot takes it for a cross join."""
            comma = self._curr is not None and self._curr.token_type == TokenType.COMMA
            join = super()._parse_join(skip_join_token, parse_bracket, alias_tokens)
            if comma and join is not None:
                join.set("kind", "INNER")
            return join

        def _parse_unary(self) -> exp.Expr | None:
            """An operand; a table as a whole is one to Spark."""
            if self._match_pair(TokenType.TABLE, TokenType.L_PAREN, advance=False):
                return parse_table_argument(self)
            result = super()._parse_unary()
            cast = result.this if isinstance(result, exp.Neg) else None
            if not isinstance(cast, exp.Cast) or not cast.meta.get(_SUFFIXED):
                return result
            if cast.to.this.name in _SUFFIXES:
                return result
            cast.set("this", exp.Neg(this=cast.this))  # -1::STRING is -1 as a text
            return self.expression(cast)

        def _parse_table_alias(
            self, alias_tokens: Collection[TokenType] | None = None
        ) -> exp.TableAlias | None:
            """A recursive CTE may say how deep it goes, behind its name."""
            result = super()._parse_table_alias(alias_tokens)
            if result is not None and self._match_text_seq("MAX", "RECURSION", "LEVEL"):
                number = self._parse_number()
                result.meta[_LEVEL] = number.name if number is not None else ""
            return result

        def _parse_colon_as_variant_extract(self, this: exp.Expr | None) -> exp.Expr | None:
            """Keys of a path stand behind a dot or, as strings, in brackets: two paths to Spark."""
            first = self._index
            result = super()._parse_colon_as_variant_extract(this)
            written = [
                token.token_type
                for token in self._tokens[first : self._index]
                if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
            ]
            keys: list[exp.Expr] = []
            part = result
            while part is not this and isinstance(part, exp.JSONExtract):
                path = part.expression.expressions
                keys = [*(key for key in path if key.args.get("quoted")), *keys]
                part = part.this
            for key, kind in zip(keys, written, strict=False):
                key.meta[_BRACKETS] = kind == TokenType.STRING
            return result

        def _parse_pivot_aggregation(self) -> exp.Expr | None:
            """What is aggregated may be an expression over aggregates."""
            return self._parse_alias(self._parse_disjunction())

        def _parse_interval(
            self, require_interval: bool = True, parse_function_unit: bool = True
        ) -> exp.Add | exp.Interval | None:
            """An interval of several units is one literal, which may bound a frame, and no sum."""
            result = super()._parse_interval(require_interval, parse_function_unit)
            if not isinstance(result, exp.Add):
                return result
            units = result.find_all(exp.Interval, bfs=False)
            text = " ".join(f"{unit.name} {unit.text('unit')}".strip() for unit in units)
            return self.expression(exp.Interval(this=exp.Literal.string(text)))

        def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
            """`IN ((SELECT ...))` is a list of one value: NULL, or an error, unless it is one row."""
            result = super()._parse_in(this, alias)
            value = result.args["query"].this if result.args.get("query") else None
            if isinstance(value, exp.Subquery) and not any(
                given for key, given in value.args.items() if key != "this"
            ):
                return self.expression(exp.In(this=this, expressions=[value]))
            return result

        def _parse_substring(self) -> exp.Substring:
            """With commas it is a function under the name that is written, with FROM it has one name."""
            first = self._index
            name = self._tokens[first - 2].text
            result = super()._parse_substring()
            words = {token.token_type for token in self._tokens[first : self._index]}
            if TokenType.FROM not in words:
                result.meta[_WRITTEN] = name
            return result

        def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
            result = super()._parse_is(this)
            if isinstance(result, exp.Not):
                result.meta[_INFIX] = True
            return result

        def build_cast(self, strict: bool, **kwargs: Any) -> exp.Expr:
            """sqlglot reads 1.5D as a cast; what is written as a call is one."""
            result = super().build_cast(strict, **kwargs)
            result.meta[_SUFFIXED] = isinstance(result.this, exp.Literal)
            return result

        def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
            result = super()._parse_cast(strict, safe)
            result.meta.pop(_SUFFIXED, None)
            return result

        def _parse_types(
            self,
            check_func: bool = False,
            schema: bool = False,
            allow_identifiers: bool = True,
            with_collation: bool = False,
        ) -> exp.Expr | None:
            """A collation is part of a type, and so is the time zone that a timestamp is without.

            VOID is a type where nothing but a type can stand, unless it is the name of a field.
            """
            names = self._next is not None and self._next.token_type in self._BEHIND_NAMES
            if not check_func and not names and self._match_text_seq("VOID"):
                return self.expression(exp.DataType(this=exp.DType.NULL))
            result = super()._parse_types(check_func, schema, allow_identifiers)
            if not isinstance(result, exp.DataType):
                return result
            words = [token.text.upper() for token in self._tokens[: self._index][-3:]]
            if words == ["WITHOUT", "TIME", "ZONE"]:
                result.set("this", exp.DType.TIMESTAMPNTZ)
            elif result.is_type(exp.DType.TEXT) and self._match(TokenType.COLLATE):
                result.set("collate", self._parse_id_var())
            return result

        def _parse_struct_types(self, type_required: bool = False) -> exp.Expr | None:
            """A field of a type, which may be VOID."""
            first = self._index
            name = self._parse_id_var()
            self._match(TokenType.COLON)
            if name is not None and self._match_text_seq("VOID"):
                return self.expression(
                    exp.ColumnDef(this=name, kind=exp.DataType(this=exp.DType.NULL))
                )
            self._retreat(first)
            return super()._parse_struct_types(type_required)

        def _parse_type(
            self, parse_interval: bool = True, fallback_to_identifier: bool = False
        ) -> exp.Expr | None:
            literal = self._next is not None and self._next.token_type == TokenType.STRING
            result = super()._parse_type(parse_interval, fallback_to_identifier)
            if literal and isinstance(result, exp.Cast) and result.this.is_string:
                result.meta[_TYPED_LITERAL] = True
            return result

    class Generator(SparkGenerator):
        # A CTE belongs to the subquery that declares it.
        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()
        # TIME is a type of its own, and times may say how many digits they have.
        SUPPORTS_TEMPORAL_PRECISION = True
        TYPE_MAPPING = SparkGenerator.TYPE_MAPPING | {
            exp.DType.TIME: "TIME",
            exp.DType.NULL: "VOID",
        }
        # sqlglot would write QUALIFY and some joins in other ways.
        TRANSFORMS = {
            kind: transform
            for kind, transform in SparkGenerator.TRANSFORMS.items()
            if kind not in (exp.Select, exp.JSONExtract)
        } | {
            Piped: lambda self, e: self.piped_sql(e),
            TableArgument: lambda self, e: table_argument_sql(e, self),
        }

        def sql(
            self, expression: str | exp.Expr | None, key: str | None = None, comment: bool = True
        ) -> str:
            if key is None and isinstance(expression, exp.Func):
                name = expression.meta.get(_WRITTEN)
                if isinstance(name, str) and name.lower() in _ALIASES:
                    operands = [
                        operand
                        for value in expression.args.values()
                        for operand in (value if isinstance(value, list) else [value])
                        if isinstance(operand, exp.Expr)
                    ]
                    return f"{name}({', '.join(self.sql(o) for o in operands)})"
            return super().sql(expression, key, comment)

        def struct_sql(self, expression: exp.Struct) -> str:
            """A field has the name of its column unless another is given."""
            parts = []
            for part in expression.expressions:
                named = isinstance(part, exp.PropertyEQ)
                value = self.sql(part.expression if named else part)
                own = isinstance(part.expression, exp.Column) and named
                if named and not (own and part.expression.name == part.name):
                    value = f"{value} AS {self.sql(part.this)}"
                parts.append(value)
            return f"STRUCT({', '.join(parts)})"

        def jsonextract_sql(self, expression: exp.JSONExtract) -> str:
            """A part of a VARIANT: `v:a.b[0]`."""
            path = ""
            for part in expression.expression.expressions[1:]:
                if isinstance(part, exp.JSONPathSubscript):
                    path += f"[{part.this}]"
                elif part.meta.get(_BRACKETS):
                    path += f"['{part.name}']"
                else:
                    path += "." * bool(path)
                    path += quoted(part.name) if part.args.get("quoted") else part.name
            return f"{self.sql(expression, 'this')}:{path}"

        def tablealias_sql(self, expression: exp.TableAlias) -> str:
            level = expression.meta.get(_LEVEL)
            suffix = f" MAX RECURSION LEVEL {level}" if level else ""
            return super().tablealias_sql(expression) + suffix

        def lateral_sql(self, expression: exp.Lateral) -> str:
            """The name of a LATERAL VIEW is quoted as other names are."""
            alias = expression.args.get("alias")
            if not expression.args.get("view") or not alias or not alias.this:
                return super().lateral_sql(expression)
            outer = " OUTER" if expression.args.get("outer") else ""
            call, name = self.sql(expression, "this"), self.sql(alias, "this")
            columns = self.expressions(alias, key="columns", flat=True)
            named = f" AS {columns}" if columns else ""
            return f"{self.seg(f'LATERAL VIEW{outer}')}{self.sep()}{call} {name}{named}"

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """`DATE '2020-01-01'` is a literal, not a cast."""
            if expression.meta.get(_TYPED_LITERAL):
                return f"{self.sql(expression, 'to')} {self.sql(expression, 'this')}"
            suffix = _SUFFIXES.get(expression.to.this.name)
            if suffix and expression.meta.get(_SUFFIXED) and not expression.this.is_string:
                return f"{self.sql(expression, 'this')}{suffix}"
            return super().cast_sql(expression, safe_prefix)

        def trycast_sql(self, expression: exp.TryCast) -> str:
            if expression.meta.get(_SUFFIXED):
                return self.cast_sql(expression)
            return super().trycast_sql(expression)

        def piped_sql(self, expression: Piped) -> str:
            """Steps are written as they were read."""
            steps = [step_sql(step, self) for step in expression.expressions]
            text = self.sep().join([self.sql(expression, "this"), *steps])
            return self.prepend_ctes(expression, self.query_modifiers(expression, text))

        def mod_sql(self, expression: exp.Mod) -> str:
            """`mod(a, b)` and `a % b` name their columns differently."""
            if expression.meta.get(_WRITTEN):
                return self.func("MOD", expression.this, expression.expression)
            return self.binary(expression, "%")

        def not_sql(self, expression: exp.Not) -> str:
            """`x IS NOT NULL` and `NOT x IS NULL` stay what they were."""
            test = expression.this
            if expression.meta.get(_INFIX) and isinstance(test, exp.Is):
                return f"{self.sql(test, 'this')} IS NOT {self.sql(test, 'expression')}"
            return super().not_sql(expression)


def _with_hexadecimals(tokens: list[Token]) -> list[Token]:
    """The tokens with `X '1F'`, two to sqlglot if there is a blank or another quote, as one."""
    result: list[Token] = []
    for token in tokens:
        last = result[-1] if result else token
        prefix = last.token_type == TokenType.VAR and last.text.upper() == "X"
        if prefix and token.token_type == TokenType.STRING:
            last.token_type, last.text = TokenType.HEX_STRING, token.text
        else:
            result.append(token)
    return result


def parse_query(text: str, names: Iterable[Name] = ()) -> exp.Query:
    """The syntax tree of one query, in which these places are names whatever they say."""
    try:
        tree = _parsed(text, names)
    except ParseError as failure:
        first = failure.errors[0] if failure.errors else {}
        place = Position(int(first["line"]), int(first["col"])) if first.get("line") else None
        raise error(
            "INCR_SYNTAX",
            what=str(first.get("description", failure)),
            hint="If a name is a keyword, write it in back quotes.",
            position=place,
        ) from None
    except TokenError as failure:
        raise error("INCR_SYNTAX", what=str(failure)) from None
    except (AssertionError, AttributeError, TypeError) as failure:
        # sqlglot breaks down at some texts that it does not know.
        raise error("INCR_SYNTAX", what="this syntax is not known") from failure
    if not isinstance(tree, exp.Query):
        raise error("INCR_SYNTAX", what="a view is made of one query")
    return tree


def identifiers_in(text: str) -> list[Place]:
    """Where a query has IDENTIFIER(...) that only Spark knows the name of."""
    if "IDENTIFIER" not in text.upper():
        return []
    try:
        return said_by_expressions(SparkText().tokenize(text))
    except TokenError:
        return []


def _parsed(text: str, names: Iterable[Name]) -> exp.Expr:
    if str(sqlglot_parser.__file__).endswith((".so", ".pyd")):
        raise error("INCR_SQLGLOT_COMPILED")
    dialect = SparkText()
    tokens = dialect.tokenize(text)
    hide_names(tokens, names)
    tokens = with_identifiers(tokens, names, dialect.tokenize)
    trees = [tree for tree in dialect.parser().parse(tokens, text) if tree is not None]
    if len(trees) != 1:
        raise error("INCR_SYNTAX", what="a view is made of one query")
    show_names(trees[0])
    return trees[0]


def print_sql(tree: exp.Expr, pretty: bool = False, identify: bool = False) -> str:
    """A tree as Spark SQL; if it is to `identify`, with every name in quotes."""
    return tree.sql(dialect=SparkText, pretty=pretty, comments=False, identify=identify)


_OPERATORS: tuple[type[exp.Expr], ...] = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.Neg),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot),
    *_COMPARISONS.values(),
    *(exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike),
    *(exp.And, exp.Or, exp.Not, exp.Escape),
)
# Where an operator stands alone already, or is part of a clause and no operand.
_NO_OPERAND = (exp.Paren, exp.Not, exp.Interval, exp.Pivot, exp.Escape)


def is_suffixed(node: exp.Expr) -> bool:
    """Whether a node is a literal with its type behind it, as 5L or -5L, which is read as a cast."""
    number = node.this if isinstance(node, exp.Neg) else node
    return isinstance(number, exp.Cast) and bool(number.meta.get(_SUFFIXED))


def bracketed(tree: exp.Expr) -> exp.Expr:
    """The tree with every operation in parentheses: its text has one reading.

    >>> print_sql(bracketed(parse_query("SELECT a | b & c = d")))
    'SELECT ((a | (b & c)) = d)'
    """
    tree = tree.copy()
    for node in list(tree.find_all(*_OPERATORS)):
        parent = node.parent
        chained = isinstance(node, exp.Connector) and type(node) is type(parent)
        if not chained and not isinstance(parent, _NO_OPERAND):
            brackets = exp.Paren()
            node.replace(brackets)
            brackets.set("this", node)
    return tree


def quoted(name: str) -> str:
    """A name as it stands in SQL text, whatever it holds.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def position_of(node: exp.Expr) -> Position | None:
    """Where a node stands in the text, as far as the tree remembers."""
    places = [
        (n.meta["start"], n.meta["line"], n.meta["col"] - (n.meta["end"] - n.meta["start"]))
        for n in node.walk()
        if "start" in n.meta
    ]
    if not places:
        return None
    _, line, column = min(places)
    return Position(line, column)
