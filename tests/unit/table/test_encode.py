"""Encoding: exact cells, canonical texts, and what is refused, for events and for files."""

from __future__ import annotations

import json
import re
import string
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError, EventRefused
from streamer.table.codes import TIMESTAMP, Attribute, CategoricalAttribute, KeptColumn, NumericAttribute, SourceText
from streamer.table.encode import Encoder
from streamer.table.hierarchy import Hierarchy
from streamer.table.row import Row
from streamer.table.schema import Table
from streamer.table.space import FINENESS
from worlds.dates import temporal
from worlds.small_tables import AGE, BMI, CITY

D = Decimal
MONEY = NumericAttribute("cost", (D(0), D("99999.9")), D(1000), D("0.1"), D(100), integer=False)
PROBLEM = KeptColumn("problem", sensitive=True)


def table(*attributes: Attribute, kept: tuple[KeptColumn, ...] = (PROBLEM,), **settings: Any) -> Table:
    return Table("people", settings.pop("key", ("id",)), attributes, kept, k=2, **settings)


# -- rows -----------------------------------------------------------------------------------------------------------

WIDE = table(AGE, BMI, CITY, individual="ssn")
FIELDS = {"id": 7, "ssn": "s-1", "age": 21, "bmi": D("11.5"), "city": "b1", "problem": "flu", "name": "not looked at"}


