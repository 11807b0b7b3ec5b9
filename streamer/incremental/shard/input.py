"""The way into one shard: its messages, and what the broker says of the table's topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Truncate
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.events.snapshot_marks import Mark, begins_a_snapshot, mark_of
from streamer.incremental.shard.requests import Placed
from streamer.table.row import Unshown
from streamer.table.schema import Table


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
    control_end: where the shard's partition of the control topic ends, 0 if there is none.
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


# Whether an input that has lost its beginning still says all rows: where a snapshot or a truncation stands in it.
#
# What expired may have told of rows of which nothing that is left says anything, and nobody can know which these are.
# It does not matter where a truncation follows, behind which the table is empty, or where Debezium begins to read the
# whole table: a row that was there is read then. That is where it says `first`, or where rows that were read follow
# something else; rows that are read between changes (`incremental`) are no whole table. A snapshot whose beginning is
# lost does not count, because rows of it may be.

READ = (Mark.READ, Mark.LAST)


class Remainder:
    """What is left of a shard's input, looked at while somebody else reads it; shards: of its table."""

    def __init__(self, table: Table, shards: int, schemas: Schemas | None = None) -> None:
        self._schemas = schemas or NoSchemas()
        self._decoder = Decoder(table, self._schemas.known)
        self._shards = shards
        self._before: Mark | None = None
        self.says_all = False
        """Whether a truncation or the beginning of a snapshot stands in what was read so far."""

    def read(self, batches: Iterable[Sequence[Message]]) -> Iterator[Sequence[Message]]:
        """The same batches; each is looked at when it has been used, because its schemas are known then."""
        for batch in batches:
            yield batch
            for message in () if self.says_all else batch:
                self._look(message)

    def _look(self, message: Message) -> None:
        mark = mark_of(message.value, self._schemas.known)
        begins = mark in READ and self._before not in (None, *READ)
        self.says_all |= begins or begins_a_snapshot(message.value, self._schemas.known) or self._truncates(message)
        self._before = mark

    def _truncates(self, message: Message) -> bool:
        """Whether the shard is empty behind the message; one shard of several is not told so by a captured one."""
        try:
            change = self._decoder.decode(message.key, message.value)
        except EventRefused:
            return False
        return isinstance(change, Truncate) and (self._shards == 1 or not change.whole_table_only)
