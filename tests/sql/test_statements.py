"""The INCREMENTAL statements: read from text, printed as text, refused with a place."""

from __future__ import annotations

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from spark_incr.errors import IncrementalError, Position
from spark_incr.sql.names import join_name, name_parts, quote_name
from spark_incr.sql.parse import parse_statement
from spark_incr.sql.show_create import show_create
from spark_incr.sql.split import is_complete, split_statements
from spark_incr.sql.statements import (
    AlterView,
    ChangeKind,
    Changes,
    ColumnDefinition,
    ColumnName,
    Create,
    CreateSource,
    CreateTable,
    CreateView,
    Describe,
    DescribeHistory,
    Drop,
    Explain,
    ExplainCreate,
    ExplainMode,
    Kind,
    OnError,
    Policy,
    Refresh,
    RenameTo,
    Resume,
    SetPolicy,
    SetProperties,
    SetTrigger,
    ShowCreate,
    ShowSources,
    ShowTables,
    ShowViews,
    Statement,
    Suspend,
    Trigger,
    TriggerKind,
    Unit,
)
from spark_incr.sql.tokens import skip_blanks, tokenize

SCHEDULE = Trigger(TriggerKind.SCHEDULE, 10, Unit.SECOND)

READ: dict[str, Statement] = {
    "CREATE INCREMENTAL TABLE t (id BIGINT)": CreateTable("t", (ColumnDefinition("id", "BIGINT"),)),
    """
    CREATE INCREMENTAL TABLE t (
      a INT DEFAULT 1 + (2, 3)[0] NOT NULL, b BOOLEAN DEFAULT 'x' IS NOT NULL PRIMARY KEY,
      c STRING NOT NULL DEFAULT concat('a,', ')') COMMENT 'C', d STRING DEFAULT 'it''s' -- none
    )
    """: CreateTable(
        "t",
        (
            ColumnDefinition("a", "INT", True, default="1 + (2, 3)[0]"),
            ColumnDefinition("b", "BOOLEAN", default="'x' IS NOT NULL"),
            ColumnDefinition("c", "STRING", True, "C", "concat('a,', ')')"),
            ColumnDefinition("d", "STRING", default="'it''s'"),
        ),
        ("b",),
    ),
    "create or replace incremental table shop.orders (id bigint not null primary key comment 'k');": (
        CreateTable(
            "shop.orders",
            (ColumnDefinition("id", "bigint", True, "k"),),
            ("id",),
            or_replace=True,
        )
    ),
    """-- {"app": "dbt"}
    /* several /* nested */ lines */
    CREATE INCREMENTAL TABLE IF NOT EXISTS t (
        a DECIMAL(10, 2), `b c` STRUCT<a: INT, b: ARRAY<STRING>> NOT NULL, -- the payload
        c MAP<STRING, STRUCT<x: DECIMAL(3,1) COMMENT 'a, b)', y: ARRAY<ARRAY<INT>>>>,
        d TIMESTAMP_NTZ, e INTERVAL DAY TO SECOND COMMENT 'it''s \\'so\\'', f STRUCT<>,
        CONSTRAINT pk PRIMARY KEY (A, `b c`)
    ) TBLPROPERTIES ('x.y' = 'z', delta.n = 3, on = TRUE, low -1.5) COMMENT "all";""": CreateTable(
        "t",
        (
            ColumnDefinition("a", "DECIMAL(10, 2)"),
            ColumnDefinition("b c", "STRUCT<a: INT, b: ARRAY<STRING>>", not_null=True),
            ColumnDefinition(
                "c",
                "MAP<STRING, STRUCT<x: DECIMAL(3,1) COMMENT 'a, b)', y: ARRAY<ARRAY<INT>>>>",
            ),
            ColumnDefinition("d", "TIMESTAMP_NTZ"),
            ColumnDefinition("e", "INTERVAL DAY TO SECOND", comment="it's 'so'"),
            ColumnDefinition("f", "STRUCT<>"),
        ),
        ("a", "b c"),
        if_not_exists=True,
        comment="all",
        properties=(("x.y", "z"), ("delta.n", "3"), ("on", "true"), ("low", "-1.5")),
    ),
    "CREATE INCREMENTAL VIEW v AS SELECT 1 AS x": CreateView("v", "SELECT 1 AS x"),
    "CREATE OR REPLACE INCREMENTAL VIEW `a``b`.`c.d` (x COMMENT 'first', y) TRIGGER ON UPDATE "
    "REFRESH POLICY AUTO COMMENT 'c' TBLPROPERTIES (a = 'b') AS\n"
    "  WITH w AS (SELECT ';' AS x) -- not the end;\n  SELECT /*+ HINT */ x, 2 FROM w -- end": (
        CreateView(
            "`a``b`.`c.d`",
            "WITH w AS (SELECT ';' AS x) -- not the end;\n  SELECT /*+ HINT */ x, 2 FROM w",
            (ColumnName("x", "first"), ColumnName("y")),
            "c",
            (("a", "b"),),
            Policy.AUTO,
            or_replace=True,
        )
    ),
    "CREATE INCREMENTAL VIEW IF NOT EXISTS v REFRESH POLICY INCREMENTAL STRICT "
    "SCHEDULE EVERY 10 SECONDS AS TABLE t": CreateView(
        "v", "TABLE t", trigger=SCHEDULE, if_not_exists=True
    ),
    "CREATE INCREMENTAL VIEW v TRIGGER MANUAL REFRESH POLICY INCREMENTAL AS FROM t": CreateView(
        "v", "FROM t", policy=Policy.INCREMENTAL, trigger=Trigger(TriggerKind.MANUAL)
    ),
    "CREATE INCREMENTAL SOURCE clicks (id INT, at TIMESTAMP) USING json OPTIONS (path '/in')": (
        CreateSource(
            "clicks",
            "json",
            (ColumnDefinition("id", "INT"), ColumnDefinition("at", "TIMESTAMP")),
            (("path", "/in"),),
        )
    ),
    "CREATE INCREMENTAL SOURCE s USING parquet CHANGES (OP op, DELETE WHEN 'd' OR 'D') KEY (a, b) "
    "SEQUENCE BY at ON ERROR QUARANTINE OPTIONS (path '/in', header = true)": CreateSource(
        "s",
        "parquet",
        options=(("path", "/in"), ("header", "true")),
        changes=Changes(ChangeKind.OPERATION, "op", ("d", "D")),
        key=("a", "b"),
        sequence_by="at",
        on_error=OnError.QUARANTINE,
    ),
    "CREATE INCREMENTAL SOURCE s USING csv CHANGES (WEIGHT w)": CreateSource(
        "s", "csv", changes=Changes(ChangeKind.WEIGHT, "w")
    ),
    "CREATE INCREMENTAL SOURCE s USING csv CHANGES (DELETES FROM '/out')": CreateSource(
        "s", "csv", changes=Changes(ChangeKind.DELETES, deletes_path="/out")
    ),
    "CREATE INCREMENTAL SOURCE s USING delta CHANGES (CHANGE FEED)": CreateSource(
        "s", "delta", changes=Changes(ChangeKind.FEED)
    ),
    "CREATE INCREMENTAL SOURCE s USING kafka CHANGES (DEBEZIUM)": CreateSource(
        "s", "kafka", changes=Changes(ChangeKind.DEBEZIUM)
    ),
    "DROP INCREMENTAL TABLE t": Drop(Kind.TABLE, "t"),
    "DROP INCREMENTAL VIEW IF EXISTS a.b CASCADE": Drop(Kind.VIEW, "a.b", True, True),
    "DROP INCREMENTAL SOURCE s RESTRICT;": Drop(Kind.SOURCE, "s"),
    "REFRESH INCREMENTAL VIEW v": Refresh("v"),
    "REFRESH INCREMENTAL VIEW v FULL": Refresh("v", True),
    "ALTER INCREMENTAL VIEW v SUSPEND": AlterView("v", Suspend()),
    "ALTER INCREMENTAL VIEW v RESUME": AlterView("v", Resume()),
    "ALTER INCREMENTAL VIEW v SET REFRESH POLICY FULL": AlterView("v", SetPolicy(Policy.FULL)),
    "ALTER INCREMENTAL VIEW v SET SCHEDULE EVERY 10 SECONDS": AlterView("v", SetTrigger(SCHEDULE)),
    "ALTER INCREMENTAL VIEW v SET TRIGGER ON UPDATE": AlterView("v", SetTrigger(Trigger())),
    "ALTER INCREMENTAL VIEW v SET TBLPROPERTIES (a='b')": AlterView(
        "v", SetProperties((("a", "b"),))
    ),
    "ALTER INCREMENTAL VIEW v RENAME TO w": AlterView("v", RenameTo("w")),
    "SHOW INCREMENTAL VIEWS": ShowViews(),
    "SHOW INCREMENTAL VIEWS LIKE 'rev*'": ShowViews("rev*"),
    "SHOW INCREMENTAL TABLES 'x'": ShowTables("x"),
    "SHOW INCREMENTAL SOURCES": ShowSources(),
    "SHOW CREATE INCREMENTAL VIEW v": ShowCreate(Kind.VIEW, "v"),
    "DESCRIBE INCREMENTAL VIEW v": Describe(Kind.VIEW, "v"),
    "DESC EXTENDED INCREMENTAL TABLE t": Describe(Kind.TABLE, "t", True),
    "DESCRIBE INCREMENTAL VIEW EXTENDED v": Describe(Kind.VIEW, "v", True),
    "DESCRIBE INCREMENTAL VIEW extended": Describe(Kind.VIEW, "extended"),
    "DESCRIBE HISTORY INCREMENTAL VIEW v": DescribeHistory("v"),
    "EXPLAIN INCREMENTAL VIEW v": Explain(ExplainMode.PLAIN, "v"),
    "EXPLAIN SQL INCREMENTAL VIEW v": Explain(ExplainMode.SQL, "v"),
    "EXPLAIN EXTENDED CREATE OR REPLACE INCREMENTAL VIEW v AS SELECT 1": ExplainCreate(
        ExplainMode.EXTENDED, CreateView("v", "SELECT 1", or_replace=True)
    ),
}