def test_a_row_holds_codes_texts_and_whom_k_counts() -> None:
    row = Encoder(WIDE).row(FIELDS)
    assert row.codes == (20, FINENESS + FINENESS // 2, CITY.hierarchy.code_of["b1"])
    assert (row.exact, row.values, row.individual) == (("11.5",), (b'"flu"',), "s-1")


@pytest.mark.parametrize("column", ["age", "bmi", "city", "problem"])
def test_a_row_without_a_named_column_is_refused(column: str) -> None:
    with pytest.raises(EventRefused) as caught:
        Encoder(WIDE).row({name: value for name, value in FIELDS.items() if name != column})
    assert (caught.value.reason, caught.value.column) == ("missing-column", column)


@pytest.mark.parametrize("fields", [{**FIELDS, "ssn": None}, {"age": 1}])
def test_a_row_without_an_individual_is_refused_if_individuals_count(fields: dict[str, object]) -> None:
    with pytest.raises(EventRefused) as caught:
        Encoder(WIDE).row(fields)
    assert (caught.value.reason, caught.value.column) == ("missing-individual", "ssn")


def test_the_refusal_of_a_file_without_a_header_holds_no_value() -> None:
    row = pd.DataFrame([["8", "Female"]], columns=["7", "canary"])
    with pytest.raises(ConfigError, match="is its first line a header") as refused:
        Encoder(WIDE).frame(row)
    assert "canary" not in str(refused.value)


def test_some_columns_are_encoded_by_their_numbers() -> None:
    encoder = Encoder(WIDE)
    assert encoder.some({"bmi": "11", "problem": None, "name": 5}) == ({1: FINENESS}, {1: "11"}, {0: b"null"}, ())
    assert encoder.some({}) == ({}, {}, {}, ())


@pytest.mark.parametrize(("value", "key"), [(7, "7"), ("7", "7"), (D("7.0"), "7"), (D("7.50"), "7.5"), ("", "")])
def test_a_source_key_is_text(value: object, key: str) -> None:
    encoder = Encoder(WIDE)
    assert encoder.source_key_of(value) == key
    assert encoder.source_key_of({"id": value}) == key
    assert encoder.source_key({"id": value, "age": 3}) == key


def test_a_composite_source_key_is_the_array_of_its_texts_in_the_order_of_the_table() -> None:
    encoder = Encoder(table(AGE, key=("ward", "bed")))
    assert encoder.source_key({"bed": 4, "ward": 'a"é'}) == '["a\\"é","4"]'
    with pytest.raises(EventRefused) as caught:
        encoder.source_key_of("a")
    assert caught.value.reason == "wrong-type"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({}, "missing-key"), ({"id": None}, "missing-key"), ({"id": True}, "wrong-type"), ({"id": [1]}, "wrong-type")],
)
def test_a_row_without_a_usable_key_is_refused(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(EventRefused) as caught:
        Encoder(WIDE).source_key(fields)
    assert (caught.value.reason, caught.value.column) == (reason, "id")


@given(
    st.sampled_from(["id", "ssn", "age", "bmi", "city", "problem"]),
    st.text(string.ascii_letters, min_size=8),
    st.sampled_from([str, lambda secret: [secret], lambda secret: {secret: secret}]),
)
def test_no_refusal_repeats_a_value(column: str, secret: str, shape) -> None:  # type: ignore[no-untyped-def]
    encoder = Encoder(WIDE)
    fields = {**FIELDS, column: shape(secret)}
    try:
        encoder.source_key(fields)
        encoder.row(fields)
    except EventRefused as refused:
        assert secret not in f"{refused!r} {refused} {refused.detail} {refused.reason}"


# -- files ----------------------------------------------------------------------------------------------------------


def frame(*rows: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, dtype=str)


TEXTS = {"id": "7", "ssn": "s-1", "age": "21", "bmi": "11.50", "city": "b1", "problem": "flu", "name": "hidden"}


def test_a_file_is_encoded_as_its_rows_would_be() -> None:
    encoder = Encoder(WIDE)
    others = [{**TEXTS, "id": str(i), "age": str(i % 23 + 1), "bmi": f"1{i % 3}.{i % 5}"} for i in range(60)]
    others[5]["problem"] = ""
    encoded = encoder.frame(frame(*others))
    fields = [encoder.fields(texts) for texts in others]
    assert encoded.rows() == [encoder.row(f) for f in fields]
    assert encoded.source_keys == [encoder.source_key(f) for f in fields]
    assert encoded.codes.dtype == np.int64
    assert encoded.codes.shape == (60, 3)
    assert encoded.values[5] == (b"null",)


def test_a_file_says_numbers_and_booleans_as_text() -> None:
    kept = (KeptColumn("n", True, "integer"), KeptColumn("x", True, "decimal"), KeptColumn("b", True, "boolean"))
    encoder = Encoder(table(AGE, kept=kept))
    encoded = encoder.frame(frame({"id": "1", "age": "21.0", "n": "5", "x": "2.50", "b": "true"}))
    assert encoded.codes.tolist() == [[20]]
    assert encoded.values == [(b"5", b"2.5", b"true")]
    assert encoded.exact == [()]
    assert encoded.individuals == [None]


def test_an_empty_table_is_encoded_as_no_rows() -> None:
    encoded = Encoder(WIDE).frame(frame(TEXTS).iloc[:0])
    assert encoded.rows() == []
    assert encoded.codes.shape == (0, 3)


@pytest.mark.parametrize(
    ("column", "wrong", "reason"),
    [
        ("age", "99", "out-of-domain"),
        ("age", "x", "wrong-type"),
        ("age", "", "null-not-allowed"),
        ("city", "q", "unknown-category"),
        ("id", "", "missing-key"),
        ("ssn", "", "missing-individual"),
    ],
)
def test_a_file_with_a_wrong_cell_is_refused_with_line_and_column_and_without_the_value(
    column: str, wrong: str, reason: str
) -> None:
    wrong_rows = [{**TEXTS, "id": "1"}, {**TEXTS, "id": "2"}]
    wrong_rows.append({**TEXTS, "id": "3", column: wrong})
    with pytest.raises(ConfigError) as caught:
        Encoder(WIDE).frame(frame(*wrong_rows))
    message = str(caught.value)
    assert message.startswith("data row 3: ")
    assert f"{column!r}" in message
    assert reason in message


# -- dates and timestamps -------------------------------------------------------------------------------------------

BORN = temporal("born", "1980-01-01", "1989-12-31", "1 month")
SEEN = temporal("seen", "2024-01-01", "2025-01-01", "1 day", TIMESTAMP)
SINCE = KeptColumn("since", True, "date")
DATED = table(BORN, SEEN, kept=(SINCE, KeptColumn("wall", True, "local-timestamp")))
SAID = {
    "id": "1",
    "born": "1980-02-29",
    "seen": "2024-02-29T08:00:00Z",
    "since": "1999-12-31",
    "wall": "2024-01-01T08:00",
}


def dated(**changed: object) -> Row:
    return Encoder(DATED).row({**SAID, **changed})


def test_a_date_is_its_cell_and_the_day_in_it_and_a_kept_one_its_shortest_text() -> None:
    row = dated()
    assert row.codes[0] == 1 * 31 + 28
    assert DATED.space.cells(np.array(row.codes)).tolist() == [1, 59]
    assert [Encoder(DATED).value(j, row.codes[j], None) for j in (0, 1)] == ["1980-02-29", "2024-02-29T08:00:00Z"]
    assert row.values == (b'"1999-12-31"', b'"2024-01-01T08:00:00"')
    assert row.exact == ()


@pytest.mark.parametrize(
    "values",
    [
        {"born": date(1980, 2, 29), "seen": datetime(2024, 2, 29, 8, tzinfo=UTC), "since": date(1999, 12, 31)},
        {"born": "1980-02-29 00:00", "seen": "2024-02-29 10:00:00+02", "wall": datetime(2024, 1, 1, 8)},
    ],
)
def test_a_moment_is_the_same_in_every_form(values: dict[str, object]) -> None:
    assert dated(**values) == dated()


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("born", "1979-12-31", "out-of-domain"),
        ("born", "10000-01-01", "out-of-domain"),
        ("born", 3711, "wrong-type"),
        ("born", Decimal(3711), "wrong-type"),
        ("born", None, "null-not-allowed"),
        ("born", "1980-02-29T01:00:00", "off-the-step"),
        ("seen", "2024-02-29T08:00:00", "wrong-type"),
        ("seen", "2024-02-29T08:00:00.0000001Z", "off-the-step"),
        ("since", "0000-01-01", "out-of-domain"),
        ("since", 1, "wrong-type"),
        ("wall", "2024-01-01T08:00Z", "wrong-type"),
    ],
)
def test_what_is_no_moment_of_its_column_is_refused(column: str, value: object, reason: str) -> None:
    with pytest.raises(EventRefused) as caught:
        dated(**{column: value})
    assert (caught.value.reason, caught.value.column) == (reason, column)


