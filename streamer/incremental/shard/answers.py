"""What a shard answers to the requests of operators, as values: do it, refuse it with a reason, or nothing.

The rules of this file
----------------------
* The control topic is kept for ever, and every worker that takes the shard over reads it again. So each request is
  acted on once: `Meta.control_next` says how far the answers go, and `Meta.rebuilds` remembers the last ones by the
  request's id, even a refusal or a cancellation, for the operator who asked and for a request that was written twice.
* A request waits for a worker for WAITING_SECONDS_MAX. If it is older and its answer is not remembered, it is skipped
  as history, so that a lost store does not make a worker repeat what was done long ago.
* A shard has one rebuild at a time. A request for another one is refused, not kept waiting.
* A retried message is remembered by its offset in `Meta.retried`, so it is applied once, however often it is asked for.
* A snapshot is named by the offset at which it began, and ends once. So a request for its end is history as soon as
  another snapshot, or none, is held back, and nothing has to be remembered of it.

Which refused messages may be retried, that is, applied long after their place in the input:

* Applying the message now must give the table that applying it at its place would have given. To know that, the input
  is read from the first such message to the shard's `next`, once, in pieces.
* Row changes of different rows do not affect each other. So a row change may be applied late if no later message is
  about its row. If one is, the later one stands: the older one is *superseded* and overwrites nothing. A changed
  primary key is about two rows. If later messages do not say everything of both, or only modify the row, no one can say
  what would be right, and the message stays refused.
* A later message counts if it can be decoded now and was not skipped, even if it was refused for another reason: a
  false positive costs a retry, a false negative would publish an old value. Messages of one request do not supersede
  one another: they are applied in the order of the input.
* A truncation of the shard supersedes everything before it. A statement (`where`) may have changed any row: what came
  before it stays refused. Statements and truncations are never retried: they are about the rows as they were.
* What is applied late is remembered for ever, with the `next` at that time (`Meta.retried`, and the position): it is
  done once, and a replay does it again at the same place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Change, Modify, Nothing, Truncate, Upsert
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import ROW_CHANGES, RowChange
from streamer.incremental.events.registered_schemas import Known
from streamer.incremental.shard import requests
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.requests import CancelRebuild, CarriedTruncation, EndSnapshot, FullRebuild, Retry
from streamer.incremental.shard.snapshot import holds_back
from streamer.incremental.shard.steps import SUPERSEDED, Unforeseen
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CHANGES
from streamer.table.schema import Table
from streamer.table.yaml.shape import REBUILD_ALGORITHMS


@dataclass(frozen=True, slots=True)
class Judged:
    """A message that an operator wants to be retried, and whether it may be."""

    offset: int
    message: Message | None  # None only if it is refused
    refusal: EventRefused | None  # why it is not applied


def objection_to_retry(offsets: Sequence[int], topic_id: str, meta: Meta) -> str:
    """Why a whole request to retry messages is refused; "" if it is not."""
    if holds_back(meta):
        return "its first snapshot is held back: wait until it is published"
    if topic_id != meta.topic_ids.get(CHANGES, ""):
        return "the input was recreated since, and its offsets mean other messages now"
    if len(meta.retried) + len(offsets) > requests.RETRIES_MAX:
        return (
            f"{len(meta.retried):,} messages were tried again and applied so far, and with {len(offsets):,} more they "
            f"could be more than {requests.RETRIES_MAX:,}: `streamer reload --from-source topic` reads all of them "
            "again"
        )
    return ""


class Retrial:
    """Some refused messages of one shard, and what the input says later about their rows.

    meta: where the shard stands when the reading begins. Offsets that were applied late before are left out. known:
    schemas of a registry, among them those of the messages that are handed over.
    """

    def __init__(self, table: Table, offsets: Iterable[int], meta: Meta, known: Known | None = None) -> None:
        retried = {offset for _, offset in meta.retried}
        wanted = sorted(set(offsets) - retried)
        self._judged: dict[int, Judged | None] = {offset: _out_of_reach(offset, meta) for offset in wanted}
        self._not_applied = frozenset(meta.skipped) - retried
        self._decoder = Decoder(table, known)
        self._rows: dict[int, frozenset[str]] = {}
        self._about: dict[str, list[int]] = defaultdict(list)
        self._later: dict[int, dict[str, int]] = defaultdict(dict)
        self._decided: dict[int, set[str]] = defaultdict(set)
        self._messages: dict[int, Message] = {}
        open_ = [offset for offset, judged in self._judged.items() if judged is None]
        self.next = open_[0] if open_ else meta.next
        """The first offset that is not seen yet."""

    def see(self, messages: Iterable[Message], through: int) -> None:
        """Takes note of the messages from `next` on, in order; through: the first offset that they do not reach."""
        for message in messages:
            if self.next <= message.offset < through:
                self._see(message)
        self.next = max(self.next, through)

    def judged(self) -> list[Judged]:
        """What is to be done about each message, in the order of the input, as far as the input was seen."""
        return [judged or self._judge(offset) for offset, judged in self._judged.items()]

    def _see(self, message: Message) -> None:
        wanted = message.offset in self._judged and self._judged[message.offset] is None
        if not wanted and (not self._rows or message.offset in self._not_applied):
            return
        try:
            change = self._decoder.decode(message.key, message.value)
        except EventRefused as refusal:
            if wanted:
                self._judged[message.offset] = Judged(message.offset, message, refusal)
            return
        except Exception as error:  # a bug; decoding changes nothing
            if wanted:
                failed = EventRefused("internal-error", f"decoding failed with {type(error).__name__}")
                self._judged[message.offset] = Judged(message.offset, message, failed)
            return
        if wanted:
            self._see_wanted(message, change)
        else:
            self._see_later(message.offset, change)

    def _see_wanted(self, message: Message, change: Change) -> None:
        if isinstance(change, ROW_CHANGES):
            self._messages[message.offset] = message
            self._rows[message.offset] = rows = rows_of(change)
            for source_key in rows:
                self._about[source_key].append(message.offset)
        elif isinstance(change, Nothing):
            self._judged[message.offset] = Judged(message.offset, message, None)
        else:
            self._judged[message.offset] = Judged(message.offset, message, _statement())

    def _see_later(self, offset: int, change: Change) -> None:
        if isinstance(change, ROW_CHANGES):
            for source_key in rows_of(change):
                for before in self._about.get(source_key, ()):
                    self._later[before].setdefault(source_key, offset)
                    if not isinstance(change, Modify):
                        self._decided[before].add(source_key)
        elif isinstance(change, Truncate):
            self._settle(lambda: _superseded(offset))
        elif not isinstance(change, Nothing):
            self._settle(lambda: _before_change(offset))

    def _settle(self, refusal: Callable[[], EventRefused]) -> None:
        """Refuses everything that was seen so far and is not refused yet."""
        for offset in list(self._rows):
            judged = self._judge(offset)
            self._judged[offset] = judged if judged.refusal else Judged(offset, judged.message, refusal())
        self._rows.clear()
        self._about.clear()

    def _judge(self, offset: int) -> Judged:
        message = self._messages.get(offset)
        if message is None:
            return Judged(offset, None, _gone())
        later = self._later[offset]
        if not later:
            return Judged(offset, message, None)
        at = min(later.values())
        whole = self._decided[offset] == self._rows[offset]
        return Judged(offset, message, _superseded(at) if whole else _before_change(at))


def failed_by(judged: Judged, fault: Unforeseen) -> Judged:
    """The same after retrying failed in an unforeseen way; refused unless the fault is known to be another's."""
    if judged.refusal is not None or fault.offset not in (None, judged.offset):
        return judged
    return Judged(judged.offset, judged.message, EventRefused("internal-error", f"applying it failed: {fault.what}"))


