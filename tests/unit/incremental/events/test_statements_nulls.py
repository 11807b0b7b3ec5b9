"""Nulls in statements are those of SQL, whatever they count as where they are published: sqlite answers the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import StoredTable
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.statements import columns_of, parse_assignments, parse_condition
from streamer.incremental.store.codec import decode_record, encode_record
from streamer.table.codes import KeptColumn, NumericAttribute, SourceText
from streamer.table.encode import Encoder, Fields
from worlds.dates import temporal
from worlds.engine_tables import FoldedTable
from worlds.small_tables import BMI, CITIES, CITY, table

AGE = NumericAttribute("age", (Decimal(-1), Decimal(12)), Decimal(3), Decimal(1), Decimal(1), null_code=0)
DOSE = NumericAttribute(
    "dose", (Decimal(0), Decimal(4)), Decimal(1), Decimal("0.25"), Decimal(1), integer=False, null_code=2
)
BORN = replace(temporal("born", "1980-01-01", "1981-06-15", "1 month"), null_code=0)
TOWN = replace(CITY, name="town", null_code=CITIES.code_of["d1"])
KEPT = (
    KeptColumn("problem", sensitive=True, type="text"),
    KeptColumn("visits", sensitive=False, type="integer"),
    KeptColumn("met", sensitive=False, type="date"),
)
PEOPLE = replace(table(AGE, DOSE, replace(BMI, null_code=0), TOWN, BORN, k=100), kept=KEPT)
ENCODER = Encoder(PEOPLE)

ANN: dict[str, object] = {
    "age": 5, "dose": Decimal("1.5"), "bmi": Decimal("11.25"), "town": "b1", "born": "1980-05-17", "problem": "flu",
    "visits": 3, "met": "2024-01-31",
}  # fmt: skip
NAMES = [*ANN]

Everybody = list[dict[str, object]]


def with_nulls(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values | values


# What nulls count as is among the values: -1, 0.5, 10, d1 and the first of January.
FIELDS = st.fixed_dictionaries(
    {
        "age": with_nulls(st.integers(-1, 12)),
        "dose": with_nulls(st.integers(0, 16).map(lambda quarters: Decimal(quarters) / 4)),
        "bmi": with_nulls(st.integers(40, 50).map(lambda quarters: Decimal(quarters) / 4)),
        "town": with_nulls(st.sampled_from(CITIES.leaves)),
        "born": with_nulls(st.sampled_from(["1980-01-01", "1980-01-02", "1980-05-17", "1981-06-15"])),
        "problem": with_nulls(st.sampled_from(["flu", "b1", ""])),
        "visits": with_nulls(st.integers(-3, 12)),
        "met": with_nulls(st.sampled_from(["1980-01-01", "2024-01-31"])),
    }
)
NUMBERS, MOMENTS, TEXTS = ["age", "dose", "bmi", "visits"], ["born", "met"], ["town", "problem"]
ORDERS = st.sampled_from(["=", "<", "<=", ">", ">="])


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    """A comparison that is one of SQL's, too."""
    test, number = draw(ORDERS), draw(st.integers(-12, 56)) / 4
    match draw(st.sampled_from(["null", "number", "numbers", "moment", "moments", "text", "texts"])):
        case "null":
            return f"{draw(st.sampled_from(NAMES))} is {draw(st.sampled_from(['', 'not ']))}null"
        case "number":
            return f"{draw(st.sampled_from(NUMBERS))} {test} {number}"
        case "numbers":
            left, right = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(NUMBERS))
            return f"{left} {test} {right} {'-' if number < 0 else '+'} {abs(number)}"
        case "moment":
            return f"{draw(st.sampled_from(MOMENTS))} {test} '{draw(st.sampled_from(['1980-01-01', '1980-05-17']))}'"
        case "moments":
            return f"born {test} met"
        case "text":
            return f"{draw(st.sampled_from(TEXTS))} = '{draw(st.sampled_from(['b1', 'd1']))}'"
        case _:
            return "town = problem"


CONDITIONS = st.lists(comparisons(), min_size=1, max_size=3).map(" and ".join)


def sqlite_of(people: Sequence[Fields]) -> sqlite3.Connection:
    """The table as it is at its source."""
    database = sqlite3.connect(":memory:")
    database.execute(f"create table people (id, {', '.join(NAMES)})")
    values = [[float(x) if isinstance(x, Decimal) else x for x in (one[name] for name in NAMES)] for one in people]
    marks = ", ".join("?" * (1 + len(NAMES)))
    database.executemany(f"insert into people values ({marks})", [(i, *row) for i, row in enumerate(values)])
    return database


