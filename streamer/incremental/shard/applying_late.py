"""Refused messages that are applied late, and once more by a replay: commits of a shard without messages of their own.

Which ones may be applied, and why, is decided in `streamer.incremental.shard.retrying`; here it is done. A message that
fails in a way nobody foresaw changes nothing: the table is loaded again, and it stays refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from streamer.errors import EventRefused, ShardRefused, StreamerError
from streamer.incremental.events.changes import Change
from streamer.incremental.events.counts import APPLIED_LATE, IGNORED_LATE, Counts
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import KeyContract
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas, schema_ids
from streamer.incremental.groups.engine import Engine
from streamer.incremental.shard import letters
from streamer.incremental.shard.input import Message, ShardInput
from streamer.incremental.shard.outlet import Outlet
from streamer.incremental.shard.passed_over import Unforeseen, unforeseen
from streamer.incremental.shard.repeated import cannot_repeat, due_again
from streamer.incremental.shard.requests import Placed
from streamer.incremental.shard.retrying import Judged, failed_by
from streamer.incremental.shard.steps import StepReport, Tally
from streamer.incremental.shard.taking_over import Holding, OwnedShard
from streamer.incremental.store.base import Commit, Store
from streamer.table.schema import Table


class LateMessages(OwnedShard):
    """A shard that applies messages out of their turn; whoever commits and sends is its subclass."""

    def __init__(
        self,
        table: Table,
        shard: int,
        store: Store,
        outlet: Outlet,
        turn: AbstractContextManager[object] | None = None,
        secret: bytes | None = None,
        holding: Holding = Holding.NOTHING,
        schemas: Schemas | None = None,
    ) -> None:
        super().__init__(table, shard, store, outlet, turn, secret, holding)
        self.schemas = schemas or NoSchemas()
        self._decoder = Decoder(table, self.schemas.known)
        self._contract = KeyContract(table, shard, self.schemas.known)
        self.messages_at: Callable[[Sequence[int]], Sequence[Message]] = lambda offsets: ()
        """Reads messages of the input once more, for a replay in which they were tried again; those that are there."""

    def take_over(
        self,
        shard_input: ShardInput,
        skips: Iterable[int] = (),
        placed: Callable[[], Iterable[Placed]] = lambda: (),
    ) -> int:
        super().take_over(shard_input, skips, placed)
        self._repeat_retries()
        return self._meta.next

    def retry(self, judged: Sequence[Judged], heard: int) -> StepReport:
        """Applies refused messages late, in one commit, with letters that say what became of each.

        heard: the offset of the control partition below which requests have answers then. Any error makes `take_over`
        necessary.
        """
        engine = self._able_to_rebuild()
        self._meta = replace(self._meta, control_next=max(self._meta.control_next, heard))
        while True:
            report = StepReport()
            try:
                self._commit_retries(engine, judged, report)
            except Unforeseen as fault:
                fault.__traceback__ = fault.__context__ = None  # they hold on to the table that is to be dropped
                del engine
                judged = [failed_by(one, fault) for one in judged]
                self._load()
                engine, self._usable = self.engine, False
            else:
                self._usable = True
                return report

    def _commit_retries(self, engine: Engine, judged: Sequence[Judged], report: StepReport) -> None:
        tally = Tally.after(self._meta)
        self.schemas.learn(schema_ids((one.message.key, one.message.value) for one in judged if one.message))
        with self._turn:
            for one in judged:
                self._retry(engine, one, tally)
        self._send(self._commit(engine, tally, report), tally, report)

    def _retry(self, engine: Engine, one: Judged, tally: Tally) -> None:
        where = letters.Coordinates(f"{self.table.name}.changes", self.shard, one.offset)
        try:
            if one.message is None or one.refusal is not None:
                raise one.refusal or EventRefused("message-gone", "the input does not hold it any more")
            with unforeseen(one.offset):
                change = self._decode(one.message)
                key_form = self._contract.form_after(tally.key_form, one.message.key, change, self._meta.shards)
                outcome = engine.apply(change)
        except EventRefused as refusal:
            tally.letters.append(letters.not_retried(where, refusal))
        else:
            tally.counts += APPLIED_LATE if outcome.applied else IGNORED_LATE
            tally.key_form = key_form if outcome.applied else tally.key_form
            if outcome.applied:
                self._count_unlisted(tally)
            tally.retried.append((tally.next, one.offset))
            tally.letters.append(letters.retried(where))

    def _repeats_to(self) -> int | None:
        """Where a replay has to stop next, for what lies between two messages or because it ends; None: there is none.

        What was tried again before the message at which a truncation was placed comes before the truncation: behind it,
        nothing that lies below may be tried again (`Meta.letters_from`).
        """
        if self._replay_to is None:
            return None
        due = due_again(self._meta, self._replay_to)
        stops = [self._replay_to.next, *(one.next for one in self._to_repeat[:1])]
        return min(stops if due is None else [due[0], *stops])

    def _repeat_retries(self) -> None:
        """In a replay, tries again what was tried again here before."""
        while self._replay_to is not None:
            due = due_again(self._meta, self._replay_to)
            if due is None or due[0] != self._meta.next:
                return
            found = [message for message in self.messages_at([due[1]]) if message.offset == due[1]]
            engine, self._usable = self.engine, False
            try:
                self._commit_retries(engine, [Judged(due[1], found[0] if found else None, None)], StepReport())
            except Unforeseen as fault:
                raise ShardRefused(cannot_repeat(self.table, self.shard, due[1], fault.what)) from None
            if (self._meta.retried or [None])[-1] != due:
                raise ShardRefused(cannot_repeat(self.table, self.shard, due[1], "it is not there, or is refused now"))
            self._usable = True

    def _able_to_rebuild(self) -> Engine:
        engine = self.engine
        if self._replay_to is not None:
            raise StreamerError(f"{self._name} reads its input again: it has to catch up before anything else is done")
        self._usable = False
        return engine

    def _decode(self, message: Message) -> Change:
        try:
            return self._decoder.decode(message.key, message.value)
        except EventRefused:
            raise
        except Exception as error:  # a bug; but one message must not stop the stream, and decoding changes nothing
            raise EventRefused("internal-error", f"decoding failed with {type(error).__name__}") from None

    def _count_unlisted(self, tally: Tally) -> None:
        """Counts what the message that was decoded last has of categories that only `other` takes."""
        if self._decoder.unlisted:
            tally.counts += Counts(unlisted=dict(self._decoder.unlisted))

    def _commit(self, engine: Engine, tally: Tally, report: StepReport) -> Commit:
        """Checks and stores what was applied."""
        raise NotImplementedError

    def _send(self, commit: Commit, tally: Tally, report: StepReport) -> None:
        """Publishes it."""
        raise NotImplementedError
