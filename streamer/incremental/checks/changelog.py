"""The laws of a published changelog, as code that anyone can run: over a file, beside a stream, in every test.

* The laws share nothing with the engine except the form of what is published. Each form says for itself which records
  say what of a QI group (`as_published`).
* Work is in proportion to what a release touches: a QI group is checked if one of its records has come.
* The first violation is raised as `LawViolated`: one sentence that names the law, the release, the QI group, the
  slot or the column, and never a value.
* The changelog alone is enough. The laws count rows and published values: if k counts individuals, a group of k
  rows may still have too few of them, or too many rows of one. Only `streamer.incremental.checks.source` sees that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from streamer.errors import LawViolated
from streamer.incremental.checks.as_published import FORMS, GroupSeen, Item, OtherGroupNamed, QIGroupId, group_name
from streamer.incremental.release.fold import FoldedRelease, ReleasePart
from streamer.incremental.topics import LIVE
from streamer.privacy.models import SubjectCodes, model_of, shown_by_rows, subject_names
from streamer.table.schema import LOSSY_JOIN, ROWS, Table

CHANGELOG_LAWS = {
    "parts": "the records of a release are its parts 1 to n, all with the same `through`",
    "release order": "a shard's releases are numbered without gaps, or the next one holds the whole table; `through` "
    "goes back only if a table is reloaded",
    "form": "rows have the published columns; intervals are on the grid, labels are nodes of their hierarchy",
    "names": "a record is in the shard of its QI group, and key and row name the same one",
    "tombstones": "only what is published is removed",
    "numbers": "numbers of QI groups grow, and the number of a group without rows never comes back, but for a group "
    "that `coarsest` withheld",
    "slots": "the slots of a QI group are 0 to n - 1",
    "one box": "all rows of a QI group agree in every quasi-identifier",
    "coarsest": "no box is wider than table.yaml allows",
    "two tables": "a QI group has cells and values, and not more different cells than rows",
    "size": "a QI group has at least k rows",
    "model": "a QI group holds the privacy model, as far as rows show it: l, beta, r and the rows that a share needs",
}

_OF_ONE_FORM = {"slots": ROWS, "one box": ROWS, "two tables": LOSSY_JOIN}
"""Laws that only one form can break."""


def laws_of(table: Table) -> list[str]:
    """The laws for the table's form."""
    laws = [law for law in CHANGELOG_LAWS if _OF_ONE_FORM.get(law, table.form) == table.form]
    return laws if table.space.is_bounded else [law for law in laws if law != "coarsest"]


class LiveRecord(NamedTuple):
    """One record of the changelog and its headers; value None is a tombstone."""

    shard: int
    release: int
    through: int
    key: bytes
    value: bytes | None
    part: ReleasePart | None = None
    topic: str = LIVE
    outside: bool = False
    whole: int = 0  # as in `FoldedRelease`


def violation(law: str, where: str, what: str) -> LawViolated:
    return LawViolated(f"law {law!r} is broken at {where}: {what}")


def release_name(release: FoldedRelease) -> str:
    return f"release {release.number} of shard {release.shard}"


def in_releases(records: Iterable[LiveRecord]) -> Iterator[FoldedRelease]:
    """Groups the records by release, in the order in which the releases end; checks the law `parts`."""
    unfinished: dict[int, _Unfinished] = {}
    for record in records:
        current = unfinished.get(record.shard)
        if current is not None and current.release.number != record.release:
            yield current.finish()
            current = None
        if current is None:
            release = FoldedRelease(record.shard, record.release, record.through, [], record.outside, record.whole)
            current = unfinished[record.shard] = _Unfinished(release)
        current.add(record)
    for current in unfinished.values():
        yield current.finish()


@dataclass(slots=True)
class _Unfinished:
    """A release that is not complete; parts are counted topic by topic."""

    release: FoldedRelease
    parts: dict[str, ReleasePart] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def add(self, record: LiveRecord) -> None:
        self.release.records.append((record.key, record.value))
        self.seen[record.topic] += 1
        if record.through != self.release.through:
            raise self._broken("its records do not agree on `through`")
        if record.part is None:
            self.parts.pop(record.topic, None)
            return
        self.parts[record.topic] = record.part
        if record.part.number != self.seen[record.topic]:
            raise self._broken(f"part {self.seen[record.topic]} is missing or out of order")

    def finish(self) -> FoldedRelease:
        for part in self.parts.values():
            if part.number != part.total:
                raise self._broken(f"it ends with part {part.number} of {part.total}")
        return self.release

    def _broken(self, what: str) -> LawViolated:
        return violation("parts", release_name(self.release), what)


