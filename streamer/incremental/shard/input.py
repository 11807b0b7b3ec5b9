"""The way into one shard: its messages, and what the broker says of the table's topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the input topic."""

    offset: int
    key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class InputState:
    """What the broker says of a shard's input right now; offsets: earliest <= end (read committed).

    topic_ids: by kind, what tells a topic from another one of the same name. A kind that is missing was not asked for,
    or the broker gives no ids: nothing is said of it. live_begun: whether
    a reader finds any record of the shard in `live`.
    """

    topic_ids: Mapping[str, str]
    shards: int
    earliest: int
    end: int
    live_begun: bool = False
