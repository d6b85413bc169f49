"""The SQL texts of single operators, read as text; what they compute is tested in test_reference."""

from __future__ import annotations

import pyspark.sql.types as T
import pytest
from sqlglot import exp

from spark_incr.plan.nodes import (
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    Single,
    UnionAll,
    column,
)
from spark_incr.plan.stages import ROWS, Accumulator, AggregateStage, Answer, Multiset
from spark_incr.plan.texts import print_text, stage_texts, texts_of
from spark_incr.plan.types import Field, Schema

LONG, TEXT, DOUBLE = T.LongType(), T.StringType(), T.DoubleType()


def scan(relation: str, **columns: T.DataType) -> Scan:
    schema = tuple(Field(name, type_) for name, type_ in columns.items())
    return Scan(schema, relation, tuple(columns))


def flat(plan: Node) -> dict[str, str]:
    """The texts of a plan on one line each, by the relation that they assign last."""
    return {
        text.name: " ".join(print_text(text.query).split())
        for stage in texts_of(plan)
        for text in stage.texts
    }


def summed(
    source: T.DataType, monoid: str, result: T.DataType, function: str = "sum"
) -> AggregateStage:
    below = scan("t", k=TEXT, v=source)
    return AggregateStage(
        (Field("k", TEXT), Field("s", result)),
        below,
        ("k",),
        (
            Accumulator("sum_v", monoid, ("v",), ("v",)),
            Accumulator("count_v", "integer", (), ("v",)),
        ),
        (),
        (),
        (Answer("s", function, ("sum_v", "count_v"), result, source),),
        False,
    )


def test_linear_operators_are_one_select() -> None:
    t = scan("t", a=LONG, b=TEXT)
    condition = exp.GT(this=column("a"), expression=exp.Literal.number(1))
    kept = Filter(t.schema, t, condition)
    doubled = exp.Add(this=column("a"), expression=column("a"))
    plan = Project((Field("b", TEXT), Field("c", LONG)), kept, (column("b"), doubled))
    texts = flat(plan)
    assert texts["r0_changes"] == "SELECT a, b, __incr_w FROM changes_of_t"
    assert texts["r1_changes"] == "SELECT a, b, __incr_w FROM r0_changes WHERE a > 1"
    assert texts["r2_changes"] == "SELECT b, a + a AS c, __incr_w FROM r1_changes"


def test_names_are_quoted_only_where_they_must_be() -> None:
    schema: Schema = (Field("a b", LONG), Field("from", LONG), Field("plain", LONG))
    texts = flat(Scan(schema, "shop.t", ("a b", "select", "plain")))
    assert texts["r0_changes"] == (
        "SELECT `a b`, `select` AS `from`, plain, __incr_w FROM `changes_of_shop.t`"
    )


def test_union_keeps_every_row() -> None:
    plan = UnionAll((Field("x", LONG),), (scan("t", a=LONG), scan("u", b=LONG)))
    assert flat(plan)["r2_changes"] == (
        "SELECT a AS x, __incr_w FROM r0_changes UNION ALL SELECT b AS x, __incr_w FROM r1_changes"
    )


def test_a_shared_operator_is_written_once() -> None:
    t = scan("t", a=LONG)
    plan = UnionAll((Field("x", LONG),), (t, t))
    assert [stage.name for stage in texts_of(plan)] == ["r0", "r1", "output"]


def test_joins_pair_the_change_of_each_side_with_the_other() -> None:
    left, right = scan("t", a=LONG), scan("u", b=LONG)
    plan = Join(left.schema + right.schema, left, right, (("a", "b"),), null_safe=(False,))
    texts = flat(plan)
    assert texts["r2_changes"] == (
        "SELECT l.a, r.b, l.__incr_w * r.__incr_w AS __incr_w FROM r0_changes AS l "
        "JOIN r2_right AS r ON l.a = r.b UNION ALL "
        "SELECT l.a, r.b, l.__incr_w * r.__incr_w AS __incr_w FROM r2_left AS l "
        "JOIN r1_changes AS r ON l.a = r.b"
    )
    assert "FULL OUTER JOIN" in texts["r2_left"]
    assert "WHERE NOT a IS NULL" in texts["r2_left"]