def engine_of(people: Sequence[Fields]) -> Engine:
    engine, decoder = Engine(PEOPLE), Decoder(PEOPLE)
    encode = msgspec.json.Encoder(decimal_format="number").encode
    for i, fields in enumerate(people):
        engine.apply(decoder.decode(None, encode({"op": "insert", "row": {"id": i, **fields}})))
    return engine


def statement(engine: Engine, **said: object) -> None:
    engine.apply(Decoder(PEOPLE).decode(None, msgspec.json.encode(said)))


def stored_and_loaded(engine: Engine) -> Engine:
    """The same table by way of the bytes of a store."""
    kept = FoldedTable()
    kept.fold(engine.drain())
    table_ = kept.kept_table()
    records = [(key, decode_record(encode_record(record))) for key, record in table_.records]
    loaded = StoredTable(table_.qi_group_next, records, table_.qi_groups, table_.similarity, ())
    return Engine.load(PEOPLE, 0, 1, loaded)


def said_by(engine: Engine) -> dict[str, list[object]]:
    """What a statement reads of every row, by source key; numbers as sqlite has them."""
    rows = {key: record.row for key, record in engine.drain().records.items() if record is not None}
    read = [columns_of(PEOPLE)[name].of_row for name in NAMES]
    plain = {key: [value(row) for value in read] for key, row in rows.items()}
    return {key: [_plain(value) for value in values] for key, values in plain.items()}


def _plain(value: Any) -> object:
    text = getattr(value, "text", None)
    return text if text is not None else float(value) if value is not None and not isinstance(value, str) else value


def said_by_sqlite(database: sqlite3.Connection) -> dict[str, list[object]]:
    rows = database.execute(f"select id, {', '.join(NAMES)} from people").fetchall()
    return {str(key): [float(x) if isinstance(x, int) else x for x in values] for key, *values in rows}


@given(st.lists(FIELDS, max_size=12), CONDITIONS)
def test_a_deletion_takes_the_rows_that_sql_would_take(people: Everybody, where: str) -> None:
    live = engine_of(people)
    loaded = stored_and_loaded(engine_of(people))
    for engine in (live, loaded):
        statement(engine, op="delete", where=where)
    with closing(sqlite_of(people)) as database:
        database.execute(f"delete from people where {where}")
        left = {str(key) for (key,) in database.execute("select id from people")}
    assert {key for key, _ in live.index_table()} == left
    assert {key for key, _ in loaded.index_table()} == left


EXPRESSIONS = {
    "age": st.sampled_from(["age + 1", "visits", "age + visits - 2", "age * 1", "null", "3", "-1"]),
    "dose": st.sampled_from(["dose", "dose + 0.25", "null", "0.5"]),
    "bmi": st.sampled_from(["bmi", "null", "10", "12.25"]),
    "town": st.sampled_from(["town", "'a1'", "'d1'", "null"]),
    "born": st.sampled_from(["born", "'1980-02-03'", "null"]),
    "visits": st.sampled_from(["visits + age", "age - dose * 4", "null", "7"]),
    "problem": st.sampled_from(["town", "problem", "'ulcer'", "null"]),
    "met": st.sampled_from(["born", "null"]),
}
ASSIGNED = st.sets(st.sampled_from(NAMES), min_size=1, max_size=3).flatmap(
    lambda names: st.fixed_dictionaries({name: EXPRESSIONS[name] for name in sorted(names)})
)
IN_DOMAIN = {"age": "between -1 and 12", "dose": "between 0 and 4"}


@given(st.lists(FIELDS, max_size=8), CONDITIONS, ASSIGNED)
def test_a_modification_gives_what_sql_would_give(people: Everybody, where: str, set_: dict[str, str]) -> None:
    """Where a value is none of its column, the row stays as it is."""
    live = engine_of(people)
    statement(live, op="modify", where=where, set=set_)
    takes = [f"({text} is null or {text} {IN_DOMAIN[name]})" for name, text in set_.items() if name in IN_DOMAIN]
    with closing(sqlite_of(people)) as database:
        assigned = ", ".join(f"{name} = {text}" for name, text in set_.items())
        database.execute(f"update people set {assigned} where {' and '.join([where, *takes])}")
        assert said_by(live) == said_by_sqlite(database)


def holds(text: str, **changed: object) -> bool:
    engine = engine_of([{**ANN, **changed}])
    statement(engine, op="delete", where=text)
    return engine.n_rows == 0


