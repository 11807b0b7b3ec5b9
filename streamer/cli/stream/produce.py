"""`streamer produce`: rows, messages and statements into the table's input topic.

Message keys are written in the form that the input has; what an input in doubt would refuse is not sent. A file is
what its name says, or --format; what is neither is refused, not sent line by line. Messages of one file keep their
order within a shard.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from time import monotonic
from typing import Any

import click
import msgspec
import pandas as pd

from streamer.cli.batch.skip_refused import facts_of, refused_among, sentence, skip_refused_option, write_list
from streamer.cli.main import INTERRUPTED
from streamer.cli.stream.key_form_probe import key_form_seen
from streamer.cli.support.options import examples, json_option, kafka_option, require_distinct, table_option
from streamer.cli.support.progress import Stages, is_hidden, stages
from streamer.cli.support.signals import StopSign
from streamer.cli.support.tables import plural, say
from streamer.errors import EventRefused, ServerUnreachable, UsageError
from streamer.incremental.events.decoder import STATEMENT_ID_CHARS_MAX
from streamer.incremental.events.json_messages import MessageReader, MessageReaders, RowReaders
from streamer.incremental.events.key_form import AnyKeyForm, form_unless_told, shard_of
from streamer.incremental.events.registered_schemas import Known
from streamer.incremental.message_files import count_lines, read_messages_of_objects
from streamer.incremental.shard.input import Message
from streamer.kafka.clients import TopicWriter, Unconfirmed, open_consumer, open_writer, reaching
from streamer.kafka.reading import shards_in
from streamer.kafka.registry import registry_from
from streamer.progress import OnProgress
from streamer.table.data_warnings import (
    unlisted_rows,
    unlisted_sentences,
    warning_of,
    warning_of_individuals,
    without_refused,
)
from streamer.table.encode import Encoder
from streamer.table.files import STDIN, atomic_writer, is_named, read_rows
from streamer.table.schema import Table
from streamer.table.yaml.loading import files_of, load_table

# Where a message belongs: to the shard of one row, or to every shard.
#
# What speaks about one row is sent under one message key, whatever form the message has: its source key in the key form
# that the input has. The shard follows from that, so a row's insertion, its changes and its removal meet in one shard.
# What speaks about all rows (a statement, a truncation) is for every shard. A message is read as far as that takes.
# Whether it can be applied is the worker's question: what cannot be read here is passed on as it is, and comes out of
# the worker as a dead letter.

Body = Mapping[str, object]

_encoder = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class RowMessage:
    """A message about one row. message_key None: which row could not be told; value None: the row is gone."""

    message_key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """A message about all rows, for every shard."""

    body: Body = field(repr=False)

    @property
    def statement_id(self) -> str | None:
        """The id that the statement carries itself."""
        own = self.body.get("statement_id")
        return own if isinstance(own, str) and own else None

    def value(self, statement_id: str) -> bytes:
        """The message: the statement under this id."""
        return _encoder.encode({**self.body, "statement_id": statement_id})


TRUNCATE = Statement({"op": "truncate"})


class Router:
    """Reads of rows and messages of one table what routing needs; None: an input that tells no key form yet."""

    def __init__(self, table: Table, key_form: AnyKeyForm | None = None, schemas: Known | None = None) -> None:
        self._encoder = Encoder(table)
        self._messages = MessageReader(table, schemas)
        self._key_form = key_form or form_unless_told(table.source_key)

    def rows(self, frame: pd.DataFrame, op: str = "insert") -> Iterator[RowMessage]:
        """Plain insertions, or upserts, of the rows of a CSV file: the columns that table.yaml names, typed as it says.

        Raises ConfigError at once where such a column is missing.
        """
        return self._rows(frame, op, self._encoder.named_columns(frame))

    def _rows(self, frame: pd.DataFrame, op: str, columns: list[str]) -> Iterator[RowMessage]:
        for texts in zip(*(frame[name].tolist() for name in columns), strict=True):
            row = self._encoder.fields(dict(zip(columns, texts, strict=True)))
            key = self._key_of(row, self._messages.schemaless.own)
            yield RowMessage(key, _encoder.encode({"op": op, "row": row}))

    def route(self, message_key: bytes | None, value: bytes | None) -> Iterator[RowMessage | Statement]:
        """What is to be sent for one message, in order: as a rule the message itself, under its row's message key."""
        if value is None:
            key = self._key_in(message_key)
            yield RowMessage(key, None if key else b"null")  # a removal of nothing: refused by the worker
            return
        body, readers = self._object(value)
        if _is_statement(body):
            yield Statement(body)
            return
        key = self._key_of_body(body, readers) or self._key_in(message_key)
        former = None
        if isinstance(body.get("after"), Mapping):
            former = self._key_of(body.get("before"), readers.parts["before"])
        if former not in (None, key):
            yield RowMessage(former, None)  # a changed primary key: the row leaves the shard of its former one
        yield RowMessage(key, value)

    def _object(self, value: bytes) -> tuple[Body, MessageReaders]:
        """The JSON object in a message, out of its schema/payload wrapping; empty where there is none."""
        try:
            body, readers = self._messages.read(value)
        except EventRefused:
            return {}, self._messages.schemaless
        return body if isinstance(body, dict) else {}, readers

    def _key_of_body(self, body: Body, readers: MessageReaders) -> bytes | None:
        """The key of the row that a plain event, a Debezium envelope or a flattened row is about."""
        if body.get("op") in ("delete", "modify"):
            return self._key_of(body.get("key"), readers.parts["key"])
        for member in ("row", "after", "before"):
            if isinstance(row := body.get(member), Mapping):
                return self._key_of(row, readers.parts[member])
        return self._key_of(body, readers.own)

    def _key_in(self, message_key: bytes | None) -> bytes | None:
        """The message key of the row that a JSON key names (with or without schema), else the key itself."""
        if message_key is None:
            return None
        try:
            said, readers = self._messages.read(message_key)
        except EventRefused:
            return message_key
        return self._key_of(said, readers.own) or message_key

    def _key_of(self, said: object, readers: RowReaders) -> bytes | None:
        """The message key for a row's fields or for a bare key; None where they hold none of the input's form."""
        try:
            return self._key_form.written(self._encoder.source_key_of(readers.key(said)))
        except EventRefused:
            return None


