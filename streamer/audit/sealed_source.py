"""The audit of a sealed changelog against its source: who is in which cohort, and what follows from all of it.

The publisher's private record says who was put into which cohort, and up to which change of a row each epoch goes
(`EpochMembers`); another publisher with the same secret makes it again. The laws here compare cohorts with the rows as
they were then; the adversary is the same one as of `live`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import floor

import msgspec
import numpy as np

from streamer.audit.found import Happened, HistoryAudit
from streamer.audit.history import GroupFact
from streamer.audit.sealed_log import NOT_JSON, CohortSeen, EpochRecords, SealedLaws, SealedLine, sealed_violation
from streamer.audit.source import EpochMembers
from streamer.errors import ConfigError, UsageError
from streamer.incremental.checks.changelog import violation
from streamer.incremental.events.changes import RowChange
from streamer.privacy.models import cohort_model, of_values, subject_of
from streamer.table.row import Row, Values
from streamer.table.schema import Table

MEMBERS_LAWS = {
    "members": "a cohort's members are as many different rows as it says, which are there when it is published",
    "cohort values": "a cohort shows the values of its members, each once",
    "withheld": "a cohort withholds its values only if alpha, l or the size of a message demands it",
    "cohort box": "the box of a cohort is the smallest one around its members",
    "one cohort": "a row with one value is in at most one cohort for ever: who was retired never comes back with it",
    "left": "after departures LIVE says how many are left with the value that they had, unless table.yaml wants none; "
    "a cohort is retired if so few are left as theta says, and no other one is",
    "individual": "a cohort has at most one row of an individual",
}

TWICE = {"twice": "no more rows with one value are added to cohorts than had it: each has been in one cohort at most"}
"""The law of a log whose members nobody knows: a lower bound of what was published twice."""


def check_twice(cohorts: Sequence[CohortSeen], changes: Iterable[RowChange], table: Table | None = None) -> None:
    """Checks `TWICE`, and with a table what can be known of "withheld". Raises LawViolated.

    cohorts: of all epochs and shards. changes: what happened to rows, from the first one on.
    """
    published, withheld = Counter[Values](), 0
    for cohort in cohorts:
        published.update(cohort.values or ())
        withheld += cohort.n if cohort.values is None else 0
    ever, now = Counter[Values](), dict[str, Values]()
    for change in changes:
        before = now.pop(change.source_key, None)
        if change.row is not None:
            now[change.source_key] = change.row.values
            ever[change.row.values] += before != change.row.values
    total = published.total() + withheld
    if twice := max((published - ever).total(), total - ever.total(), 0):
        what = f"at least {twice:,} of {total:,} rows were published twice, or the source is incomplete"
        raise violation("twice", "the sealed changelog", what)
    if table is not None and (n := _without_reason(table, cohorts, ever - published)):
        what = f"{n:,} cohorts, at least, withhold values that alpha allows, or the source is not whole"
        raise violation("withheld", "the sealed changelog", what)


def _without_reason(table: Table, cohorts: Sequence[CohortSeen], unseen: Counter[Values]) -> int:
    """A lower bound of cohorts that withhold values without need: each needs more rows of one value than alpha allows.

    unseen: values of rows that no cohort shows.
    """
    if table.sealed is None:
        return 0
    model = cohort_model(table, table.sealed)
    if max(model.distinct.values(), default=1) > 1 or any(s.level for s in model.shares):
        return 0
    longest = max((sum(map(len, values)) + len(values) + len("[],") for values in unseen), default=0)
    fit = [c for c in cohorts if c.values is None and c.size + c.n * longest <= table.limits.row_bytes_max]
    reasons = 0
    for subject, share in model.shares.items():
        least = min((floor(share * c.n) + 1 for c in fit), default=1)
        counts, value_of = Counter[object](), subject_of(table, subject)
        for values, n in unseen.items():
            counts[value_of(values)] += n
        reasons += sum(n // least for n in counts.values())
    return max(0, len(fit) - reasons)


class RowNow(msgspec.Struct, gc=False):
    """A row with its episode; cohort: of the episode, "" before it is in one."""

    row: Row
    episode: int
    cohort: str = ""


class SealedAudit(HistoryAudit):
    """Follows a sealed changelog of one shard, the events behind it, and the members of its cohorts.

    starts_full: epoch 1 is a first table, which did not wait.
    """

    def __init__(self, table: Table, persistent: bool = False, starts_full: bool = False) -> None:
        super().__init__(table, persistent)
        self.laws, self.starts_full = SealedLaws(table), starts_full
        self._shows = None if table.sealed is None else of_values(table, cohort_model(table, table.sealed))
        self.withheld = self.waited_max = 0
        self._rows: dict[str, RowNow] = {}
        self._left: dict[str, int] = {}  # cohort -> members that are there with the value it has
        self._rows_of: dict[str, int] = {}  # cohort -> its rows
        self._waiting: dict[str, tuple[int, int]] = {}  # source key -> offset and epoch of its arrival
        self._numbers: dict[str, int] = {}  # of cohorts, by id
        self._epoch = self._changes = 0

    def follow(
        self, lines: Iterable[SealedLine], changes: Iterable[RowChange], members: Iterable[EpochMembers]
    ) -> Iterator[int]:
        """Checks every law and gathers the facts; yields the number of records after each epoch. Raises LawViolated.

        changes: what happened to rows, from the first one on.
        """
        changes, members = iter(changes), iter(members)
        for epoch in self.laws.follow(lines):
            known = next(members, None)
            if known is None or (known.epoch, known.shard) != (epoch.end.epoch, epoch.shard):
                raise UsageError(f"the members of epoch {epoch.end.epoch} are missing: they are not those of this log")
            self._epoch = epoch.end.epoch
            for change in islice(changes, max(0, known.changes - self._changes)):
                self._absorb(change)
            if self._changes != known.changes:
                raise UsageError(
                    f"epoch {epoch.end.epoch} ends after {known.changes} changes, and there are {self._changes}"
                )
            self._conclude(epoch, known)
            self.episodes.note_release(epoch.end.epoch, self.history)
            yield self.laws.records
        if next(members, None) is not None:
            what = "members of a later epoch are known, so the end of the log was cut off"
            raise sealed_violation("epochs", 0, self.laws.records, what)

    @property
    def records(self) -> int:
        """Records that were read."""
        return self.laws.records

    @property
    def waiting(self) -> int:
        """Rows that wait in the pool."""
        return len(self._waiting)

    @property
    def loss(self) -> float | None:
        """The information loss of the rows that are published at the end, 0 to 1; None if there are none."""
        cohorts = [cohort for cohort in self.laws.cohorts.values() if cohort.box is not None]
        if not cohorts:
            return None
        lo, hi = (np.array([cohort.box[side] for cohort in cohorts], np.int64) for side in (0, 1))  # type: ignore[index]
        rows = np.array([cohort.n for cohort in cohorts])
        return self._table.space.mean_loss(float(self._table.space.ncp(lo, hi) @ rows), int(rows.sum()))

    # -- events -----------------------------------------------------------------------------------------------------

    def _absorb(self, change: RowChange) -> None:
        source_key, row = change.source_key, change.row
        before = self._rows.pop(source_key, None)
        self._changes += 1
        if row is None:
            self._depart(before, Happened.DELETED)
            self._waiting.pop(source_key, None)
        elif before is None or (before.cohort and self._value(before.row) != self._value(row)):
            is_first = self.starts_full and self._epoch == 1
            arrival = Happened.NOTHING if is_first else Happened.MODIFIED if before else Happened.INSERTED
            episode = self._begun(source_key, self._value(row), arrival, None if before is None else before.episode)
            self._rows[source_key] = RowNow(row, episode)
            self._waiting[source_key] = self._changes, self._epoch
            self._depart(before, Happened.MODIFIED)
        else:
            if not before.cohort:  # nobody has seen the value that it had in the pool
                self.episodes.values[before.episode] = self._value(row)
            self._rows[source_key] = RowNow(row, before.episode, before.cohort)

    def _value(self, row: Row) -> int:
        return self.episodes.value_number(row.values)

    def _depart(self, before: RowNow | None, how: Happened) -> None:
        if before is not None:
            self._ended(before.episode, how)
            if before.cohort in self._left:
                self._left[before.cohort] -= 1

    # -- epochs -----------------------------------------------------------------------------------------------------

    def _conclude(self, epoch: EpochRecords, known: EpochMembers) -> None:
        """Compares an epoch with its members, and gives the facts of it to the adversary."""
        where = f"epoch {epoch.end.epoch} of shard {epoch.shard}"
        if known.cohorts.keys() != epoch.adds.keys():
            raise violation("members", where, "the cohorts that are added are not those whose members are known")
        for name, left in epoch.lives.items():
            if left != self._left[name]:
                raise violation("left", f"{where}, cohort {name}", f"LIVE says {left}, and {self._left[name]} are left")
        facts: dict[int, GroupFact | None] = {}
        for name in epoch.retired:
            if not self._too_few(name):
                what = f"it is retired, and {self._left[name]} of its people are left"
                raise violation("left", f"{where}, cohort {name}", what)
            del self._left[name]  # survivors keep the name of their cohort: they are in it for ever
            facts[self._numbers[name]] = None
        for name, cohort in epoch.adds.items():
            self._numbers[name] = len(self._numbers)
            facts[self._numbers[name]] = self._placed(name, cohort, known.cohorts[name], f"{where}, cohort {name}")
        self._check_left(where)
        waited = [self._epoch - since + 1 for _, since in self._waiting.values()]
        self.waited_max = max([self.waited_max, *waited])
        self._add_release(facts)

    def _check_left(self, where: str) -> None:
        """Raises LawViolated if a departure is not said."""
        rules, published = self._table.sealed, self.laws.cohorts
        for name, left in self._left.items():
            if self._too_few(name):
                what = f"{left or 'nobody'} of {published[name].n} is left, and it is not retired"
                raise violation("left", f"{where}, cohort {name}", what)
            if rules is not None and rules.counters and left != published[name].left:
                what = f"{left} are left, and no LIVE says so"
                raise violation("left", f"{where}, cohort {name}", what)

    def _too_few(self, name: str) -> bool:
        theta = 0 if self._table.sealed is None else self._table.sealed.theta
        return self._left[name] <= theta * self._rows_of[name]

    def _placed(self, name: str, cohort: CohortSeen, source_keys: Sequence[str], where: str) -> GroupFact | None:
        """Checks a new cohort and puts its members into it; None if its values are withheld. Raises LawViolated."""
        rows = {source_key: self._rows.get(source_key) for source_key in source_keys}
        there = [now for now in rows.values() if now is not None]
        if not len(there) == len(source_keys) == cohort.n:
            raise violation("members", where, f"of {cohort.n} rows, {len(there)} are there and different")
        if any(now.cohort for now in there):
            raise violation("one cohort", where, "one of its rows was published with the same value before")
        self._check_rows(cohort, [now.row for now in there], where)
        self._left[name] = self._rows_of[name] = cohort.n
        for source_key in source_keys:
            self._rows[source_key].cohort = name
            came, _ = self._waiting.pop(source_key)
            if self._epoch > 1 or not self.starts_full:
                self._count_delay(self._changes - came)
        if cohort.values is None:
            self.withheld += cohort.n
            return None
        members = frozenset(now.episode for now in there)
        return GroupFact(members, Counter(self.episodes.value_number(values) for values in cohort.values))

    def _check_rows(self, cohort: CohortSeen, rows: Sequence[Row], where: str) -> None:
        """Raises LawViolated if a cohort's box or values are not those of its rows."""
        if cohort.values is not None and sorted(row.values for row in rows) != cohort.values:
            raise violation("cohort values", where, "its rows have other values")
        if cohort.values is None and self._may_show(cohort, [row.values for row in rows]):
            raise violation("withheld", where, "its values could have been shown under alpha and l")
        space = self._table.space
        lo, hi = space.box_of_cells(space.cells(np.array([row.codes for row in rows], dtype=np.int64)))
        if cohort.box != (tuple(lo.tolist()), tuple(hi.tolist())):
            raise violation("cohort box", where, "the smallest box around its rows is another one")
        individuals = [row.individual for row in rows if row.individual is not None]
        if len(individuals) != len(set(individuals)):
            raise violation("individual", where, "an individual has two rows in it")

    def _may_show(self, cohort: CohortSeen, rows: Sequence[Values]) -> bool:
        if self._shows is None or not self._shows(rows):
            return False
        shown = msgspec.json.encode([[*map(msgspec.Raw, values)] for values in rows])
        return cohort.size - len("null") + len(shown) <= self._table.limits.row_bytes_max


def read_members(lines: Iterable[bytes]) -> Iterator[EpochMembers]:
    """The private record of epochs, one JSON object per line. Raises ConfigError."""
    decoder = msgspec.json.Decoder(EpochMembers)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield decoder.decode(line)
            except NOT_JSON:
                form = '{"epoch":1,"changes":9,"cohorts":{"<id>":["<key>",..]}}'
                raise ConfigError(f"line {number} of the members is not of the form {form}") from None
