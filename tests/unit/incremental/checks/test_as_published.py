"""What a reader knows of a QI group in every form, and forgeries that only one form can hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields

from streamer.errors import LawViolated
from streamer.incremental.checks.as_published import FORMS as READ
from streamer.incremental.checks.changelog import LiveRecord, laws_of
from streamer.incremental.checks.source import SourceLaws
from streamer.incremental.engine.stored_state import Record
from streamer.incremental.events.changes import Insert
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import PublishedGroup, outgoing
from streamer.table.row import Row
from streamer.table.schema import GROUPS, LOSSY_JOIN, Table
from worlds.busy_days import check, history_of, index_of
from worlds.published_groups import FORMS
from worlds.small_tables import AGE, CITY, table

FLU, ULCER, NOTHING = (b'"flu"',), (b'"ulcer"',), (b"null",)
FIRST = PublishedGroup((0, 0), (1, 2), (FLU, ULCER, FLU), ((0, 0), (1, 2)))
LATER = PublishedGroup((0, 0), (1, 2), (FLU, NOTHING), ((0, 0), (0, 1)))
OTHER = PublishedGroup((3, 5), (4, 5), (ULCER, ULCER), ((3, 5), (4, 5)))


def of_form(form: str) -> Table:
    return replace(table(AGE, CITY, k=2), form=form)


def told(form: str, *releases: Sequence[tuple[int, PublishedGroup | None, PublishedGroup | None]]) -> list[LiveRecord]:
    log = Changelog(of_form(form), 0)
    found = []
    for number, groups in enumerate(releases, start=1):
        entries = [entry for group in groups for entry in log.diff(*group)[0]]
        found += [LiveRecord(0, number, number, e.key, e.value, None, e.topic) for e in outgoing(entries, number, 1)]
    return found


@pytest.mark.parametrize("form", FORMS)
def test_a_reader_knows_the_values_of_every_qi_group_whatever_the_form(form: str) -> None:
    laws = check(of_form(form), told(form, [(1, None, FIRST), (2, None, OTHER)], [(1, FIRST, LATER)]))
    assert {number: sorted(seen.values) for (_, number), seen in laws.qi_groups.items()} == {
        1: sorted(LATER.slots),
        2: sorted(OTHER.slots),
    }
    gone = check(of_form(form), told(form, [(1, None, FIRST), (2, None, OTHER)], [(1, FIRST, None)]))
    assert list(gone.qi_groups) == [(0, 2)]


def with_value(records: list[LiveRecord], which: Callable[[LiveRecord], bool], **changed: object) -> list[LiveRecord]:
    """One record says something else of a column."""
    place = next(i for i, record in enumerate(records) if record.value is not None and which(record))
    value = json.loads(records[place].value or b"") | changed
    records[place] = records[place]._replace(value=json.dumps(value).encode())
    return records


def is_of(kind: str) -> Callable[[LiveRecord], bool]:
    return lambda record: record.topic == kind


def without_cells() -> list[LiveRecord]:
    return [record for record in told(LOSSY_JOIN, [(1, None, FIRST)]) if record.topic != "qit"]


def more_cells_than_rows() -> list[LiveRecord]:
    crowded = replace_cells(OTHER, ((3, 5), (4, 4), (4, 5)))
    return told(LOSSY_JOIN, [(1, None, crowded)])


def replace_cells(group: PublishedGroup, cells: tuple[tuple[int, ...], ...]) -> PublishedGroup:
    return PublishedGroup(group.lo, group.hi, group.slots, cells)


def few() -> list[LiveRecord]:
    one = PublishedGroup((0, 0), (0, 0), (FLU,), ((0, 0),))
    return told(LOSSY_JOIN, [(1, None, one)])


START = [(1, None, FIRST)]
ENTRY = {"problem": "flu", "count": 1}
FORGERIES: dict[str, tuple[str, str, Callable[[], list[LiveRecord]]]] = {
    "a size that is no sum": (GROUPS, "form", lambda: with_value(told(GROUPS, START), is_of("live"), size=7)),
    "no list of values": (GROUPS, "form", lambda: with_value(told(GROUPS, START), is_of("live"), values=3)),
    "values twice": (
        GROUPS,
        "form",
        lambda: with_value(told(GROUPS, START), is_of("live"), size=2, values=[ENTRY, ENTRY]),
    ),
    "a count of nothing": (
        GROUPS,
        "form",
        lambda: with_value(told(GROUPS, START), is_of("live"), values=[ENTRY | {"count": 0}]),
    ),
    "a message of another QI group": (
        GROUPS,
        "names",
        lambda: with_value(told(GROUPS, START), is_of("live"), qi_group="0-2"),
    ),
    "a QI group below k in one message": (
        GROUPS,
        "size",
        lambda: with_value(told(GROUPS, START), is_of("live"), size=1, values=[ENTRY]),
    ),
    "the key of a row": (GROUPS, "form", lambda: [LiveRecord(0, 1, 1, b'{"qi_group":"0-1","slot":0}', b"{}")]),
    "a row of more than one cell": (
        LOSSY_JOIN,
        "form",
        lambda: with_value(told(LOSSY_JOIN, START), is_of("qit"), city="*"),
    ),
    "a row that its key does not say": (
        LOSSY_JOIN,
        "form",
        lambda: with_value(told(LOSSY_JOIN, START), is_of("stt"), problem="gout"),
    ),
    "a row of another QI group": (
        LOSSY_JOIN,
        "names",
        lambda: with_value(told(LOSSY_JOIN, START), is_of("qit"), qi_group="0-2"),
    ),
    "fewer rows than k": (LOSSY_JOIN, "size", few),
    "values without cells": (LOSSY_JOIN, "two tables", without_cells),
    "more cells than rows": (LOSSY_JOIN, "two tables", more_cells_than_rows),
    "a key with columns of neither table": (
        LOSSY_JOIN,
        "form",
        lambda: [LiveRecord(0, 1, 1, b'{"qi_group":"0-1"}', b"{}")],
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_of_one_form_is_found_and_the_law_is_named(name: str) -> None:
    form, law, forged = FORGERIES[name]
    with pytest.raises(LawViolated, match=f"law '{law}' is broken at release 1 of shard 0"):
        check(of_form(form), forged())


def test_the_laws_of_a_form_are_those_that_it_can_break() -> None:
    of = {form: set(laws_of(of_form(form))) for form in FORMS}
    assert of["rows"] - of[GROUPS] == {"slots", "one box"}
    assert of[LOSSY_JOIN] - of[GROUPS] == {"two tables"}


@pytest.mark.parametrize("form", FORMS)
def test_a_key_from_any_tool_is_the_key_that_was_published(form: str) -> None:
    read = READ[form](of_form(form))
    for record in told(form, START):
        members = dict(reversed(json.loads(record.key).items()))
        assert read.rewritten(json.dumps(members, indent=2).encode()) == record.key
        assert read.topic(record.key) == record.topic


# -- against the source -----------------------------------------------------------------------------------------------


def days(form: str) -> Iterator[tuple[list[LiveRecord], dict]]:
    """A changelog of a few rows, and the source behind it."""
    small = of_form(form)
    rows = [((1, 0), FLU), ((2, 1), ULCER), ((12, 2), FLU), ((13, 2), NOTHING)]
    history = history_of(small, [[Insert(str(i), Row(codes, values)) for i, (codes, values) in enumerate(rows)]])
    yield history.records, history.sources[-1]


@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_is_not_where_it_is_published_is_found(form: str) -> None:
    ((records, source),) = days(form)
    laws = check(of_form(form), records)
    SourceLaws(of_form(form), laws, index_of(source)).check_all("here")
    key = next(iter(source))
    moved = source | {key: _moved(source[key])}
    with pytest.raises(LawViolated, match=r"law 'containment'.*column age"):
        SourceLaws(of_form(form), laws, index_of(moved)).check_all("here")


def _moved(record: Record) -> Record:
    return with_fields(record, row=with_fields(record.row, codes=(22, record.row.codes[1])))


@pytest.mark.parametrize("form", ["rows", GROUPS])
def test_a_box_that_is_wider_than_its_rows_is_found_unless_the_table_keeps_such_boxes(form: str) -> None:
    ((records, source),) = days(form)
    laws = check(of_form(form), records)
    inside = {key: _in_first_city(record) if record.row.codes[1] == 1 else record for key, record in source.items()}
    with pytest.raises(LawViolated, match=r"law 'edges' is broken at here, QI group 0-\d: .* column city"):
        SourceLaws(of_form(form), laws, index_of(inside)).check_all("here")
    SourceLaws(replace(of_form(form), shrink=False), laws, index_of(inside)).check_all("here")


def _in_first_city(record: Record) -> Record:
    return with_fields(record, row=with_fields(record.row, codes=(record.row.codes[0], 0)))


def test_cells_that_no_row_has_any_more_are_found() -> None:
    ((records, source),) = days(LOSSY_JOIN)
    more = records[0]._replace(key=_city(records[0].key), value=_city(records[0].key))
    laws = check(of_form(LOSSY_JOIN), [record._replace(part=None) for record in [*records, more]])
    with pytest.raises(LawViolated, match=r"law 'containment'.*column city"):
        SourceLaws(of_form(LOSSY_JOIN), laws, index_of(source)).check_all("here")


def _city(row: bytes) -> bytes:
    members = json.loads(row)
    assert "city" in members
    return row.replace(members["city"].encode(), b"d1")