def _is_statement(body: Body) -> bool:
    return body.get("op") == "truncate" or (body.get("op") in ("delete", "modify") and "where" in body)


# Messages on their way into the input topic: rows to their shards, statements to all of them.
#
# * Messages about rows go through one idempotent producer, to the shard that murmur2 of the message key gives; a
#   message whose row cannot be told goes to the shard that its own bytes give.
# * A statement goes to every shard in one Kafka transaction, with an id by which a shard knows it again: sending it
#   twice under the same id does it once.

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
        self._statements: TopicWriter | None = None
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


BURST_MESSAGES_MAX = 500
BURSTS_PER_SECOND = 50
ROW_FILES, MESSAGE_FILES = (".csv", ".tsv"), (".jsonl", ".ndjson")
ROWS_LIE_ELSEWHERE = (
    "table.yaml says `input: {partitioner: stated}`, so rows lie where their own producer places them, and not where "
    "murmur2 would: send them through that producer; statements can be sent"
)

Messages = Iterator[RowMessage | Statement]

Lines = Iterable[tuple[int, Iterable[RowMessage | Statement]]]
"""What is sent for each row or line of a file, by its number: the first one is 1."""


def _send_all(sender: Sender, lines: Lines, rate: float | None, told: Callable[[int], None], stop: StopSign) -> None:
    """Sends all messages, at most `rate` lines a second, in bursts of equal distance, until Ctrl-C."""
    burst = BURST_MESSAGES_MAX if rate is None else max(1, int(rate / BURSTS_PER_SECOND))
    started = monotonic()
    for done, (number, messages) in enumerate(stop.until_up(lines), start=1):
        for message in messages:
            sender.send(message)
        sender.sent.last = max(number, sender.sent.last)
        sender.sent.lines += number > 0  # a truncation is none
        if done % burst == 0:
            told(done)
            if rate is not None:
                stop.sleep(max(0.0, started + done / rate - monotonic()))
    sender.flush()
    sender.sent.interrupted = stop.is_up


