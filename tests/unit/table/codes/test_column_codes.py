"""One value of one column: what it becomes, what comes back, and what no column takes."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.table.codes import Attribute, CategoricalAttribute, KeptColumn, NumericAttribute, decimal_text
from streamer.table.codes.column_codes import to_code
from streamer.table.encode import Encoder
from streamer.table.hierarchy import Hierarchy
from streamer.table.schema import Table
from streamer.table.space import FINENESS
from worlds.small_tables import AGE, BMI, CITY

D = Decimal


HEIGHT = NumericAttribute("height", (D("0.5"), D("2.5")), D("0.1"), D("0.05"), D(1), integer=False)


PROBLEM = KeptColumn("problem", sensitive=True)


decode = msgspec.json.Decoder(float_hook=Decimal).decode


def table(*attributes: Attribute, kept: tuple[KeptColumn, ...] = (PROBLEM,), **settings: Any) -> Table:
    return Table("people", settings.pop("key", ("id",)), attributes, kept, k=2, **settings)


def number(domain: tuple[str, str], grid: str, step: str | None, **settings: Any) -> NumericAttribute:
    ends = D(domain[0]), D(domain[1])
    return NumericAttribute("x", ends, D(grid), D(step) if step else None, D(1), **{"integer": False, **settings})


def code_of(attribute: Attribute, value: object) -> int:
    return to_code(attribute)(value)


def reason_of(attribute: Attribute, value: object) -> str:
    with pytest.raises(EventRefused) as caught:
        code_of(attribute, value)
    assert caught.value.column == attribute.name
    return caught.value.reason


def test_seven_hundred_random_decimals_land_in_their_exact_cell() -> None:
    """Binary floats put many of these into a neighbour: 0.3 / 0.1 is 2.9999999999999996."""
    chance = random.Random(7)
    for _ in range(700):
        places = chance.randint(0, 4)
        unit = Fraction(1, 10**places)
        lo = chance.randint(-500, 500) * unit
        grid = chance.randint(1, 40) * unit
        hi = lo + chance.randint(0, 2_000) * unit
        value = lo + (chance.randint(0, int((hi - lo) / grid)) * grid if chance.random() < 0.5 else 0)
        value = min(value + chance.randint(0, 10) * unit / 10, hi)
        attribute = number((text(lo), text(hi)), text(grid), None)
        cell = min((value - lo) // grid, attribute.n_cells - 1)
        code = code_of(attribute, D(text(value)))
        assert code // FINENESS == cell
        assert abs(Fraction(code % FINENESS, FINENESS) - ((value - lo) / grid - cell)) <= Fraction(1, FINENESS)


def text(number: Fraction) -> str:
    return decimal_text(D(number.numerator) / D(number.denominator))


def test_a_value_below_an_edge_by_less_than_any_float_stays_below() -> None:
    attribute = number(("0", "1"), "0.1", None)
    assert code_of(attribute, D("0.2999999999999999999999999999999999999999999999999")) // FINENESS == 2
    assert code_of(attribute, D("0.3")) // FINENESS == 3
    assert code_of(attribute, D("0.29" + "9" * 300)) // FINENESS == 2


def test_the_end_of_the_domain_is_in_the_last_cell_also_on_an_edge() -> None:
    attribute = number(("10", "80"), "0.5", None)
    assert attribute.n_cells == 140
    assert code_of(attribute, D("80")) // FINENESS == 139
    assert code_of(attribute, D("79.9")) // FINENESS == 139


def test_steps_count_from_the_start_of_the_domain() -> None:
    assert code_of(HEIGHT, D("0.5")) == 0
    assert code_of(HEIGHT, D("1.75")) == 25
    assert code_of(HEIGHT, "1.750") == 25
    assert code_of(HEIGHT, 1) == 10
    assert reason_of(HEIGHT, D("1.76")) == "off-the-step"
    assert reason_of(HEIGHT, D("1.75" + "0" * 120 + "1")) == "off-the-step"


def test_an_integer_column_with_a_step_counts_steps() -> None:
    zip_code = NumericAttribute("zip", (D(1000), D(99000)), D(5000), D(1000), D(1000))
    assert code_of(zip_code, 12000) == 11
    assert reason_of(zip_code, 12500) == "off-the-step"


@pytest.mark.parametrize("value", [21, D("21"), D("21.0"), D("2.1E+1")])
def test_an_integer_is_a_number_with_an_integral_value(value: object) -> None:
    assert code_of(AGE, value) == 20


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("21", "wrong-type"),
        (True, "wrong-type"),
        (D("21.5"), "wrong-type"),
        (D("NaN"), "wrong-type"),
        (D("Infinity"), "wrong-type"),
        pytest.param(10**500, "out-of-domain", id="huge"),
        (D("1E+100000"), "wrong-type"),
        ([21], "wrong-type"),
        (21.0, "wrong-type"),
        (0, "out-of-domain"),
        (24, "out-of-domain"),
        (-(2**70), "out-of-domain"),
        (None, "null-not-allowed"),
    ],
)
def test_what_no_integer_column_takes(value: object, reason: str) -> None:
    assert reason_of(AGE, value) == reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "wrong-type"),
        ("ten", "wrong-type"),
        ("1_1", "wrong-type"),
        (" 11", "wrong-type"),
        ("NaN", "wrong-type"),
        ("1e999999", "wrong-type"),
        (False, "wrong-type"),
        pytest.param(10**500, "wrong-type", id="huge"),
        ({"value": 1}, "wrong-type"),
        (D("9.99"), "out-of-domain"),
        (13, "out-of-domain"),
        (None, "null-not-allowed"),
    ],
)
def test_what_no_decimal_column_takes(value: object, reason: str) -> None:
    assert reason_of(BMI, value) == reason


def test_a_decimal_without_a_step_keeps_its_exact_text() -> None:
    encoder = Encoder(table(BMI, AGE))
    code, exact = encoder.code(0, D("11.2500"))
    assert (code, exact) == (FINENESS + FINENESS // 4, "11.25")
    assert encoder.value(0, code, exact) == D("11.25")
    assert encoder.code(1, 3) == (2, None)


@given(st.integers(1, 23))
def test_an_integer_comes_back(value: int) -> None:
    encoder = Encoder(table(AGE))
    back = encoder.value(0, *encoder.code(0, value))
    assert back == value
    assert type(back) is int


@given(st.integers(0, 40))
def test_a_stepped_decimal_comes_back(steps: int) -> None:
    encoder = Encoder(table(HEIGHT))
    value = D("0.5") + steps * D("0.05")
    assert encoder.value(0, *encoder.code(0, value)) == value


def test_a_category_is_text_and_one_is_the_same_as_quoted_one() -> None:
    stage = CategoricalAttribute("stage", Hierarchy.from_rows([["1", "*"], ["2.5", "*"], ["true", "*"]]), D(1))
    assert [code_of(stage, value) for value in (1, "1", D("1.0"), D("2.50"), True, "true")] == [0, 0, 0, 1, 2, 2]
    assert reason_of(stage, "3") == "unknown-category"
    assert reason_of(stage, "*") == "unknown-category"
    assert reason_of(stage, ["1"]) == "wrong-type"
    assert reason_of(stage, None) == "null-not-allowed"


def test_a_null_counts_as_what_the_column_says() -> None:
    city = CategoricalAttribute("city", CITY.hierarchy, D(1), null_code=3)
    age = number(("1", "23"), "5", "1", integer=True, null_code=7)
    bmi = number(("10", "12.5"), "1", None, null_code=FINENESS)
    assert [code_of(attribute, None) for attribute in (city, age, bmi)] == [3, 7, FINENESS]
    assert Encoder(table(bmi)).code(0, None) == (FINENESS, "11")


@pytest.mark.parametrize(
    ("json", "canonical"),
    [
        (b'"flu"', b'"flu"'),
        (b'"\\u00e9\\n"', '"é\\n"'.encode()),
        (b"null", b"null"),
        (b"true", b"true"),
        (b"1.50", b"1.5"),
        (b"1e2", b"100"),
        (b"-0.0", b"0"),
        (b"7.0", b"7"),
        (b"12345678901234567890123", b"12345678901234567890123"),
    ],
)
def test_a_kept_value_has_one_canonical_json_text(json: bytes, canonical: bytes) -> None:
    encoder = Encoder(table(AGE))
    assert encoder.kept(0, decode(json)) == canonical
    assert encoder.kept(0, decode(canonical)) == canonical


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("text", [("flu", b'"flu"')], [1, True, D("1.5")]),
        ("integer", [(7, b"7"), (D("7.0"), b"7")], ["7", D("7.5"), True]),
        ("decimal", [(7, b"7"), (D("7.50"), b"7.5"), ("7.50", b"7.5")], ["seven", True, D("NaN")]),
        (
            "boolean",
            [(True, b"true"), (1, b"true"), ("Yes ", b"true"), ("FAUX", b"false"), (D("0.0"), b"false")],
            [2, "", "truth", [True], D("0.5")],
        ),
        (None, [("a", b'"a"'), (1, b"1")], [[1], {"a": 1}, D("1E+5000"), 1.5]),
    ],
)
def test_a_typed_column_takes_its_type_or_null(
    type_: str | None, good: list[tuple[object, bytes]], bad: list[object]
) -> None:
    encoder = Encoder(table(AGE, kept=(KeptColumn("x", sensitive=True, type=type_),)))
    assert [encoder.kept(0, value) for value, _ in good] == [canonical for _, canonical in good]
    assert encoder.kept(0, None) == b"null"
    for value in bad:
        with pytest.raises(EventRefused) as caught:
            encoder.kept(0, value)
        assert (caught.value.reason, caught.value.column) == ("wrong-type", "x")


def test_a_sensitive_hierarchy_restricts_to_its_leaves_or_null() -> None:
    column = KeptColumn("city", sensitive=True, type="text", hierarchy=CITY.hierarchy)
    encoder = Encoder(table(AGE, kept=(column,)))
    assert encoder.kept(0, "a1") == b'"a1"'
    assert encoder.kept(0, None) == b"null"
    with pytest.raises(EventRefused) as caught:
        encoder.kept(0, "west")
    assert caught.value.reason == "unknown-category"
