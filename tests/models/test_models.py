"""Folders of model files: how they are read, ordered and drawn, and what `spark-incr run` does."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from spark_incr.cli import main
from spark_incr.errors import IncrementalError
from spark_incr.models.run import graph_svg, graph_text, load
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.statements import CreateView, Policy, TriggerKind
from tests.calling import CommandLine

EXAMPLE = Path(__file__).parents[2] / "sql_examples" / "models"
SOURCES = "sources: [{name: raw, schema: landing, tables: [{name: t, identifier: t_1}]}]"
TABLES = """
CREATE INCREMENTAL TABLE orders (
    id BIGINT, customer_id BIGINT, ordered_at TIMESTAMP, amount DECIMAL(10,2), status STRING,
    PRIMARY KEY (id));
CREATE INCREMENTAL TABLE customers (id BIGINT, country STRING, PRIMARY KEY (id));
INSERT INTO customers VALUES (1, 'UK'), (2, 'US');
INSERT INTO orders VALUES
    (1, 1, TIMESTAMP '2026-01-01 10:00:00', 10, 'paid'), (2, 2, TIMESTAMP '2026-01-01 11:00:00', 5, 'paid'),
    (3, 1, TIMESTAMP '2026-01-02 12:00:00', 7, 'returned');
"""


def folder(root: Path, **files: str) -> Path:
    for name, text in files.items():
        (root / f"{name}.sql").write_text(text, encoding="utf-8")
    (root / "sources.yml").write_text(SOURCES, encoding="utf-8")
    return root


def test_rendering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_LIMIT", "7")
    models = load(
        folder(
            tmp_path,
            b="{{ config(refresh_policy='auto', schedule='5 minutes', tblproperties={'k': \"v'\"}) }}\n"
            "SELECT * FROM {{ ref('a') }} WHERE x < {{ env_var('SHOP_LIMIT') }} -- {{ this }}\n",
            a="{# a note #}{% for c in ['x', 'y'] %}{% endfor %}"
            "SELECT x FROM {{ source('raw', 't') }} WHERE y = {{ var('y', 1) }}",
        ),
        "mart",
        {"y": 5},
    )
    assert list(models.statements) == ["a", "b"]
    assert graph_text(models) == "a <- landing.t_1\nb <- a"
    a, b = (parse_statement(statement.text) for statement in models.statements.values())
    assert isinstance(a, CreateView)
    assert a.query_text == "SELECT x FROM landing.t_1 WHERE y = 5"
    assert isinstance(b, CreateView)
    assert b.or_replace
    assert b.name == "mart.b"
    assert b.policy is Policy.AUTO
    assert (b.trigger.kind, b.trigger.seconds) == (TriggerKind.SCHEDULE, 300)
    assert dict(b.properties)["k"] == "v'"
    assert b.query_text.startswith("SELECT * FROM mart.a WHERE x < 7")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT {{ is_incremental() }}", "is_incremental is not known here"),
        ("SELECT {{ dbt_utils.star(1) }}", "dbt_utils is not known here"),
        ("{% for i in range(3) %}{% endfor %}SELECT 1", "range is not known here"),
        ("SELECT * FROM {{ ref('nobody') }}", "ref('nobody') names no model"),
        ("SELECT * FROM {{ source('raw', 'u') }}", "source('raw', 'u') is declared in no .yml"),
        ("SELECT {{ var('missing') }}", "var('missing') has no value"),
        ("SELECT {{ env_var('SURELY_NOT_SET') }}", "env_var('SURELY_NOT_SET') is not set"),
        ("SELECT 1\n{% if %}", "m.sql, line 2): Expected an expression"),
        ("SELECT 1,\n{{ ref('nobody') }}", "m.sql, line 2): ref('nobody')"),
        ("", "m.sql): there is no query in its file"),
        ("-- to do\n", "m.sql): there is no query in its file"),
        (
            "{{ config(trigger='manual', schedule='5 minutes') }}SELECT 1",
            "trigger and schedule are both set",
        ),
        ("{{ config(materialized='table') }}SELECT 1", "materialized is table"),
        ("{{ config(colour='red') }}SELECT 1", "the setting colour is not known"),
        ("{{ config(on_configuration_change='x') }}SELECT 1", "on_configuration_change is x"),
        ("SELECT {{ ''.__class__.__mro__ }}", "__class__ is not known here"),
    ],
)
def test_what_a_model_may_not_do(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(IncrementalError, match="INCR_MODEL") as found:
        load(folder(tmp_path, m=text), "default", {})
    assert expected in str(found.value)


def test_settings_may_stand_under_meta(tmp_path: Path) -> None:
    text = "{{ config(meta={'schedule': '1 hour', 'comment': 'x', 'owner': 'ada'}, comment='y') }}SELECT 1"
    statement = parse_statement(load(folder(tmp_path, m=text), "s", {}).statements["m"].text)
    assert isinstance(statement, CreateView)
    assert statement.trigger.seconds == 3_600
    assert statement.comment == "x"


def test_a_folder_without_models_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ls", str(tmp_path)]) == 1
    assert "the folder holds no models: no .sql file is in it" in capsys.readouterr().err


LOOP = """{# a note
of two lines #}
{{ config(comment='made') }}
SELECT {% for c in ['a', 'b'] -%}
  {{ c }} AS {{ c }}_1,
{%- endfor %}
  rand() AS r
FROM {{ ref('other') }}
"""


@pytest.mark.parametrize(
    ("text", "word", "line", "column"),
    [
        (LOOP, "rand", 7, 3),
        (LOOP, "b AS", 5, 3),
        (LOOP, "_1,b", 5, 21),
        (LOOP, "default.other", 8, 6),
        ("\n\nSELECT\n  rand()", "rand", 4, 3),
        ("{% macro f(x) %}\n  rand({{ x }}){% endmacro %}\nSELECT {{ f(1) }}", "rand", 2, 3),
    ],
)
def test_errors_point_into_the_file(
    tmp_path: Path, text: str, word: str, line: int, column: int
) -> None:
    models = load(folder(tmp_path, m=text, other="SELECT 1 AS a, 2 AS b"), "default", {})
    rendered = models.rendered["m"]
    shown = str(rendered.error_at("[X] is wrong\nHINT: Do so.", rendered.query.index(word)))
    written = text.split("\n")[line - 1]
    assert shown == (
        f"[INCR_MODEL] model m ({tmp_path}/m.sql, line {line}, column {column}): [X] is wrong\n"
        f"{written}\n{' ' * (column - 1)}^\nHINT: Do so."
    )


def test_a_place_that_is_not_certain_is_one_of_the_rendered_text(tmp_path: Path) -> None:
    # The length of a literal text is other with a mark in it, so that marks cannot tell places.
    text = "{% set x %}abc{% endset %}\n\nSELECT {{ x | length }},\n  rand()"
    rendered = load(folder(tmp_path, m=text), "default", {}).rendered["m"]
    assert rendered.query == "SELECT 3,\n  rand()"
    shown = str(rendered.error_at("[X] is wrong", rendered.query.index("rand")))
    assert "m.sql, line 4, column 3 of what it renders to): [X]" in shown
    assert shown.endswith("\n  rand()\n  ^")


def test_cycles_show_their_path(tmp_path: Path) -> None:
    read = "SELECT * FROM {{{{ ref('{}') }}}}"
    models = folder(tmp_path, a=read.format("b"), b=read.format("c"), c=read.format("a"))
    with pytest.raises(IncrementalError, match="a -> b -> c -> a"):
        load(models, "default", {})


def test_the_graph_as_text_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "models.svg"
    assert main(["ls", str(EXAMPLE), "--svg", str(picture)]) == 0
    assert capsys.readouterr().out == (
        "paid_orders <- default.orders\n"
        "best_days <- paid_orders\n"
        "revenue_by_country <- paid_orders, default.customers\n"
    )
    drawn = ElementTree.parse(picture).getroot()
    texts = ["".join(node.itertext()) for node in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"paid_orders", "best_days", "revenue_by_country", "default.customers"} <= set(texts)
    assert graph_svg(load(EXAMPLE, "default", {}), "<&>").count("&lt;&amp;&gt;") == 2


def test_the_example_runs(tmp_path: Path, command_line: CommandLine) -> None:
    state = str(tmp_path / "state")

    def spark_incr(*arguments: str) -> str:
        found = command_line(*arguments)
        assert found.returncode == 0, found.stderr
        return found.stdout

    spark_incr("sql", "-e", TABLES, "--state", state)
    planned = spark_incr("dry-run", str(EXAMPLE), "--state", state)
    assert planned.count(": create\nCREATE OR REPLACE INCREMENTAL VIEW default.") == 3
    # What would be refused is told now: the first model can be made, the one over it cannot.
    (tmp_path / "refused").mkdir()
    refused = folder(
        tmp_path / "refused",
        early="SELECT id, amount FROM default.orders",
        late="{{ config(comment='x') }}\n\nSELECT id,\n  rand() AS r FROM {{ ref('early') }}",
    )
    found = command_line("dry-run", str(refused), "--state", state)
    assert found.returncode == 1
    assert found.stdout.startswith("-- early: create\n")
    assert "late.sql, line 4, column 3): [INCR_NONDETERMINISTIC] rand()" in found.stderr
    assert "\n  rand() AS r FROM {{ ref('early') }}\n  ^\n" in found.stderr
    explained = spark_incr("explain", str(EXAMPLE), "--state", state)
    assert "-- revenue_by_country\nr0 := Scan[" in explained
    assert "Scan[paid_orders" in explained

    first = spark_incr("run", str(EXAMPLE), "--state", state)
    assert [line.split() for line in first.splitlines()[2:]] == [
        ["paid_orders", "create"],
        ["best_days", "create"],
        ["revenue_by_country", "create"],
    ]
    again = spark_incr("run", str(EXAMPLE), "--state", state, "--vars", '{"smallest_amount": 6}')
    assert [line.split() for line in again.splitlines()[2:]] == [
        ["paid_orders", "replace"],
        ["best_days", "unchanged"],
        ["revenue_by_country", "unchanged"],
    ]
    picture = tmp_path / "plan.svg"
    shown = spark_incr("explain", "revenue_by_country", "--state", state, "--svg", str(picture))
    assert "tier       bilinear" in shown
    assert "How revenue_by_country is maintained" in picture.read_text(encoding="utf-8")
    # What the state holds is what any other door reads.
    query = "SELECT country, orders, revenue FROM revenue_by_country"
    assert spark_incr("sql", "-e", query, "--state", state).splitlines()[2].split() == [
        "UK",
        "1",
        "10.00",
    ]