@click.command(
    name="produce",
    epilog=examples(
        "streamer produce rows.csv --table mine",
        "streamer produce events.jsonl --table mine --rate 100",
        'echo \'{"op": "delete", "key": 71}\' | streamer produce - --table mine',
    ),
)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@table_option
@kafka_option
@click.option(
    "--format", "said_format", type=click.Choice(["csv", "jsonl"]), help="What FILE holds, whatever its name."
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Messages per second [default: no limit].")
@click.option("--limit", type=click.IntRange(min=0), help="Send N rows or lines of FILE only.")
@click.option("--from", "first", type=click.IntRange(min=1), default=1, help="Begin with row or line N of FILE.")
@click.option("--upsert", is_flag=True, help="Rows of a CSV file shall be like this, whether they are there or not.")
@skip_refused_option
@click.option("--statement-id", metavar="ID", help="Id of the statement; repeats one that was sent before.")
@click.option("--truncate", is_flag=True, help="First remove all rows, in every shard.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    file: str | None,
    table: str,
    kafka: str,
    said_format: str | None,
    rate: float | None,
    limit: int | None,
    first: int,
    upsert: bool,
    left_out: Path | None,
    statement_id: str | None,
    truncate: bool,
    as_json: bool,
) -> None:
    """Sends FILE to the input topic of a table.

    FILE is a CSV file of rows (.csv or .tsv; they become insertions, or upserts by --upsert), or JSON lines (.jsonl or
    .ndjson): plain or Debezium events, statements, or {"key": ..., "value": ...}. Either may be packed (.gz); "-" is
    stdin, JSON lines unless --format csv says otherwise. Message keys are written as the topic's other messages have
    them. Ctrl-C ends it between two messages, and says how many were sent and how to go on.
    """
    if file is None and not truncate:
        raise UsageError("nothing to send: name a FILE, or say --truncate")
    if statement_id is not None and not 0 < len(statement_id) <= STATEMENT_ID_CHARS_MAX:
        raise UsageError(f"--statement-id: a text of 1 to {STATEMENT_ID_CHARS_MAX} characters")
    if truncate and first > 1:
        raise UsageError("--from goes on with what was begun, and --truncate would remove it: say one of them")
    schema = load_table(table)
    is_rows = file is not None and _format_of(file, said_format) == "csv"
    if not is_rows and (upsert or left_out is not None):
        raise UsageError("--upsert and --skip-refused are for rows of a CSV file; a message says itself what it does")
    if file is not None and left_out is not None:
        require_distinct([*files_of(table), Path(file)], [left_out])
    facts, warnings, stop, total = None, [], StopSign(), None
    with stages(as_json) as progress:
        with progress.stage("read"):
            said = None if file is None else _read(file, is_rows, first, limit)
            if file not in (None, STDIN) and not is_hidden(as_json):
                total = None if is_rows else count_lines(file) - first + 1
        if isinstance(said, pd.DataFrame):
            warnings = _warnings(schema, said)
            said, facts = _without_refused(schema, said, left_out, upsert, progress)
            said = said[said.index >= first - 1].head(len(said) if limit is None else limit)
            total = len(said)
        progress.next("connect")
        started = monotonic()
        with reaching(kafka), ExitStack() as connections:
            sender = Sender(kafka, f"{schema.name}.changes", statement_id, connections)
            sender.sent.left_out, sender.sent.warnings = facts, warnings
            sender.sent.last = first - 1
            lines = chain(
                [(0, [TRUNCATE])] if truncate else (),
                () if said is None else _routed(said, schema, sender, first, "upsert" if upsert else "insert"),
            )
            with progress.stage("produce") as on_progress, stop.watched():
                _send_all(sender, lines, rate, _share_of(total, limit, on_progress), stop)
            sender.sent.seconds = round(monotonic() - started, 3)
    if sender.sent.interrupted:
        sender.sent.to_go_on = _to_go_on(sender.sent, limit)
    _print(sender.sent, as_json)
    if sender.sent.interrupted:
        ctx.exit(INTERRUPTED)


def _share_of(total: int | None, limit: int | None, on_progress: OnProgress) -> Callable[[int], None]:
    """What is told how many lines were sent; nobody knows how many a pipe has."""
    wanted = limit if total is None else min(total, total if limit is None else limit)
    return lambda done: on_progress(min(1.0, done / wanted)) if wanted else None


def _read(file: str, is_rows: bool, first: int, limit: int | None) -> pd.DataFrame | Iterator[Message]:
    """What FILE holds: all of its rows, by numbers from 0, or `limit` of its lines from `first` on."""
    if is_rows:
        return read_rows(file)
    return islice(read_messages_of_objects(file), first - 1, None if limit is None else first - 1 + limit)


def _warnings(table: Table, rows: pd.DataFrame) -> list[str]:
    """What there is to say of the rows' keys, of their individuals, and of their categories."""
    found = list(unlisted_sentences(table, unlisted_rows(table, rows), len(rows), "rows"))
    if table.individual in rows.columns:
        found = warning_of_individuals(rows[table.individual].tolist(), table.individual) + found
    if len(table.source_key) == 1 and table.source_key[0] in rows.columns:
        found = warning_of(rows[table.source_key[0]].tolist(), table.source_key[0]) + found
    return found


def _without_refused(
    table: Table, rows: pd.DataFrame, left_out: Path | None, upsert: bool, progress: Stages
) -> tuple[pd.DataFrame, dict[str, Any] | None]:
    """The rows that table.yaml accepts, where the others are to be listed; and what these are."""
    if left_out is None:
        return rows, None
    refused = refused_among(table, rows, progress, upserts=upsert)
    with atomic_writer(left_out, text=True) as file:
        write_list(refused, file)
    return without_refused(rows, refused), facts_of(refused, len(rows), left_out)


def _format_of(file: str, said_format: str | None) -> str:
    if said_format is not None:
        return said_format
    if is_named(file, *ROW_FILES):
        return "csv"
    if file == STDIN or is_named(file, *MESSAGE_FILES):
        return "jsonl"
    names = ", ".join(ROW_FILES + MESSAGE_FILES)
    raise UsageError(f"{file}: its name says not what it holds ({names}, also with .gz): say --format csv or jsonl")


def _routed(said: pd.DataFrame | Iterator[Message], table: Table, sender: Sender, first: int, op: str) -> Lines:
    """What is to be sent, under message keys as the input has them."""
    schemas = registry_from()
    key_form = key_form_seen(sender.consumer, sender.sent.topic, table, schemas)
    sender.sent.key_form = (key_form or form_unless_told(table.source_key)).name
    sender.sent.key_form_seen = key_form is not None
    router = Router(table, key_form, schemas.known)
    rows_lie_elsewhere = table.partitioner_stated and sender.sent.shards > 1
    if isinstance(said, pd.DataFrame):
        if rows_lie_elsewhere:
            raise UsageError(ROWS_LIE_ELSEWHERE)
        numbers = (int(number) + 1 for number in said.index)
        return ((number, [message]) for number, message in zip(numbers, router.rows(said, op), strict=True))
    lines = ((number, router.route(line.key, line.value)) for number, line in enumerate(said, start=first))
    return ((n, _statements_only(messages)) for n, messages in lines) if rows_lie_elsewhere else lines


def _statements_only(messages: Messages) -> Messages:
    for message in messages:
        if isinstance(message, RowMessage):
            raise UsageError(ROWS_LIE_ELSEWHERE)
        yield message


def _to_go_on(sent: Sent, limit: int | None) -> str:
    """The options that go on where Ctrl-C has ended it, beside those that were said; --truncate is done."""
    return f"--from {sent.last + 1}" + (f" --limit {limit - sent.lines}" if limit is not None else "")


def _print(sent: Sent, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(asdict(sent)))
        return
    per_second = sent.messages / sent.seconds if sent.seconds else 0.0
    say(f"{plural(sent.messages, 'message')} to {sent.topic} in {sent.seconds:.1f} s ({per_second:,.0f} a second)")
    say(f"  about rows: {sent.rows:,}; statements, to {plural(sent.shards, 'shard')} each: {sent.statements:,}")
    if sent.key_form:
        told = "" if sent.key_form_seen else ", as no message of the topic tells another form"
        say(f"  message keys: {sent.key_form}{told}")
    if sent.unrouted:
        say(f"  whose row could not be told, or not in this form (they become dead letters): {sent.unrouted:,}")
    if sent.left_out is not None:
        say(f"  left out: {sentence(sent.left_out)}")
    for warning in sent.warnings:
        say(f"  warning: {warning}")
    if sent.interrupted:
        say(f"  interrupted behind row or line {sent.last:,}: to go on, say the same with {sent.to_go_on}")
    for statement_id in sent.statement_ids:
        say(f"  statement id: {statement_id}")
