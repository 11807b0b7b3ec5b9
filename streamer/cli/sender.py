"""Messages on their way into the input topic: rows to their shards, statements to all of them.

The rules of this file
----------------------
* Messages about rows go through one idempotent producer, to the shard that murmur2 of the message key gives; a message
  whose row cannot be told goes to the shard that its own bytes give.
* A statement goes to every shard in one Kafka transaction, with an id by which a shard knows it again: sending it twice
  under the same id does it once.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from streamer.cli.routing import RowMessage, Statement
from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental.events.murmur2 import shard_of
from streamer.kafka.clients import Unconfirmed, Writer, open_consumer, open_writer
from streamer.kafka.reading import shards_in

MESSAGE_BYTES_MAX = 1_000_000  # key and value; a topic with the broker's own settings takes a little more
UNFLUSHED_MESSAGES_MAX = 10_000


@dataclass
class Sent:
    """What was sent. messages = rows + unrouted + statements * shards; unrouted: their row could not be told.

    key_form: how message keys were written; key_form_seen: whether messages of the topic told it. lines: rows or lines
    of the file that were sent; last: the number of the last one; interrupted: whether there may be more, and to_go_on
    by which options. left_out: rows that were refused and not sent. warnings: what to look at.
    """

    topic: str
    shards: int
    messages: int = 0
    rows: int = 0
    unrouted: int = 0
    statements: int = 0
    statement_ids: list[str] = field(default_factory=list)
    key_form: str = ""
    key_form_seen: bool = False
    seconds: float = 0.0
    lines: int = 0
    last: int = 0
    interrupted: bool = False
    to_go_on: str = ""
    left_out: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)


class Sender:
    """Sends messages in order; raises ServerUnreachable, and UsageError for a message that no topic takes."""

    def __init__(self, bootstrap: str, topic: str, statement_id: str | None, connections: ExitStack) -> None:
        self._bootstrap = bootstrap
        self._connections = connections
        self.consumer = connections.enter_context(open_consumer(bootstrap))
        self.sent = Sent(topic, len(shards_in(self.consumer, topic)))
        self._rows = connections.enter_context(open_writer(bootstrap, topic))
        self._statements: Writer | None = None
        self._statement_id = statement_id
        self._unflushed = 0

    def send(self, message: RowMessage | Statement) -> None:
        """Sends one message. Rows are on their way when this returns; a statement has arrived everywhere."""
        if isinstance(message, Statement):
            self.flush()
            self._send_statement(message)
        else:
            self._send_row(message.message_key, message.value)

    def _send_row(self, message_key: bytes | None, value: bytes | None) -> None:
        sent = self.sent
        if len(message_key or b"") + len(value or b"") > MESSAGE_BYTES_MAX:
            raise UsageError(
                f"a message is larger than {MESSAGE_BYTES_MAX:,} bytes; the {sent.messages:,} before it were sent"
            )
        shard = shard_of(value or b"" if message_key is None else message_key, sent.shards)
        self._rows.send(value, message_key, shard)
        sent.messages += 1
        sent.rows += message_key is not None
        sent.unrouted += message_key is None
        self._unflushed += 1
        if self._unflushed >= UNFLUSHED_MESSAGES_MAX:
            self.flush()

    def flush(self) -> None:
        """Waits until the broker has confirmed all rows."""
        try:
            self._rows.flush()
        except Unconfirmed as error:
            confirmed = self.sent.messages - self._unflushed
            raise ServerUnreachable(
                f"Kafka at {self._bootstrap} does not confirm ({error.name}): {confirmed:,} messages were "
                f"sent; whether the next {self._unflushed:,} were is not known"
            ) from None
        self._unflushed = 0

    def _send_statement(self, statement: Statement) -> None:
        """To every shard or to none."""
        statement_id = self._id_of(statement)
        if self._statements is None:
            own = f"{self.sent.topic}-produce-{uuid.uuid4()}"  # two operators must not shut each other out
            self._statements = self._connections.enter_context(open_writer(self._bootstrap, self.sent.topic, own))
        try:
            self._statements.send_to_all(statement.value(statement_id), range(self.sent.shards))
        except Unconfirmed as error:
            raise ServerUnreachable(
                f"Kafka at {self._bootstrap}: it is not known whether statement {statement_id} was sent "
                f"({error.name}); repeat it with --statement-id {statement_id}, it will be applied once only"
            ) from None
        self.sent.statements += 1
        self.sent.statement_ids.append(statement_id)
        self.sent.messages += self.sent.shards

    def _id_of(self, statement: Statement) -> str:
        """The statement's own id, else the given one, else a new one."""
        given = self._statement_id
        if statement.statement_id is None and given in self.sent.statement_ids:
            raise UsageError("--statement-id names one statement, and this is the second without an id of its own")
        return statement.statement_id or given or str(uuid.uuid4())