@pytest.mark.parametrize("text", READ)
def test_read(text: str) -> None:
    assert parse_statement(text) == READ[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   -- nothing",
        "/* not closed",
        ";",
        "SELECT 'CREATE INCREMENTAL VIEW v AS SELECT 1'",
        "-- CREATE INCREMENTAL VIEW v\nSELECT 1",
        "CREATE VIEW incremental AS SELECT 1",
        "CREATE TABLE t (incremental INT)",
        "`CREATE` INCREMENTAL VIEW v",
        "DESCRIBE incremental",
        "DESCRIBE EXTENDED incremental",
        "DESCRIBE incremental x",
        "REFRESH incremental",
        "REFRESH TABLE t",
        "SHOW CREATE TABLE incremental",
        "EXPLAIN SELECT * FROM incremental",
        "EXPLAIN CREATE TABLE t (a INT)",
        "EXPLAIN",
        "DROP TABLE incremental",
        "SELECT 'not closed",
        "\x00 ☃ ⊗ ) (",
        "INSERT INTO incremental VALUES (1)",
    ],
)
def test_other_sql_is_left_alone(text: str) -> None:
    assert parse_statement(text) is None


def condition_of(text: str) -> str | None:
    try:
        parse_statement(text)
    except IncrementalError as failure:
        return failure.condition if failure.position else "no place"
    return None