def test_a_data_frame_has_dates_in_any_of_its_types() -> None:
    typed = pd.DataFrame(
        {
            "id": [1, 2],
            "born": pd.Series(pd.to_datetime(["1980-02-29", "1989-12-31"])),
            "seen": pd.Series(pd.to_datetime(["2024-02-29T08:00:00.000000Z", "2024-01-01T00:00:00.000001Z"])),
            "since": [date(1999, 12, 31), None],
            "wall": [pd.Timestamp("2024-01-01T08:00"), pd.NaT],
        }
    )
    encoded = Encoder(DATED).frame(typed)
    assert encoded.rows()[0] == dated()
    assert encoded.values[1] == (b"null", b"null")
    assert Encoder(DATED).value(1, int(encoded.codes[1, 1]), None) == "2024-01-01T00:00:00.000001Z"
    for type_ in ("datetime64[ns]", "datetime64[s]", "datetime64[us]"):
        assert (Encoder(DATED).frame(typed.astype({"born": type_})).codes == encoded.codes).all()


# -- dates that Python has not ----------------------------------------------------------------------------------------

FAR = ["infinity", "-infinity", "10000-01-01", "0044-03-15 BC"]
VALID = "valid_to"


def far(**settings: Any) -> Table:
    """A table with a quasi-identifier of days from 1900 to 2099, in years; a null counts as the first one."""
    valid_to = temporal(VALID, "1900-01-01", "2099-12-31", "1 year")
    return table(replace(valid_to, null_code=0, **settings), kept=(), key=())


def days_as(kind: str) -> pd.DataFrame:
    """Days with and without an end, as a source of a kind has them."""
    day = date(2020, 5, 17).toordinal() - date(1970, 1, 1).toordinal()
    counts = [2**31 - 1, -(2**31) + 1, 2_932_897, -735_160, day]
    if kind == "text":
        return pd.DataFrame({VALID: [*FAR, "2020-05-17"]})
    if kind == "numpy":
        return pd.DataFrame({VALID: np.array([2_932_898, -735_161, 2_932_897, -735_160, day], "M8[D]").astype("M8[s]")})
    days = pa.array(counts, pa.int32()).cast(pa.date32())
    if kind != "date32":
        ends = [2**63 - 1, -(2**63) + 1]
        moments = pa.array([*ends, *(count * 86_400 * 10**6 for count in counts[2:])], pa.int64())
        days = moments.cast(pa.timestamp("us"))
    if kind == "dictionary":
        days = days.dictionary_encode()
    return pd.DataFrame({VALID: pd.Series(days, dtype=pd.ArrowDtype(days.type))})