@pytest.mark.parametrize(("kind", "word"), [(JoinKind.LEFT, "ANTI"), (JoinKind.SEMI, "SEMI")])
def test_other_joins_ask_for_the_keys_of_the_batch(kind: JoinKind, word: str) -> None:
    left, right = scan("t", a=LONG), scan("u", b=LONG)
    schema = left.schema if kind.left_only else left.schema + right.schema
    texts = flat(Join(schema, left, right, (("a", "b"),), kind, (True,)))
    assert texts["r2_keys"].startswith("SELECT a FROM r0_changes UNION SELECT b AS a")
    asked = [text for name, text in texts.items() if name.endswith("_before")]
    assert asked == [
        f"SELECT o.a, o.__incr_w FROM r2_left AS o LEFT SEMI JOIN r2_keys AS k ON o.a <=> k.a "
        f"LEFT {word} JOIN r2_right AS x ON o.a <=> x.b"
    ]


def test_sums_are_wider_than_what_they_sum() -> None:
    long = flat(summed(LONG, "wide", LONG))
    assert "SUM(CAST(v AS DECIMAL(38, 0)) * __incr_w) AS sum_v" in long["r1_homomorphism"]
    assert "CASE WHEN s.count_v > 0 THEN CAST(s.sum_v AS BIGINT) END AS s" in long["r1_after"]
    decimal = flat(summed(T.DecimalType(10, 2), "wide", T.DecimalType(14, 6), "avg"))
    assert "CAST(SUM(v * __incr_w) AS DECIMAL(20, 2)) AS sum_v" in decimal["r1_homomorphism"]
    assert "CAST(s.sum_v / s.count_v AS DECIMAL(14, 6))" in decimal["r1_after"]


def test_wide_decimals_are_summed_from_the_bag_of_their_values() -> None:
    texts = flat(summed(T.DecimalType(38, 10), "wide", T.DecimalType(38, 10)))
    assert "sum_v" not in texts["r1_homomorphism"]
    assert texts["r1_sum_v_changes"] == (
        "SELECT k, v, SUM(__incr_w) AS __incr_w FROM changes_of_t GROUP BY k, v".replace(
            "changes_of_t", "r0_changes"
        )
    )
    assert "FULL OUTER JOIN r1_sum_v_changes AS d" in texts["r1_sum_v"]
    assert "SUM(v) AS s FROM ( SELECT k, v, EXPLODE(" in texts["r1_after"]


def test_sums_of_doubles_count_what_is_not_finite() -> None:
    texts = flat(summed(DOUBLE, "float", DOUBLE))
    for part in ("ISNAN(v)", "v = CAST('Infinity' AS DOUBLE)", "v = -CAST('Infinity' AS DOUBLE)"):
        assert f"SUM(IF({part}, __incr_w, 0))" in texts["r1_homomorphism"]
    assert "THEN CAST('NaN' AS DOUBLE)" in texts["r1_after"]


def test_merge_is_a_full_outer_join_that_drops_empty_groups() -> None:
    merge = flat(summed(T.IntegerType(), "integer", LONG))["r1_state"]
    assert "FROM r1_state AS s FULL OUTER JOIN r1_homomorphism AS d ON s.k <=> d.k" in merge
    assert f"WHERE COALESCE(s.{ROWS}, 0) + COALESCE(d.{ROWS}, 0) <> 0" in merge


def test_an_aggregate_without_key_keeps_its_row() -> None:
    below = scan("t", v=LONG)
    answers = (Answer("n", "count", (ROWS,), LONG, LONG),)
    stage = AggregateStage((Field("n", LONG),), below, (), (), (), (), answers, True)
    texts = flat(stage)
    assert texts["r1_homomorphism"] == f"SELECT SUM(__incr_w) AS {ROWS} FROM r0_changes"
    assert texts["r1_state"].endswith("FULL OUTER JOIN r1_homomorphism AS d ON TRUE")


def test_distinct_values_are_the_rows_of_a_multiset() -> None:
    below = scan("t", k=TEXT, v=LONG)
    stage = AggregateStage(
        (Field("k", TEXT), Field("d", LONG)),
        below,
        ("k",),
        (Accumulator("count_d", "integer", (), ("v",), "values_v"),),
        (Multiset("values_v", ("v",)),),
        (),
        (Answer("d", "count", ("count_d",), LONG, LONG),),
        False,
    )
    answer = flat(stage)["r1_after"]
    assert "COALESCE(values_v.d, 0) AS d" in answer
    assert "SELECT k, COUNT(v) AS d FROM r1_values_v GROUP BY k" in answer


def test_printed_texts_say_what_they_are() -> None:
    printed = stage_texts(Single(())).splitlines()
    assert printed[0] == "-- r0: one row from the start"
    assert printed[1] == "-- change: r0_changes from first_batch"
    answers = stage_texts(summed(LONG, "wide", LONG))
    assert "-- homomorphism: r1_homomorphism from r0_changes" in answers
    assert "-- answer: r1_before before the merge, then r1_after from " in answers
