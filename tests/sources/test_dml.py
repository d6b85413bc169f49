"""DML as row changes: which table, UPDATE and DELETE by hand-written cases, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from spark_incr.errors import IncrementalError
from spark_incr.sources.dml import target_of
from tests.sources.tables import Given, Row, Table, bag, bag_of

# Which table


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("INSERT INTO t VALUES (1)", "t"),
        ("insert into table Shop.Orders select 1", "Shop.Orders"),
        ("-- dbt\n/* a /* nested */ one */ INSERT OVERWRITE `my table` SELECT 1", "my table"),
        ("INSERT INTO IDENTIFIER('a.b') SELECT 1", "a.b"),
        ("INSERT INTO t BY NAME SELECT 1 AS a", "t"),
        ("WITH q AS (SELECT ')' AS a), r (b) AS (SELECT 2) INSERT INTO t SELECT * FROM q", "t"),
        ("FROM u INSERT INTO t SELECT *", "t"),
        ("UPDATE t AS a SET x = 1", "t"),
        ("DELETE FROM db.t", "db.t"),
        ("MERGE INTO t USING s ON TRUE WHEN MATCHED THEN DELETE", "t"),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING s ON TRUE WHEN MATCHED THEN DELETE", "t"),
        ("TRUNCATE TABLE t;", "t"),
        ("LOAD DATA LOCAL INPATH 'x' OVERWRITE INTO TABLE t", "t"),
        ("INSERT INTO t VALUES ('" + "it''s " * 1000 + "')", "t"),
        (
            "INSERT INTO long.name VALUES " + ", ".join("('--', 1)" for _ in range(2000)),
            "long.name",
        ),
        ("SELECT 'INSERT INTO t'", None),
        ("WITH q AS (SELECT 1) SELECT * FROM q", None),
        ("FROM u SELECT *", None),
        ("EXPLAIN INSERT INTO t VALUES (1)", None),
        ("INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT 1", None),
        ("INSERT INTO", None),
        ("INSERT INTO `t", None),
        ("", None),
    ],
)
def test_target_of_names_the_table_of_a_change(text: str, name: str | None) -> None:
    assert target_of(text) == name


WORDS = [
    "INSERT",
    "INTO",
    "WITH",
    "FROM",
    "UPDATE",
    "DELETE",
    "MERGE",
    "TRUNCATE",
    "TABLE",
    "LOAD",
    "IDENTIFIER",
    "AS",
    "t",
    "(",
    ")",
    "'",
    "`",
    ".",
    ",",
    ";",
    "*",
    "/*",
    "*/",
    "--",
]


@given(st.text() | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_target_of_never_fails(text: str) -> None:
    name = target_of(text)
    assert name is None or name


# UPDATE, DELETE, TRUNCATE


def test_update_moves_rows_and_leaves_out_what_stays(orders: Table) -> None:
    change = orders.change("UPDATE t AS o SET o.NAME = 'b', x = o.x WHERE o.id <= 2 -- all b")
    assert bag(change.delete) == bag_of((1, "a", 1.5))
    assert bag(change.insert) == bag_of((1, "b", 1.5))
    assert change.counts == {"num_affected_rows": 3}


def test_update_sees_old_values_on_every_right_side(given_table: Given) -> None:
    table = given_table("a INT, b INT", (1, 2))
    assert bag(table.change("UPDATE t SET a = b, b = a").insert) == bag_of((2, 1))
    assert bag(table.change("UPDATE t SET t.a = DEFAULT").insert) == bag_of((None, 2))
    text = "UPDATE t SET a = CASE WHEN a = 1 THEN CASE b WHEN 2 THEN 7 END END, b = (b, 3).col2"
    assert bag(table.change(text).insert) == bag_of((7, 3))


@pytest.mark.parametrize("where", ["NULL", "FALSE", "(1 = 2)", "name > NULL", "id IN (SELECT 5)"])
def test_rows_whose_condition_is_not_true_are_untouched(orders: Table, where: str) -> None:
    for text in (f"UPDATE t SET x = 0 WHERE {where}", f"DELETE FROM t WHERE {where}"):
        change = orders.change(text)
        assert (change.insert.num_rows, change.delete.num_rows) == (0, 0)
        assert change.counts == {"num_affected_rows": 0}


def test_delete_and_truncate(orders: Table) -> None:
    every = bag_of((1, "a", 1.5), (2, "b", None), (2, "b", None), (3, None, float("nan")))
    twos = bag_of((2, "b", None), (2, "b", None))
    assert bag(orders.change("DELETE FROM t").delete) == every
    assert bag(orders.change("TRUNCATE TABLE t").delete) == every
    assert bag(orders.change("DELETE FROM t WHERE id = 2").delete) == twos
    correlated = "DELETE FROM t o WHERE 1 < (SELECT count(*) FROM t WHERE t.id = o.id)"
    assert bag(orders.change(correlated).delete) == twos
    context = (
        "WITH q AS (SELECT max(id) - 1 AS k FROM t) DELETE FROM t WHERE id IN (SELECT k FROM q)"
    )
    change = orders.change(context)
    assert bag(change.delete) == twos
    assert change.insert.num_rows == 0
    assert change.counts == {"num_affected_rows": 2}


@pytest.mark.parametrize(
    ("text", "deleted", "inserted"),
    [
        ("INSERT INTO t REPLACE WHERE id = 2 SELECT 2, 'z', 9", (2, 2), ((2, "z", 9.0),)),
        ("INSERT INTO t REPLACE WHERE t.id > 5 VALUES (6, DEFAULT, 1)", (), ((6, "none", 1.0),)),
        (
            "INSERT INTO t REPLACE WHERE id IS NOT DISTINCT FROM 3 FROM t SELECT 3, name, x",
            (3,),
            (),
        ),
        (
            "WITH q AS (SELECT 1 AS i) INSERT INTO t REPLACE WHERE id IN (SELECT i FROM q)"
            " (SELECT i, 'q', NULL FROM q)",
            (1,),
            ((1, "q", None),),
        ),
        (
            "INSERT INTO t REPLACE WHERE coalesce((SELECT 'a'), 'q') = name OR id = (SELECT 1)"
            " TABLE nothing",
            (1,),
            (),
        ),
        ("INSERT INTO t REPLACE WHERE id = :i (VALUES (:i, 'p', 0))", (2, 2), ((2, "p", 0.0),)),
        ("INSERT INTO t BY NAME REPLACE WHERE id = 1 SELECT 1 AS id", (1,), ((1, "none", None),)),
        ("INSERT INTO t (x, id) REPLACE WHERE id = 1 SELECT 7, 1", (1,), ((1, "none", 7.0),)),
        (
            "INSERT INTO t REPLACE USING (id) VALUES (2L, 'z', 9), (2, 'y', 8), (6, 'w', 7)",
            (2, 2),
            ((2, "z", 9.0), (2, "y", 8.0), (6, "w", 7.0)),
        ),
        (
            "INSERT INTO t AS q BY NAME REPLACE USING (ID, name) SELECT NULL AS name, 3 AS id",
            (3,),
            ((3, None, None),),
        ),
        ("INSERT INTO t REPLACE USING (name) SELECT 4, NULL, NULL", (3,), ((4, None, None),)),
        (
            "FROM t INSERT INTO t REPLACE USING (id) SELECT id, 'n', 0 WHERE id = 1",
            (1,),
            ((1, "n", 0.0),),
        ),
        (
            "INSERT INTO t q REPLACE ON q.id = s.i - 1 (SELECT 3 AS i, 'p' AS n, 0 AS x) AS s",
            (2, 2),
            ((3, "p", 0.0),),
        ),
        (
            "INSERT INTO t REPLACE ON t.name = n OR id = 1 SELECT 5, 'b' AS n, 1",
            (1, 2, 2),
            ((5, "b", 1.0),),
        ),
        ("INSERT INTO t REPLACE ON TRUE TABLE nothing", (), ()),
    ],
)
def test_replace_takes_away_what_it_names(
    given_table: Given, spark: SparkSession, text: str, deleted: Row, inserted: tuple[Row, ...]
) -> None:
    rows = [(1, "a", 1.5), (2, "b", None), (2, "b", None), (3, None, 0.5)]
    table = given_table("id INT, name STRING, x DOUBLE", *rows, defaults={"name": "'none'"})
    spark.sql("SELECT 1, 'a', 2D WHERE FALSE").createOrReplaceTempView("nothing")
    change = table.change(text, {"i": 2} if ":i" in text else None)
    if "FROM t SELECT" in text:
        inserted = tuple((3, name, x) for _, name, x in rows)
    assert bag(change.delete) == bag_of(*(r for r in rows if r[0] in deleted))
    assert bag(change.insert) == bag_of(*inserted)


def test_replace_where_refuses_rows_that_it_does_not_name(orders: Table) -> None:
    replace = "INSERT INTO t REPLACE WHERE id = 2 "
    assert orders.fails(replace + "VALUES (2, 'a', 1), (3, 'b', 2)") == "INCR_NOT_REPLACED"
    assert orders.fails(replace + "VALUES (NULL, 'a', 1)") == "INCR_NOT_REPLACED"
    assert orders.fails("INSERT INTO t REPLACE WHERE zz = 2 VALUES (1, 'a', 1)").startswith("UNRES")


def test_replace_by_columns_and_by_conditions_refuses_what_it_cannot_read(orders: Table) -> None:
    values = "VALUES (2, 'a', 1)"
    assert orders.fails(f"INSERT INTO t REPLACE USING (zz) {values}").startswith("UNRES")
    assert orders.fails(f"INSERT INTO t REPLACE USING (id, ID) {values}") == "INCR_DUPLICATE_COLUMN"
    random = "SELECT CAST(rand() * 3 AS INT), 'a', 1"
    assert orders.fails(f"INSERT INTO t REPLACE USING (id) {random}") == "INCR_NONDETERMINISTIC"
    ambiguous = "INSERT INTO t REPLACE ON id = 1 SELECT 1 AS id, 'a', 1"
    assert orders.fails(ambiguous) == "AMBIGUOUS_REFERENCE"


def test_default_is_what_the_table_says(given_table: Given) -> None:
    table = given_table(
        "id INT, name STRING, x DOUBLE", (1, "a", 1.5), defaults={"name": "'no' || 'ne'", "x": "7"}
    )
    updated = table.change("UPDATE t SET name = DEFAULT, x = default, id = DEFAULT WHERE id = 1")
    assert bag(updated.insert) == bag_of((None, "none", 7.0))
    merged = table.change(
        "MERGE INTO t USING (SELECT explode(array(1, 2, 3)) AS i) ON id = i"
        " WHEN MATCHED THEN UPDATE SET x = DEFAULT"
        " WHEN NOT MATCHED AND i = 2 THEN INSERT (id, name, x) VALUES (i, 'z', DEFAULT)"
        " WHEN NOT MATCHED THEN INSERT (id) VALUES (i)"
    )
    assert bag(merged.insert) == bag_of((1, "a", 7.0), (2, "z", 7.0), (3, "none", 7.0))


def test_a_value_is_the_same_only_if_a_reader_cannot_tell(given_table: Given) -> None:
    ddl = "f DOUBLE, m MAP<STRING, FLOAT>, a ARRAY<STRUCT<m: MAP<INT, INT>>>"
    zero = (0.0, {"k": 0.0}, [({1: 1},), None])
    nan = (float("nan"), None, None)
    table = given_table(ddl, zero, nan)
    assert table.change("UPDATE t SET f = f, m = m, a = a").insert.num_rows == 0
    assert table.change("UPDATE t SET f = CAST('NaN' AS DOUBLE) WHERE f > 1").insert.num_rows == 0
    assert table.change("UPDATE t SET f = -0.0D").insert.num_rows == 2
    assert table.change("UPDATE t SET m = map('k', -0.0F) WHERE f = 0").insert.num_rows == 1
    changed = table.change("UPDATE t SET a = array(named_struct('m', map(1, 2)), NULL) WHERE f = 0")
    assert changed.insert.num_rows == 1


def test_volatile_values_are_evaluated_once(given_table: Given) -> None:
    table = given_table("id BIGINT, a DOUBLE, b INT", *((i, 0.0, 0) for i in range(50)))
    merge = (
        "MERGE INTO t USING (SELECT id AS i, rand() AS r FROM range(100)) AS s ON id = i"
        " WHEN MATCHED THEN UPDATE SET a = r, b = r * 1000000"
        " WHEN NOT MATCHED THEN INSERT (id, a, b) VALUES (i, r, r * 1000000)"
    )
    for row in table.change(merge).insert.to_pylist():
        assert int(row["a"] * 1000000) == row["b"]
    update = table.change("UPDATE t SET b = rand() * 1000000000, a = rand()")
    assert len(set(update.insert.column("b").to_pylist())) == update.insert.num_rows == 50


def test_structs_are_updated_by_name(given_table: Given) -> None:
    table = given_table("s STRUCT<x: INT, y: STRING>", ((1, "a"),))
    change = table.change("UPDATE t SET s = named_struct('Y', 'b', 'x', 2L)")
    assert change.insert.to_pylist() == [{"s": {"x": 2, "y": "b"}}]
    missing = "UPDATE t SET s = named_struct('x', 2)"
    assert table.fails(missing) == "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA"


# Names, parameters, refusals


def test_fields_of_structs_are_assigned(given_table: Given) -> None:
    """As Spark aligns them: a struct that is NULL becomes one of NULLs and of what is given."""
    table = given_table(
        "id INT, p STRUCT<a: INT, `b c`: STRUCT<d: DOUBLE, e: STRING>>",
        (1, (1, (0.5, "x"))),
        (2, None),
        (3, (3, None)),
    )
    expected = bag_of(
        (1, {"a": 2, "b c": {"d": 1.0, "e": "x"}}),
        (2, {"a": None, "b c": {"d": 1.0, "e": None}}),
        (3, {"a": 4, "b c": {"d": 1.0, "e": None}}),
    )
    update = "UPDATE t AS p SET p.p.`b c`.d = p.id / p.id, p.P.a = p.p.a + 1"
    assert bag(table.change(update).insert) == expected
    merge = (
        "MERGE INTO t USING (SELECT 1 AS one) ON TRUE WHEN MATCHED THEN"
        " UPDATE SET p.`b c`.d = one, t.p.A = t.p.a + one"
    )
    assert bag(table.change(merge).insert) == expected
    assert bag(table.change("UPDATE t SET p.a = DEFAULT WHERE id = 3").insert) == bag_of(
        (3, {"a": None, "b c": None})
    )


def test_names_may_hold_anything(given_table: Given, spark: SparkSession) -> None:
    table = given_table("`größe m.` INT, `a``b` INT, `select` INT", (1, 2, 3))
    spark.table("t").createOrReplaceTempView("`my 😀 table`")
    table = replace(table, target=replace(table.target, name="my 😀 table"))
    change = table.change(
        "UPDATE `my 😀 table` SET `A``B` = `größe m.` + 1, `my 😀 table`.`select` = `a``b` /* 😀 */ * 10"
    )
    assert bag(change.insert) == bag_of((1, 2, 20))
    merge = (
        "MERGE INTO `MY 😀 table` AS `t 1` USING (SELECT 1 AS `ü ü`) AS `s.1` ON `größe m.` = `ü ü`"
        " WHEN MATCHED THEN UPDATE SET `t 1`.`a``b` = `s.1`.`ü ü` WHEN NOT MATCHED THEN"
        " INSERT (`select`) VALUES (`ü ü`)"
    )
    assert bag(table.change(merge).insert) == bag_of((1, 1, 3))
    assert bag(table.change("DELETE FROM `my 😀 table` WHERE `select` = 3").delete) == bag_of(
        (1, 2, 3)
    )


def test_a_qualified_name_reads_the_view_of_the_target(orders: Table) -> None:
    change = orders.change("UPDATE cat.db.t SET db.t.x = t.id WHERE t.id = 1")
    assert bag(change.insert) == bag_of((1, "a", 1.0))
    merge = (
        "MERGE INTO db.t USING (SELECT 1 AS i) ON t.id = i WHEN MATCHED THEN UPDATE SET db.t.x = 7"
    )
    assert bag(orders.change(merge).insert) == bag_of((1, "a", 7.0))


def test_parameters_reach_every_part(orders: Table) -> None:
    named = orders.change("UPDATE t SET name = :n WHERE id = :i", {"n": "z", "i": 1, "unused": 0})
    assert bag(named.insert) == bag_of((1, "z", 1.5))
    assert bag(orders.change("UPDATE t SET name = ? WHERE id = ?", ["z", 1]).insert) == bag_of(
        (1, "z", 1.5)
    )
    merge = (
        "MERGE INTO t USING (SELECT ? AS i) ON id = i AND id <> ?"
        " WHEN MATCHED THEN UPDATE SET name = ?"
        " WHEN NOT MATCHED BY SOURCE AND id = ? THEN DELETE"
        " WHEN NOT MATCHED BY SOURCE AND id = ? THEN UPDATE SET x = ?"
    )
    change = orders.change(merge, [2, 99, "q?", 3, 1, 0.5])
    assert bag(change.insert) == bag_of((2, "q?", None), (2, "q?", None), (1, "a", 0.5))
    assert bag(orders.change("INSERT INTO t VALUES (?, '?', ?)", [5, 1]).insert) == bag_of(
        (5, "?", 1.0)
    )
    assert orders.fails("DELETE FROM t WHERE id = :i", {"j": 1}) == "UNBOUND_SQL_PARAMETER"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("INSERT INTO t PARTITION (id = 1) SELECT 'a', 2", 1, 15),
        ("INSERT INTO t WITH ('a' = 'b') SELECT 1, 'a', 2", 1, 15),
        ("INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1", 1, 1),
        ("FROM t INSERT INTO t SELECT * INSERT INTO t SELECT *", 1, 31),
        ("TRUNCATE TABLE t PARTITION (id = 1)", 1, 18),
        ("LOAD DATA INPATH 'x' INTO TABLE t", 1, 1),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING t AS s ON TRUE WHEN MATCHED THEN DELETE", 1, 1),
        (
            "MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = hash(s.*)",
            1,
            82,
        ),
    ],
)
def test_other_forms_are_refused_by_name_and_place(
    orders: Table, text: str, line: int, column: int
) -> None:
    with pytest.raises(IncrementalError) as caught:
        orders.change(text)
    assert caught.value.condition == "INCR_STATEMENT_UNSUPPORTED"
    assert "maintained" not in str(caught.value)
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (line, column)


def test_wrong_assignments_are_refused(given_table: Given) -> None:
    table = given_table("id INT, s STRUCT<f: INT>", (1, (2,)))
    assert table.fails("UPDATE t SET id = 1, ID = 2") == "INCR_DUPLICATE_COLUMN"
    assert table.fails("INSERT INTO t (id, Id) VALUES (1, 2)") == "INCR_DUPLICATE_COLUMN"
    assert table.fails("UPDATE t SET s.f = 1, s = NULL") == "INCR_DUPLICATE_COLUMN"
    assert table.fails("UPDATE t SET s.f = 1, t.S.F = 2") == "INCR_DUPLICATE_COLUMN"
    assert table.fails("UPDATE t SET s.g = 1") == "FIELD_NOT_FOUND"
    assert table.fails("UPDATE t SET s.f = 'x'").endswith("CANNOT_SAFELY_CAST")
    insert = "MERGE INTO t USING t u ON FALSE WHEN NOT MATCHED THEN INSERT (s.f) VALUES (1)"
    assert table.fails(insert) == "INCR_STATEMENT_UNSUPPORTED"
    assert table.fails("UPDATE t AS a SET t.id = 1") == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert table.fails("UPDATE t SET nothing = 1") == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert table.fails("UPDATE t SET id = '1'").endswith("CANNOT_SAFELY_CAST")
    assert table.fails("UPDATE t SET id = explode(array(1, 2))").startswith("UNSUPPORTED_GENERATOR")
    assert table.fails("UPDATE t SET id = 1 / 0") == "DIVIDE_BY_ZERO"
    merge = "MERGE INTO t USING (SELECT 1 AS i) ON id = i WHEN NOT MATCHED THEN INSERT (id) VALUES "
    assert table.fails(merge + "(1, 2)") == "MERGE_INSERT_VALUE_COUNT_MISMATCH"


def test_syntax_errors_are_those_of_spark(orders: Table) -> None:
    for text in ("UPDATE t SET x = 1 garbage", "DELETE t", "MERGE INTO t USING t ON TRUE"):
        with pytest.raises(ParseException):
            orders.change(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("DELETE FROM t WHERE id = 1 AND\n  nope = 1", "; line 2 pos 2"),
        ("UPDATE t SET name = nope", "; line 1 pos 20"),
        ("INSERT INTO t\nSELECT id, nope, x FROM t", "; line 2 pos 11"),
        ("WITH q AS (SELECT nope FROM t)\nDELETE FROM t WHERE id IN (TABLE q)", "; line 1 pos 18"),
    ],
)
def test_errors_of_spark_are_about_what_was_written(orders: Table, text: str, place: str) -> None:
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN") as failure:
        orders.change(text)
    message = str(failure.value).split("\n\nJVM")[0]
    assert message.endswith(place)
