"""Columns of table.yaml: what they mean, and how their faults are reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamer.errors import ConfigError, EventRefused, LawViolated
from streamer.incremental.events.changes import Insert, Upsert
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.statements import parse_assignments
from streamer.table.codes import (
    DATE,
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    CategoricalAttribute,
    KeptColumn,
    NumericAttribute,
    Span,
    TemporalAttribute,
    moment_text,
)
from streamer.table.encode import Encoder
from streamer.table.published.rows import ValuesReader, box_columns, published_columns
from streamer.table.row import Row
from streamer.table.schema import Table
from streamer.table.space import FINENESS
from streamer.table.yaml.columns import NULL_LABEL, OTHER_LABEL, source_texts, temporal_attribute, with_null
from streamer.table.yaml.loading import load_table
from streamer.table.yaml.shape import TableSettings, TemporalSettings

JOBS = "nurse;care;*\nporter;service;*\ncook;service;*\n"

Load = Callable[..., Table]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def write_and_load(of_job: str = "", jobs: str = JOBS, of_illness: str = "") -> Table:
        (tmp_path / "jobs.csv").write_text(jobs)
        (tmp_path / "table.yaml").write_text(
            "table: people\nkey: id\ncolumns:\n"
            f"  job: {{role: quasi-identifier, hierarchy: jobs.csv{of_job}}}\n"
            f"  last: {{role: sensitive, hierarchy: jobs.csv{of_illness}}}\n"
            "privacy: {k: 2}\npublish: {live: {form: rows}}\n"
        )
        return load_table(tmp_path)

    return write_and_load


def published(table: Table, job: object) -> object:
    """What a row with this job publishes if it stands alone, the same from a file and from a message."""
    attribute = table.attributes[0]
    cell = Encoder(table).code(0, job)[0]
    if job is None or isinstance(job, str):
        frame = pd.DataFrame({"id": ["1"], "job": [job or ""], "last": ["nurse"]})
        assert Encoder(table).frame(frame).codes.tolist() == [[cell]]
    message = {"op": "insert", "row": {"id": 1, "job": job, "last": "nurse"}}
    change = Decoder(table).decode(None, json.dumps(message).encode())
    assert isinstance(change, Insert)
    assert change.row.codes == (cell,)
    return box_columns(attribute, cell, cell)["job"]


def covering(table: Table, *jobs: str | None) -> str:
    """The label of the smallest node over some jobs."""
    attribute = table.attributes[0]
    assert isinstance(attribute, CategoricalAttribute)
    codes = [Encoder(table).code(0, job)[0] for job in jobs]
    return attribute.hierarchy.label(*attribute.hierarchy.cover(min(codes), max(codes)))


def test_a_null_is_refused_unless_table_yaml_says_what_it_counts_as(load: Load) -> None:
    with pytest.raises(EventRefused, match="give a value, or set `null: own-category`"):
        published(load(), None)


def test_a_null_has_a_category_of_its_own_below_the_root(load: Load) -> None:
    table = load(", null: own-category")
    assert published(table, None) == NULL_LABEL == "(none)"
    assert covering(table, None, "nurse") == "*"
    assert covering(table, "porter", "cook") == "service"


def test_the_empty_leaf_of_arx_is_the_null_and_needs_its_category(load: Load) -> None:
    jobs = "nurse;care;*\n;unknown;*\nporter;service;*\ncook;service;*\nclerk;unknown;*\n"
    table = load(", null: own-category", jobs)
    assert (published(table, None), covering(table, None, "clerk")) == (NULL_LABEL, "unknown")
    with pytest.raises(ConfigError, match=r"row 2: the first cell, .* set `null: own-category`"):
        load("", jobs)


@pytest.mark.parametrize("jobs", ["nurse;care\nporter;service\n", "nurse\nporter\n", "nurse\n"])
def test_it_has_one_beside_several_roots_too(load: Load, jobs: str) -> None:
    table = load(", null: own-category", jobs)
    assert published(table, None) == "(none)"
    assert covering(table, None, "nurse") == "*"


@pytest.mark.parametrize(("node", "with_nurse", "with_cook"), [("service", "*", "service"), ("*", "*", "*")])
def test_unknown_categories_stand_below_the_node_that_other_names(
    load: Load, node: str, with_nurse: str, with_cook: str
) -> None:
    table = load(f', other: "{node}"')
    assert published(table, "pilot") == published(table, "7") == published(table, 7) == OTHER_LABEL == "(other)"
    assert covering(table, "pilot", "nurse") == with_nurse
    assert covering(table, "pilot", "cook") == with_cook
    assert published(table, "cook") == "cook"


def test_they_count_as_the_leaf_that_other_names(load: Load) -> None:
    assert published(load(", other: cook"), "pilot") == "cook"


def test_below_a_root_that_no_file_names_they_have_a_leaf_too(load: Load) -> None:
    table = load(', other: "*"', "nurse;care\nporter;service\n")
    assert published(table, "pilot") == "(other)"
    assert covering(table, "pilot", "nurse") == "*"


def test_unknown_sensitive_categories_are_published_as_other_and_never_read_back_otherwise(load: Load) -> None:
    table = load(of_illness=", other: service")
    row = {"id": 1, "job": "cook", "last": "pilot"}
    assert Encoder(table).row(row).values == (b'"(other)"',)
    assert ValuesReader(table).read([b'"(other)"']) == (b'"(other)"',)
    with pytest.raises(LawViolated):
        ValuesReader(table).read([b'"pilot"'])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (", null: own-category, null_as: cook", "columns.job.null: cannot be combined with null_as"),
        (", null: yes", "columns.job.null: must be 'own-category'"),
        (", other: pilots", "columns.job.other: must be a node of the column's hierarchy, such as '*'"),
        (", null_as: pilot, other: cook", "columns.job.null_as: must be a leaf of the column's hierarchy"),
    ],
)
def test_a_fault_of_null_or_other_names_its_place(load: Load, settings: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(settings)
    assert f"\n  {sentence}" in str(caught.value)


def test_an_added_category_is_none_that_the_file_has(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"columns.job.null: adds the category '\(none\)'"):
        load(", null: own-category", JOBS + "(none);*\n")
    with pytest.raises(ConfigError, match=r"columns.job.other: adds the category '\(other\)'"):
        load(", other: service", JOBS + "(other);*\n")


def test_an_added_category_has_the_name_of_no_inner_node_either(load: Load) -> None:
    for label, settings in ((NULL_LABEL, ", null: own-category"), (OTHER_LABEL, ', other: "*"')):
        with pytest.raises(ConfigError, match="but the hierarchy already has it"):
            load(settings, f"nurse;{label};*\nporter;{label};*\ncook;service;*\n")


@pytest.mark.parametrize("setting", ["null: own-category", "other: cook"])
def test_a_number_has_no_category_for_nulls_or_others(load: Load, tmp_path: Path, setting: str) -> None:
    load()
    table = tmp_path / "table.yaml"
    of_numbers = f"  age: {{role: quasi-identifier, type: integer, domain: [0, 9], {setting}}}\n"
    table.write_text(table.read_text().replace("columns:\n", f"columns:\n{of_numbers}"))
    with pytest.raises(ConfigError, match="is only for categories"):
        load_table(tmp_path)


# Columns of numbers in table.yaml: what they mean, and that every fault is named with its place.

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


def loaded(folder: Path, settings: str) -> Table:
    (folder / "table.yaml").write_text(TABLE.replace("SETTINGS", settings))
    return load_table(folder)


def number(folder: Path, settings: str) -> NumericAttribute:
    found = loaded(folder, f"{QI}, {settings}").attributes[0]
    assert isinstance(found, NumericAttribute)
    return found


def faults(folder: Path, settings: str) -> list[str]:
    """The sentences of the refusal, without the file's name."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, settings)
    return str(caught.value).split("\n  ")[1:]


