"""A value of a person means one thing, by whichever door it comes: a CSV file, a DataFrame of objects or of its own
types, a plain message, one that Debezium captured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pandas as pd
import pytest

from streamer.errors import ConfigError, EventRefused
from streamer.incremental.events.changes import Insert, Upsert
from streamer.incremental.events.decoder import Decoder
from streamer.table.codes import LOCAL_TIMESTAMP, TIMESTAMP, Attribute, KeptColumn, NumericAttribute, SourceText
from streamer.table.data_warnings import refused_rows
from streamer.table.encode import Encoder
from streamer.table.schema import Table
from streamer.table.sources import read_rows
from worlds.dates import temporal
from worlds.small_tables import BMI, CITY

D = Decimal
NULL = "null-not-allowed"

_to_json = msgspec.json.Encoder(decimal_format="number").encode

AGE = NumericAttribute("x", (D(0), D(999)), D(5), D(1), D(200))
SIZE = NumericAttribute("x", (D(0), D(9)), D("0.5"), D("0.5"), D(2), integer=False)
KINDS: dict[str, Attribute | KeptColumn] = {
    "integer": AGE,
    "stepped decimal": SIZE,
    "decimal": replace(BMI, name="x"),
    "date": temporal("x", "1900-01-01", "2029-12-31", "1 month"),
    "timestamp": temporal("x", "2024-01-01", "2025-01-01", "1 day", TIMESTAMP),
    "local-timestamp": temporal("x", "2024-01-01", "2025-01-01", "1 day", LOCAL_TIMESTAMP),
    "category": replace(CITY, name="x"),
    **{f"kept {type_}": KeptColumn("x", True, type_) for type_ in ("text", "integer", "decimal", "boolean", "date")},
    "kept anything": KeptColumn("x", True),
}
CODES = replace(
    CITY, name="x", hierarchy=type(CITY.hierarchy).from_rows([["1", "low", "*"], ["2", "low", "*"], ["true", "*"]])
)
KINDS["category of digits"] = CODES


def of(kind: str, na: tuple[str, ...] = (), written: str | None = None) -> Table:
    """A table of one column of this kind, named x, whose texts are written so."""
    column = KINDS[kind]
    attributes, kept = ((), (column,)) if isinstance(column, KeptColumn) else ((column,), ())
    texts = (SourceText("x", na, written),) if na or written else ()
    return Table("people", ("id",), attributes, kept, k=2, source_texts=texts, decimals_are_text=True)


Case = tuple[Table, str, Any, tuple[Any, ...], object]
"""A table; a CSV cell; what a message says in its place; the same as typed values; what it must mean."""

SERIES = pd.Series
CASES: dict[str, Case] = {
    "a whole number": (of("integer"), "34", 34, (34, 34.0, D("34.00"), np.int8(34), SERIES([34], dtype="Int64")), 34),
    "a whole number as a text": (of("integer", ("?",)), "34", "34", ("34", SERIES(["34"], dtype="string")), 34),
    "no whole number": (of("integer"), "34.5", D("34.5"), (34.5, SERIES([34.5], dtype="Float64")), "wrong-type"),
    "an age in words": (of("integer"), "34 years", "34 years", ("34 years",), "wrong-type"),
    "a boolean for a number": (of("integer"), "true", True, (True, np.True_), "wrong-type"),
    "nothing for a number": (of("integer"), "", None, (None, np.nan, pd.NA, pd.NaT, D("NaN")), NULL),
    "a word for a number": (of("integer", ("?",)), "?", "?", ("?", SERIES(["?"], dtype="category")), NULL),
    "a number that is a word": (of("integer", ("999",)), "999", 999, (999, 999.0, D("999.0"), np.int16(999)), NULL),
    "such a number in other digits": (of("integer", ("999",)), "999.0", D("999.0"), (999.0, "999.0"), NULL),
    "such a number among codes": (of("integer", ("007",), "digits"), "007", 7, (7, "7"), NULL),
    "another number than the word": (of("integer", ("-1",)), "1", 1, (1, True + 0), 1),
    "a number with thousands": (of("integer", (), "1.234,5"), "9", 9, (9, 9.0), 9),
    "such a word with thousands": (of("decimal", ("1.234",), "1.234,5"), "1.234", 1234, (1234, 1234.0), NULL),
    "no number written so": (of("decimal", (), "1.234,5"), "11.5", "11.5", ("11.5",), "wrong-type"),
    "a number beside its step": (of("stepped decimal"), "0.3", D("0.3"), (0.3, np.float32(0.3)), "off-the-step"),
    "a decimal that is a word": (of("decimal", ("11.5",)), "11.50", D("11.5"), (11.5, D("11.500")), NULL),
    "a number beyond": (of("decimal"), "1e9", 10**9, (1e9, 10**9), "out-of-domain"),
    "no number at all": (of("decimal"), "inf", "inf", (np.inf,), "wrong-type"),
    "a date": (
        of("date"),
        "1980-02-29",
        "1980-02-29",
        (date(1980, 2, 29), datetime(1980, 2, 29), pd.Timestamp("1980-02-29"), np.datetime64("1980-02-29")),
        None,
    ),
    "a date of people": (of("date", (), "DD.MM.YYYY"), "29.2.1980", "29.2.1980", (date(1980, 2, 29),), None),
    "a date that is a word": (
        of("date", ("01.01.1900",), "DD.MM.YYYY"),
        "01.01.1900",
        "1900-01-01",
        (date(1900, 1, 1), pd.Timestamp("1900-01-01"), SERIES([datetime(1900, 1, 1)]), "1.1.1900"),
        NULL,
    ),
    "no date": (of("date", ("?",), "DD.MM.YYYY"), "31.02.1980", "31.02.1980", ("31.02.1980",), "wrong-type"),
    "no date in a DataFrame": (of("date"), "", None, (pd.NaT, SERIES([pd.NaT], dtype="datetime64[ns]")), NULL),
    "an instant": (
        of("timestamp"),
        "2024-02-29T08:00:00Z",
        "2024-02-29T08:00:00Z",
        (datetime(2024, 2, 29, 8, tzinfo=UTC), pd.Timestamp("2024-02-29 09:00", tz="Europe/Berlin")),
        None,
    ),
    "an instant that is a word": (
        of("timestamp", ("2024-02-29T08:00:00Z",)),
        "2024-02-29 09:00:00+01:00",
        "2024-02-29T08:00:00Z",
        (datetime(2024, 2, 29, 8, tzinfo=UTC),),
        NULL,
    ),
    "an instant without its offset": (
        of("timestamp"), "2024-02-29T08:00:00", "2024-02-29T08:00:00", (datetime(2024, 2, 29, 8),), "wrong-type",
    ),
    "a clock's time that is a word": (
        of("local-timestamp", ("2024-01-01 00:00:00",)),
        "2024-01-01 00:00:00",
        "2024-01-01T00:00:00",
        (datetime(2024, 1, 1), SERIES([pd.Timestamp("2024-01-01")])),
        NULL,
    ),
    "a category": (of("category"), "b1", "b1", ("b1", SERIES(["b1"], dtype="category")), None),
    "a category that is no leaf": (of("category"), "zz", "zz", ("zz",), "unknown-category"),
    "a digit that is a category": (of("category of digits"), "2", 2, (2, 2.0, D("2.0"), SERIES([2], dtype="Int8")), 1),
    "a boolean that is a category": (of("category of digits"), "true", True, (True, SERIES([True])), 2),
    "a digit that is a word": (of("category of digits", ("9",)), "9", 9, (9, 9.0, SERIES([9], dtype="category")), NULL),
    "a kept whole number": (of("kept integer"), "7", 7, (7, 7.0), b"7"),
    "a kept number that is a word": (of("kept integer", ("-9",)), "-9", -9, (-9, -9.0, SERIES([-9])), b"null"),
    "a kept decimal": (of("kept decimal"), "7.50", D("7.50"), (7.5, D("7.5")), b"7.5"),
    "a kept boolean": (of("kept boolean"), "true", True, (True, np.True_, SERIES([True], dtype="boolean")), b"true"),
    "a boolean's text beside words": (of("kept boolean", ("?",)), "false", "false", ("false", False), b"false"),
    "no boolean": (of("kept boolean", ("?",)), "perhaps", "perhaps", ("perhaps",), "wrong-type"),
    "a number for a boolean": (of("kept boolean"), "2", 2, (2, 2.0), "wrong-type"),
    "a boolean of pandas": (of("kept boolean"), "True", "True", ("True", True), b"true"),
    "a boolean of Excel": (of("kept boolean"), "FALSE", "FALSE", ("FALSE", False), b"false"),
    "a boolean of a German Excel": (of("kept boolean"), "WAHR", "WAHR", ("WAHR", True), b"true"),
    "a boolean of PostgreSQL": (of("kept boolean", ("?",)), "t", "t", ("t", True), b"true"),
    "a boolean as a digit": (of("kept boolean"), "1", 1, (1, 1.0, np.int8(1), D(1), True), b"true"),
    "a boolean beside nulls": (of("kept boolean"), "0.0", D("0.0"), (0.0, "0.0", False), b"false"),
    "a boolean that is a word": (of("kept boolean", ("0",)), "0", "0", ("0", 0), b"null"),
    "a boolean beside such a word": (of("kept boolean", ("0",)), "false", False, ("false", False), b"false"),
    "a word for a boolean": (of("kept boolean", ("?",)), "?", "?", ("?",), b"null"),
    "a kept date": (of("kept date"), "1980-02-29", "1980-02-29", (date(1980, 2, 29),), b'"1980-02-29"'),
    "a kept date that is a word": (
        of("kept date", ("9999-12-31",)), "9999-12-31", "9999-12-31", (date(9999, 12, 31),), b"null",
    ),
    "a kept text": (of("kept text"), "flu", "flu", ("flu", SERIES(["flu"], dtype="string")), b'"flu"'),
    "a name of 128 bits": (of("kept text"), str(UUID(int=7)), str(UUID(int=7)), (UUID(int=7),), None),
    "a number among words of any value": (of("kept anything", ("9",)), "9", 9, (9, 9.0), b"null"),
}  # fmt: skip


def by_frame(table: Table, column: Any) -> object:
    """The code or text of the one row of a DataFrame, or why it is refused."""
    frame = pd.DataFrame({"id": ["1"], "x": column})
    try:
        row = Encoder(table).frame(frame).rows()[0]
    except ConfigError as error:
        assert str(error).startswith("data row 1: column 'x'"), error
        reason = str(error).rpartition("(")[2].rstrip(")")
        assert [refused.reason for refused in refused_rows(table, frame)] == [reason]
        return reason
    assert refused_rows(table, frame) == []
    return row


def by_message(table: Table, message: dict[str, object]) -> object:
    try:
        change = Decoder(table).decode(None, _to_json(message))
    except EventRefused as refused:
        assert refused.column == "x"
        return refused.reason
    assert isinstance(change, Insert | Upsert)
    return change.row


def meanings(case: Case, folder: Path) -> Iterator[tuple[str, object]]:
    table, cell, said, typed, _ = case
    (folder / "rows.csv").write_text(f'id,x\n1,"{cell}"\n')
    yield "a file", by_frame(table, read_rows(folder / "rows.csv")["x"].tolist())
    for value in typed:
        if isinstance(value, pd.Series):
            yield f"a column of {value.dtype}", by_frame(table, value)
            continue
        yield f"an object {value!r}", by_frame(table, SERIES([value], dtype=object))
        yield f"a column of its type {value!r}", by_frame(table, SERIES([value]))
    row = {"id": 1, "x": said}
    yield "a plain message", by_message(table, {"op": "insert", "row": row})
    yield "a captured message", by_message(table, {"op": "c", "after": row})


@pytest.mark.parametrize("named", CASES)
def test_a_value_means_the_same_or_is_refused_for_the_same_reason_by_every_door(named: str, tmp_path: Path) -> None:
    found = list(meanings(CASES[named], tmp_path))
    expected, first = CASES[named][-1], found[0][1]
    assert [door for door, meant in found if meant != first] == []
    if expected is not None:
        plain = first if isinstance(first, str) else first.values[0] if first.values else first.codes[0]  # type: ignore[attr-defined]
        assert plain == expected


@pytest.mark.parametrize("value", [b"flu", ("flu",), pd.Timedelta("1h"), pd.Interval(1, 2), 1j])
@pytest.mark.parametrize("kind", ["kept anything", "kept text", "category", "integer", "date"])
def test_what_no_cell_of_a_file_could_hold_is_refused_as_a_list_in_a_message_is(kind: str, value: object) -> None:
    assert by_frame(of(kind), SERIES([value], dtype=object)) == "wrong-type"
    assert by_message(of(kind), {"op": "insert", "row": {"id": 1, "x": [1]}}) == "wrong-type"


@pytest.mark.parametrize("kind", ["kept integer", "integer"])
@pytest.mark.parametrize("cells", [[True, 1], [1, True], [0, 1, False]])
def test_true_and_one_in_one_column_are_not_taken_for_each_other(kind: str, cells: list[object]) -> None:
    frame = pd.DataFrame({"id": range(len(cells)), "x": SERIES(cells, dtype=object)})
    with pytest.raises(ConfigError, match=r"column 'x'.*\(wrong-type\)"):
        Encoder(of(kind)).frame(frame)


@pytest.mark.parametrize("key", [999, 999.0, "999"])
def test_a_word_is_nobodys_key_in_any_type(key: object) -> None:
    table = replace(of("kept text"), source_texts=(SourceText("id", ("999",)),))
    with pytest.raises(ConfigError, match=r"data row 1: key column 'id' is missing or null \(missing-key\)"):
        Encoder(table).frame(pd.DataFrame({"id": [key], "x": ["flu"]}))
