"""MERGE by hand-written cases; MERGE, UPDATE and DELETE against a small model."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_incr.sources.dml import Target
from tests.sources.tables import Table, bag, bag_of, schema_of


def test_merge_acts_by_the_first_clause_that_holds(orders: Table) -> None:
    text = """
        MERGE INTO t AS o
        USING (SELECT * FROM VALUES (1, 'one'), (2, 'two'), (7, 'seven'), (8, NULL) AS v(id, name)) s
        ON o.id = s.id
        WHEN MATCHED AND CASE WHEN s.name = 'one' THEN TRUE END THEN UPDATE SET name = s.name, x = o.x + 1
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED BY TARGET AND name IS NULL THEN INSERT (x, id) VALUES (DEFAULT, id)
        WHEN NOT MATCHED AND id = 8 THEN INSERT (id) VALUES (1 / 0)
        WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id * 10, name)
        WHEN NOT MATCHED BY SOURCE AND id = 4 THEN DELETE
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET o.name = 'left'
    """
    change = orders.change(text)
    assert bag(change.delete) == bag_of(
        (1, "a", 1.5), (2, "b", None), (2, "b", None), (3, None, float("nan"))
    )
    assert bag(change.insert) == bag_of(
        (1, "one", 2.5), (8, None, None), (70, "seven", None), (3, "left", float("nan"))
    )
    assert change.counts == {
        "num_affected_rows": 6,
        "num_updated_rows": 2,
        "num_deleted_rows": 2,
        "num_inserted_rows": 2,
    }


def test_merge_with_stars_takes_columns_by_name(orders: Table, spark: SparkSession) -> None:
    spark.sql("SELECT 5 AS extra, 9L AS X, 'n' AS name, 1 AS id").createOrReplaceTempView("src")
    text = (
        "MERGE INTO t USING src ON t.id = src.id + {} WHEN MATCHED THEN UPDATE SET *"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    matched, unmatched = orders.change(text.format(0)), orders.change(text.format(9))
    assert bag(matched.insert) == bag(unmatched.insert) == bag_of((1, "n", 9.0))
    assert bag(matched.delete) == bag_of((1, "a", 1.5))
    assert unmatched.delete.num_rows == 0
    spark.sql("SELECT 1 AS id").createOrReplaceTempView("src")
    assert orders.fails(text.format(0)).startswith("UNRESOLVED_COLUMN")


def test_merge_names_mean_what_their_clause_sees(orders: Table) -> None:
    both = "MERGE INTO t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN "
    assert orders.fails(both + "MATCHED THEN UPDATE SET x = id") == "AMBIGUOUS_REFERENCE"
    assert orders.change(both + "NOT MATCHED THEN INSERT (id) VALUES (id)").insert.num_rows == 0
    other = both + "NOT MATCHED THEN INSERT (id) VALUES (t.id)"
    assert orders.fails(other).startswith("UNRESOLVED_COLUMN")
    by_source = orders.change(both + "NOT MATCHED BY SOURCE AND id = 3 THEN DELETE")
    assert bag(by_source.delete) == bag_of((3, None, float("nan")))
    assert orders.fails(both + "NOT MATCHED BY SOURCE AND s.id = 3 THEN DELETE").startswith(
        "UNRESOLVED_COLUMN"
    )


def test_merge_refuses_several_actions_on_one_row(orders: Table) -> None:
    source = "MERGE INTO t USING (SELECT explode(array(2, 2)) AS i) ON id = i "
    refused = [
        "WHEN MATCHED THEN UPDATE SET x = 1",
        "WHEN MATCHED AND i = 2 THEN DELETE",
        "WHEN MATCHED AND name = 'c' THEN UPDATE SET x = 1 WHEN MATCHED THEN DELETE",
    ]
    for clauses in refused:
        assert orders.fails(source + clauses) == "INCR_MERGE_CARDINALITY"
    change = orders.change(
        source + "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert change.counts["num_deleted_rows"] == change.delete.num_rows == 4
    assert orders.change(source + "WHEN MATCHED AND i = 3 THEN DELETE").delete.num_rows == 0
    assert orders.change(source + "WHEN NOT MATCHED BY SOURCE THEN DELETE").delete.num_rows == 2


def test_merge_may_read_its_own_target(orders: Table) -> None:
    text = "MERGE INTO t USING t AS s ON t.id = s.id + 1 AND s.id = {} WHEN MATCHED THEN UPDATE SET x = s.id"
    change = orders.change(text.format(1))
    assert bag(change.insert) == bag_of((2, "b", 1.0), (2, "b", 1.0))
    assert orders.fails(text.format(2)) == "INCR_MERGE_CARDINALITY"


def test_merge_leaves_out_rows_that_stay(orders: Table) -> None:
    change = orders.change(
        "MERGE INTO t USING (SELECT 2 AS i) ON id >= i WHEN MATCHED THEN UPDATE SET name = 'b'"
    )
    assert bag(change.delete) == bag_of((3, None, float("nan")))
    assert bag(change.insert) == bag_of((3, "b", float("nan")))
    assert change.counts["num_updated_rows"] == 3


# A model of UPDATE, DELETE and MERGE on t (k INT, v INT) with a source s (k INT, v INT)

Value = int | None
Pair = tuple[Value, Value]
NOTHING: Pair = (None, None)


@dataclass(frozen=True)
class Term:
    """SQL over `t` and `s`, and what it means."""

    sql: str
    of: Callable[[Pair, Pair], Any]


def lifted(function: Callable[[int, int], Any]) -> Callable[[Value, Value], Any]:
    return lambda a, b: None if a is None or b is None else function(a, b)


less, equal, plus = (lifted(f) for f in (operator.lt, operator.eq, operator.add))
ALWAYS = Term("TRUE", lambda t, s: True)
OF_TARGET = [
    ALWAYS,
    Term("t.v > 1", lambda t, s: less(1, t[1])),
    Term("t.v IS NULL", lambda t, s: t[1] is None),
    Term("NOT t.k < 2", lambda t, s: lifted(operator.ge)(t[0], 2)),
]
OF_SOURCE = [
    ALWAYS,
    Term("s.v > 1", lambda t, s: less(1, s[1])),
    Term("s.k IS NOT NULL", lambda t, s: s[0] is not None),
]
OF_BOTH = [*OF_TARGET, *OF_SOURCE, Term("t.v < s.v", lambda t, s: less(t[1], s[1]))]
JOINS = [
    Term("t.k = s.k", lambda t, s: equal(t[0], s[0])),
    Term("t.k <=> s.k", lambda t, s: t[0] == s[0]),
    Term("t.k < s.k", lambda t, s: less(t[0], s[0])),
]
CONSTANTS = [Term("NULL", lambda t, s: None), Term("7", lambda t, s: 7)]
TARGET_VALUES = [
    *CONSTANTS,
    Term("t.v", lambda t, s: t[1]),
    Term("t.k + 1", lambda t, s: plus(t[0], 1)),
]
SOURCE_VALUES = [
    *CONSTANTS,
    Term("s.v", lambda t, s: s[1]),
    Term("s.k + 1", lambda t, s: plus(s[0], 1)),
]
BOTH_VALUES = [*TARGET_VALUES, *SOURCE_VALUES, Term("t.v + s.v", lambda t, s: plus(t[1], s[1]))]

ROWS = st.lists(st.tuples(*[st.sampled_from([None, 1, 2, 3])] * 2), max_size=5)


@dataclass(frozen=True)
class When:
    """A clause of MERGE; `values` are those of k and v, None for DELETE."""

    condition: Term
    values: tuple[Term, Term] | None


def whens(conditions: list[Term], values: list[Term], *, deletes: bool) -> st.SearchStrategy[Any]:
    pair = st.tuples(st.sampled_from(values), st.sampled_from(values))
    action = st.none() | pair if deletes else pair
    return st.lists(st.builds(When, st.sampled_from(conditions), action), max_size=2)


def changed(pairs: list[tuple[Pair | None, Pair | None]]) -> tuple[Counter[str], Counter[str]]:
    """The rows to insert and to delete for pairs of an old and a new row."""
    moved = [(old, new) for old, new in pairs if old != new]
    return (
        bag_of(*(new for _, new in moved if new is not None)),
        bag_of(*(old for old, _ in moved if old is not None)),
    )


def expected_merge(
    target: list[Pair], source: list[Pair], on: Term, matched: list[When], missing: list[When],
    orphaned: list[When],
) -> list[tuple[Pair | None, Pair | None]] | None:  # fmt: skip
    """Old and new rows of all actions, None for a row with several of them."""

    def acted(clauses: list[When], t: Pair, s: Pair) -> tuple[bool, Pair | None]:
        for clause in clauses:
            if clause.condition.of(t, s) is True:
                made = clause.values and tuple(value.of(t, s) for value in clause.values)
                return True, made
        return False, None

    pairs: list[tuple[Pair | None, Pair | None]] = []
    single = len(matched) == 1 and matched[0] == When(ALWAYS, None)
    for t in target:
        partners = [s for s in source if on.of(t, s) is True]
        clauses = matched if partners else orphaned
        actions = [acted(clauses, t, s) for s in partners or [NOTHING]]
        made = [row for acts, row in actions if acts]
        if len(made) > 1 and not single:
            return None
        pairs += [(t, row) for row in made[:1]]
    for s in source:
        if not any(on.of(t, s) is True for t in target):
            acts, row = acted(missing, NOTHING, s)
            pairs += [(None, row)] if acts else []
    return pairs


def clause_sql(head: str, clause: When, *, insert: bool) -> str:
    condition = "" if clause.condition is ALWAYS else f" AND {clause.condition.sql}"
    if clause.values is None:
        action = "DELETE"
    else:
        k, v = (value.sql for value in clause.values)
        action = f"INSERT (k, v) VALUES ({k}, {v})" if insert else f"UPDATE SET k = {k}, t.v = {v}"
    return f" WHEN {head}{condition} THEN {action}"


@settings(max_examples=25)
@given(
    target=ROWS,
    source=ROWS,
    on=st.sampled_from(JOINS),
    matched=whens(OF_BOTH, BOTH_VALUES, deletes=True),
    missing=whens(OF_SOURCE, SOURCE_VALUES, deletes=False),
    orphaned=whens(OF_TARGET, TARGET_VALUES, deletes=True),
)
def test_merge_equals_the_model(
    spark: SparkSession,
    target: list[Pair],
    source: list[Pair],
    on: Term,
    matched: list[When],
    missing: list[When],
    orphaned: list[When],
) -> None:
    # Only the last clause of a kind may go without a condition.
    groups = [("MATCHED", matched), ("NOT MATCHED", missing), ("NOT MATCHED BY SOURCE", orphaned)]
    assume(matched or missing or orphaned)
    assume(all(clause.condition is not ALWAYS for _, group in groups for clause in group[:-1]))
    table = pairs_table(spark, target)
    spark.createDataFrame(source, "k INT, v INT").createOrReplaceTempView("s")
    text = f"MERGE INTO t USING s ON {on.sql}" + "".join(
        clause_sql(head, clause, insert=head == "NOT MATCHED")
        for head, group in groups
        for clause in group
    )
    pairs = expected_merge(target, source, on, matched, missing, orphaned)
    if pairs is None:
        assert table.fails(text) == "INCR_MERGE_CARDINALITY"
        return
    change = table.change(text)
    assert (bag(change.insert), bag(change.delete)) == changed(pairs)
    assert change.counts == {
        "num_affected_rows": len(pairs),
        "num_updated_rows": sum(old is not None and new is not None for old, new in pairs),
        "num_deleted_rows": sum(new is None for _, new in pairs),
        "num_inserted_rows": sum(old is None for old, _ in pairs),
    }


def pairs_table(spark: SparkSession, rows: list[Pair]) -> Table:
    spark.createDataFrame(rows, "k INT, v INT").createOrReplaceTempView("t")
    return Table(spark, Target("t", schema_of(spark, "k INT, v INT"), (), frozenset()))


@settings(max_examples=15)
@given(
    target=ROWS,
    where=st.sampled_from(OF_TARGET),
    k=st.sampled_from(TARGET_VALUES),
    v=st.sampled_from(TARGET_VALUES),
)
def test_update_and_delete_equal_the_model(
    spark: SparkSession, target: list[Pair], where: Term, k: Term, v: Term
) -> None:
    table = pairs_table(spark, target)
    hit = [t for t in target if where.of(t, NOTHING) is True]
    update = table.change(f"UPDATE t SET v = {v.sql}, k = {k.sql} WHERE {where.sql}")
    new = [(k.of(t, NOTHING), v.of(t, NOTHING)) for t in hit]
    assert (bag(update.insert), bag(update.delete)) == changed(list(zip(hit, new, strict=True)))
    delete = table.change(f"DELETE FROM t WHERE {where.sql}")
    assert (bag(delete.insert), bag(delete.delete)) == (bag_of(), bag_of(*hit))
    assert update.counts == delete.counts == {"num_affected_rows": len(hit)}