def rows_of(change: RowChange) -> frozenset[str]:
    """The source keys of the rows that a row change is about."""
    former = change.former_key if isinstance(change, Upsert) else None
    return frozenset((change.source_key,) if former is None else (change.source_key, former))


def _out_of_reach(offset: int, meta: Meta) -> Judged | None:
    if offset >= meta.next:
        return Judged(offset, None, EventRefused("not-read-yet", "the shard has not come to this offset yet"))
    if offset < meta.letters_from:
        detail = f"the table was reloaded from its source, after offset {meta.letters_from - 1}: the source has the row"
        return Judged(offset, None, EventRefused(SUPERSEDED, detail))
    return None


def _gone() -> EventRefused:
    return EventRefused("message-gone", "the input does not hold it any more: send the row again")


def _statement() -> EventRefused:
    return EventRefused("statement", "statements and truncations speak of the rows as they were then: send it again")


def _superseded(by: int) -> EventRefused:
    detail = (
        f"offset {by} is about the same row, and later: it stands; where it was refused as well, try both again at once"
    )
    return EventRefused(SUPERSEDED, detail)


def _before_change(at: int) -> EventRefused:
    detail = f"offset {at} may have changed the row, and does not say all of it: send it again"
    return EventRefused("before-a-statement", detail)


