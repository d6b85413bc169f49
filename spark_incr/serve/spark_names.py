"""Where a query writes names, told by the grammar of Spark's own parser."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from spark_incr.sql.written_names import Place

_NAMES = ("//identifier", "//strictIdentifier")
_KEYWORDS = ("//identifier//nonReserved", "//strictIdentifier/nonReserved", "//strictNonReserved")
# These are said by name and looked up elsewhere: sqlglot has to know them as they are.
_CALLED = (
    *("//functionName//identifier", "//lateralView/qualifiedName//identifier"),
    *("//hint//identifier", "//namedArgumentExpression/identifier"),
    "//functionTableNamedArgumentExpression/identifier",
)


def name_places(spark: SparkSession, text: str) -> list[Place]:
    """The places of names in a query that Spark accepts, those of functions left out."""
    read = _Reading(spark, text)
    return sorted(read.places(_NAMES) - read.places(_CALLED) - read.unnamed_views())


def keywords_as_names(spark: SparkSession, text: str) -> bool:
    """Whether a query has names, other than of functions, that are keywords and stand without quotes.

    ALL is none: what it means is found out where it stands.
    """
    read = _Reading(spark, text)
    found = read.places(_KEYWORDS)
    if found:
        found -= read.places(_CALLED) | read.unnamed_views()
    return any(text[start:stop].upper() != "ALL" for start, stop in found)


class _Reading:
    """A text as Spark's grammar reads it."""

    def __init__(self, spark: SparkSession, text: str) -> None:
        jvm: Any = spark._jvm
        grammar, antlr = jvm.org.apache.spark.sql.catalyst.parser, jvm.org.antlr.v4.runtime
        characters = grammar.UpperCaseCharStream(antlr.CharStreams.fromString(text))
        lexer = grammar.SqlBaseLexer(characters)
        self._parser = grammar.SqlBaseParser(antlr.CommonTokenStream(lexer))
        self._parser.removeErrorListeners()
        self._tree = self._parser.singleStatement()
        self._text = text
        self._paths = antlr.tree.xpath.XPath

    def places(self, paths: tuple[str, ...]) -> set[Place]:
        """Where the nodes at these paths begin with a word."""
        found = (self._paths.findAll(self._tree, path, self._parser).toArray() for path in paths)
        # An array, for to reach the end of an iterator is an error of the JVM, which costs time.
        tokens = (nodes[i].getStart() for nodes in found for i in range(len(nodes)))
        return {(token.getStartIndex(), token.getStopIndex() + 1) for token in tokens}

    def unnamed_views(self) -> set[Place]:
        """Where AS is the name of a relation: to Spark it is, in LATERAL VIEW f(x) AS y."""
        names = self.places(("//lateralView/identifier",))
        return {(start, stop) for start, stop in names if self._text[start:stop].upper() == "AS"}
