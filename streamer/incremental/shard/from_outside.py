"""What a shard commits that no message has brought about: a first table, regions of a rebuild, truncations heard of.

The rules of this file
----------------------
* Each is one commit, checked, stored and published like a batch; an error makes `take_over` necessary.
* What changes rows in a way that the input does not say is marked `outside`: a replay cannot repeat it.
* A truncation that another shard read is placed once, and said again by whoever knows it where the control topic was
  made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from streamer.errors import LawViolated, ShardRefused
from streamer.incremental.events.changes import Truncate, Upsert
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.replacing import Region
from streamer.incremental.release.records import Entry
from streamer.incremental.shard.applying_late import LateMessages
from streamer.incremental.shard.input import ShardInput
from streamer.incremental.shard.passed_over import Unforeseen
from streamer.incremental.shard.requests import Placed
from streamer.incremental.shard.steps import StepReport, Tally
from streamer.incremental.shard.truncations import said_of_placing, said_to_others
from streamer.incremental.store.base import Commit
from streamer.incremental.store.rebuild import Progress, remembered
from streamer.incremental.topics import CONTROL
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows


class CommitsFromOutside(LateMessages):
    """A shard that commits what is no message; how a commit is made and sent, its subclass says."""

    def take_over(
        self,
        shard_input: ShardInput,
        skips: Iterable[int] = (),
        placed: Callable[[], Iterable[Placed]] = lambda: (),
    ) -> int:
        """As `OwnedShard.take_over`; says what a control topic that was made anew lacks."""
        next_ = super().take_over(shard_input, skips, placed)
        self._say_again()
        return next_

    def _say_again(self) -> None:
        """Says the last truncation in a new control topic; not before the table stands where it is published."""
        if not self._new_control or self._replay_to is not None or not self._usable:
            return
        self._meta = replace(self._meta, topic_ids={**self._meta.topic_ids, CONTROL: self._new_control})
        self._new_control, known = "", self._meta.truncated
        if known is None:
            return
        engine, self._usable = self.engine, False
        said = said_to_others(self._meta, self._name, self.shard, self._meta.next, known)
        self._commit_from_outside(engine, "a truncation cannot be said again", said)

    def load_initial(self, initial: Callable[[bytes], tuple[EncodedRows, Sequence[Ints]]]) -> StepReport:
        """Publishes the rows and QI groups that `initial` makes by the secret, as release 0; nobody else holds them."""
        engine, self._usable = self.engine, False
        if self._meta.commit:
            raise ShardRefused(f"{self._name} holds a table already")
        rows, groups = initial(self._meta.secret)
        engine.load_initial(rows.source_keys, rows.rows(), rows.codes, groups)
        del rows
        self._meta = replace(self._meta, release=-1 if groups else 0, outside=1)
        return self._commit_from_outside(engine, "the initial table cannot be published")

    def replace_region(
        self, region: Region, groups: Sequence[Ints], progress: Progress | None = None
    ) -> StepReport | None:
        """Replaces a region's QI groups by others in one commit; None where it changed meanwhile: nothing was done.

        progress: of the rebuild before; what it is with this region stands in `meta` then. Any error makes `take_over`
        necessary; LawViolated: the groups are not all of the region's rows, once each, or do not hold the model.
        """
        engine = self._able_to_rebuild()
        with self._turn:
            replaced = engine.replace(region, groups)
        if replaced is None:
            self._usable = True
            return None
        rebuild = self._meta.rebuild if progress is None else progress.after(replaced)
        self._meta = replace(self._meta, outside=self._meta.commit + 1, rebuild=rebuild)
        return self._commit_from_outside(engine, "a region cannot be replaced")

    def end_rebuild(self, progress: Progress) -> StepReport:
        """Commits that a rebuild is over, and how it ended; publishes no row."""
        return self.remember_rebuilds(None, [progress])

    def remember_rebuilds(self, running: Progress | None, ended: Iterable[Progress] = (), heard: int = 0) -> StepReport:
        """Commits which rebuild is running, what is remembered of others, that requests below `heard` have answers."""
        engine = self._able_to_rebuild()
        rebuilds, answered = remembered(self._meta.rebuilds, ended), max(self._meta.control_next, heard)
        self._meta = replace(self._meta, rebuild=running, rebuilds=rebuilds, control_next=answered)
        return self._commit_from_outside(engine, "what is said of rebuilds cannot be kept")

    def begin_behind(self, source: SourcePosition, log_seen: bool) -> None:
        """Takes a truncation for known before the first message is read; log_seen: as in `Meta`."""
        self._meta = replace(self._meta, truncated=source, log_seen=log_seen)

    def place_truncation(
        self, request: int, source: SourcePosition, rows: EncodedRows, key_form: str, log_seen: bool
    ) -> StepReport:
        """Commits a truncation that another shard read; see `streamer.incremental.shard.truncations`.

        request: the offset of its record in the control topic. rows, key_form, log_seen: what the messages that stand
        behind it come to. Any error makes `take_over` necessary.
        """
        engine, self._usable = self.engine, False
        with self._turn:
            engine.apply(Truncate(spared=frozenset(rows.source_keys)))
            for source_key, row in zip(rows.source_keys, rows.rows(), strict=True):
                engine.apply(Upsert(source_key, row))
        self._to_repeat = self._to_repeat[1:]
        heard, number = max(self._meta.control_next, request + 1), self._meta.truncations + 1
        self._meta = replace(
            self._meta,
            key_form=key_form,
            control_next=heard,
            truncated=source,
            truncations=number,
            log_seen=self._meta.log_seen or log_seen,
            letters_from=max(self._meta.letters_from, self._meta.next),  # nothing brings back a row that is gone
        )
        placed = said_of_placing(self._meta, self.shard, request, source)
        return self._commit_from_outside(engine, "a truncation cannot be placed", [placed])

    def _commit_from_outside(self, engine: Engine, complaint: str, said: Sequence[Entry] = ()) -> StepReport:
        """Commits and publishes what no message has brought about; said: of it, beside rows."""
        report, tally = StepReport(), Tally.after(self._meta)
        tally.letters += said
        try:
            commit = self._commit(engine, tally, report)
        except Unforeseen as fault:
            raise LawViolated(f"{self._name}: {complaint} ({fault.what})") from None
        commit = Commit(commit.meta, outbox=commit.outbox)  # the store has the rest, which a large table need not keep
        self._send(commit, tally, report)
        self._usable = True
        return report
