"""Messages that are passed over without being decided by their content, so that none of them stops its shard.

The rules of this file
----------------------
* A message is passed over because an operator said so (`streamer skip`), or because applying it failed in a way nobody
  foresaw: it becomes a dead letter, `skipped` or `internal-error`, and its offset is remembered in `Meta.skipped`.
* What is published already is not decided again: a replay passes over exactly the offsets that were passed over before
  the published `next`. Skips below it come too late, and an error below it stops the shard.
* An error ends with the shard's table loaded again, and its messages applied again but for the one at fault. Where it
  shows only when the effect of several is put together, they are committed one by one until it is found.
* A broken engine must not turn its input into dead letters: after `IN_A_ROW_MAX` failures without a message that could
  be applied in between, or `SKIPPED_MAX` in all, the shard stops.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import PurePath
from types import TracebackType
from typing import Final

from streamer.errors import EventRefused, GroupTooLarge, LawViolated, ShardRefused, StreamerError
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.steps import Tally
from streamer.incremental.store.base import Meta

IN_A_ROW_MAX: Final = 10
SKIPPED_MAX: Final = 1_000

_MEND = "run a version of streamer that applies it, and report this as a fault"


class Unforeseen(Exception):
    """Applying messages failed, and nobody foresaw how; `what` holds no value. offset: the one at fault, if known."""

    def __init__(self, what: str, offset: int | None) -> None:
        super().__init__(what)
        self.what = what
        self.offset = offset


UNWRITABLE = (ValueError, TypeError, OverflowError)
"""What a value raises that no store can write. Anything else that a store raises is not a message's fault."""


class unforeseen(AbstractContextManager[None]):
    """Tells a fault that a message may have caused from everything else; its text, which may quote it, stays here.

    A class, because every message passes through one: a generator takes three times as long.
    """

    __slots__ = ("_faults", "_offset")

    def __init__(self, offset: int | None = None, faults: tuple[type[Exception], ...] = (Exception,)) -> None:
        self._offset = offset
        self._faults = faults

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or not isinstance(error, self._faults):
            return
        if isinstance(error, MemoryError | OSError):  # the machine, the network: the next message would meet it too
            return
        if isinstance(error, LawViolated) or not isinstance(error, StreamerError):
            raise Unforeseen(told(error), self._offset) from None


def told(error: BaseException) -> str:
    """Class of an error and its place in the code; never its text, which may quote values, but for one that is known.

    >>> told(KeyError("a value"))
    'KeyError'
    """
    if isinstance(error, GroupTooLarge):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {PurePath(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


class PassedOver:
    """Which messages of one shard are passed over, from a take-over to the next.

    skips: offsets that an operator named. replay_to: the published position, where the store is behind it.
    """

    def __init__(self, name: str, meta: Meta, skips: Iterable[int] = (), replay_to: Position | None = None) -> None:
        self._name = name
        self._decided = replay_to.next if replay_to else meta.next
        self._repeated = frozenset(replay_to.skipped if replay_to else ())
        self._skips = frozenset(offset for offset in skips if offset >= self._decided)
        self._errors: dict[int, str] = {}
        self._in_a_row = 0
        self._last_error = -1
        self._run_ended = False
        self._one_by_one_to = 0

    def refusal(self, offset: int) -> EventRefused | None:
        """Why the message at `offset` is passed over, or None where it is not."""
        if offset in self._errors:
            return EventRefused("internal-error", f"applying it failed: {self._errors[offset]}")
        if offset in self._skips or offset in self._repeated:
            return EventRefused("skipped", "an operator had it passed over (`streamer skip`)")
        return None

    def check(self, offset: int, tally: Tally) -> None:
        """Raises EventRefused where the message at `offset` is passed over, which the tally then knows."""
        refusal = self.refusal(offset)
        if refusal is not None:
            tally.skipped.append(offset)
            raise refusal

    def applied(self, offset: int) -> None:
        """Takes note that a message could be applied."""
        if self._in_a_row and offset > self._last_error:
            self._in_a_row, self._run_ended = 0, True

    def commit_is_due(self, offset: int) -> bool:
        """Whether to commit after the message at `offset`: what was found out need not be found out again."""
        due, self._run_ended = self._run_ended, False
        return due or offset < self._one_by_one_to

    def failed(self, fault: Unforeseen, last: int, n_messages: int, meta: Meta) -> str:
        """Decides what becomes of a failure, and tells it; last, n_messages: those handled on top of `meta` before it.

        Raises ShardRefused where passing over would not help.
        """
        if fault.offset is None and n_messages > 1:
            self._one_by_one_to = last + 1
            return f"the messages up to offset {last} are committed one by one: {fault.what}"
        offset = last if fault.offset is None else fault.offset
        if offset < self._decided:
            raise ShardRefused(
                f"{self._name}: offset {offset} has been decided and cannot be repeated: {fault.what}; {_MEND}"
            )
        self._in_a_row += 1
        hopeless = self.refusal(offset) is not None or self._in_a_row >= IN_A_ROW_MAX
        if hopeless or len(meta.skipped) + len(self._errors) >= SKIPPED_MAX:
            raise ShardRefused(
                f"{self._name}: {self._in_a_row} messages in a row could not be applied, {len(meta.skipped)} before "
                f"were passed over; the last one, at offset {offset}: {fault.what}; the fault is not theirs; {_MEND}"
            )
        self._errors[offset] = fault.what
        self._last_error = offset
        return f"offset {offset} is passed over: {fault.what}"