def test_numbers_are_read_from_the_text_and_never_as_binary_floats(tmp_path: Path) -> None:
    x = number(tmp_path, "type: decimal, domain: [0.1, 0.7], step: 0.1, grid: 0.3")
    assert (x.domain, x.grid, x.step) == ((Decimal("0.1"), Decimal("0.7")), Decimal("0.3"), Decimal("0.1"))
    assert x.n_cells == 3


def test_a_domain_that_ends_between_two_steps_is_taken_down_to_the_lower(tmp_path: Path) -> None:
    x = number(tmp_path, "type: integer, domain: [5, 99], step: 10, grid: 20")
    assert (x.domain, x.n_cells) == ((5, 95), 5)
    assert x.interval(4, 4) == (85, 95)


def test_a_domain_of_one_value_is_allowed(tmp_path: Path) -> None:
    for type_ in ("integer", "decimal"):
        x = number(tmp_path, f"type: {type_}, domain: [5, 5], grid: 2")
        assert (x.n_cells, x.unit) == (1, 2)


def test_a_number_may_have_a_hierarchy_that_fits_its_cells(tmp_path: Path) -> None:
    (tmp_path / "ages.csv").write_text("".join(f"{n};{n // 10}0s;*\n" for n in range(30)))
    assert number(tmp_path, "type: integer, domain: [0, 29], hierarchy: ages.csv").levels.n_levels == 3
    assert faults(tmp_path, f"{QI}, type: integer, domain: [0, 30], hierarchy: ages.csv") == [
        "columns.x.hierarchy: ages.csv: 30 is in the domain, but not a leaf of the hierarchy; add it, or make the"
        " domain smaller"
    ]
    assert faults(tmp_path, f"{QI}, type: decimal, domain: [0, 9], grid: 1, hierarchy: ages.csv") == [
        "columns.x.hierarchy: ages.csv: a decimal without a step has no values to name in a hierarchy; give it a step"
    ]


