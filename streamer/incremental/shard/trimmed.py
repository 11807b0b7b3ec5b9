"""Whether an input that has lost its beginning still says all rows: where a snapshot or a truncation stands in it.

What expired may have told of rows of which nothing that is left says anything, and nobody can know which these are. It
does not matter where a truncation follows, behind which the table is empty, or where Debezium begins to read the whole
table: a row that was there is read then. That is where it says `first`, or where rows that were read follow something
else; rows that are read between changes (`incremental`) are no whole table. A snapshot whose beginning is lost does not
count, because rows of it may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Truncate
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.events.snapshot_marks import Mark, begins_a_snapshot, mark_of
from streamer.incremental.shard.input import Message
from streamer.table.schema import Table

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
