"""Categories that a hierarchy file does not have: nulls with a leaf of their own, and unknown ones at a node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from streamer.errors import ConfigError, EventRefused, LawViolated
from streamer.incremental.events.changes import Insert
from streamer.incremental.events.decoder import Decoder
from streamer.table.attributes import CategoricalAttribute
from streamer.table.encode import Encoder
from streamer.table.published import box_columns
from streamer.table.published_reading import ValuesReader
from streamer.table.schema import Table
from streamer.table.yaml_categories import NULL_LABEL, OTHER_LABEL
from streamer.table.yaml_loading import load_table

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
    with pytest.raises(EventRefused, match="job"):
        published(load(), None)


def test_a_null_has_a_category_of_its_own_below_the_root(load: Load) -> None:
    table = load(", null: own-category")
    assert published(table, None) == NULL_LABEL == "(none)"
    assert covering(table, None, "nurse") == "*"
    assert covering(table, "porter", "cook") == "service"


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


def test_null_and_other_are_of_the_tables_fingerprint(load: Load) -> None:
    said = ("", ", null: own-category", ", other: cook", ", other: nurse", ", other: service", ', other: "*"')
    tables = [load(of_job) for of_job in said] + [load(of_illness=", other: cook")]
    assert len({table.fingerprint for table in tables}) == len(tables)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (", null: own-category, null_as: cook", "columns.job.null: a null counts as one thing"),
        (", null: yes", "columns.job.null: must be 'own-category'"),
        (", other: pilots", "columns.job.other: must be a node of the column's hierarchy, such as '*'"),
        (", null_as: pilot, other: cook", "columns.job.null_as: must be a leaf of the column's hierarchy"),
    ],
)
def test_what_cannot_be_is_told_with_its_place(load: Load, settings: str, sentence: str) -> None:
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
        with pytest.raises(ConfigError, match="which the hierarchy has already"):
            load(settings, f"nurse;{label};*\nporter;{label};*\ncook;service;*\n")


@pytest.mark.parametrize("setting", ["null: own-category", "other: cook"])
def test_a_number_has_no_category_and_is_told_its_choices(load: Load, tmp_path: Path, setting: str) -> None:
    load()
    table = tmp_path / "table.yaml"
    of_numbers = f"  age: {{role: quasi-identifier, type: integer, domain: [0, 9], {setting}}}\n"
    table.write_text(table.read_text().replace("columns:\n", f"columns:\n{of_numbers}"))
    with pytest.raises(ConfigError, match="is for categories"):
        load_table(tmp_path)