@pytest.mark.parametrize("name", NAMES)
def test_is_null_tells_a_null_from_the_value_that_it_counts_as(name: str) -> None:
    counts_as = {"age": -1, "dose": Decimal("0.5"), "bmi": Decimal(10), "town": "d1", "born": "1980-01-01"}
    for said in (ANN[name], counts_as.get(name, ANN[name])):
        assert holds(f"{name} is not null", **{name: said}) and not holds(f"{name} is null", **{name: said})
    assert holds(f"{name} IS NULL", **{name: None}) and not holds(f"{name} Is Not Null", **{name: None})


@pytest.mark.parametrize("where", ["age < 18", "age = -1", "age >= -1", "age = age", "dose = dose + 0", "age < visits"])
def test_a_comparison_with_an_unknown_number_matches_no_row(where: str) -> None:
    assert holds(where.replace("age < visits", "age > visits"), dose=Decimal("0.5"), age=-1 if "-1" in where else 5)
    assert not holds(where, age=None, dose=None)


def test_arithmetic_with_an_unknown_number_leaves_it_unknown() -> None:
    row = ENCODER.row({"id": 1, **ANN, "age": None})
    later = parse_assignments({"age": "age + 10", "visits": "visits + age"}, PEOPLE).applied_to(row)
    assert (later.nulls, later.codes, later.values[1]) == (row.nulls, row.codes, b"null")


def test_a_null_that_is_given_a_value_is_none_any_more_and_the_other_way_round() -> None:
    row = ENCODER.row({"id": 1, **ANN, "age": None})
    known = parse_assignments({"age": "-1"}, PEOPLE).applied_to(row)
    assert (known.codes, known.nulls) == (row.codes, ())
    assert parse_assignments({"age": "null"}, PEOPLE).applied_to(known) == row


def test_a_row_change_says_what_is_null_as_a_statement_does() -> None:
    engine = engine_of([ANN])
    statement(engine, op="modify", key=0, row={"age": None, "dose": None})
    statement(engine, op="modify", key=0, row={"dose": 0.5})
    (record,) = engine.drain().records.values()
    assert record is not None and record.row == ENCODER.row({**ANN, "id": 0, "age": None, "dose": Decimal("0.5")})


def test_a_column_that_takes_no_nulls_is_never_null_and_is_not_set_to_one() -> None:
    strict = replace(PEOPLE, attributes=(replace(AGE, null_code=None), *PEOPLE.attributes[1:]))
    with pytest.raises(EventRefused, match="is null; give a value"):
        parse_assignments({"age": "null"}, strict)
    assert parse_condition("age is not null", strict).columns == {"age"}


# -- words ------------------------------------------------------------------------------------------------------------

MESSY = replace(
    PEOPLE,
    source_texts=(
        SourceText("age", ("?",)),
        SourceText("bmi", (), "1.234,5"),
        SourceText("town", ("?",)),
        SourceText("born", ("?",), "DD.MM.YYYY"),
        SourceText("problem", ("?", "N/A")),
    ),
)


OF_MESSY: list[tuple[dict[str, str], dict[str, object]]] = [
    ({"town": "'?'"}, {"town": None}),
    ({"age": "'?'"}, {"age": None}),
    ({"age": "'7'"}, {"age": 7}),
    ({"bmi": "'11,5'"}, {"bmi": Decimal("11.5")}),
    ({"born": "'17.06.1980'"}, {"born": "1980-06-17"}),
    ({"born": "'1980-06-17'"}, {"born": "1980-06-17"}),
    ({"born": "'?'", "problem": "'N/A'"}, {"born": None, "problem": None}),
]


@pytest.mark.parametrize(("texts", "meant"), OF_MESSY)
def test_a_text_is_set_to_what_it_means_in_a_row(texts: dict[str, str], meant: dict[str, object]) -> None:
    row = ENCODER.row({"id": 1, **ANN})
    assert parse_assignments(texts, MESSY).applied_to(row) == ENCODER.row({"id": 1, **ANN, **meant})


@pytest.mark.parametrize("where", ["born < '18.05.1980' and born > '1980-05-16'", "bmi = '11,25'", "problem = 'flu'"])
def test_a_text_is_compared_as_what_it_means_in_a_row(where: str) -> None:
    engine = Engine(MESSY)
    engine.apply(Decoder(PEOPLE).decode(None, msgspec.json.encode({"op": "insert", "row": {"id": 1, **ANN}})))
    engine.apply(Decoder(MESSY).decode(None, msgspec.json.encode({"op": "delete", "where": where})))
    assert engine.n_rows == 0


@pytest.mark.parametrize("where", ["town = '?'", "born < '?'", "problem = 'N/A'", "age = '?'"])
def test_a_word_for_null_is_compared_with_nothing(where: str) -> None:
    with pytest.raises(EventRefused, match="compared with a word for null, which no value equals: write `is null`"):
        parse_condition(where, MESSY)
