"""The way into one shard: its messages, and what the broker says of the table's topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

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

    def state(self) -> InputState:
        """Itself: an input that does not move."""
        return self


class ShardInput(Protocol):
    """The way in, as a take-over asks for it."""

    def state(self) -> InputState:
        """What holds right now. Raises ServerUnreachable, ShardRefused; Fenced where the shard is lost already."""
