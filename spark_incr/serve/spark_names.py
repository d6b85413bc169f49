"""Where a query writes names, told by the grammar of Spark's own parser."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from spark_incr.sql.written_names import Place

_NAMES = ("//identifier", "//strictIdentifier")
# These are said by name and looked up elsewhere: sqlglot has to know them as they are.
_CALLED = (
    "//functionName//identifier",
    "//lateralView/qualifiedName//identifier",
    "//hint//identifier",
)


def name_places(spark: SparkSession, text: str) -> list[Place]:
    """The places of names without quotes in a query that Spark accepts, those of functions left out."""
    jvm: Any = spark._jvm
    grammar, antlr = jvm.org.apache.spark.sql.catalyst.parser, jvm.org.antlr.v4.runtime
    characters = grammar.UpperCaseCharStream(antlr.CharStreams.fromString(text))
    parser = grammar.SqlBaseParser(antlr.CommonTokenStream(grammar.SqlBaseLexer(characters)))
    parser.removeErrorListeners()
    tree = parser.singleStatement()

    def places(paths: tuple[str, ...]) -> set[Place]:
        found = (antlr.tree.xpath.XPath.findAll(tree, path, parser) for path in paths)
        tokens = (node.getStart() for nodes in found for node in nodes)
        return {(token.getStartIndex(), token.getStopIndex() + 1) for token in tokens}

    return sorted(places(_NAMES) - places(_CALLED))