WAITING_SECONDS_MAX = 3_600


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is refused."""

    id: str  # of the request, or the offset of a record that cannot be read
    why: str


Answer = FullRebuild | CancelRebuild | EndSnapshot | Retry | CarriedTruncation | Refused | None


def answer(value: bytes, offset: int, written_at: float, shard: int, meta: Meta, now: float) -> Answer:
    """What is to be done about a record of the shard's control partition; None: nothing.

    written_at, now: seconds since 1970.
    """
    request = requests.read_request(value)
    if isinstance(request, requests.Skip | requests.PlacedTruncation | requests.EpochOver | requests.Secret):
        return None  # read at the next take-over
    if isinstance(request, CarriedTruncation):
        return request if request.shard == shard and offset >= meta.control_next else None
    if isinstance(request, EndSnapshot):
        return request if request.shard == shard and _is_held(request, meta) else None
    if request is None:
        told = Refused(f"offset {offset}", f"the record at offset {offset} of the control topic cannot be read")
        return None if _is_over(told.id, written_at, meta, now) else told
    if _is_over(request.id, min(written_at, request.at), meta, now):
        return None
    why = _objection(request, shard, meta)
    return Refused(request.id, why) if why else request


def _is_held(request: EndSnapshot, meta: Meta) -> bool:
    """Whether the snapshot that the request names is held back."""
    if meta.snapshot is None or not holds_back(meta):
        return False
    return (meta.snapshot.since, meta.topic_ids.get(CHANGES, "")) == (request.since, request.topic_id)


def _is_over(id_: str, at: float, meta: Meta, now: float) -> bool:
    known = (*meta.rebuilds, *([meta.rebuild] if meta.rebuild else ()))
    return now - at > WAITING_SECONDS_MAX or any(one.rebuild.id == id_ for one in known)


def _objection(request: FullRebuild | CancelRebuild | Retry, shard: int, meta: Meta) -> str:
    if request.shard != shard:
        return f"it names shard {request.shard}, and lies in the partition of shard {shard}"
    if isinstance(request, Retry):
        return objection_to_retry(request.offsets, request.topic_id, meta)
    running = meta.rebuild
    if isinstance(request, CancelRebuild):
        return "" if running else "no rebuild is running that could be stopped"
    if holds_back(meta):
        return "its first snapshot is held back, and nothing is published yet that could be rebuilt"
    if running:
        return f"a rebuild is running, with {running.done} of {running.total} regions done: wait for it, or --cancel it"
    if request.algorithm and request.algorithm not in REBUILD_ALGORITHMS:
        return f"there is no algorithm {request.algorithm!r}; there are {', '.join(REBUILD_ALGORITHMS)}"
    return ""
