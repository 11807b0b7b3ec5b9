"""Numbers that are published rounded, or capped at the ends of a domain, and what that means for statements."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError, EventRefused
from streamer.incremental.events.statements import find
from streamer.recoding.frame import anonymize
from streamer.table.codes import KeptColumn, NumericAttribute
from streamer.table.codes.column_codes import to_code, to_json_text
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table
from worlds.dates import temporal

pytestmark = pytest.mark.filterwarnings("ignore::streamer.errors.PrivacyWarning")  # tables of a few rows

D = Decimal
PAY = KeptColumn("pay", True, "decimal", grid=D(1000), domain=(D(0), D(100_000)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (D("28123.45"), b"28000"),
        (500, b"0"),  # half to even
        (1500, b"2000"),
        (D("100499.99"), b"100000"),
        (10_000_000, b"100000"),
        (-7, b"0"),
        (None, b"null"),
    ],
)
def test_a_sensitive_number_is_capped_and_rounded(value: object, text: bytes) -> None:
    assert to_json_text(PAY)(value) == text


@pytest.mark.parametrize(
    ("grid", "value", "text"), [("0.05", "1.23", b"1.25"), ("0.5", "-0.2", b"0"), ("7", "25", b"28")]
)
def test_a_multiple_of_the_grid_is_written_without_what_rounding_leaves(grid: str, value: str, text: bytes) -> None:
    assert to_json_text(KeptColumn("x", False, "decimal", grid=D(grid)))(D(value)) == text


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**9))
def test_the_nearest_multiple_is_published_however_large_a_number_is(value: int, grid: int) -> None:
    written = int(to_json_text(KeptColumn("x", True, "integer", grid=D(grid)))(value))
    assert written % grid == 0 and 2 * abs(written - value) <= grid


def test_what_is_no_number_is_refused_as_ever() -> None:
    with pytest.raises(EventRefused) as refused:
        to_json_text(PAY)("much")
    assert refused.value.reason == "wrong-type"


def years(**more: object) -> NumericAttribute:
    return replace(NumericAttribute("years", (D(0), D(99)), D(5), D(1), D(20)), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [D(1), None])
@pytest.mark.parametrize(("value", "counts_as"), [(-3, 0), (104, 99), (10**40, 99), (50, 50)])
def test_a_number_outside_the_domain_counts_as_the_nearer_end(step: Decimal | None, value: int, counts_as: int) -> None:
    capped = years(ends_take_all=True, step=step, integer=step is not None)
    assert to_code(capped)(value) == to_code(capped)(counts_as)
    if value != counts_as:
        with pytest.raises(EventRefused) as refused:
            to_code(replace(capped, ends_take_all=False))(value)
        assert refused.value.reason == "out-of-domain"


def test_a_moment_outside_the_domain_counts_as_the_nearer_end() -> None:
    born = replace(temporal("born", "1930-01-01", "2029-12-31", "1 year"), ends_take_all=True)
    assert to_code(born)("1905-03-04") == to_code(born)("1930-01-01")
    assert to_code(born)("2031-03-04") == to_code(born)("2029-12-31")


def test_a_statement_may_not_name_such_a_column() -> None:
    table = Table("people", ("id",), (years(ends_take_all=True),), (PAY, KeptColumn("note", False)), k=2)
    for name in ("years", "pay"):
        with pytest.raises(EventRefused, match="a statement could mean other rows") as refused:
            find(name, table)
        assert refused.value.reason == "bad-statement"
    assert find("note", table).name == "note"


def test_a_table_without_them_has_the_fingerprint_that_it_had() -> None:
    table = Table("people", ("id",), (years(),), (KeptColumn("pay", True, "decimal"),), k=2)
    assert table.fingerprint != replace(table, kept=(PAY,)).fingerprint
    assert table.fingerprint != replace(table, attributes=(years(ends_take_all=True),)).fingerprint


YAML = """
table: people
key: id
columns:
  years: {{role: quasi-identifier, type: integer, domain: [0, 99], grid: 5, outside: ends}}
  born: {{role: quasi-identifier, type: date, domain: [1930-01-01, 2029-12-31], grid: 1 year, outside: ends}}
  pay: {{role: sensitive, {pay}}}
privacy: {{k: 2}}
publish: {{live: {{form: rows}}}}
"""


def written(folder: Path, pay: str) -> Path:
    (folder / "table.yaml").write_text(YAML.format(pay=pay))
    return folder


def test_table_yaml_says_it_and_a_whole_table_is_published_so(tmp_path: Path) -> None:
    import pandas as pd

    table = load_table(written(tmp_path, "type: decimal, grid: 1000, domain: [0, 100000]"))
    rows = pd.DataFrame(
        {
            "id": ["1", "2", "3", "4"],
            "years": [120, 97, 3, 4],
            "born": ["1899-01-01", "1931-01-01", "2020-01-01", "2021-01-01"],
            "pay": ["28123.45", "1e9", "", "499"],
        }
    )
    published = anonymize(rows, table)
    assert sorted(published["pay"].dropna().tolist()) == [0, 28000, 100000]
    assert published["years_hi"].max() == 99
    assert str(published["born_lo"].min())[:10] == "1930-01-01"


@pytest.mark.parametrize(
    ("pay", "says"),
    [
        ("type: text, grid: 5", "columns.pay.grid: is only for `type: integer` and `type: decimal`"),
        ("domain: [0, 5]", "columns.pay.domain: is only for `type: integer` and `type: decimal`"),
        ("type: integer, grid: 0.5", "columns.pay.grid: must be whole numbers"),
        ("type: decimal, grid: 0", "columns.pay.grid"),
        ("type: decimal, domain: [5, 1]", "columns.pay.domain: the lower end is above the upper end"),
        ("type: decimal, grid: 2, domain: [0, 5]", "columns.pay.domain: its ends must be multiples of the grid, 2"),
    ],
)
def test_what_does_not_go_together_is_said_with_its_place(tmp_path: Path, pay: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_table(written(tmp_path, pay))
    assert says in str(refused.value)