@dataclass(slots=True)
class _ShardProgress:
    """The progress in reading a shard's changelog."""

    release: int | None = None
    through: int = 0
    highest: int = 0


class ChangelogLaws:
    """Follows a changelog release by release and checks `CHANGELOG_LAWS`.

    qi_groups: what is published now. The first release must be the changelog's first: half of one cannot be judged.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._form = FORMS[table.form](table)
        model = shown_by_rows(model_of(table))
        self._model, self._codes, self._names = model, SubjectCodes(table, model), subject_names(table, model)
        self._shards: dict[int, _ShardProgress] = {}
        self.qi_groups: dict[QIGroupId, GroupSeen] = {}

    @property
    def n_rows(self) -> int:
        return sum(len(group.values) for group in self.qi_groups.values())

    @property
    def n_shards(self) -> int:
        return len(self._shards)

    def check(self, release: FoldedRelease) -> set[QIGroupId]:
        """Applies one release; returns the QI groups that it touched. Raises LawViolated at the first violation."""
        where = release_name(release)
        shard = self._shards.setdefault(release.shard, _ShardProgress())
        self._check_order(shard, release, where)
        touched: set[QIGroupId] = set()
        replaced = self._drop(release.shard) if release.is_whole else set()
        highest = -1 if release.is_whole else shard.highest
        for key, value in release.records:
            qi_group = self._apply(release, key, value, highest, where)
            touched.add(qi_group)
            shard.highest = max(shard.highest, qi_group[1])
        for qi_group in sorted(touched & self.qi_groups.keys()):
            self._check_qi_group(qi_group, where)
        return touched | replaced

    def _drop(self, shard: int) -> set[QIGroupId]:
        """Drops what is published of a shard: a release of the whole table replaces all of it."""
        dropped = {qi_group for qi_group in self.qi_groups if qi_group[0] == shard}
        for qi_group in dropped:
            del self.qi_groups[qi_group]
        return dropped

    def _check_order(self, shard: _ShardProgress, release: FoldedRelease, where: str) -> None:
        expected = (0, 1) if shard.release is None else (shard.release + 1,)
        if release.number not in expected and not release.is_whole:
            before = "nothing" if shard.release is None else f"release {shard.release}"
            raise violation("release order", where, f"it comes after {before}")
        if release.through < shard.through and not release.outside:
            raise violation("release order", where, f"`through` goes back from {shard.through} to {release.through}")
        shard.release, shard.through = release.number, release.through

    def _apply(self, release: FoldedRelease, key: bytes, value: bytes | None, highest: int, where: str) -> QIGroupId:
        """Applies one record; `highest`: the number above which those of new QI groups lie."""
        try:
            item = self._form.item_of(key)
        except LawViolated as error:
            raise violation("form", where, str(error)) from None
        subject = f"{where}, QI group {group_name(item.qi_group)}{item.name}"
        if item.qi_group[0] != release.shard:
            raise violation("names", subject, "the QI group belongs to another shard")
        seen = self.qi_groups.get(item.qi_group)
        if value is None:
            if (seen is None or not seen.remove(item.key)) and not release.is_whole:
                raise violation("tombstones", subject, "it removes what is not published")
            return item.qi_group
        if seen is None:
            if item.qi_group[1] <= highest and not self._table.space.is_bounded:
                raise violation("numbers", subject, f"a new QI group must have a number above {highest}")
            seen = self.qi_groups[item.qi_group] = self._form.new()
        self._put(seen, item, value, subject)
        return item.qi_group

    def _put(self, seen: GroupSeen, item: Item, value: bytes, subject: str) -> None:
        try:
            seen.put(item.key, value, group_name(item.qi_group))
        except LawViolated as error:
            raise violation("form", subject, str(error)) from None
        except OtherGroupNamed:
            raise violation("names", subject, "column qi_group and the key name different QI groups") from None

    def _check_qi_group(self, qi_group: QIGroupId, where: str) -> None:
        seen = self.qi_groups[qi_group]
        if seen.is_empty:
            del self.qi_groups[qi_group]
            return
        subject = f"{where}, QI group {group_name(qi_group)}"
        values = seen.values
        if len(values) < self._table.k:
            raise violation("size", subject, f"rows published: {len(values)}, k = {self._table.k}")
        for law, what in seen.faults():
            raise violation(law, subject, what)
        if seen.box and self._table.space.forbids(*seen.box):
            raise violation("coarsest", subject, "its box is wider than a column's `coarsest`")
        shortfall = self._model.shortfall(self._codes.of(values), self._names)
        if shortfall:
            raise violation("model", subject, shortfall)
