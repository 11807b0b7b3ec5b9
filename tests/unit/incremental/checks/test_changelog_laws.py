"""The laws of a changelog: what the engine publishes keeps them, and every small forgery is found and named."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused, LawViolated
from streamer.incremental.checks.changelog import CHANGELOG_LAWS, ChangelogLaws, LiveRecord, in_releases
from streamer.incremental.checks.source import SOURCE_LAWS, IndexTable, SourceLaws, index_table
from streamer.incremental.events.changes import Change, Delete, Insert, Modify
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.kept import PENDING
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.fold import Part
from streamer.table.published import parse_key
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.small_tables import TABLES, changes


@dataclass
class History:
    """A changelog and, per release, the source rows and the index table behind it."""

    table: Table
    records: list[LiveRecord] = field(default_factory=list)
    sources: list[dict] = field(default_factory=list)


def history_of(table: Table, batches: Iterable[Iterable[Change]]) -> History:
    """What the engine makes of some batches of changes."""
    history, engine, log = History(table), Engine(table), Changelog(table, 0)
    source: dict = {}
    through = release = 0
    for batch in batches:
        for change in batch:
            through += 1
            try:
                engine.apply(change)
            except EventRefused:
                continue
        drained = engine.drain()
        source = {key: record for key, record in (source | drained.records).items() if record is not None}
        entries = [entry for group in drained.published for entry in log.diff(*group)[0]]
        if entries:
            release += 1
            parts = [Part(i, len(entries)) for i in range(1, len(entries) + 1)]
            history.records += [
                LiveRecord(0, release, through, entry.key, entry.value, part)
                for entry, part in zip(entries, parts, strict=True)
            ]
            history.sources.append(source)
    return history


def index_of(source: dict) -> IndexTable:
    lines = ((key, None if row.qi_group == PENDING else (0, row.qi_group)) for key, row in source.items())
    return index_table({key: record.row for key, record in source.items()}, lines)


def check(table: Table, records: Iterable[LiveRecord]) -> ChangelogLaws:
    laws = ChangelogLaws(table)
    for release in in_releases(records):
        laws.check(release)
    return laws


@given(data=st.data(), name=st.sampled_from(sorted(TABLES)))
def test_what_the_engine_publishes_keeps_every_law_at_every_release(data: st.DataObject, name: str) -> None:
    small = TABLES[name]
    history = history_of(small, data.draw(st.lists(st.lists(changes(small), max_size=12), max_size=8)))
    laws = ChangelogLaws(small)
    for release, source in zip(in_releases(history.records), history.sources, strict=True):
        laws.check(release)
        SourceLaws(small, laws, index_of(source)).check_all("here")


# -- one forgery per law ----------------------------------------------------------------------------------------------

SMALL = TABLES["individuals"]


def _busy_days() -> History:
    """40 batches of insertions, changes and deletions, the same at every run."""
    chance = random.Random(7)
    living: list[str] = []

    def row() -> Row:
        values = (b'"%b"' % chance.choice([b"flu", b"cough", b"ulcer"]),)
        return Row((chance.randrange(23), chance.randrange(6)), values, (), f"person {chance.randrange(10**6)}")

    def change(number: int) -> Change:
        kind = chance.random()
        if kind < 0.5 or len(living) < 10:
            living.append(str(number))
            return Insert(str(number), row())
        if kind < 0.75:
            return Delete(living.pop(chance.randrange(len(living))))
        changed = row()
        return Modify(chance.choice(living), dict(enumerate(changed.codes)), {}, {0: changed.values[0]})

    return history_of(SMALL, [[change(7 * batch + i) for i in range(7)] for batch in range(40)])


DAYS = _busy_days()


def at(release: int, where: Callable[[LiveRecord], bool] = lambda record: record.value is not None) -> int:
    """Place of the first record of a release that fits."""
    return next(i for i, record in enumerate(DAYS.records) if record.release == release and where(record))


def edited(place: int, **changed: Any) -> list[LiveRecord]:
    records = list(DAYS.records)
    records[place] = records[place]._replace(**changed)
    return records


def without_parts(records: Iterable[LiveRecord]) -> list[LiveRecord]:
    return [record._replace(part=None) for record in records]


def rewritten(place: int, old: bytes, new: bytes) -> list[LiveRecord]:
    value = DAYS.records[place].value
    assert value is not None and old in value
    return edited(place, value=value.replace(old, new, 1))


def column(place: int, name: bytes) -> bytes:
    """The text of a row from the name of a column to the next comma."""
    value = DAYS.records[place].value or b""
    return value[value.index(b'"%b"' % name) :].split(b",")[0].rstrip(b"}")


LAST = DAYS.records[-1].release
MIDDLE = next(
    release
    for release in range(LAST // 2, LAST)
    if any(record.release == release and record.value is None for record in DAYS.records)
)
TOMBSTONE = at(MIDDLE, lambda record: record.value is None)
WRITTEN = at(MIDDLE)


def _another_number() -> list[LiveRecord]:
    """A QI group of release MIDDLE under a number that was in use before and is not any more."""
    live = {number for _, number in check(SMALL, DAYS.records).qi_groups}
    used = {parse_key(record.key).qi_group for record in DAYS.records}
    retired = min(used - live)
    name = b'"0-%d"' % retired
    records = [
        LiveRecord(0, LAST + 1, 10**6, b'{"qi_group":%b,"slot":%d}' % (name, slot), row, None)
        for slot in range(3)
        for row in [b'{"qi_group":%b,"age_lo":1,"age_hi":5,"city":"a1","problem":"flu"}' % name]
    ]
    return without_parts(DAYS.records) + records


def _shrunk_below_k() -> list[LiveRecord]:
    """All but one row of a living QI group are removed."""
    laws = check(SMALL, DAYS.records)
    (shard, number), slots = max(laws.qi_groups.items())
    removals = [
        LiveRecord(0, LAST + 1, 10**6, b'{"qi_group":"%d-%d","slot":%d}' % (shard, number, slot), None)
        for slot in range(1, len(slots))
    ]
    return without_parts(DAYS.records) + removals


def _hole_in_the_slots() -> list[LiveRecord]:
    """The highest slot of a QI group moves one place up."""
    (shard, number), slots = max(check(SMALL, DAYS.records).qi_groups.items())
    last = max(slots)
    key = b'{"qi_group":"%d-%d","slot":%%d}' % (shard, number)
    value = next(record.value for record in reversed(DAYS.records) if record.key == key % last)
    moved = [(key % last, None), (key % (last + 1), value)]
    return without_parts(DAYS.records) + [LiveRecord(0, LAST + 1, 10**6, *record) for record in moved]


def _two_boxes() -> list[LiveRecord]:
    """One row of a QI group that was written whole says another city than the others."""
    rows = [i for i, record in enumerate(DAYS.records) if record.release == 1 and record.value is not None]
    return rewritten(rows[0], column(rows[0], b"city"), b'"city":"d1"')


FORGERIES: dict[str, tuple[str, Callable[[], list[LiveRecord]]]] = {
    "a lost part": ("parts", lambda: DAYS.records[: at(MIDDLE)] + DAYS.records[at(MIDDLE) + 1 :]),
    "a lost last part": ("parts", lambda: [r for r in DAYS.records if r.part != DAYS.records[at(LAST)].part]),
    "a part that comes twice": ("parts", lambda: [*DAYS.records[: WRITTEN + 1], *DAYS.records[WRITTEN:]]),
    "records that disagree on through": ("parts", lambda: edited(TOMBSTONE, through=10**9)),
    "a lost release": ("release order", lambda: [r for r in DAYS.records if r.release != MIDDLE]),
    "a lost beginning": ("release order", lambda: [r for r in DAYS.records if r.release > 1]),
    "a release that comes twice": (
        "release order",
        lambda: [r for number in (*range(MIDDLE + 1), MIDDLE - 1) for r in DAYS.records if r.release == number],
    ),
    "two releases the wrong way round": (
        "release order",
        lambda: sorted(DAYS.records, key=lambda r: {MIDDLE: MIDDLE + 1, MIDDLE + 1: MIDDLE}.get(r.release, r.release)),
    ),
    "through that goes back": (
        "release order",
        lambda: [r._replace(through=0) if r.release == MIDDLE else r for r in DAYS.records],
    ),
    "an interval off the grid": ("form", lambda: rewritten(WRITTEN, column(WRITTEN, b"age_lo"), b'"age_lo":2')),
    "an interval outside the domain": ("form", lambda: rewritten(WRITTEN, column(WRITTEN, b"age_hi"), b'"age_hi":25')),
    "a label that is no node": ("form", lambda: rewritten(WRITTEN, column(WRITTEN, b"city"), b'"city":"canary"')),
    "a column too many": ("form", lambda: rewritten(WRITTEN, b"{", b'{"ssn":"canary",')),
    "a column too few": ("form", lambda: rewritten(WRITTEN, column(WRITTEN, b"age_lo") + b",", b"")),
    "a key of another form": ("form", lambda: edited(WRITTEN, key=b'{"id":"canary"}')),
    "a row that names another QI group": (
        "names",
        lambda: rewritten(WRITTEN, column(WRITTEN, b"qi_group"), b'"qi_group":"0-999"'),
    ),
    "a QI group of another shard": (
        "names",
        lambda: edited(WRITTEN, key=DAYS.records[WRITTEN].key.replace(b'"0-', b'"1-')),
    ),
    "a removal of nothing": ("tombstones", lambda: [*DAYS.records[:WRITTEN], *_removal_of_nothing()]),
    "a number that comes back": ("numbers", _another_number),
    "a hole in the slots": ("slots", _hole_in_the_slots),
    "two boxes in one QI group": ("one box", _two_boxes),
    "a QI group below k": ("size", _shrunk_below_k),
}


def _removal_of_nothing() -> list[LiveRecord]:
    return [LiveRecord(0, MIDDLE, 10**6, b'{"qi_group":"0-1","slot":999}', None)]


def test_the_unforged_days_keep_every_law() -> None:
    laws = check(SMALL, DAYS.records)
    assert LAST > 20
    assert laws.n_rows > 20
    assert {record.value is None for record in DAYS.records} == {True, False}


@pytest.mark.parametrize("name", sorted(FORGERIES))
def test_a_forged_changelog_is_found_and_the_law_is_named(name: str) -> None:
    law, forge = FORGERIES[name]
    with pytest.raises(LawViolated, match=f"law '{law}' is broken at release [0-9]+ of shard 0") as found:
        check(SMALL, forge())
    assert "canary" not in str(found.value)


def test_every_law_of_a_changelog_has_its_forgery() -> None:
    assert {law for law, _ in FORGERIES.values()} == set(CHANGELOG_LAWS)


def test_the_sentence_names_the_release_the_qi_group_and_the_slot() -> None:
    key = parse_key(DAYS.records[WRITTEN].key)
    place = f"release {MIDDLE} of shard 0, QI group 0-{key.qi_group}, slot {key.slot}: column age"
    with pytest.raises(LawViolated, match=place):
        check(SMALL, FORGERIES["an interval off the grid"][1]())


def test_shards_may_come_in_any_mixture() -> None:
    other = [
        record._replace(
            shard=1,
            key=record.key.replace(b'"0-', b'"1-'),
            value=record.value and record.value.replace(b'"0-', b'"1-'),
        )
        for record in DAYS.records
    ]
    mixed = [record for pair in zip(DAYS.records, other, strict=True) for record in pair]
    assert check(SMALL, mixed).n_rows == 2 * check(SMALL, DAYS.records).n_rows


# -- the source laws --------------------------------------------------------------------------------------------------

FINAL = DAYS.sources[-1]
PLACED = sorted(key for key, record in FINAL.items() if record.qi_group != PENDING)


def source_check(source: dict) -> None:
    SourceLaws(SMALL, check(SMALL, DAYS.records), index_of(source)).check_all("the last release")


def changed(source_key: str, **values: Any) -> dict:
    """The last source with another row under a source key."""
    record = FINAL[source_key]
    return FINAL | {source_key: replace(record, row=replace(record.row, **values))}


def moved(source_key: str, qi_group: int) -> dict:
    """The last source with a row in another QI group."""
    return FINAL | {source_key: replace(FINAL[source_key], qi_group=qi_group)}


def _one_person() -> dict:
    number = FINAL[PLACED[0]].qi_group
    return {
        key: replace(record, row=replace(record.row, individual="one and the same"))
        if record.qi_group == number
        else record
        for key, record in FINAL.items()
    }


def _outside() -> dict:
    key = PLACED[0]
    (row, *_) = check(SMALL, DAYS.records).qi_groups[0, FINAL[key].qi_group].values()
    age = 22 if row.hi[0] < 4 else 0
    assert not row.lo[0] <= age // 5 <= row.hi[0]
    return changed(key, codes=(age, FINAL[key].row.codes[1]))


def _in_another_qi_group() -> dict:
    here = FINAL[PLACED[0]].qi_group
    other = next(FINAL[key].qi_group for key in PLACED if FINAL[key].qi_group != here)
    return moved(PLACED[0], qi_group=other)


SOURCE_FORGERIES = {
    "a row outside its box": ("containment", _outside),
    "another value than the published one": ("values", lambda: changed(PLACED[0], values=(b'"plague"',))),
    "a row that was forgotten": ("values", lambda: {key: FINAL[key] for key in FINAL if key != PLACED[0]}),
    "a published row that is pending": ("values", lambda: moved(PLACED[0], qi_group=PENDING)),
    "a row in another QI group": ("values", _in_another_qi_group),
    "k rows of one individual": ("individuals", _one_person),
}


def test_the_published_table_tells_the_truth_about_its_source() -> None:
    source_check(FINAL)


@pytest.mark.parametrize("name", sorted(SOURCE_FORGERIES))
def test_a_source_that_is_not_the_published_one_is_found(name: str) -> None:
    law, forge = SOURCE_FORGERIES[name]
    with pytest.raises(LawViolated, match=f"law '{law}' is broken at the last release, QI group 0-[0-9]+") as found:
        source_check(forge())
    assert "plague" not in str(found.value)


def test_an_unpublished_qi_group_of_the_index_table_is_found() -> None:
    with pytest.raises(LawViolated, match=r"law 'values' .* rows published: 0"):
        SourceLaws(SMALL, ChangelogLaws(SMALL), index_of(FINAL)).check_all("the last release")


LINES = [(key, (0, FINAL[key].qi_group)) for key in PLACED]
ROWS = {key: FINAL[key].row for key in PLACED}


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (LINES[1:], "source rows that are missing: 1"),
        ([*LINES, LINES[0]], f"row {len(LINES) + 1} names a source key for the second time"),
        ([("canary", None), *LINES], "row 1 names a source key that the source does not have"),
    ],
)
def test_index_table_and_source_hold_the_same_rows_once(
    lines: list[tuple[str, tuple[int, int] | None]], what: str
) -> None:
    assert len(index_table(ROWS, LINES)) == len(ROWS)
    with pytest.raises(LawViolated, match=f"law 'index' is broken at the index table: {what}") as found:
        index_table(ROWS, lines)
    assert "canary" not in str(found.value)


def test_every_source_law_has_its_forgery() -> None:
    assert {law for law, _ in SOURCE_FORGERIES.values()} | {"index"} == set(SOURCE_LAWS)


def test_an_index_table_forgets_where_a_row_was() -> None:
    index, row = IndexTable(), FINAL[PLACED[0]].row
    assert index.put("a", row, (0, 1)) == {(0, 1)}
    assert index.put("a", row, (0, 2)) == {(0, 1), (0, 2)}
    assert index.put("a", row, None) == {(0, 2)}
    assert index.remove("a") == index.remove("a") == set()
    assert (len(index), index.qi_groups) == (0, set())
