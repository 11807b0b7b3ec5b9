"""The laws of a published changelog, as code that anyone can run: over a file, beside a stream, in every test.

The rules of this file
----------------------
* Nothing here is shared with the engine that wrote the changelog but the form of a row: the laws are checked from what
  was published.
* Work is in proportion to what a release touches: a QI group is looked at when one of its rows was.
* The first violation is raised as `LawViolated`, in one sentence that names the law, the release, the QI group, the
  slot or the column, and never a value.
* They need the changelog alone. They count rows: where k counts individuals, a group of k rows may still hold too few
  of them, and only `streamer.incremental.checks.source` can see that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from streamer.errors import LawViolated
from streamer.incremental.release.fold import Part, Release
from streamer.table.published import PublishedRow, RowReader, parse_key, qi_group_name
from streamer.table.schema import Table

CHANGELOG_LAWS = {
    "parts": "the records of a release are its parts 1 to n, all with the same `through`",
    "release order": "a shard's releases are numbered without gaps, and `through` never goes back",
    "form": "rows have the published columns; intervals lie on the grid, labels are nodes of their hierarchy",
    "names": "a record lies in the shard of its QI group, and key and row name the same one",
    "tombstones": "only what is published is removed",
    "numbers": "numbers of QI groups grow, and one whose last row went never comes back",
    "slots": "the slots of a QI group are 0 to n - 1",
    "one box": "all rows of a QI group agree in every quasi-identifier",
    "size": "a QI group has at least k rows",
}

QIGroupId = tuple[int, int]
"""Shard and number."""


class LiveRecord(NamedTuple):
    """One record of the changelog with what its headers say; value None is a tombstone."""

    shard: int
    release: int
    through: int
    key: bytes
    value: bytes | None
    part: Part | None = None


def violation(law: str, where: str, what: str) -> LawViolated:
    """The sentence about a broken law."""
    return LawViolated(f"law {law!r} is broken at {where}: {what}")


def release_name(release: Release) -> str:
    """How a sentence names a release."""
    return f"release {release.number} of shard {release.shard}"


def in_releases(records: Iterable[LiveRecord]) -> Iterator[Release]:
    """Groups the records by release, in the order in which the releases end; checks the law `parts`."""
    unfinished: dict[int, _Unfinished] = {}
    for record in records:
        current = unfinished.get(record.shard)
        if current is not None and current.release.number != record.release:
            yield current.finish()
            current = None
        if current is None:
            release = Release(record.shard, record.release, record.through, [])
            current = unfinished[record.shard] = _Unfinished(release)
        current.add(record)
    for current in unfinished.values():
        yield current.finish()


class _Unfinished:
    """A release some of whose records have come."""

    __slots__ = ("part", "release")

    def __init__(self, release: Release) -> None:
        self.release = release
        self.part: Part | None = None

    def add(self, record: LiveRecord) -> None:
        records = self.release.records
        records.append((record.key, record.value))
        self.part = record.part
        if record.through != self.release.through:
            raise self._broken("its records do not agree on `through`")
        if record.part is not None and record.part.number != len(records):
            raise self._broken(f"part {len(records)} is missing or out of order")

    def finish(self) -> Release:
        if self.part is not None and self.part.number != self.part.total:
            raise self._broken(f"it ends with part {self.part.number} of {self.part.total}")
        return self.release

    def _broken(self, what: str) -> LawViolated:
        return violation("parts", release_name(self.release), what)


class _Shard:
    """How far a shard's changelog has come."""

    __slots__ = ("highest", "release", "through")

    def __init__(self) -> None:
        self.release: int | None = None
        self.through = 0
        self.highest = 0


class ChangelogLaws:
    """Follows a changelog release by release and checks `CHANGELOG_LAWS`.

    qi_groups: what is published now, rows by slot. Feed it from the first record on: it cannot judge half a changelog.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._reader = RowReader(table)
        self._shards: dict[int, _Shard] = {}
        self.qi_groups: dict[QIGroupId, dict[int, PublishedRow]] = {}

    @property
    def n_rows(self) -> int:
        return sum(map(len, self.qi_groups.values()))

    def check(self, release: Release) -> set[QIGroupId]:
        """Applies one release; returns the QI groups it touched. Raises LawViolated at the first broken law."""
        where = release_name(release)
        shard = self._shards.setdefault(release.shard, _Shard())
        self._check_order(shard, release, where)
        touched: set[QIGroupId] = set()
        highest = shard.highest
        for key, value in release.records:
            qi_group = self._apply(release.shard, key, value, highest, where)
            touched.add(qi_group)
            shard.highest = max(shard.highest, qi_group[1])
        for qi_group in sorted(touched):
            self._check_qi_group(qi_group, where)
        return touched

    def _check_order(self, shard: _Shard, release: Release, where: str) -> None:
        expected = (0, 1) if shard.release is None else (shard.release + 1,)
        if release.number not in expected:
            before = "nothing" if shard.release is None else f"release {shard.release}"
            raise violation("release order", where, f"it comes after {before}")
        if release.through < shard.through:
            raise violation("release order", where, f"`through` goes back from {shard.through} to {release.through}")
        shard.release, shard.through = release.number, release.through

    def _apply(self, shard: int, key: bytes, value: bytes | None, highest: int, where: str) -> QIGroupId:
        """Applies one record; `highest`: the largest number of a QI group before this release."""
        try:
            row_key = parse_key(key)
        except LawViolated as error:
            raise violation("form", where, str(error)) from None
        qi_group, name = (row_key.shard, row_key.qi_group), qi_group_name(row_key.shard, row_key.qi_group)
        subject = f"{where}, QI group {name}, slot {row_key.slot}"
        if row_key.shard != shard:
            raise violation("names", subject, "the QI group belongs to another shard")
        slots = self.qi_groups.get(qi_group)
        if value is None:
            if slots is None or slots.pop(row_key.slot, None) is None:
                raise violation("tombstones", subject, "a row is removed that is not published")
            return qi_group
        if slots is None:
            if row_key.qi_group <= highest:
                raise violation("numbers", subject, f"a new QI group must have a number above {highest}")
            slots = self.qi_groups[qi_group] = {}
        slots[row_key.slot] = self._read(value, name, subject)
        return qi_group

    def _read(self, value: bytes, name: str, subject: str) -> PublishedRow:
        try:
            row = self._reader.read(value)
        except LawViolated as error:
            raise violation("form", subject, str(error)) from None
        if row.qi_group != name:
            raise violation("names", subject, "column qi_group names another one than the key")
        return row

    def _check_qi_group(self, qi_group: QIGroupId, where: str) -> None:
        slots = self.qi_groups[qi_group]
        if not slots:
            del self.qi_groups[qi_group]
            return
        subject = f"{where}, QI group {qi_group_name(*qi_group)}"
        if len(slots) < self._table.k:
            raise violation("size", subject, f"rows published: {len(slots)}, k = {self._table.k}")
        if max(slots) != len(slots) - 1:
            slot = next(slot for slot in range(len(slots)) if slot not in slots)
            raise violation("slots", subject, f"slot {slot} of {len(slots)} is not there")
        rows = iter(slots.values())
        first = next(rows)
        for row in rows:
            if row.lo != first.lo or row.hi != first.hi:
                raise violation("one box", subject, f"its rows differ in column {self._differing(first, row)}")

    def _differing(self, a: PublishedRow, b: PublishedRow) -> str:
        differs = (a.lo[j] != b.lo[j] or a.hi[j] != b.hi[j] for j in range(len(a.lo)))
        return next(x.name for x, unequal in zip(self._table.attributes, differs, strict=True) if unequal)
