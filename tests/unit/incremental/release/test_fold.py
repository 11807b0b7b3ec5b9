"""The reader's rule: whoever folds the changelog sees tables of complete releases only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import LawViolated
from streamer.incremental.release.fold import Fold, FoldedRelease, ReleasePart, parse_part
from streamer.incremental.topics import JOINED, QIT, STT
from streamer.table.codes import KeptColumn, NumericAttribute
from streamer.table.published.rows import RowKey, published_columns, row_key
from streamer.table.schema import LOSSY_JOIN, Table
from worlds.small_tables import AGE, BMI, CITY, PROBLEM

TABLE = Table("people", ("id",), (AGE, BMI, CITY), (PROBLEM, KeptColumn("visits", sensitive=False)), k=2)


def row(shard: int, qi_group: int, problem: int, visits: str = "1") -> bytes:
    return (
        b'{"qi_group":"%d-%d","age_lo":1,"age_hi":5,"bmi_lo":10,"bmi_hi":12.5,"city":"west",'
        b'"problem":"%d","visits":%b}' % (shard, qi_group, problem, visits.encode())
    )


def shown(fold: Fold) -> list[tuple[str, str]]:
    return list(fold.to_frame()[["qi_group", "problem"]].itertuples(index=False, name=None))


# A release: which slots of which QI groups it writes (with a number as the problem) or removes.
RELEASES = st.lists(
    st.dictionaries(
        st.tuples(st.integers(1, 3), st.integers(0, 2)), st.none() | st.integers(0, 9), min_size=1, max_size=5
    ),
    min_size=1,
    max_size=6,
)

Releases = list[dict[tuple[int, int], int | None]]


class Sent(NamedTuple):
    """A record of the changelog, as `Fold.apply` takes it."""

    shard: int
    release: int
    through: int
    key: bytes
    value: bytes | None
    part: ReleasePart


def tables_after(releases: Releases, shard: int) -> list[list[tuple[str, str]]]:
    """The table before the first release and after each one, by brute force."""
    rows: dict[tuple[int, int], int] = {}
    tables: list[list[tuple[str, str]]] = [[]]
    for release in releases:
        rows = {place: problem for place, problem in (rows | release).items() if problem is not None}
        tables.append([(f"{shard}-{qi_group}", str(rows[qi_group, slot])) for qi_group, slot in sorted(rows)])
    return tables


def records_of(releases: Releases, shard: int) -> Iterator[Sent]:
    for number, release in enumerate(releases, start=1):
        for i, ((qi_group, slot), problem) in enumerate(release.items(), start=1):
            value = None if problem is None else row(shard, qi_group, problem)
            record_key = row_key(RowKey(shard, qi_group, slot))
            yield Sent(shard, number, 10 * number, record_key, value, ReleasePart(i, len(release)))


@given(releases=RELEASES, with_parts=st.booleans())
def test_the_table_is_at_every_record_that_of_a_complete_release(releases: Releases, with_parts: bool) -> None:
    fold, tables = Fold(TABLE), tables_after(releases, 0)
    assert shown(fold) == tables[0]
    for record in records_of(releases, 0):
        fold.apply(*record[:5], record.part if with_parts else None)
        complete = with_parts and record.part.number == record.part.total
        assert shown(fold) == tables[record.release if complete else record.release - 1]
    fold.finish()
    assert shown(fold) == tables[-1]


@given(first=RELEASES, second=RELEASES, data=st.data())
def test_shards_complete_their_releases_each_by_itself(first: Releases, second: Releases, data: st.DataObject) -> None:
    fold = Fold(TABLE)
    queues = [list(records_of(first, 0)), list(records_of(second, 1))]
    complete = [0, 0]
    while any(queues):
        shard = data.draw(st.sampled_from([shard for shard in (0, 1) if queues[shard]]))
        record = queues[shard].pop(0)
        for release in fold.apply(*record):
            complete[release.shard] = release.number
        assert shown(fold) == tables_after(first, 0)[complete[0]] + tables_after(second, 1)[complete[1]]
    assert complete == [len(first), len(second)]


@given(releases=RELEASES, data=st.data())
def test_a_record_of_the_newest_release_that_comes_twice_is_harmless(releases: Releases, data: st.DataObject) -> None:
    fold = Fold(TABLE)
    seen: list[Sent] = []
    tables, current = tables_after(releases, 0), 0
    for record in records_of(releases, 0):
        seen = [earlier for earlier in seen if earlier.release == record.release] + [record]
        for again in [record, *data.draw(st.lists(st.sampled_from(seen), max_size=3))]:
            for release in fold.apply(*again):
                current = max(current, release.number)
            if again.part.number == again.part.total or seen[-1].part.number < seen[-1].part.total:
                assert shown(fold) == tables[current]
    fold.finish()
    assert shown(fold) == tables[-1]


def test_a_release_is_returned_with_its_records_when_it_is_complete() -> None:
    fold = Fold(TABLE)
    keys = [row_key(RowKey(0, 1, slot)) for slot in range(3)]
    assert fold.apply(0, 1, 5, keys[0], row(0, 1, 0)) == []
    assert not fold.is_whole(0)
    first, second = fold.apply(0, 2, 9, keys[1], row(0, 1, 1), ReleasePart(1, 1))
    assert (first.number, first.through, first.records) == (1, 5, [(keys[0], row(0, 1, 0))])
    assert (second.number, second.through, second.records) == (2, 9, [(keys[1], row(0, 1, 1))])
    assert fold.is_whole(0)
    assert fold.finish() == []


def test_only_the_finished_shard_shows_what_has_come() -> None:
    fold = Fold(TABLE)
    for shard in (0, 1):
        fold.apply(shard, 1, 1, row_key(RowKey(shard, 1, 0)), row(shard, 1, shard))
    assert [release.shard for release in fold.finish(1)] == [1]
    assert shown(fold) == [("1-1", "1")]
    assert fold.finish(7) == []


def test_rows_stand_by_shard_number_and_slot_not_by_text() -> None:
    fold = Fold(TABLE)
    for shard, qi_group, slot in [(10, 1, 0), (2, 11, 0), (2, 9, 10), (2, 9, 2)]:
        fold.apply(shard, 1, 1, row_key(RowKey(shard, qi_group, slot)), row(shard, qi_group, slot))
    fold.finish()
    assert shown(fold) == [("2-9", "2"), ("2-9", "10"), ("2-11", "0"), ("10-1", "0")]
    assert fold.n_rows == 4
    assert set(fold.to_frame(shards={10})["qi_group"]) == {"10-1"}


def test_the_frame_has_the_published_columns_in_types_to_compute_with() -> None:
    fold = Fold(TABLE)
    for slot, visits in enumerate(["7", "null", "2.5", "true"]):
        fold.apply(0, 1, 1, row_key(RowKey(0, 1, slot)), row(0, 1, slot, visits))
    fold.finish()
    frame = fold.to_frame()
    assert tuple(frame.columns) == published_columns(TABLE)
    assert [str(frame[name].dtype) for name in ("age_lo", "bmi_hi", "city")] == ["int64", "float64", "str"]
    assert frame["visits"].tolist() == [7, None, 2.5, True]
    assert frame["bmi_hi"].tolist() == [12.5] * 4


def test_the_frame_gives_back_every_digit_that_was_published() -> None:
    tiny = Decimal("0.00000000000000001")
    long = NumericAttribute("bmi", (Decimal(10), Decimal("12.50000000000000003")), tiny, tiny, tiny)
    fold = Fold(replace(TABLE, attributes=(AGE, long, CITY)))
    for slot, visits in enumerate(["9007199254740993", "9007199254740993.5", "0.1"]):
        published = row(0, 1, slot, visits).replace(b"12.5", b"12.50000000000000003")
        fold.apply(0, 1, 1, row_key(RowKey(0, 1, slot)), published)
    fold.finish()
    frame = fold.to_frame()
    assert frame["bmi_hi"].tolist() == [Decimal("12.50000000000000003")] * 3
    assert frame["visits"].tolist() == [9007199254740993, Decimal("9007199254740993.5"), 0.1]


@pytest.mark.parametrize("age", [b"4.5", b"99999999999999999999", b'"4"', b"true", b"[4]"])
def test_an_end_that_is_not_of_its_columns_type_is_refused_and_not_cut_off(age: bytes) -> None:
    fold = Fold(TABLE)
    fold.apply(0, 1, 1, row_key(RowKey(0, 1, 0)), row(0, 1, 0).replace(b'"age_lo":1', b'"age_lo":' + age))
    fold.finish()
    with pytest.raises(LawViolated, match="published columns"):
        fold.to_frame()


def test_an_empty_table_has_the_same_columns_and_types() -> None:
    frame = Fold(TABLE).to_frame()
    assert tuple(frame.columns) == published_columns(TABLE)
    assert (len(frame), str(frame["age_lo"].dtype)) == (0, "int64")
    pd.testing.assert_frame_equal(frame, Fold(TABLE).to_frame(shards={3}))


def test_foreign_rows_are_refused_without_their_values() -> None:
    fold = Fold(TABLE)
    fold.apply(0, 1, 1, row_key(RowKey(0, 1, 0)), b'{"qi_group":"0-1","canary":7319}')
    fold.finish()
    with pytest.raises(LawViolated, match="published columns") as found:
        fold.to_frame()
    assert "7319" not in str(found.value)


@pytest.mark.parametrize("text", [b"", b"3", b"0/3", b"4/3", b"1/x", b"-1/3", b"1/2/3", b"9" * 50 + b"/" + b"9" * 60])
def test_a_part_is_a_number_of_a_total(text: bytes) -> None:
    with pytest.raises(LawViolated, match="3/14"):
        parse_part(text)


JOIN = replace(TABLE, form=LOSSY_JOIN)


def told(fold: Fold, topic: str, release: int, part: tuple[int, int], beside: int) -> list[int]:
    """A record of one of two topics; the numbers of the releases that became visible."""
    key = b"%b %d %d" % (topic.encode(), release, part[0])
    complete = fold.apply(0, release, 10 * release, key, b"", ReleasePart(*part), topic, beside)
    return [one.number for one in complete]


def test_what_two_topics_have_of_a_release_becomes_visible_together() -> None:
    fold = Fold(JOIN)
    assert told(fold, QIT, 1, (1, 1), beside=2) == []
    assert told(fold, QIT, 2, (1, 1), beside=0) == []  # not before the release that stands before it
    assert told(fold, STT, 1, (1, 2), beside=1) == []
    assert not fold.is_whole(0)
    assert told(fold, STT, 1, (2, 2), beside=1) == [1, 2]
    assert fold.is_whole(0)
    assert told(fold, STT, 3, (1, 1), beside=0) == [3]
    assert len(fold.stored()) == 5


def test_where_compaction_has_taken_what_the_topics_wait_for_the_earlier_release_goes_first() -> None:
    fold = Fold(JOIN)
    assert told(fold, QIT, 5, (2, 2), beside=3) == []
    assert told(fold, STT, 9, (1, 1), beside=1) == [5]
    assert told(fold, QIT, 9, (1, 1), beside=1) == [9]
    assert told(fold, QIT, 12, (1, 2), beside=1) == []
    assert [release.number for release in fold.finish(0)] == [12]
    assert fold.is_whole(0)


def test_one_release_of_two_topics_is_returned_with_the_records_of_both() -> None:
    fold = Fold(JOIN)
    told(fold, STT, 1, (1, 1), beside=1)
    (release,) = fold.apply(0, 1, 10, b"cells", b"", ReleasePart(1, 1), QIT, 1)
    assert (release.through, len(release.records)) == (10, 2)


# -- a release that lies in one of two topics alone


class Row(NamedTuple):
    """A record of a lossy join."""

    release: int
    topic: str
    key: bytes
    value: bytes | None
    part: ReleasePart
    beside: int
    after: int | None


Writes = list[dict[tuple[str, int], int | None]]
WRITES = st.lists(
    st.dictionaries(
        st.tuples(st.sampled_from([QIT, STT]), st.integers(0, 3)), st.none() | st.integers(0, 9), min_size=1, max_size=4
    ),
    min_size=1,
    max_size=8,
)


def joined(writes: Writes) -> list[Row]:
    """Releases with their headers, from 1 on."""
    rows: list[Row] = []
    last: dict[str, int] = {}
    for number, release in enumerate(writes, start=1):
        totals = {kind: sum(topic == kind for topic, _ in release) for kind in (QIT, STT)}
        seen = dict.fromkeys(totals, 0)
        for (topic, n), value in release.items():
            seen[topic] += 1
            other, part = JOINED[topic], ReleasePart(seen[topic], totals[topic])
            text, after = None if value is None else b"%d" % value, None if totals[other] else last.get(other)
            rows.append(Row(number, topic, b"%b %d" % (topic.encode(), n), text, part, totals[other], after))
        last |= {kind: number for kind, total in totals.items() if total}
    return rows


def joined_tables(rows: list[Row]) -> list[dict[bytes, bytes]]:
    """The table before the first release and after each one, by brute force."""
    tables: list[dict[bytes, bytes]] = [{}]
    for number in range(1, max(one.release for one in rows) + 1):
        written = {one.key: one.value for one in rows if one.release == number}
        tables.append({key: value for key, value in {**tables[-1], **written}.items() if value is not None})
    return tables


def interleaved(rows: list[Row], data: st.DataObject) -> Iterator[Row]:
    left = {kind: [one for one in rows if one.topic == kind] for kind in (QIT, STT)}
    while any(left.values()):
        kind = data.draw(st.sampled_from([kind for kind, queue in left.items() if queue]))
        for _ in range(data.draw(st.integers(1, len(left[kind])))):
            yield left[kind].pop(0)


def tell(fold: Fold, one: Row) -> list[int]:
    complete = fold.apply(0, one.release, 1, one.key, one.value, one.part, one.topic, one.beside, after=one.after)
    return [release.number for release in complete]


@given(writes=WRITES, data=st.data())
def test_however_two_topics_come_every_release_is_shown_and_in_its_order(writes: Writes, data: st.DataObject) -> None:
    rows, fold = joined(writes), Fold(JOIN)
    tables, seen = joined_tables(rows), list[int]()
    for one in interleaved(rows, data):
        seen += tell(fold, one)
        assert seen == list(range(1, len(seen) + 1))
        assert dict(fold.stored()) == tables[len(seen)]
    assert len(seen) == len(writes)


@given(writes=WRITES, later=WRITES, data=st.data())
def test_after_compaction_nothing_stays_back_and_what_comes_then_is_in_order(
    writes: Writes, later: Writes, data: st.DataObject
) -> None:
    """What was overwritten, and any removal, may be gone; `finish` says that all there is of it is read."""
    rows, n = joined([*writes, *later]), len(writes)
    old, new = ([one for one in rows if (one.release <= n) == is_old] for is_old in (True, False))
    gone = set[int]()
    for key in {one.key for one in old}:
        places = [i for i, one in enumerate(old) if one.key == key]
        may_go = places if old[places[-1]].value is None else places[:-1]
        gone |= set(may_go[: data.draw(st.integers(0, len(may_go)))])
    kept = [one for i, one in enumerate(old) if i not in gone]
    fold, tables, seen = Fold(JOIN), joined_tables(rows), list[int]()
    for one in interleaved(kept, data):
        seen += tell(fold, one)
    seen += [release.number for release in fold.finish(0)]
    assert seen == sorted(seen)
    assert dict(fold.stored()) == tables[n]
    shown = []
    for one in interleaved(new, data):
        shown += tell(fold, one)
        if fold.awaits(0) is not None:
            shown += [release.number for release in fold.read_up_to(0, n)]
        assert shown == list(range(n + 1, n + 1 + len(shown)))
        assert dict(fold.stored()) == tables[n + len(shown)]
    assert len(shown) == len(later)


def test_a_release_does_not_wait_for_one_that_the_caller_knows_will_never_come() -> None:
    fold = Fold(JOIN)
    assert tell(fold, Row(41, QIT, b"cells", b"", ReleasePart(1, 1), 0, 40)) == []
    assert fold.awaits(0) == 41
    assert [release.number for release in fold.read_up_to(0, 41)] == [41]
    assert (fold.awaits(0), fold.is_whole(0)) == (None, True)


def test_a_release_says_how_many_of_its_records_have_not_come() -> None:
    fold = Fold(JOIN)
    told(fold, QIT, 5, (3, 3), beside=2)
    (release,) = fold.finish(0)
    assert release.lacks == 4


# -- a release that holds the whole table


def keyed(slot: int) -> bytes:
    return row_key(RowKey(0, 1, slot))


def written(fold: Fold, release: int, slots: str, whole: int = 0) -> list[FoldedRelease]:
    """A release that writes some slots of one QI group; the releases that became visible."""
    complete = []
    for i, slot in enumerate(map(int, slots), start=1):
        row_there, part = row(0, 1, release), ReleasePart(i, len(slots))
        complete += fold.apply(0, release, 10 * release, keyed(slot), row_there, part, whole=whole)
    return complete


def test_a_release_of_the_whole_table_leaves_no_earlier_row_whatever_was_lost_before_it() -> None:
    fold = Fold(TABLE)
    written(fold, 5, "012")
    (release,) = written(fold, 9, "13", whole=9)
    assert shown(fold) == [("0-1", "9"), ("0-1", "9")]
    assert release.is_whole
    assert [key for key, value in release.records if value is None] == [keyed(0), keyed(2)]
    (release,) = written(fold, 10, "4", whole=9)
    assert (release.is_whole, fold.n_rows) == (False, 3)


def test_a_row_that_nobody_removes_is_gone_though_compaction_took_all_of_the_whole_table() -> None:
    fold = Fold(TABLE)
    written(fold, 5, "012")
    written(fold, 11, "13", whole=9)
    assert shown(fold) == [("0-1", "11"), ("0-1", "11")]


def test_half_a_release_of_two_topics_is_never_shown_before_the_whole_table_that_makes_up_for_it() -> None:
    """The other topic has lost release 5."""
    fold = Fold(JOIN)
    assert told(fold, STT, 5, (1, 1), beside=1) == []
    fold.apply(0, 6, 60, b"cells", b"", ReleasePart(1, 1), QIT, 1, whole=6)
    assert fold.stored() == []
    (release,) = fold.apply(0, 6, 60, b"values", b"", ReleasePart(1, 1), STT, 1, whole=6)
    assert (release.number, sorted(fold.stored())) == (6, [(b"cells", b""), (b"values", b"")])
