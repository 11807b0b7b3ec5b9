"""The published table as a DataFrame gives back what was published, digit by digit."""

from __future__ import annotations

from decimal import Decimal
from io import StringIO

import msgspec
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.codes import (
    CLOCKS,
    DATE,
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    Attribute,
    Clock,
    KeptColumn,
    NumericAttribute,
    decimal_text,
)
from streamer.table.csv_files import write_rows
from streamer.table.published.rows import box_columns
from streamer.table.schema import Table
from streamer.table.typed_frame import column_types, decode_json, typed_frame
from worlds.dates import temporal


def attribute(first: str, last: str, grid: str, step: str | None = None) -> NumericAttribute:
    return NumericAttribute(
        "x", (Decimal(first), Decimal(last)), Decimal(grid), Decimal(step) if step else None, Decimal(1), integer=False
    )


def of(numeric: Attribute) -> Table:
    return Table("people", ("id",), (numeric,), (KeptColumn("dose", sensitive=True),), k=2)


@pytest.mark.parametrize(
    ("numeric", "kind"),
    [
        (attribute("0", "119", "5", "1"), "int64"),
        (attribute("-9223372036854775807", "9223372036854775807", "1000000000000", "1"), "int64"),
        (attribute("9223372036854775800", "9223372036854775900", "1", "1"), "object"),
        (attribute("10", "59.9", "2.5", "0.1"), "float64"),
        (attribute("0", "10", "0.5"), "float64"),
        (attribute("99999999999999", "99999999999999.9", "0.1", "0.1"), "float64"),  # 15 digits
        (attribute("100000000000000", "100000000000001", "0.1", "0.1"), "object"),  # 16 digits
        (attribute("0.1000000000000000055", "1", "0.1"), "object"),
        (attribute("-9007199254740993.5", "0", "0.5", "0.5"), "object"),
    ],
)
def test_a_column_gets_the_narrowest_type_that_holds_every_end_as_it_is_published(
    numeric: NumericAttribute, kind: str
) -> None:
    assert column_types(of(numeric)) == {"qi_group": "str", "x_lo": kind, "x_hi": kind}


@st.composite
def numerics(draw: st.DrawFn) -> NumericAttribute:
    """Decimals and whole numbers of up to 20 digits, with a step or without."""
    places = draw(st.integers(0, 8))
    first = draw(st.integers(-(10**20), 10**20))
    step, steps, cells = draw(st.integers(1, 10**6)), draw(st.integers(1, 9)), draw(st.integers(1, 50))
    numbers = first, first + step * (steps * cells - 1), step * steps, step
    start, end, grid, resolution = (Decimal(number).scaleb(-places) for number in numbers)
    return NumericAttribute(
        "x", (start, end), grid, draw(st.sampled_from([resolution, None])), Decimal(1), integer=False
    )


@given(numeric=numerics(), data=st.data())
def test_the_ends_of_intervals_come_back_digit_by_digit(numeric: NumericAttribute, data: st.DataObject) -> None:
    last = numeric.n_cells - 1
    lo = data.draw(st.lists(st.integers(0, last), min_size=1, max_size=5))
    boxes = [box_columns(numeric, first, data.draw(st.integers(first, last))) for first in lo]
    published = {name: [decimal_text(Decimal(box[name])) for box in boxes] for name in ("x_lo", "x_hi")}
    read = {name: [decode_json(text) for text in texts] for name, texts in published.items()}
    by_reader, by_writer = (
        typed_frame(of(numeric), columns) for columns in (read, {name: [box[name] for box in boxes] for name in read})
    )
    pd.testing.assert_frame_equal(by_reader, by_writer)
    assert [*zip(*published.values(), strict=True)] == csv_cells(by_reader)
    for name, texts in published.items():
        assert [decimal_text(Decimal(str(number))) for number in by_reader[name]] == texts


def csv_cells(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    text = StringIO()
    write_rows(frame, text)
    return [tuple(line.split(",")) for line in text.getvalue().splitlines()[1:]]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"0.1", 0.1),
        (b"2.5", 2.5),
        (b"9007199254740993", 9007199254740993),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"9007199254740993.5", Decimal("9007199254740993.5")),
        (b"0.12345678901234567890", Decimal("0.12345678901234567890")),
        (b"true", True),
        (b"null", None),
    ],
)
def test_a_kept_number_is_a_float_only_where_that_is_the_published_number(text: bytes, number: object) -> None:
    dose = typed_frame(of(attribute("0", "9", "1", "1")), {"dose": [decode_json(text)]})["dose"]
    assert dose.dtype == object
    assert (type(dose[0]), dose[0]) == (type(number), number)


@given(number=st.decimals(allow_nan=False, allow_infinity=False, places=30) | st.integers())
def test_no_kept_number_is_rounded(number: Decimal | int) -> None:
    text = decimal_text(Decimal(number))
    assert decimal_text(Decimal(str(decode_json(text)))) == text


@pytest.mark.parametrize("end", ["5", "5.5", "5.0000000000000000001", "null", "true", '"5"', "[5]", "1e400", "1" * 20])
def test_what_a_box_cannot_publish_is_refused_and_not_cut_off(end: str) -> None:
    table = of(attribute("0", "9", "1", "1"))
    columns = {"x_lo": [msgspec.json.decode(end) if end[0] in '[n"t' else decode_json(end)]}
    if end == "5":
        assert typed_frame(table, columns)["x_lo"].tolist() == [5]
    else:
        with pytest.raises((ValueError, OverflowError)):
            typed_frame(table, columns)


@pytest.mark.parametrize(
    ("clock", "kind"),
    [(DATE, "datetime64[s]"), (TIMESTAMP, "datetime64[us, UTC]"), (LOCAL_TIMESTAMP, "datetime64[us]")],
)
def test_dates_and_timestamps_are_datetime64_of_all_years_and_come_back_letter_by_letter(
    clock: Clock, kind: str
) -> None:
    whole = temporal("x", "0001-01-01", "9999-12-30", "1 year", clock)
    boxes = [box_columns(whole, lo, hi) for lo, hi in [(0, 0), (1969, 1970), (9000, whole.n_cells - 1), (0, 0)]]
    frame = typed_frame(of(whole), {name: [box[name] for box in boxes] for name in ("x_lo", "x_hi")})
    assert {name: str(type_) for name, type_ in frame.dtypes.items()} == {"x_lo": kind, "x_hi": kind}
    assert column_types(of(whole)) == {"qi_group": "str", "x_lo": kind, "x_hi": kind}
    assert csv_cells(frame) == [(box["x_lo"], box["x_hi"]) for box in boxes]
    assert frame["x_lo"].dt.year.tolist() == [1, 1970, 9001, 1]


def test_microseconds_are_not_rounded() -> None:
    seen = temporal("x", "2020-01-01", "2020-01-01T01:00:00.000001Z", "1 hour", TIMESTAMP)
    frame = typed_frame(of(seen), {"x_hi": [box_columns(seen, 1, 1)["x_hi"]]})
    assert csv_cells(frame) == [("2020-01-01T01:00:00.000001Z",)]


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
@pytest.mark.parametrize("end", ["1980", "1980-01-01 00:00:00", "1980-01-01T00:00:00+00:00", 3652, None])
def test_what_is_no_published_moment_is_refused(clock: Clock, end: object) -> None:
    with pytest.raises(ValueError, match="a value of another type"):
        typed_frame(of(temporal("x", "1980-01-01", "1989-12-31", "1 year", clock)), {"x_lo": [end]})