def test_a_number_may_be_a_leaf_and_the_name_of_a_range(tmp_path: Path) -> None:
    """As in files that round: intervals are published, so a label need not say which one is meant."""
    (tmp_path / "doses.csv").write_text("".join(f"{n / 10:g};{n // 10};*\n" for n in range(40)))
    dose = number(tmp_path, "type: decimal, domain: [0, 3.9], step: 0.1, hierarchy: doses.csv")
    lo, hi = dose.levels.recode(1, np.arange(40))
    assert dose.interval(int(lo[10]), int(hi[10])) == dose.interval(int(lo[11]), int(hi[11])) == (1, Decimal("1.9"))
    (fault,) = faults(tmp_path, f"{QI}, hierarchy: doses.csv")
    assert fault.startswith("columns.x.hierarchy: doses.csv: '0' is a leaf and the node at level 1 over 10 leaves")


def test_a_null_counts_as_the_code_of_a_value_of_the_domain(tmp_path: Path) -> None:
    whole = number(tmp_path, "type: integer, domain: [10, 20], step: 2")
    cut = number(tmp_path, "type: decimal, domain: [10, 20], grid: 2")
    wrong: list[str] = []
    found = [with_null("x.null_as", attribute, "14", wrong) for attribute in (whole, cut)]
    assert [attribute and attribute.null_code for attribute in found] == [2, 2 * FINENESS]
    assert wrong == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("type: integer", "columns.x.domain: is missing; give [lowest, highest]"),
        ("type: integer, domain: [5]", "columns.x.domain.1: is missing"),
        ("type: integer, domain: [9, 5]", "columns.x.domain: the lower end is above the upper end"),
        ("type: integer, domain: [a, 5]", "columns.x.domain.0: must be a number"),
        ("type: integer, domain: [.nan, 5]", "columns.x.domain.0: must be a number"),
        (
            "type: integer, domain: [0, 1e18]",
            "columns.x.domain.1: must have at most 18 digits before the point, 9 after it",
        ),
        (
            "type: integer, domain: [0.5, 5]",
            "columns.x.domain: must be whole numbers, because the type is integer",
        ),
        ("type: integer, domain: [0, 5], grid: 0", "columns.x.grid: must be above 0"),
        ("type: integer, domain: [0, 5], unit: -1", "columns.x.unit: must be above 0"),
        (
            "type: integer, domain: [0, 9], step: 2, grid: 3",
            "columns.x.grid: must be a multiple of the step, 2",
        ),
        (
            "type: decimal, domain: [0, 9]",
            "columns.x.grid: is missing; a decimal without a step needs the width of its cells",
        ),
        (
            "type: decimal, domain: [0, 1e15], grid: 0.000001",
            "columns.x: more than 2,147,483,647 cells in one column; make the domain smaller or the grid wider",
        ),
        (
            "type: decimal, domain: [0, 1e12], step: 0.0000001, grid: 1e6",
            "columns.x: too many distinct values for one column; make the domain smaller or the step larger",
        ),
        (
            "type: integer, domain: [0, 2147483647]",
            "columns.x: more than 2,147,483,647 cells in one column; make the domain smaller or the grid wider",
        ),
        (
            "type: decimal, domain: [0, 9999999999], grid: 1",
            "columns.x: more than 2,147,483,647 cells in one column; make the domain smaller or the grid wider",
        ),
        (
            "type: decimal, domain: [0, 9], grid: 1, null_as: 0.5",
            "columns.x.null_as: must be the lower edge of a cell, because the column has no step",
        ),
        ("type: integer, domain: [0, 9], null_as: none", "columns.x.null_as: must be a number"),
        (
            "type: integer, domain: [0, 9], null_as: 10",
            "columns.x.null_as: column 'x': outside the domain of table.yaml; widen it, or let `outside: ends` count"
            " this as its nearer end",
        ),
    ],
)
def test_a_number_that_cannot_be_is_refused(tmp_path: Path, settings: str, sentence: str) -> None:
    assert faults(tmp_path, f"{QI}, {settings}") == [sentence]


