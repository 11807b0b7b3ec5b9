"""The way into one shard: its messages, and what the broker says of the table's topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

import msgspec

from streamer.incremental.shard.requests import EpochOver
from streamer.incremental.store.base import LastRead, Meta
from streamer.table.row import Unshown


class Message(Unshown, frozen=True):
    """One message of the input topic."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 0  # milliseconds since 1970; 0 if the input says none


def last_read(message: Message, secret: bytes) -> LastRead:
    """By what a message is known again, whoever wrote another one at its offset meanwhile."""
    checksum = blake2b(_encode((message.key, message.value)), digest_size=8, key=secret[: blake2b.MAX_KEY_SIZE])
    return LastRead(message.offset, message.timestamp, checksum.digest())


def is_same(message: Message, last: LastRead, secret: bytes) -> bool:
    """True if it is the message that was read last. Without the secret by which that was noted, its time must do."""
    now = last_read(message, secret)
    return now == last if secret else (now.offset, now.timestamp) == (last.offset, last.timestamp)


_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class KeptSecret:
    """A shard's secret as the control topic holds it."""

    secret: bytes = field(default=b"", repr=False)  # b"": nothing
    is_current: bool = False  # whether a record has it as it would be written now


@dataclass(frozen=True, slots=True)
class InputState:
    """A shard's input as the broker describes it right now; as an input of its own, one that never changes."""

    topic_ids: Mapping[str, str]  # by kind of topic; empty or without a kind if the broker gives no ids
    shards: int
    earliest: int
    end: int  # of what is committed
    live_begun: bool = False  # whether a reader finds any record of the shard in `live`
    control_end: int = 0  # of the shard's partition of the control topic; 0 if there is none
    reach: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of the topics of rows, by kind: begin and end
    # What stands at the offset of the message that was read last: that message, another one, or none; empty if nobody
    # asked, or if nothing follows from an answer (what was there may have been compacted, or has expired).
    again: tuple[Message | None, ...] = field(default=(), repr=False)

    def state(self, last: int | None = None) -> InputState:
        return self

    def ask(self) -> None:
        pass

    def check(self, meta: Meta) -> None:
        pass

    def epochs_over(self) -> Sequence[EpochOver]:
        return ()

    def secret(self) -> KeptSecret | None:
        return None

    def holds_sealed(self, since: int) -> bool:
        return False

    def piece(self, start: int, end: int) -> tuple[Sequence[Message], int]:
        return (), end


class ShardInput(Protocol):
    """The way in, and what is known of the topics. Every method may raise ServerUnreachable, ShardRefused."""

    def state(self, last: int | None = None) -> InputState:
        """The input right now. last: the offset of the message that was read last.

        Raises Fenced if the shard is lost already.
        """

    def ask(self) -> None:
        """Asks for the topics, which `check` compares; does not wait for the answer."""

    def check(self, meta: Meta) -> None:
        """Raises Conflict if the topics are not those that `state` saw; what was read before `ask` came from them.

        meta: as the commit leaves it that is made of what was read.
        """

    def epochs_over(self) -> Sequence[EpochOver]:
        """The ends of epochs of the sealed changelog, as the shard said."""

    def secret(self) -> KeptSecret | None:
        """The shard's secret in the control topic; None: there is no such topic."""

    def holds_sealed(self, since: int) -> bool:
        """True if committed records of the sealed changelog stand at an offset or after it."""

    def piece(self, start: int, end: int) -> tuple[Sequence[Message], int]:
        """Some messages from `start` on that were read before, and the first offset not reached, `end` at most."""
