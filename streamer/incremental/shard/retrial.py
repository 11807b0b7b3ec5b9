"""Which refused messages may be applied now, long after their place in the input.

The rules of this file
----------------------
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
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Change, Modify, Nothing, Truncate, Upsert
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import ROW_CHANGES, RowChange
from streamer.incremental.events.registered_schemas import Known
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.steps import SUPERSEDED, Unforeseen
from streamer.incremental.store.base import Meta
from streamer.table.schema import Table


@dataclass(frozen=True, slots=True)
class Judged:
    """A message that an operator wants to be retried, and whether it may be."""

    offset: int
    message: Message | None  # None only if it is refused
    refusal: EventRefused | None  # why it is not applied


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
        """Judges each message by what was seen of the input, in its order."""
        return [judged or self._judge(offset) for offset, judged in self._judged.items()]

    def _see(self, message: Message) -> None:
        wanted = message.offset in self._judged and self._judged[message.offset] is None
        if not wanted and (not self._rows or message.offset in self._not_applied):
            return
        try:
            change = self._decoder.decode(message.key, message.value)
        except Exception as error:  # not refused: a bug; decoding changes nothing
            if wanted:
                failed = EventRefused("internal-error", f"decoding failed with {type(error).__name__}")
                refusal = error if isinstance(error, EventRefused) else failed
                self._judged[message.offset] = Judged(message.offset, message, refusal)
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
            detail = "statements and truncations speak of the rows as they were then: send it again"
            self._judged[message.offset] = Judged(message.offset, message, EventRefused("statement", detail))

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
            gone = EventRefused("message-gone", "the input does not hold it any more: send the row again")
            return Judged(offset, None, gone)
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


def _superseded(by: int) -> EventRefused:
    detail = (
        f"offset {by} is about the same row, and later: it stands; where it was refused as well, try both again at once"
    )
    return EventRefused(SUPERSEDED, detail)


def _before_change(at: int) -> EventRefused:
    detail = f"offset {at} may have changed the row, and does not say all of it: send it again"
    return EventRefused("before-a-statement", detail)
