"""Random data, and random queries over it: every construct, nested in every other.

Values come from small pools, so that keys repeat, groups vanish and come back, and rows occur
several times. What Spark itself leaves open, as which of the rows that tie comes first, is not drawn.
"""

from tests.grammar.histories import Batch, Example, examples, history
from tests.grammar.values import ATOMIC, MAP, NESTED, columns_of, hidden, rows_of, schemas, table_of

__all__ = [
    "ATOMIC",
    "MAP",
    "NESTED",
    "Batch",
    "Example",
    "columns_of",
    "examples",
    "hidden",
    "history",
    "rows_of",
    "schemas",
    "table_of",
]
