"""The way into one shard: its messages, and what the broker says of the table's topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from streamer.incremental.shard.requests import Placed
from streamer.table.row import Unshown


class Message(Unshown, frozen=True):
    """One message of the input topic."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class InputState:
    """What the broker says of a shard's input right now; offsets: earliest <= end (read committed).

    topic_ids: by kind, what tells a topic from another one of the same name. A kind that is missing was not asked for,
    or the broker gives no ids: nothing is said of it. live_begun: whether a reader finds any record of it in `live`.
    control_end: where the shard's partition of the control topic ends, 0 where there is none.
    """

    topic_ids: Mapping[str, str]
    shards: int
    earliest: int
    end: int
    live_begun: bool = False
    control_end: int = 0

    # An input that does not move: what it says holds for ever, and no message of before is asked for.

    def state(self) -> InputState:
        return self

    def ask(self) -> None:
        pass

    def check(self) -> None:
        pass

    def placed(self) -> Sequence[Placed]:
        return ()

    def begins(self) -> int:
        return self.earliest

    def messages(self, start: int, end: int) -> Iterator[Sequence[Message]]:
        return iter(())

    def piece(self, start: int, end: int) -> tuple[Sequence[Message], int]:
        return (), end


class ShardInput(Protocol):
    """The way in, and what is known of the topics. Every method may raise ServerUnreachable, ShardRefused."""

    def state(self) -> InputState:
        """What holds right now. Raises Fenced if the shard is lost already."""

    def ask(self) -> None:
        """Asks for the topics, for `check` to compare them; does not wait for the answer."""

    def check(self) -> None:
        """Raises Conflict if the topics are not those that `state` saw; what was read before `ask` came from them."""

    def placed(self) -> Sequence[Placed]:
        """The truncations of which the shard said that it has placed them."""

    def begins(self) -> int:
        """The first offset of the input."""

    def messages(self, start: int, end: int) -> Iterator[Sequence[Message]]:
        """The messages from an offset to another, some at a time."""

    def piece(self, start: int, end: int) -> tuple[Sequence[Message], int]:
        """Some messages from `start` on that were read before, and the offset that they do not reach, `end` at most."""