# Columns of dates and timestamps in table.yaml: what they mean, and that every fault is named with its place.

BORN = f"{QI}, type: date, domain: [1900-01-01, 2029-12-31], grid: 1 month"


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


def test_by_default_a_fifth_of_the_cells_counts_as_1(tmp_path: Path) -> None:
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
            ["x.domain: must begin on the first of a month, because cells of 1 month are counted from there"],
        ),
        (
            BORN.replace("01-01,", "02-01,").replace("month", "year"),
            ["x.domain: must begin on the first of January, because cells of 1 year are counted from there"],
        ),
        (
            f"{QI}, type: local-timestamp, domain: ['2020-01-01T00:30:00', 2021-01-01], grid: 6 hours",
            ["x.domain: must begin at a full hour, because cells of 6 hours are counted from there"],
        ),
        (BORN.replace("2029", "1899"), ["x.domain: the lower end is above the upper end"]),
        (BORN.replace("1900-01-01", "1900"), ["x.domain: not a date; expected text such as 1980-01-31"]),
        (
            f"{QI}, type: timestamp, domain: [2020-01-01, '2021-01-01T00:00'], grid: 1 day",
            ["x.domain: has no offset from UTC; send one, such as Z, or let the column's type be local-timestamp"],
        ),
        (
            BORN.replace("1 month", "month"),
            ["x.grid: must be a length such as 1 day, 7 days, 3 months, 5 years, 1 hour or 15 minutes"],
        ),
        (
            BORN.replace("1 month", "12 hours"),
            ["x.grid: must be whole days, because the type is date; 12 hours is not"],
        ),
        (
            f"{BORN}, unit: 30 days",
            [
                "x.unit: 30 days cannot be compared with the grid, 1 month: give both in months and years, or both in"
                " days, hours and minutes"
            ],
        ),
        (f"{BORN}, null_as: unknown", ["x.null_as: not a date; expected text such as 1980-01-31"]),
        (f"{BORN}, null_as: 1899-12-31", ["x.null_as: lies outside the domain"]),
        (
            f"{BORN}, levels: [day, year, year]",
            [
                "x.levels: day is not longer than the grid, 1 month, which is always a level",
                "x.levels: must go from the shortest unit to the longest, each once",
            ],
        ),
        (
            BORN.replace("1 month", "7 days") + ", levels: [year]",
            [
                "x.levels: not every year ends where a cell of 7 days ends; leave it out, or change the grid or the"
                " start of the domain"
            ],
        ),
        (
            f"{QI}, type: local-timestamp, domain: [0001-01-01, 9999-01-01], grid: 1 minute",
            ["x: more than 2,147,483,647 cells in one column; make the domain smaller or the grid wider"],
        ),
        (
            f"{BORN}, step: 1",
            [
                "x.step: is not a setting; there are role, type, domain, grid, outside, unit, weight, coarsest, levels,"
                " null_as, na, written"
            ],
        ),
        (f"{QI}, type: date, grid: 1 day", ["x.domain: is missing"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_place(tmp_path: Path, settings: str, sentences: list[str]) -> None:
    assert faults(tmp_path, settings) == [f"columns.{sentence}" for sentence in sentences]


# `na` and `written` in table.yaml: files, messages and statements then mean the same.

MESSY = """
table: people
key: id
individual: who
na: ["?", "N/A", ""]
columns:
  age: {role: quasi-identifier, type: integer, domain: [-5, 99], grid: 5, null_as: -5}
  bmi: {role: quasi-identifier, type: decimal, domain: [0, 100], grid: 10, null_as: 0}
  zip: {role: quasi-identifier, type: integer, domain: [0, 99999], grid: 1000, written: digits, na: ["-"]}
  born: {role: quasi-identifier, type: date, domain: [1900-01-01, 2029-12-31], grid: 5 years, written: DD.MM.YYYY}
  sex: {role: quasi-identifier, hierarchy: sex.csv, null: own-category}
  cost: {role: sensitive, type: decimal, written: "1.234,5"}
  note: {role: sensitive}
privacy: {k: 2}
publish: {live: {form: rows}}
"""

PEOPLE = pd.DataFrame(
    [
        ("1", "a", "?", "20.5", "00700", "31.12.1980", "f", "1.234,5", "flu"),
        ("2", "b", "", "N/A", "99999", "1980-12-31", "N/A", "?", "N/A"),
        ("3", "c", "41", "20", "10001", "1.2.1990", "", "7", ""),
    ],
    columns=["id", "who", "age", "bmi", "zip", "born", "sex", "cost", "note"],
)

YamlTextsLoad = Callable[[str], Table]


@pytest.fixture
def yaml_texts_load(tmp_path: Path) -> YamlTextsLoad:
    (tmp_path / "sex.csv").write_text("f;*\nm;*\n")

    def write_and_load(text: str) -> Table:
        (tmp_path / "table.yaml").write_text(text, "utf-8")
        return load_table(tmp_path)

    return write_and_load


def of_message(table: Table, fields: dict[Hashable, Any]) -> Row:
    change = Decoder(table).decode(None, json.dumps({"op": "insert", "row": fields}).encode())
    assert isinstance(change, Insert)
    captured = Decoder(replace(table, decimals_are_text=True))
    upsert = captured.decode(b"1", json.dumps({"op": "c", "after": fields}).encode())
    assert isinstance(upsert, Upsert)
    assert upsert.row == change.row
    return change.row


def test_a_file_and_messages_of_its_texts_are_the_same_rows(yaml_texts_load: YamlTextsLoad) -> None:
    table = yaml_texts_load(MESSY)
    of_file = Encoder(table).frame(PEOPLE).rows()
    assert of_file == [of_message(table, fields) for fields in PEOPLE.to_dict("records")]
    null_category = table.attributes[4].null_code
    assert of_file[1].codes[0] == of_file[0].codes[0] == 0
    assert of_file[1].codes[4] == of_file[2].codes[4] == null_category
    assert [row.values for row in of_file] == [(b"1234.5", b'"flu"'), (b"null", b"null"), (b"7", b"null")]


def test_what_produce_sends_of_a_file_has_values_and_nulls_and_no_words(yaml_texts_load: YamlTextsLoad) -> None:
    table = yaml_texts_load(MESSY)
    encoder = Encoder(table)
    fields = encoder.fields(dict(PEOPLE.iloc[0]))
    assert (fields["age"], fields["zip"], fields["born"], str(fields["cost"])) == (None, 700, "1980-12-31", "1234.5")
    assert encoder.row(fields) == encoder.frame(PEOPLE).rows()[0]


def test_typed_values_of_a_data_frame_are_not_written_in_any_way(yaml_texts_load: YamlTextsLoad) -> None:
    table = yaml_texts_load(MESSY)
    typed = PEOPLE.assign(
        cost=[1234.5, float("nan"), 7.0],
        zip=[700, 99999, 10001],
        born=pd.to_datetime(["1980-12-31", "1980-12-31", "1990-02-01"]),
    )
    assert Encoder(table).frame(typed).rows() == Encoder(table).frame(PEOPLE).rows()


def test_a_word_for_nulls_is_no_key_and_no_individual(yaml_texts_load: YamlTextsLoad) -> None:
    encoder = Encoder(yaml_texts_load(MESSY))
    for column, reason in (("id", "missing-key"), ("who", "missing-individual")):
        with pytest.raises(ConfigError, match=reason):
            encoder.frame(PEOPLE.assign(**{column: ["1", "?", "3"]}))
        with pytest.raises(EventRefused, match=column):
            fields = {**PEOPLE.iloc[0], column: "?"}
            encoder.source_key(fields), encoder.row(fields)


def test_a_columns_own_words_stand_instead_of_the_tables(yaml_texts_load: YamlTextsLoad) -> None:
    encoder = Encoder(yaml_texts_load(MESSY.replace('na: ["-"]', 'na: ["-"], null_as: 0')))
    assert encoder.code(2, "-") == (0, None)
    with pytest.raises(EventRefused, match="zip"):
        encoder.code(2, "?")


def test_a_statement_sets_the_same_null(yaml_texts_load: YamlTextsLoad) -> None:
    table = yaml_texts_load(MESSY)
    row = Encoder(table).frame(PEOPLE).rows()[0]
    changed = parse_assignments({"sex": "'N/A'", "note": "'?'"}, table).applied_to(row)
    assert (changed.codes[4], changed.values[1]) == (table.attributes[4].null_code, b"null")


def test_a_captured_word_that_could_be_bytes_is_a_null(yaml_texts_load: YamlTextsLoad) -> None:
    table = yaml_texts_load(MESSY.replace('na: ["?", "N/A", ""]', 'na: ["none", "?", "N/A", ""]'))
    message = {"op": "c", "after": {**PEOPLE.iloc[0], "bmi": "none"}}
    change = Decoder(table).decode(b"1", json.dumps(message).encode())
    assert isinstance(change, Upsert)
    assert change.row.exact == ("0",)


def test_words_and_patterns_are_of_the_tables_fingerprint(yaml_texts_load: YamlTextsLoad) -> None:
    plain = yaml_texts_load(MESSY)
    others = [
        yaml_texts_load(MESSY.replace("N/A", "n/a")),
        yaml_texts_load(MESSY.replace("DD.MM", "MM.DD")),
        yaml_texts_load(MESSY.replace("1.234,5", "1,234.5")),
    ]
    assert len({table.fingerprint for table in (plain, *others)}) == 4
    assert yaml_texts_load(MESSY.replace('"?", "N/A", ""', '"", "N/A", "?"')).fingerprint == plain.fingerprint


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("hierarchy: sex.csv, written: digits", "columns.x.written: is only for numbers, dates and local timestamps"),
        ("type: integer, domain: [0, 9], written: 1_000", "columns.x.written: must be one of 1,234.5; "),
        ("type: decimal, domain: [0, 9], grid: 1, written: digits", "columns.x.written: must be one of 1,234.5; "),
        (
            "type: date, domain: [1900-01-01, 2029-12-31], grid: 1 year, written: DD.MM.YY",
            "columns.x.written: must have",
        ),
        (
            "type: timestamp, domain: [1900-01-01, 2029-12-31], grid: 1 year, written: DD.MM.YYYY hh:mm",
            "columns.x.written: a timestamp is always ISO text",
        ),
        ("hierarchy: sex.csv, na: [f]", "columns.x.na: 'f' is a category of its hierarchy"),
    ],
)
def test_a_fault_of_na_or_written_names_its_place(yaml_texts_load: YamlTextsLoad, column: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_texts_load(MESSY.replace("columns:\n", f"columns:\n  x: {{role: quasi-identifier, {column}}}\n"))
    assert f"\n  {sentence}" in str(caught.value)


def test_a_category_that_nulls_count_as_may_be_such_a_word(yaml_texts_load: YamlTextsLoad) -> None:
    table = yaml_texts_load(MESSY.replace("null: own-category", "null_as: f, na: [f]"))
    assert Encoder(table).code(4, "f") == (0, None)


def test_a_table_that_says_nothing_of_texts_has_none() -> None:
    settings = {
        "table": "people",
        "key": "id",
        "columns": {"note": {"role": "sensitive"}},
        "privacy": {"k": "2"},
        "publish": {"live": {"form": "rows"}},
    }
    assert source_texts(TableSettings.model_validate(settings)) == ()
    texts = source_texts(TableSettings.model_validate({**settings, "na": ["?", "", "?"]}))
    assert [(text.column, text.na) for text in texts] == [("id", ("", "?")), ("note", ("", "?"))]