@pytest.mark.parametrize("kind", ["text", "numpy", "date32", "timestamp", "dictionary"])
def test_a_date_without_end_is_the_nearer_end_or_a_null_or_refused_with_its_column_and_cause(kind: str) -> None:
    frame, encoder = days_as(kind), Encoder(far(ends_take_all=True))
    days = [encoder.value(0, code, None) for code in encoder.frame(frame).codes[:, 0].tolist()]
    assert days == ["2099-12-31", "1900-01-01", "2099-12-31", "1900-01-01", "2020-05-17"]
    named = replace(far(), source_texts=(SourceText(VALID, ("-infinity", "infinity")),))
    assert Encoder(named).frame(frame).nulls == [(0,), (0,), (0,), (0,), ()]
    refusal = r"data row 1: column 'valid_to': outside the years 1 to 9999 \(out-of-domain\)"
    with pytest.raises(ConfigError, match=refusal):
        Encoder(far()).frame(frame)


@pytest.mark.parametrize("kind", ["text", "date32"])
def test_a_date_without_end_that_is_published_as_it_is_stays_as_the_source_has_it(kind: str) -> None:
    published = Encoder(table(kept=(KeptColumn(VALID, sensitive=True),), key=())).frame(days_as(kind)).values
    bc = "0044-03-15 BC" if kind == "text" else "-0043-03-15"
    assert [json.loads(value) for (value,) in published] == [*FAR[:3], bc, "2020-05-17"]


OF_SEXES = table(CategoricalAttribute("sex", Hierarchy.from_rows([["f", "*"], ["m", "*"]]), D(1)), key=(), kept=())


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["office", "field"], "none of its values is a leaf of its hierarchy: is that another column's?"),
        (["office", "m"], "not a leaf of its hierarchy; add it"),
        (
            ["M", "f"],
            "a leaf of its hierarchy but for capitals, blanks, accents or hidden signs; write both in one way",
        ),
    ],
)
def test_an_unknown_category_is_told_for_what_it_is(texts: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"data row 1: column 'sex': {said}")):
        Encoder(replace(OF_SEXES, capitals_count=True)).frame(pd.DataFrame({"sex": texts}))


def test_blanks_at_the_ends_of_a_category_do_not_count() -> None:
    frame = pd.DataFrame({"sex": ["m         ", " f", "m"]})
    assert Encoder(OF_SEXES).frame(frame).codes[:, 0].tolist() == [1, 0, 1]
    assert Encoder(OF_SEXES).row({"sex": "m  "}).codes == (1,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("k. A.", "not an integer; if such words mean that nothing is known, list them in the column's `na`"),
        ("1\u00a0234", "not an integer; it holds U+00A0, a sign that cannot be seen"),
        ("3\u200b1", "it holds U+200B"),
        ("\u221231", "it holds U+2212, a sign that cannot be seen or only looks like another: remove it"),
    ],
)
def test_a_refused_cell_is_told_its_hidden_sign_or_the_way_to_a_null_and_not_quoted(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        Encoder(table(AGE, key=(), kept=())).frame(pd.DataFrame({"age": ["6", text]}))
    assert text not in str(refused.value)


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("7.654,3", "written as 1.234,5: say so"),
        ("1\u202f234,5", "holds U\\+202F"),
        ("12 345,00", "written as 1 234,5: say so"),
        ("1234.5kg", "expected text such as 1234.5"),
        ("none", "list them in the column's `na`"),
        ("12345678", "widen it, or let `outside: ends` count this as its nearer end"),
    ],
)
def test_a_refusal_says_what_is_wanted_or_the_way_past_a_limit(cell: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        Encoder(table(MONEY)).frame(pd.DataFrame({"id": ["1"], "cost": [cell], "problem": ["flu"]}))
    assert cell not in str(refused.value)


@pytest.mark.parametrize("header", ["co\u200bst", "Cost ", "co\u0301st", "\ufeffcost"])
def test_a_header_that_only_looks_like_the_wanted_one_is_shown_with_its_signs(header: str) -> None:
    wanted = "c\u00f3st" if "\u0301" in header else "cost"
    named = replace(MONEY, name=wanted)
    with pytest.raises(ConfigError, match="differs in capitals, blanks, accents or a sign that nobody sees") as refused:
        Encoder(table(named)).frame(pd.DataFrame({"id": ["1"], header: ["1"], "problem": ["flu"]}))
    assert ascii(header) in str(refused.value)
