"""What several whole tables, published one after the other, give away together: `audit` from Python.

Each release is a DataFrame that was published, the one that it was made of, and the private index between them. The
adversary is that of a live changelog (`streamer.audit.history`): every release is a table that was made anew.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from streamer.audit.found import Found, Happened, HistoryAudit, bound_of, found_lines, judged
from streamer.audit.history import GroupFact
from streamer.audit.live import Place, require_sensitive
from streamer.errors import NUMBER, UsageError, require_type
from streamer.incremental.checks.as_published import QIGroupId
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.verification import rows_behind, verify
from streamer.recoding.report.page import course
from streamer.shown import Picture, Shape, Shown
from streamer.table.row import Row
from streamer.table.schema import Table
from streamer.table.yaml.loading import Named, table_of


@dataclass(frozen=True, repr=False)
class Audited(Shown):
    """What somebody who keeps all releases can find out; facts: as `streamer audit --json` prints them."""

    found: Found
    facts: Mapping[str, Any]

    @property
    def ok(self) -> bool:
        """False if a guess is right more often than is allowed."""
        return bool(self.facts["ok"])

    def lines(self) -> Iterator[Shape]:
        yield from found_lines(self.found)
        shares = [known / max(1, so_far) for _, so_far, known in self.found.timeline]
        yield Picture("Values that are known for certain, after each release", course(shares, "release", "share"))
        yield str(self.facts["verdict"])


def audit(
    releases: Sequence[tuple[pd.DataFrame, pd.DataFrame, pd.Series[Any]]],
    table: Named,
    *,
    bound: float | None = None,
) -> Audited:
    """What releases of one table give away to somebody who keeps all of them, and knows all but sensitive values.

    releases: in their order, what was published, the DataFrame that it was made of, and the index between them, as
    `published, index = anonymize(frame, table, return_index=True)` gives it. People are told apart from release to
    release by the table's key, so each DataFrame needs it. bound: the chance of a right guess that is allowed; None:
    the table's least beta, if any. Logs of a stream: `streamer audit`.

    The answer prints what the command prints, and names people by the number of the row that they came with; `ok`,
    `facts` and `found` hold it. Raises LawViolated if a release is not what its index says, ConfigError for a table or
    a source that cannot be used, UsageError for an argument.
    """
    schema = table_of(table)
    require_sensitive(schema)
    require_type("bound", bound, NUMBER, or_none=True)
    if not isinstance(releases, list | tuple) or not releases or not all(map(_is_release, releases)):
        raise UsageError("releases must be a list of (published, source, index): two DataFrames and the index's Series")
    history, numbers = ReleasesAudit(schema, persistent=False), dict[str, int]()
    for published, source, index in releases:
        verify(published, schema, source=source, index=index)
        if missing := [name for name in schema.source_key if name not in {*source.columns, *source.index.names}]:
            raise UsageError(f"audit: a source has no column {missing[0]!r}, the key, which tells people apart")
        rows, places = rows_behind(schema, source, index)
        history.add(rows, places)
        for source_key in rows:
            numbers.setdefault(source_key, len(numbers) + 1)
    found = history.found(lambda source_key: str(numbers[source_key]))
    limit = bound_of(schema) if bound is None else float(bound)
    return Audited(found, {"table": schema.name, "releases": len(releases), **judged(found, limit, none_known=False)})


def _is_release(one: object) -> bool:
    kinds = (pd.DataFrame, pd.DataFrame, pd.Series)
    return isinstance(one, list | tuple) and len(one) == len(kinds) and all(map(isinstance, one, kinds))


class ReleasesAudit(HistoryAudit):
    """Takes whole tables, one after the other, and whose rows they are made of."""

    def __init__(self, table: Table, persistent: bool) -> None:
        super().__init__(table, persistent)
        self._places: dict[str, Place] = {}
        self._released = 0

    def add(self, rows: Mapping[str, Row], groups: Mapping[str, QIGroupId | None]) -> None:
        """The next release: rows by source key, and the QI group that each is published in, None: in none."""
        for source_key in sorted(self._places.keys() - rows.keys()):
            self._ended(self._places.pop(source_key).episode, Happened.DELETED)
        new, members = 1 + max(self.history.groups, default=0), defaultdict[int, set[int]](set)
        numbers = {group: new + i for i, group in enumerate(sorted({*groups.values()} - {None}, key=str))}
        for source_key, row in rows.items():
            number = numbers.get(groups[source_key], PENDING)
            place = self._places[source_key] = self._placed(source_key, row, number)
            if number != PENDING:
                members[number].add(place.episode)
        facts: dict[int, GroupFact | None] = dict.fromkeys(self.history.groups)
        for number, episodes in members.items():
            values = Counter(self.episodes.values[episode] for episode in episodes)
            facts[number] = GroupFact(frozenset(episodes), values)
        self._add_release(facts, rebuilt=self._released > 0)
        self._released += 1
        self.episodes.note_release(self._released, self.history)

    def _placed(self, source_key: str, row: Row, group: int) -> Place:
        """The place of a row in this release: in the episode that it was in, or in a new one."""
        codes, value = hash((row.codes, row.exact, row.nulls)), self.episodes.value_number(row.values)
        before = self._places.get(source_key)
        if before is not None and self.episodes.values[before.episode] == value:
            if before.codes != codes:
                self._moved.add(before.episode)
                self.episodes.note(before.episode, Happened.MOVED)
            return Place(before.episode, codes, group)
        how = Happened.MODIFIED if before else Happened.INSERTED if self._released else Happened.NOTHING
        episode = self._begun(source_key, value, how, None if before is None else before.episode)
        if before is not None:
            self._ended(before.episode, Happened.MODIFIED)
        return Place(episode, codes, group)