@given(st.text())
def test_any_text_is_left_alone(text: str) -> None:
    assert parse_statement(text) is None


@given(st.sampled_from(list(READ)), st.integers(0, 400), st.integers(0, 20), st.text(max_size=5))
def test_a_damaged_statement_is_read_or_refused_by_name(
    text: str, place: int, length: int, junk: str
) -> None:
    damaged = text[:place] + junk + text[place + length :]
    known = {None, "INCR_SYNTAX", "INCR_DUPLICATE_COLUMN", "INCR_RESERVED_NAME"}
    assert condition_of(damaged) in known


REFUSED: dict[str, tuple[str, Position, str]] = {
    "CREATE INCREMENTAL THING x": ("INCR_SYNTAX", Position(1, 20), "TABLE, VIEW or SOURCE"),
    "CREATE INCREMENTAL VIEW": ("INCR_SYNTAX", Position(1, 24), "the name of a view"),
    "CREATE INCREMENTAL VIEW v\n  SELECT 1": ("INCR_SYNTAX", Position(2, 3), "expected AS"),
    "CREATE INCREMENTAL VIEW v AS ;": ("INCR_SYNTAX", Position(1, 29), "a query"),
    "CREATE INCREMENTAL VIEW v AS SELECT 1; SELECT 2": (
        "INCR_SYNTAX",
        Position(1, 38),
        "the end of the statement",
    ),
    "CREATE INCREMENTAL VIEW v AS\nSELECT 'x": ("INCR_SYNTAX", Position(2, 8), "not closed"),
    "CREATE INCREMENTAL VIEW v AS SELECT 1 /* x": ("INCR_SYNTAX", Position(1, 39), "not closed"),
    "CREATE INCREMENTAL VIEW 'v' AS SELECT 1": ("INCR_SYNTAX", Position(1, 25), "found 'v'"),
    "CREATE INCREMENTAL VIEW v.é AS SELECT 1": ("INCR_SYNTAX", Position(1, 27), "the name"),
    "CREATE INCREMENTAL VIEW `` AS SELECT 1": ("INCR_SYNTAX", Position(1, 25), "the name"),
    "CREATE OR REPLACE INCREMENTAL VIEW IF NOT EXISTS v AS SELECT 1": (
        "INCR_SYNTAX",
        Position(1, 36),
        "exclude each other",
    ),
    "CREATE INCREMENTAL VIEW v COMMENT 'a' COMMENT 'b' AS SELECT 1": (
        "INCR_SYNTAX",
        Position(1, 39),
        "stated twice",
    ),
    "CREATE INCREMENTAL VIEW v MANUAL TRIGGER ON UPDATE AS SELECT 1": (
        "INCR_SYNTAX",
        Position(1, 34),
        "stated twice",
    ),
    "CREATE INCREMENTAL VIEW v REFRESH POLICY NEVER AS SELECT 1": (
        "INCR_SYNTAX",
        Position(1, 42),
        "INCREMENTAL, AUTO or FULL",
    ),
    "CREATE INCREMENTAL VIEW v SCHEDULE EVERY 0 DAYS AS SELECT 1": (
        "INCR_SYNTAX",
        Position(1, 42),
        "positive",
    ),
    "CREATE INCREMENTAL VIEW v SCHEDULE EVERY 2 MOONS AS SELECT 1": (
        "INCR_SYNTAX",
        Position(1, 44),
        "found MOONS",
    ),
    "CREATE INCREMENTAL VIEW v (a, A) AS SELECT 1, 2": (
        "INCR_DUPLICATE_COLUMN",
        Position(1, 31),
        "column A",
    ),
    "CREATE INCREMENTAL VIEW v (__INCR_w) AS SELECT 1": (
        "INCR_RESERVED_NAME",
        Position(1, 28),
        "__INCR_w",
    ),
    "CREATE INCREMENTAL VIEW x.__incr_v AS SELECT 1": (
        "INCR_RESERVED_NAME",
        Position(1, 27),
        "__incr_v",
    ),
    "CREATE INCREMENTAL TABLE t AS SELECT 1": ("INCR_SYNTAX", Position(1, 28), "expected ("),
    "CREATE INCREMENTAL TABLE t (": ("INCR_SYNTAX", Position(1, 29), "a column"),
    "CREATE INCREMENTAL TABLE t ()": ("INCR_SYNTAX", Position(1, 29), "a column"),
    "CREATE INCREMENTAL TABLE t (a)": ("INCR_SYNTAX", Position(1, 30), "a type"),
    "CREATE INCREMENTAL TABLE t (a INT b INT": ("INCR_SYNTAX", Position(1, 40), "or )"),
    "CREATE INCREMENTAL TABLE t (a INT GENERATED)": ("INCR_SYNTAX", Position(1, 35), "DEFAULT"),
    "CREATE INCREMENTAL TABLE t (a INT CHECK (a > 0))": ("INCR_SYNTAX", Position(1, 35), "CHECK"),
    "CREATE INCREMENTAL TABLE t (a INT UNIQUE)": ("INCR_SYNTAX", Position(1, 35), "UNIQUE"),
    "CREATE INCREMENTAL TABLE t (a INT DEFAULT, b INT)": (
        "INCR_SYNTAX",
        Position(1, 42),
        "an expression",
    ),
    "CREATE INCREMENTAL TABLE t (a INT DEFAULT 1 DEFAULT 2)": (
        "INCR_SYNTAX",
        Position(1, 45),
        "DEFAULT is stated twice",
    ),
    "CREATE INCREMENTAL SOURCE s (a INT DEFAULT 1) USING json": (
        "INCR_SYNTAX",
        Position(1, 36),
        "expected NOT NULL, PRIMARY KEY",
    ),
    "CREATE INCREMENTAL TABLE t (a ARRAY<INT, b INT)": ("INCR_SYNTAX", Position(1, 48), "or )"),
    "CREATE INCREMENTAL TABLE t (a INT, a INT)": (
        "INCR_DUPLICATE_COLUMN",
        Position(1, 36),
        "column a",
    ),
    "CREATE INCREMENTAL TABLE t (a INT, PRIMARY KEY (b))": (
        "INCR_SYNTAX",
        Position(1, 49),
        "not a column",
    ),
    "CREATE INCREMENTAL TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))": (
        "INCR_SYNTAX",
        Position(1, 48),
        "stated twice",
    ),
    "CREATE INCREMENTAL TABLE t (a INT, PRIMARY KEY (a, A))": (
        "INCR_DUPLICATE_COLUMN",
        Position(1, 52),
        "column A",
    ),
    "CREATE INCREMENTAL TABLE t (PRIMARY KEY (a))": ("INCR_SYNTAX", Position(1, 45), "one column"),
    "CREATE INCREMENTAL TABLE t (a INT) LOCATION 'x'": (
        "INCR_SYNTAX",
        Position(1, 36),
        "found LOCATION",
    ),
    "CREATE INCREMENTAL TABLE t (a INT) TBLPROPERTIES (a = b)": (
        "INCR_SYNTAX",
        Position(1, 55),
        "a string",
    ),
    "CREATE INCREMENTAL TABLE t (a INT) TBLPROPERTIES (a = 1, 'a' = 2)": (
        "INCR_SYNTAX",
        Position(1, 58),
        "stated twice",
    ),
    "CREATE INCREMENTAL SOURCE s OPTIONS (a 'b')": ("INCR_SYNTAX", Position(1, 29), "USING"),
    "CREATE INCREMENTAL SOURCE s USING csv CHANGES (MAGIC)": (
        "INCR_SYNTAX",
        Position(1, 48),
        "DEBEZIUM",
    ),
    "CREATE INCREMENTAL SOURCE s (a INT PRIMARY KEY) USING csv KEY (a)": (
        "INCR_SYNTAX",
        Position(1, 59),
        "stated twice",
    ),
    "ALTER INCREMENTAL VIEW v": ("INCR_SYNTAX", Position(1, 25), "SUSPEND"),
    "ALTER INCREMENTAL VIEW v SET x": ("INCR_SYNTAX", Position(1, 30), "REFRESH POLICY"),
    "ALTER INCREMENTAL VIEW v RENAME TO __incr_x": (
        "INCR_RESERVED_NAME",
        Position(1, 36),
        "__incr_x",
    ),
    "EXPLAIN CREATE INCREMENTAL TABLE t (a INT)": ("INCR_SYNTAX", Position(1, 9), "only"),
    "SHOW INCREMENTAL THINGS": ("INCR_SYNTAX", Position(1, 18), "VIEWS, TABLES or SOURCES"),
    "DROP INCREMENTAL VIEW v now": ("INCR_SYNTAX", Position(1, 25), "the end"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_with_a_place_and_a_reason(text: str) -> None:
    condition, position, words = REFUSED[text]
    with pytest.raises(IncrementalError) as failure:
        parse_statement(text)
    assert failure.value.condition == condition
    assert failure.value.position == position
    assert words in failure.value.message


def test_the_place_of_the_query_is_kept() -> None:
    text = "-- a\nCREATE INCREMENTAL VIEW v\nAS -- b\n  /* c */ SELECT 1"
    statement = parse_statement(text)
    assert isinstance(statement, CreateView)
    assert statement.body_position == Position(4, 11)
    line = text.split("\n")[statement.body_position.line - 1]
    assert line[statement.body_position.column - 1 :] == "SELECT 1"


identifiers = st.one_of(
    st.sampled_from(["id", "x_1", "select", "primary", "key", "comment", "1a", "10", "not", "as"]),
    st.text(min_size=1, max_size=8).filter(lambda s: not s.lower().startswith("__incr_")),
)
names = st.lists(identifiers, min_size=1, max_size=3).map(join_name)
texts = st.one_of(
    st.none(), st.text(max_size=12), st.sampled_from(["it's", "a\\", "\\n", '"', ";"])
)
pairs = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3).map(
    lambda found: tuple(found.items())
)
types = st.sampled_from(
    [
        "BIGINT",
        "decimal(10, 2)",
        "INTERVAL DAY TO SECOND",
        "MAP<STRING,STRUCT<>>",
        "STRUCT<a: INT, b: ARRAY<STRING>>",
        "STRUCT<`a>b`: INT NOT NULL COMMENT '(<', c: DATE>",
    ]
)
definitions = st.lists(
    st.builds(ColumnDefinition, identifiers, types, st.booleans(), texts),
    min_size=1,
    max_size=4,
    unique_by=lambda column: column.name.lower(),
).map(tuple)
existence = st.sampled_from(
    [
        {"if_not_exists": False, "or_replace": False},
        {"if_not_exists": True, "or_replace": False},
        {"if_not_exists": False, "or_replace": True},
    ]
)
triggers = st.one_of(
    st.sampled_from([Trigger(), Trigger(TriggerKind.MANUAL)]),
    st.builds(Trigger, st.just(TriggerKind.SCHEDULE), st.integers(1, 99), st.sampled_from(Unit)),
)
changes = st.one_of(
    st.sampled_from([Changes(), Changes(ChangeKind.FEED), Changes(ChangeKind.DEBEZIUM)]),
    st.builds(
        Changes,
        st.just(ChangeKind.OPERATION),
        identifiers,
        st.lists(st.text(max_size=3), min_size=1, max_size=3).map(tuple),
    ),
    st.builds(Changes, st.just(ChangeKind.WEIGHT), identifiers),
    st.builds(Changes, st.just(ChangeKind.DELETES), deletes_path=st.text(max_size=9)),
)


@st.composite
def creates(draw: st.DrawFn) -> Create:
    shared = {
        **draw(existence),
        "name": draw(names),
        "comment": draw(texts),
        "properties": draw(pairs),
    }
    kind = draw(st.sampled_from(Kind))
    if kind is Kind.TABLE:
        columns = draw(definitions)
        key = draw(st.permutations([column.name for column in columns]))
        size = draw(st.integers(0, len(key)))
        return CreateTable(columns=columns, primary_key=tuple(key[:size]), **shared)
    if kind is Kind.VIEW:
        return CreateView(
            query_text=draw(
                st.sampled_from(["SELECT 1", "WITH a AS (TABLE `;`)\nFROM a -- ;\n, b"])
            ),
            columns=draw(
                st.lists(
                    st.builds(ColumnName, identifiers, texts),
                    max_size=3,
                    unique_by=lambda column: column.name.lower(),
                ).map(tuple)
            ),
            policy=draw(st.sampled_from(Policy)),
            trigger=draw(triggers),
            **shared,
        )
    return CreateSource(
        format=draw(names),
        columns=draw(st.one_of(st.just(()), definitions)),
        options=draw(pairs),
        changes=draw(changes),
        key=tuple(draw(st.lists(identifiers, max_size=2))),
        sequence_by=draw(st.one_of(st.none(), identifiers)),
        on_error=draw(st.sampled_from(OnError)),
        **shared,
    )


@given(creates())
def test_what_is_printed_is_read_back_equal(statement: Create) -> None:
    printed = show_create(statement)
    assert parse_statement(printed) == statement
    assert [part.text for part in split_statements(printed + ";")] == [printed]


@given(st.lists(st.sampled_from(["/* ", " */", "-- ", "\n", " ", "x"])).map("".join))
def test_blanks_end_where_the_first_token_begins(text: str) -> None:
    try:
        tokens = tokenize(text)
    except IncrementalError:
        reject()
    assert skip_blanks(text, 0) == (tokens[0].start if tokens else len(text))


@given(st.lists(st.text(min_size=1), min_size=1))
def test_the_parts_of_a_name_are_kept(parts: list[str]) -> None:
    name = join_name(parts)
    assert name_parts(name) == tuple(parts)
    statement = parse_statement(f"DROP INCREMENTAL VIEW {quote_name(name)}")
    assert statement == Drop(Kind.VIEW, name)


def test_a_script_is_split_outside_of_strings_names_and_comments() -> None:
    script = "-- one;\nSELECT ';' AS `;`; ;\n/* ; */ SELECT\n  2 -- ;\n;SELECT \"a;b\""
    first, second, third = split_statements(script)
    assert first.text == "SELECT ';' AS `;`"
    assert second.text == "SELECT\n  2"
    assert third.text == 'SELECT "a;b"'
    assert (first.position, second.position) == (Position(2, 1), Position(3, 9))
    assert second.in_script(Position(1, 3)) == Position(3, 11)
    assert second.in_script(Position(2, 3)) == Position(4, 3)


def test_a_script_with_an_open_string_is_refused_at_its_place() -> None:
    with pytest.raises(IncrementalError) as failure:
        split_statements("SELECT 1;\nSELECT 'a")
    assert failure.value.position == Position(2, 8)


@pytest.mark.parametrize(
    ("script", "complete"),
    [("", True), ("SELECT 1", False), ("SELECT 1;", True), ("SELECT '", False), ("/* ;", False)],
)
def test_a_script_is_complete_when_its_last_statement_is_closed(
    script: str, complete: bool
) -> None:
    assert is_complete(script) is complete
