"""Columns of dates and timestamps in table.yaml: what they mean, and that every fault is named with its place."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from streamer.errors import ConfigError
from streamer.table.attributes import TemporalAttribute
from streamer.table.calendar_cells import Span
from streamer.table.moments import DATE, LOCAL_TIMESTAMP, TIMESTAMP, moment_text
from streamer.table.published import published_columns
from streamer.table.schema import KeptColumn, Table
from streamer.table.yaml_loading import load_table
from streamer.table.yaml_shape import TemporalSettings
from streamer.table.yaml_temporal import temporal_attribute

TABLE = """
table: people
key: id
columns:
  x: {SETTINGS}
  age: {role: quasi-identifier, type: integer, domain: [1, 120]}
privacy: {k: 2}
publish: {live: {form: rows}}
"""
QI = "role: quasi-identifier"
BORN = f"{QI}, type: date, domain: [1900-01-01, 2029-12-31], grid: 1 month"


def loaded(folder: Path, settings: str) -> Table:
    (folder / "table.yaml").write_text(TABLE.replace("SETTINGS", settings))
    return load_table(folder)


def attribute(folder: Path, settings: str) -> TemporalAttribute:
    found = loaded(folder, settings).attributes[0]
    assert isinstance(found, TemporalAttribute)
    return found


def test_a_date_is_what_it_says(tmp_path: Path) -> None:
    born = attribute(tmp_path, f"{BORN}, unit: 2 years, null_as: 1900-02-10, levels: [quarter, decade]")
    assert (born.calendar.clock, born.calendar.grid, born.n_cells) == (DATE, Span(1, "month"), 130 * 12)
    assert [moment_text(end, DATE) for end in (born.calendar.first, born.calendar.last)] == ["1900-01-01", "2029-12-31"]
    assert (born.unit, born.level_units) == (Decimal(24), ("quarter", "decade"))
    assert born.null_code == born.calendar.codes_per_cell + 9
    assert published_columns(loaded(tmp_path, BORN))[1:3] == ("x_lo", "x_hi")


def test_without_a_word_a_fifth_of_the_cells_counts_as_1(tmp_path: Path) -> None:
    assert attribute(tmp_path, BORN).unit == 130 * 12 / Decimal(5)
    assert attribute(tmp_path, BORN.replace("1 month", "3 months") + ", unit: 1 month").unit == 1 / Decimal(3)
    assert attribute(tmp_path, BORN.replace("1 month", "7 days") + ", unit: 1 day").unit == 1 / Decimal(7)


@pytest.mark.parametrize("clock", [TIMESTAMP, LOCAL_TIMESTAMP])
def test_a_day_alone_is_the_first_moment_of_a_timestamp(tmp_path: Path, clock) -> None:  # type: ignore[no-untyped-def]
    ends = ("2020-01-01", "2020-01-02T12:00" + "Z" * clock.zoned)
    seen = attribute(tmp_path, f"{QI}, type: {clock.name}, domain: [{ends[0]}, '{ends[1]}'], grid: 15 minutes")
    assert (seen.calendar.clock, seen.n_cells) == (clock, 36 * 4)


def test_kept_columns_have_these_types_too(tmp_path: Path) -> None:
    table = loaded(tmp_path, "role: sensitive, type: local-timestamp")
    assert table.kept == (KeptColumn("x", sensitive=True, type="local-timestamp"),)
    table = loaded(tmp_path, "role: keep, acknowledge_linkable: true, type: date")
    assert table.kept == (KeptColumn("x", sensitive=False, type="date"),)


def test_a_state_belongs_to_one_calendar(tmp_path: Path) -> None:
    """And not to the levels, which are for whole tables alone."""
    seen = BORN.replace("type: date", "type: timestamp")
    tables = [
        loaded(tmp_path, settings).fingerprint
        for settings in (
            BORN, BORN.replace("1900", "1901"), BORN.replace("2029", "2028"), BORN.replace("1 month", "3 months"),
            f"{BORN}, unit: 1 year", f"{BORN}, null_as: 1900-01-01", seen,
            seen.replace("timestamp", "local-timestamp"),
        )
    ]  # fmt: skip
    assert len(set(tables)) == len(tables)
    assert loaded(tmp_path, f"{BORN}, levels: [year]").fingerprint == tables[0]


def test_all_faults_of_lengths_and_ends_are_found_at_once() -> None:
    raw = {"domain": ("1900", "2000-13-01"), "grid": "1 hour", "unit": "1 month"}
    settings = TemporalSettings.model_validate({"role": "quasi-identifier", "type": "date", **raw})
    faults: list[str] = []
    assert temporal_attribute("columns.x", "x", settings, faults) is None
    assert [fault.split(":")[0] for fault in faults] == ["columns.x.grid", "columns.x.unit"] + 2 * ["columns.x.domain"]


@pytest.mark.parametrize(
    ("settings", "sentences"),
    [
        (
            BORN.replace("01-01,", "01-02,"),
            ["x.domain: must begin on the first of a month, since cells of 1 month are counted from there"],
        ),
        (
            BORN.replace("01-01,", "02-01,").replace("month", "year"),
            ["x.domain: must begin in January, on the first, since cells of 1 year are counted from there"],
        ),
        (
            f"{QI}, type: local-timestamp, domain: ['2020-01-01T00:30:00', 2021-01-01], grid: 6 hours",
            ["x.domain: must begin with a full hour, since cells of 6 hours are counted from there"],
        ),
        (BORN.replace("2029", "1899"), ["x.domain: the lower end lies above the upper one"]),
        (BORN.replace("1900-01-01", "1900"), ["x.domain: not a date; expected text such as 1980-01-31"]),
        (
            f"{QI}, type: timestamp, domain: [2020-01-01, '2021-01-01T00:00'], grid: 1 day",
            ["x.domain: has no offset from UTC; send one, such as Z, or let the column's type be local-timestamp"],
        ),
        (
            BORN.replace("1 month", "month"),
            ["x.grid: must be a length such as 1 day, 7 days, 3 months, 5 years, 1 hour or 15 minutes"],
        ),
        (BORN.replace("1 month", "12 hours"), ["x.grid: 12 hours is no number of whole days, as a date counts them"]),
        (
            f"{BORN}, unit: 30 days",
            [
                "x.unit: is measured by the clock and the grid is not: give both in months and years, or both in days,"
                " hours and minutes"
            ],
        ),
        (f"{BORN}, null_as: unknown", ["x.null_as: not a date; expected text such as 1980-01-31"]),
        (f"{BORN}, null_as: 1899-12-31", ["x.null_as: lies outside the domain"]),
        (
            f"{BORN}, levels: [day, year, year]",
            [
                "x.levels: day is not wider than the grid, 1 month, which is a level by itself",
                "x.levels: must stand from the finest to the widest, each once",
            ],
        ),
        (
            BORN.replace("1 month", "7 days") + ", levels: [year]",
            [
                "x.levels: not every year ends where a cell of 7 days ends; leave it out, or choose another grid or"
                " beginning of the domain"
            ],
        ),
        (
            f"{QI}, type: local-timestamp, domain: [0001-01-01, 9999-01-01], grid: 1 minute",
            ["x: more than 2,147,483,647 cells in one column; make the domain smaller or the grid wider"],
        ),
        (
            f"{BORN}, step: 1",
            ["x.step: is no setting; there are role, type, domain, grid, unit, levels, null_as, na, written"],
        ),
        (f"{QI}, type: date, grid: 1 day", ["x.domain: is missing"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_place(tmp_path: Path, settings: str, sentences: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, settings)
    assert str(caught.value).split("\n  ")[1:] == [f"columns.{sentence}" for sentence in sentences]
