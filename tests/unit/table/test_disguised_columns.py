"""Columns that are published as something else: by table.yaml, by every door of rows, in statements, in schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from streamer.errors import ConfigError, EventRefused
from streamer.incremental.estimate import Query
from streamer.incremental.events.changes import Insert, Modify
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.statements import parse_condition
from streamer.table.encode import Encoder
from streamer.table.published.schemas import record_value_columns
from streamer.table.schema import Table
from streamer.table.yaml.loading import files_of, hidden_columns, load_table, table_of
from worlds.checkout import PATIENTS
from worlds.disguised_people import COLUMNS, KEY, PROBLEMS, Visit, visits, write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("visits"))


@pytest.fixture
def table(folder: Path) -> Table:
    return load_table(folder)


def values_of(encoder: Encoder, row: Mapping[str, object]) -> list[Any]:
    return [msgspec.json.decode(text) for text in encoder.row(row).values]


ROW: Visit = {
    "id": 7, "person": "Ann", "age": 30, "problem": "flu", "came": "2020-02-29", "seen": "2020-02-29T23:30:00-01:00"
}  # fmt: skip


def test_each_column_is_published_as_table_yaml_says(table: Table) -> None:
    problem, came, seen, key, person = values_of(Encoder(table), ROW)
    assert problem == "lung"
    assert came != "2020-02-29" and abs((pd.Timestamp(came) - pd.Timestamp("2020-02-29")).days) <= 30
    assert pd.Timestamp(seen) - pd.Timestamp("2020-03-01T00:30Z") == pd.Timestamp(came) - pd.Timestamp("2020-02-29")
    assert key != person and {*map(len, map(str, (key, person)))} == {32}
    assert values_of(Encoder(table), ROW | {"person": "07"})[3:] == [key, key]


def test_rows_in_columns_are_published_like_rows_one_by_one(table: Table) -> None:
    rows = visits(60)
    rows[5] |= {"came": "?", "problem": "?", "seen": "?"}
    encoded = Encoder(table).frame(pd.DataFrame(rows))
    assert encoded.rows() == [Encoder(table).row(row | _nulls(row)) for row in rows]
    assert Encoder(table).frame(pd.DataFrame([], columns=list(COLUMNS))).rows() == []
    typed = pd.DataFrame(rows).replace("?", None)
    typed = typed.assign(came=pd.to_datetime(typed["came"]), seen=pd.to_datetime(typed["seen"], utc=True))
    assert Encoder(table).frame(typed).rows() == encoded.rows()


def _nulls(row: Visit) -> dict[str, None]:
    return dict.fromkeys(name for name, value in row.items() if value == "?")


def test_dates_are_shifted_by_the_source_key_if_no_individuals_are_declared(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "t", ("individual: person\n", ""), person=None)
    encoder = Encoder(load_table(folder))
    came = {json.dumps(values_of(encoder, ROW | {"id": key})[1]) for key in (7, Decimal("7.0"), "7")}
    assert len(came) == 1
    assert len({values_of(encoder, ROW | {"id": key})[1] for key in range(60)}) > 20


def test_without_key_and_individual_nobody_knows_whose_a_date_is(tmp_path: Path) -> None:
    table = load_table(write_table(tmp_path / "t", ("individual: person\n", ""), person=None, id=None))
    with pytest.raises(ConfigError, match=r"columns\.came\.publish\.shift_days: .* neither `individual` nor `key`"):
        Encoder(replace(table, source_key=()))


# -- messages ---------------------------------------------------------------------------------------------------------


def decoded(table: Table, message: Mapping[str, Any]) -> Any:
    return Decoder(table).decode(None, json.dumps(message).encode())


def test_every_form_of_message_is_published_alike(table: Table) -> None:
    row = decoded(table, {"op": "insert", "row": ROW}).row
    assert row == Encoder(table).row(ROW)
    assert decoded(table, {"op": "u", "before": None, "after": ROW}).row == row
    assert decoded(table, {**ROW, "__deleted": "false"}).row == row
    change = decoded(
        table, {"op": "modify", "key": 7, "row": {"person": "ANN", "came": ROW["came"], "problem": "cough"}}
    )
    assert isinstance(change, Modify)
    assert {i: row.values[i] for i in (0, 1, 4)} == change.values


def test_a_change_of_a_shifted_date_has_to_say_whose_it_is(table: Table) -> None:
    assert isinstance(decoded(table, {"op": "modify", "key": 7, "row": {"problem": "flu"}}), Modify)
    with pytest.raises(EventRefused, match="shifted by days of its person, so 'person' must be sent") as refused:
        decoded(table, {"op": "modify", "key": 7, "row": {"came": "2020-01-01"}})
    assert refused.value.reason == "missing-individual"


@pytest.mark.parametrize("name", ["problem", "came", "seen", "id", "person"])
def test_a_statement_cannot_mean_what_is_not_kept(table: Table, name: str) -> None:
    for condition in (f"{name} = 'flu'", f"{name} is null"):
        with pytest.raises(EventRefused, match=r"published as something else \(`publish`\)"):
            parse_condition(condition, table)
    with pytest.raises(EventRefused, match="published as something else"):
        decoded(table, {"op": "modify", "where": "age > 3", "set": {name: "null"}})


def test_a_refusal_of_a_date_holds_neither_it_nor_the_person(table: Table) -> None:
    with pytest.raises(EventRefused) as refused:
        Encoder(table).row(ROW | {"came": "9999-12-31"})
    assert "9999" not in str(refused.value) and "Ann" not in str(refused.value)
    frame = pd.DataFrame([ROW, ROW | {"id": 8, "came": "9999-12-31"}])
    with pytest.raises(ConfigError, match=r"data row 2: column 'came': less than 30 days from the end of the calendar"):
        Encoder(table).frame(frame)


def test_a_category_that_the_hierarchy_lacks_is_refused_or_takes_the_ancestor_of_other(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "t")
    with pytest.raises(EventRefused, match="not a leaf of its hierarchy"):
        Encoder(load_table(folder)).row(ROW | {"problem": "gout"})
    other = write_table(tmp_path / "o", ("hierarchy: problem.csv,", "hierarchy: problem.csv, other: belly,"))
    encoder = Encoder(load_table(other))
    assert values_of(encoder, ROW | {"problem": "gout"})[0] == "belly"
    assert encoder.unlisted == {"problem": 1}


# -- readers, who have no key -----------------------------------------------------------------------------------------


def test_readers_need_no_key_and_who_publishes_does(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "t")
    (folder / KEY).unlink()
    table = load_table(folder)
    assert [column.type for column in record_value_columns(replace(table, kept=table.kept[-2:]))][-2:] == ["text"] * 2
    assert Query(table, "problem = 'lung' and came < '2020-01-01' and id = 'abc'")
    for needs in (lambda: table.fingerprint, lambda: Encoder(table).row(ROW)):
        with pytest.raises(ConfigError, match=r"cannot be read: No such file or directory\. Rows cannot be published"):
            needs()


def test_a_query_is_about_what_is_published(table: Table) -> None:
    with pytest.raises(Exception, match="no leaf of its hierarchy"):
        Query(table, "problem = 'flu'")


def test_the_files_of_a_table_have_its_key(folder: Path) -> None:
    assert [path.name for path in files_of(folder)] == ["table.yaml", "problem.csv", KEY]


# -- table.yaml -------------------------------------------------------------------------------------------------------


def test_a_table_without_publish_has_the_fingerprint_that_it_had() -> None:
    parts = dict(part.split(":") for part in load_table(PATIENTS).fingerprint.split())
    assert (parts["columns"], parts["privacy"]) == ("2b7dcea0aeadd497", "aff98d6de108025d")


def test_key_and_settings_are_in_the_fingerprint(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "t")
    before = load_table(folder).fingerprint
    assert before == load_table(folder).fingerprint
    others = {load_table(write_table(tmp_path / "other key")).fingerprint}
    key = (folder / KEY).read_text()
    came = f"role: keep, type: date, acknowledge_linkable: true, {SHIFT.replace('30', '31')}"
    changed = {"problem": f"role: sensitive, {TREE}, publish: {{level: 2}}", "came": came}
    for column, settings in changed.items():
        other = write_table(tmp_path / column, **{column: settings})
        (other / KEY).write_text(key)
        others.add(load_table(other).fingerprint)
    assert len(others | {before}) == 4
    assert key.strip() not in repr(load_table(folder))


TREE, SHIFT = "hierarchy: problem.csv", "publish: {shift_days: 30, key: readers.key}"
HASH = "publish: {pseudonym: readers.key}"


@pytest.mark.parametrize(
    ("column", "settings", "says"),
    [
        ("age", "role: quasi-identifier, type: integer, publish: {level: 1}", ": a quasi-identifier is published as"),
        (
            "age",
            "role: quasi-identifier, type: date, domain: [a, b], grid: 1 day, publish: pseudonym",
            ": a quasi-iden",
        ),
        ("problem", f"role: sensitive, {TREE}, publish: {{level: 0}}", ".level: must be at least 1"),
        ("problem", f"role: sensitive, {TREE}, publish: {{level: 3}}", ".level: the hierarchy of problem ends at lev"),
        ("problem", "role: sensitive, publish: {level: 1}", ".level: needs a hierarchy"),
        ("problem", "role: sensitive, publish: pseudonym", ": must be one of {level: 2}, {pseudonym: FILE} and"),
        ("problem", f"role: sensitive, {TREE}, publish: {{level: 1, pseudonym: readers.key}}", ": must be one of"),
        ("problem", f"role: sensitive, {TREE}, publish: {{level: 1, key: readers.key}}", ": must be one of"),
        ("problem", "role: sensitive, publish: {levels: 1}", ".levels: is not a setting; there are level, pseudonym"),
        ("problem", "role: sensitive, publish: {pseudonym: problem.csv}", ".pseudonym: "),
        ("came", "role: sensitive, type: date, publish: {shift_days: 30}", ": must be one of"),
        ("came", f"role: sensitive, {SHIFT}", ".shift_days: is only for the types date, timestamp, local-timestamp"),
        ("came", f"role: sensitive, type: date, {SHIFT.replace('30', '0')}", ".shift_days: must be at least 1"),
    ],
)
def test_what_cannot_be_published_so_is_said_with_its_place(
    tmp_path: Path, column: str, settings: str, says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load_table(write_table(tmp_path / "t", **{column: settings}))
    assert f"columns.{column}.publish{says}" in str(refused.value)


@pytest.mark.parametrize(
    ("column", "settings", "says"),
    [
        ("id", f"role: sensitive, {HASH}", "columns.id: is the key, which is never published; remove it, or let it be"),
        ("person", "role: keep", "columns.person: is the individual, which is never published; remove it"),
        (
            "id",
            f"role: keep, type: text, grid: 5, {HASH}",
            "is the key, whose texts are taken as they are: remove grid, t",
        ),
        ("came", f"role: keep, type: date, {SHIFT}", "columns.came: is published as it is and could link its row"),
        ("problem", f"role: sensitive, l: 4, {TREE}, publish: {{level: 1}}", "columns.problem.l: problem has 3 values"),
    ],
)
def test_what_a_column_may_not_be_is_said(tmp_path: Path, column: str, settings: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_table(write_table(tmp_path / "t", **{column: settings}))
    assert says in str(refused.value)


def test_a_key_that_everybody_may_read_is_a_fault_of_the_table(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "t")
    (folder / KEY).chmod(0o644)
    with pytest.raises(ConfigError, match=r"columns\.came\.publish\.key: .*everybody may read or write this key"):
        load_table(folder)


@pytest.mark.parametrize(
    ("rows", "level", "published"),
    [
        ([["flu", "lung", "*"], ["burn", "skin", "*"]], 1, {"flu": "lung", "burn": "skin"}),
        ([["flu", "lung", "*"], ["burn", "skin", "*"]], 2, {"flu": "*", "burn": "*"}),
        ([["flu", "lung"], ["burn", "skin"]], 2, {"flu": "*", "burn": "*"}),
        ([["flu", "lung", "ill"], ["burn", "ill"]], 1, {"flu": "lung", "burn": "burn"}),
        ([["flu", "flu", "lung", "*"], ["burn", "skin", "skin", "*"]], 2, {"flu": "lung", "burn": "skin"}),
    ],
    ids=["a level", "the top", "several roots", "a short row", "labels again"],
)
def test_a_level_is_that_of_the_file(rows: list[list[str]], level: int, published: dict[str, str]) -> None:
    """A node over one leaf has its own label, too."""
    settings = {
        "table": "t", "key": "id", "privacy": {"k": 2}, "publish": {"live": {"form": "rows"}},
        "columns": {
            "age": {"role": "quasi-identifier", "type": "integer", "domain": [0, 99], "grid": 10},
            "problem": {"role": "sensitive", "hierarchy": rows, "publish": {"level": level}},
        },
    }  # fmt: skip
    table = table_of(settings)
    assert {leaf: values_of(Encoder(table), {"id": 1, "age": 1, "problem": leaf})[0] for leaf in published} == published
    assert {*table.kept[0].hierarchy.leaves} == {*published.values()}  # type: ignore[union-attr]


def test_two_nodes_of_one_label_cannot_be_published_at_its_level(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "t")
    (folder / "problem.csv").write_text("flu;lung;chest;*\nlung;heart;*\n")
    with pytest.raises(ConfigError, match=r"columns\.problem\.publish\.level: two different nodes have one label"):
        load_table(folder)


def test_a_key_that_is_published_leaves(table: Table) -> None:
    assert hidden_columns(table, ["name", *COLUMNS]) == ["name"]
    assert isinstance(decoded(table, {"op": "insert", "row": ROW}), Insert)
    assert {PROBLEMS[leaf] for leaf in PROBLEMS} == {*table.kept[0].hierarchy.leaves}  # type: ignore[union-attr]
