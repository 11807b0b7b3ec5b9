"""The laws of a changelog: what the engine publishes keeps them, and every small forgery is found and named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import LawViolated
from streamer.incremental.checks.as_published import RowsSeen
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases, laws_of
from streamer.incremental.checks.source import SourceLaws
from streamer.table.codes import Diversity
from streamer.table.published.rows import parse_key
from worlds.busy_days import SMALL, busy_days, check, history_of, index_of
from worlds.published_groups import FORMS
from worlds.small_tables import MODEL_TABLES, TABLES, changes

ALL_TABLES = {**TABLES, **MODEL_TABLES}


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data(), name=st.sampled_from(sorted(ALL_TABLES)))
def test_what_the_engine_publishes_keeps_every_law_at_every_release(form: str, data: st.DataObject, name: str) -> None:
    small = replace(ALL_TABLES[name], form=form)
    history = history_of(small, data.draw(st.lists(st.lists(changes(small), max_size=12), max_size=8)))
    laws = ChangelogLaws(small)
    for release, source in zip(in_releases(history.records), history.sources, strict=True):
        laws.check(release)
        SourceLaws(small, laws, index_of(source)).check_all("here")


# -- one forgery per law ----------------------------------------------------------------------------------------------


def at(release: int, where: Callable[[LiveRecord], bool] = lambda record: record.value is not None) -> int:
    """Place of the first record of a release that fits."""
    return next(i for i, record in enumerate(busy_days().records) if record.release == release and where(record))


def edited(place: int, **changed: Any) -> list[LiveRecord]:
    records = list(busy_days().records)
    records[place] = records[place]._replace(**changed)
    return records


def without_parts(records: Iterable[LiveRecord]) -> list[LiveRecord]:
    return [record._replace(part=None) for record in records]


def rewritten(place: int, old: bytes, new: bytes) -> list[LiveRecord]:
    value = busy_days().records[place].value
    assert value is not None and old in value
    return edited(place, value=value.replace(old, new, 1))


def column(place: int, name: bytes) -> bytes:
    """The text of a row from the name of a column to the next comma."""
    value = busy_days().records[place].value or b""
    return value[value.index(b'"%b"' % name) :].split(b",")[0].rstrip(b"}")


@cache
def last() -> int:
    """The last release."""
    return busy_days().records[-1].release


@cache
def middle() -> int:
    """A release in the middle that removes something."""
    removing = {record.release for record in busy_days().records if record.value is None}
    return min(release for release in removing if release >= last() // 2)


def removed() -> int:
    """Where release `middle` removes a row first."""
    return at(middle(), lambda record: record.value is None)


def written() -> int:
    """Where release `middle` writes a row first."""
    return at(middle())


def _another_number() -> list[LiveRecord]:
    """A QI group of release `middle` under a number that was in use before and is not any more."""
    live = {number for _, number in check(SMALL, busy_days().records).qi_groups}
    used = {parse_key(record.key).qi_group for record in busy_days().records}
    retired = min(used - live)
    name = b'"0-%d"' % retired
    records = [
        LiveRecord(0, last() + 1, 10**6, b'{"qi_group":%b,"slot":%d}' % (name, slot), row, None)
        for slot in range(3)
        for row in [b'{"qi_group":%b,"age_lo":1,"age_hi":5,"city":"a1","problem":"flu"}' % name]
    ]
    return without_parts(busy_days().records) + records


def highest(laws: ChangelogLaws) -> tuple[int, list[int]]:
    """The highest number of a QI group, and its slots."""
    (_, number), seen = max(laws.qi_groups.items())
    assert isinstance(seen, RowsSeen)
    return number, [slot for slot in seen.slots if isinstance(slot, int)]


def _shrunk_below_k() -> list[LiveRecord]:
    """All but one row of a living QI group are removed."""
    laws = check(SMALL, busy_days().records)
    number, slots = highest(laws)
    removals = [
        LiveRecord(0, last() + 1, 10**6, b'{"qi_group":"0-%d","slot":%d}' % (number, slot), None)
        for slot in range(1, len(slots))
    ]
    return without_parts(busy_days().records) + removals


def _hole_in_the_slots() -> list[LiveRecord]:
    """The highest slot of a QI group moves one place up."""
    number, slots = highest(check(SMALL, busy_days().records))
    top = max(slots)
    key = b'{"qi_group":"0-%d","slot":%%d}' % number
    value = next(record.value for record in reversed(busy_days().records) if record.key == key % top)
    moved = [(key % top, None), (key % (top + 1), value)]
    return without_parts(busy_days().records) + [LiveRecord(0, last() + 1, 10**6, *record) for record in moved]


def _two_boxes() -> list[LiveRecord]:
    """One row of a QI group that was written whole says another city than the others."""
    rows = [i for i, record in enumerate(busy_days().records) if record.release == 1 and record.value is not None]
    return rewritten(rows[0], column(rows[0], b"city"), b'"city":"d1"')


def _of_one_value() -> list[LiveRecord]:
    """All rows of a living QI group say the same problem."""
    number, slots = highest(check(SMALL, busy_days().records))
    rows_written = {record.key: record.value for record in busy_days().records if record.value is not None}
    keys = [b'{"qi_group":"0-%d","slot":%d}' % (number, slot) for slot in slots]
    rows = [(key, re.sub(rb'"problem":[^,}]*', b'"problem":"plague"', rows_written[key])) for key in keys]
    return without_parts(busy_days().records) + [LiveRecord(0, last() + 1, 10**6, *row) for row in rows]


FORGERIES: dict[str, tuple[str, Callable[[], list[LiveRecord]]]] = {
    "a lost part": ("parts", lambda: busy_days().records[: at(middle())] + busy_days().records[at(middle()) + 1 :]),
    "a lost last part": (
        "parts",
        lambda: [r for r in busy_days().records if r.part != busy_days().records[at(last())].part],
    ),
    "a part that comes twice": (
        "parts",
        lambda: [*busy_days().records[: written() + 1], *busy_days().records[written() :]],
    ),
    "records that disagree on through": ("parts", lambda: edited(removed(), through=10**9)),
    "a lost release": ("release order", lambda: [r for r in busy_days().records if r.release != middle()]),
    "a lost beginning": ("release order", lambda: [r for r in busy_days().records if r.release > 1]),
    "a release that comes twice": (
        "release order",
        lambda: [
            r for number in (*range(middle() + 1), middle() - 1) for r in busy_days().records if r.release == number
        ],
    ),
    "two releases the wrong way round": (
        "release order",
        lambda: sorted(
            busy_days().records,
            key=lambda r: {middle(): middle() + 1, middle() + 1: middle()}.get(r.release, r.release),
        ),
    ),
    "through that goes back": (
        "release order",
        lambda: [r._replace(through=0) if r.release == middle() else r for r in busy_days().records],
    ),
    "an interval off the grid": ("form", lambda: rewritten(written(), column(written(), b"age_lo"), b'"age_lo":2')),
    "an interval outside the domain": (
        "form",
        lambda: rewritten(written(), column(written(), b"age_hi"), b'"age_hi":25'),
    ),
    "a label that is no node": ("form", lambda: rewritten(written(), column(written(), b"city"), b'"city":"canary"')),
    "a column too many": ("form", lambda: rewritten(written(), b"{", b'{"ssn":"canary",')),
    "a column too few": ("form", lambda: rewritten(written(), column(written(), b"age_lo") + b",", b"")),
    "a key of another form": ("form", lambda: edited(written(), key=b'{"id":"canary"}')),
    "a row that names another QI group": (
        "names",
        lambda: rewritten(written(), column(written(), b"qi_group"), b'"qi_group":"0-999"'),
    ),
    "a QI group of another shard": (
        "names",
        lambda: edited(written(), key=busy_days().records[written()].key.replace(b'"0-', b'"1-')),
    ),
    "a removal of nothing": ("tombstones", lambda: [*busy_days().records[: written()], *_removal_of_nothing()]),
    "a number that comes back": ("numbers", _another_number),
    "a hole in the slots": ("slots", _hole_in_the_slots),
    "two boxes in one QI group": ("one box", _two_boxes),
    "a QI group below k": ("size", _shrunk_below_k),
    "a QI group of one value": ("model", _of_one_value),
}


def _removal_of_nothing() -> list[LiveRecord]:
    return [LiveRecord(0, middle(), 10**6, b'{"qi_group":"0-1","slot":999}', None)]


def test_the_unforged_days_keep_every_law() -> None:
    laws = check(SMALL, busy_days().records)
    assert last() > 20
    assert laws.n_rows > 20
    assert {record.value is None for record in busy_days().records} == {True, False}


def test_through_may_go_back_where_a_release_says_that_it_did_not_come_from_the_input() -> None:
    """A table that begins anew may go on at a lower offset; what follows is held to that one."""
    begun = [r._replace(through=0, outside=True) if r.release == middle() else r for r in busy_days().records]
    assert check(SMALL, begun).n_rows == check(SMALL, busy_days().records).n_rows
    after = [r._replace(through=-1) if r.release == middle() + 1 else r for r in begun]
    with pytest.raises(LawViolated, match="'release order'"):
        check(SMALL, after)


@pytest.mark.parametrize("name", sorted(FORGERIES))
def test_a_forged_changelog_is_found_and_the_law_is_named(name: str) -> None:
    law, forge = FORGERIES[name]
    with pytest.raises(LawViolated, match=f"law '{law}' is broken at release [0-9]+ of shard 0") as found:
        check(SMALL, forge())
    assert not any(value in str(found.value) for value in ("canary", "plague"))


def whole_again(gone: int) -> list[LiveRecord]:
    """The days without the last releases, and then the table that these leave, as a release of the whole table."""
    records = [r for r in busy_days().records if r.release <= last() - gone]
    table = {r.key: r.value for r in busy_days().records}
    rows = [(key, value) for key, value in sorted(table.items()) if value is not None]
    return [*records, *(LiveRecord(0, last() + 1, 10**6, *row, whole=last() + 1) for row in rows)]


@pytest.mark.parametrize("gone", [0, 1, 5])
def test_a_release_of_the_whole_table_may_follow_after_a_hole_and_is_all_that_is_published_then(gone: int) -> None:
    held, expected = (check(SMALL, records) for records in (whole_again(gone), busy_days().records))
    assert held.qi_groups.keys() == expected.qi_groups.keys()
    assert held.n_rows == expected.n_rows
    beyond = LiveRecord(0, last() + 1, 10**6, b'{"qi_group":"0-1","slot":999}', None, whole=last() + 1)
    assert check(SMALL, [*whole_again(gone), beyond]).n_rows == expected.n_rows


def test_a_release_of_the_whole_table_is_held_to_every_other_law() -> None:
    with pytest.raises(LawViolated, match=r"'(slots|size)'"):
        check(SMALL, whole_again(1)[:-1])
    later = [r._replace(release=last() + 3) if r.whole else r for r in whole_again(1)]
    with pytest.raises(LawViolated, match="'release order'"):  # the whole table itself is lost
        check(SMALL, later)


def test_rows_show_l_and_shares_and_how_many_rows_a_share_of_individuals_needs() -> None:
    """Whose the rows are they do not show."""
    for asked, what in (
        ({"l": 4}, "distinct values of problem other than null are fewer than 4"),
        ({"beta": Decimal("0.3")}, "the largest share allowed is 0.3"),
        ({"alpha": Decimal("0.1")}, "rows are fewer than k = 10"),
    ):
        with pytest.raises(LawViolated, match=f"law 'model' is broken at release .*, QI group .*: .*{what}"):
            check(replace(SMALL, diversity=Diversity(**asked)), busy_days().records)


def test_every_law_of_a_changelog_has_its_forgery() -> None:
    assert {law for law, _ in FORGERIES.values()} == set(laws_of(SMALL))


def test_the_sentence_names_the_release_the_qi_group_and_the_slot() -> None:
    key = parse_key(busy_days().records[written()].key)
    place = f"release {middle()} of shard 0, QI group 0-{key.qi_group}, slot {key.slot}: column age"
    with pytest.raises(LawViolated, match=place):
        check(SMALL, FORGERIES["an interval off the grid"][1]())


def test_shards_may_come_in_any_mixture() -> None:
    other = [
        record._replace(
            shard=1,
            key=record.key.replace(b'"0-', b'"1-'),
            value=record.value and record.value.replace(b'"0-', b'"1-'),
        )
        for record in busy_days().records
    ]
    mixed = [record for pair in zip(busy_days().records, other, strict=True) for record in pair]
    assert check(SMALL, mixed).n_rows == 2 * check(SMALL, busy_days().records).n_rows
