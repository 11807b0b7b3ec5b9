"""The audit of a `live` changelog: what it gives away to somebody who keeps all of it, against its source events.

The bytes say which values each QI group had at each release. An engine that replays the events says who was in it: the
adversary knows that, and the quasi-identifiers, and when somebody comes, changes or goes. What is looked for is the
sensitive values alone; the adversary does not use columns that are published as they are without being sensitive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streamer.audit.found import Happened, HistoryAudit
from streamer.audit.history import GroupFact
from streamer.audit.source import RowsChanged, SourceReplay
from streamer.errors import UsageError
from streamer.incremental.checks.as_published import QIGroupId, group_name
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases, release_name, violation
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.shard.input import Message
from streamer.table.row import Row, Values
from streamer.table.schema import Table


class Place(NamedTuple):
    """The place of a row: its episode, its quasi-identifiers as one number, its QI group or PENDING."""

    episode: int
    codes: int
    qi_group: int


class PlacedAudit(HistoryAudit):
    """Knows the place of every row; rows are handed over as they change."""

    def __init__(self, table: Table, persistent: bool) -> None:
        super().__init__(table, persistent)
        self._places: dict[str, Place] = {}
        self._members: dict[int, set[int]] = {}
        self._changed: set[int] = set()  # QI groups, in this release
        self._is_initial = True

    def _absorb(self, rows: RowsChanged) -> None:
        """Takes over rows that have changed, each once."""
        for source_key, record in rows:
            before = self._places.pop(source_key, None)
            if before is not None and before.qi_group != PENDING:
                self._members[before.qi_group].discard(before.episode)
                self._changed.add(before.qi_group)
            if record is None:
                self._depart(before, Happened.DELETED)
                continue
            codes = hash((record.row.codes, record.row.exact, record.row.nulls))
            episode = self._episode(source_key, record.row, before)
            if before is not None and before.episode == episode and before.codes != codes:
                self._moved.add(episode)
                self.episodes.note(episode, Happened.MOVED)
            self._places[source_key] = Place(episode, codes, record.qi_group)
            if record.qi_group != PENDING:
                self._members.setdefault(record.qi_group, set()).add(episode)
                self._changed.add(record.qi_group)

    def _episode(self, source_key: str, row: Row, before: Place | None) -> int:
        """The episode of a row as it is now: the former one, or a new one."""
        value = self.episodes.value_number(row.values)
        if before is not None and self.episodes.values[before.episode] == value:
            return before.episode
        arrival = Happened.NOTHING if self._is_initial else Happened.MODIFIED if before else Happened.INSERTED
        episode = self._begun(source_key, value, arrival, None if before is None else before.episode)
        self._depart(before, Happened.MODIFIED)
        return episode

    def _depart(self, before: Place | None, how: Happened) -> None:
        if before is not None:
            self._ended(before.episode, how)


class LiveAudit(PlacedAudit):
    """Follows a changelog release by release, and the events behind it."""

    def __init__(self, table: Table, engine: Engine, messages: Iterable[Message], persistent: bool = False) -> None:
        super().__init__(table, persistent)
        self.records = 0
        self._laws = ChangelogLaws(table)
        self._source = SourceReplay(table, engine, messages)
        self._waiting: dict[int, int] = {}  # episode that is not published yet -> the offset that it came with

    def follow(self, records: Iterable[LiveRecord]) -> Iterable[int]:
        """Checks the laws of the changelog and gathers its facts; yields the number of records after each release.

        Raises LawViolated if a law is broken, or if the events are not those of the changelog.
        """
        self._source.replay(0, self._absorb)  # the initial table
        self._is_initial = False
        for release in in_releases(records):
            touched = self._laws.check(release)
            self.records += len(release.records)
            self._require_explained(release)
            self._source.replay(release.through, self._absorb)
            self._conclude(touched, release_name(release), rebuilt=release.is_whole)
            self._note_delays(release.through)
            self.episodes.note_release(release.number, self.history)
            yield self.records
        self._source.replay(None, self._absorb)
        self._conclude(set(), "the end of the events", rebuilt=False)

    @property
    def loss(self) -> float | None:
        """The information loss of the table at the end, 0 to 1; None if it is empty."""
        return self._source.behind.engine.published.loss

    def _require_explained(self, release: FoldedRelease) -> None:
        self._source.behind.require_shard(release.shard, "--source")
        if release.outside:
            raise UsageError(
                f"{release_name(release)} did not come from events, so nobody's QI group is known from here on: audit "
                "a changelog that `replay` has made of the events"
            )

    # -- events -----------------------------------------------------------------------------------------------------

    def _begun(self, source_key: str, value: int, how: Happened, before: int | None) -> int:
        episode = super()._begun(source_key, value, how, before)
        if source_key in self._source.written:
            self._waiting[episode] = self._source.written[source_key]
        return episode

    def _ended(self, episode: int, how: Happened) -> None:
        super()._ended(episode, how)
        self._waiting.pop(episode, None)

    # -- releases ---------------------------------------------------------------------------------------------------

    def _note_delays(self, through: int) -> None:
        for episode, offset in list(self._waiting.items()):
            if self.history.candidates.of(episode) is not None:
                del self._waiting[episode]
                self._count_delay(through - 1 - offset)

    def _conclude(self, touched: set[QIGroupId], where: str, rebuilt: bool) -> None:
        """Makes the facts of a release: what is published, and who is in it."""
        engine = self._source.behind.engine
        shard, withheld = engine.shard, engine.withheld
        groups: dict[int, GroupFact | None] = {}
        for number in sorted(self._changed | {number for _, number in touched}):
            members = frozenset(self._members.get(number, ()))
            seen = self._laws.qi_groups.get((shard, number))
            if not members:
                self._members.pop(number, None)
            elif number in withheld:
                members = frozenset()
            groups[number] = self._fact(members, seen.values if seen else (), f"{where}, {group_name((shard, number))}")
        self._add_release(groups, rebuilt)
        self._changed = set()

    def _fact(self, members: frozenset[int], published: Iterable[Values], where: str) -> GroupFact | None:
        """The fact of a QI group; None if it is not there. Raises LawViolated if the events say otherwise."""
        counts: Mapping[int, int] = Counter(map(self.episodes.value_number, published))
        if Counter(self.episodes.values[episode] for episode in members) != counts:
            raise violation(
                "values", where, "the events say that it has other values: they, the initial table or the secret are "
                "not those of this changelog",
            )  # fmt: skip
        return GroupFact(members, counts) if members else None


def require_sensitive(table: Table) -> None:
    """Raises UsageError for a table in which nothing is to be found out."""
    if not table.sensitive:
        raise UsageError(
            f"table {table.name} has no sensitive column, so a changelog can give none away: an audit needs one "
            "(role: sensitive)"
        )
