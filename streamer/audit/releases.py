"""What several whole tables, published one after the other, give away together: `audit` from Python.

Each release is a DataFrame that was published, the one that it was made of, and the private index between them. The
adversary is that of a live changelog (`streamer.audit.history`): every release is a table that was made anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from streamer.audit.found import Found, bound_of, found_lines, judged
from streamer.audit.history import GroupFact
from streamer.audit.live import PlacedAudit, require_sensitive
from streamer.errors import NUMBER, UsageError, require_type
from streamer.incremental.checks.as_published import QIGroupId
from streamer.incremental.engine.stored_state import PENDING, Record
from streamer.incremental.verification import rows_behind, verify
from streamer.recoding.report.page import course
from streamer.shown import Picture, Shape, Shown
from streamer.table.row import Row
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


class ReleasesAudit(PlacedAudit):
    """Takes whole tables, one after the other, and whose rows they are made of."""

    def add(self, rows: Mapping[str, Row], groups: Mapping[str, QIGroupId | None]) -> None:
        """The next release: rows by source key, and the QI group that each is published in, None: in none."""
        first = 1 + max(self._members, default=0)
        numbers = {group: first + i for i, group in enumerate(sorted({*groups.values()} - {None}, key=str))}
        now = ((key, Record(row, numbers.get(groups[key], PENDING))) for key, row in rows.items())
        self._absorb([*((key, None) for key in sorted(self._places.keys() - rows.keys())), *now])
        facts: dict[int, GroupFact | None] = {}
        for number in sorted(self._changed):
            members = self._members[number] or self._members.pop(number)
            values = Counter(self.episodes.values[episode] for episode in members)
            facts[number] = GroupFact(frozenset(members), values) if members else None
        self._add_release(facts, rebuilt=not self._is_initial)
        self._changed, self._is_initial = set(), False
        self.episodes.note_release(len(self.episodes.timeline) + 1, self.history)
