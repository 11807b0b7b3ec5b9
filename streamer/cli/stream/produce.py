"""`streamer produce`: sends rows, messages and statements to the table's input topic.

Message keys are written in the form that the input has. Messages of one file keep their order within a shard.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import chain, islice
from pathlib import Path
from time import monotonic
from typing import Any

import click
import msgspec
import pandas as pd

from streamer.cli.support import skip_refused
from streamer.cli.support.next_call import KAFKA, say_next
from streamer.cli.support.options import command_named, json_option, kafka_option, table_option
from streamer.cli.support.outputs import force_option, require_writable
from streamer.cli.support.progress import Stages, is_hidden, stages
from streamer.cli.support.signals import INTERRUPTED, StopSign
from streamer.cli.support.tables import plural, show
from streamer.errors import EventRefused, ServerUnreachable, UsageError
from streamer.incremental.events.decoder import STATEMENT_ID_CHARS_MAX
from streamer.incremental.events.json_messages import MessageReader, MessageReaders, RowReaders
from streamer.incremental.events.key_form import AnyKeyForm, default_form, shard_of
from streamer.incremental.events.registered_schemas import Known
from streamer.incremental.message_files import count_lines, read_messages_of_objects
from streamer.incremental.shard.input import Message
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.clients import TopicWriter, Unconfirmed, open_consumer, open_writer, reaching
from streamer.kafka.reading import Consumer, shards_in
from streamer.kafka.registry import registry_from
from streamer.loading.key_form import key_form_seen
from streamer.progress import OnProgress
from streamer.table import data_warnings
from streamer.table.codes import cell_text, source_cells
from streamer.table.encode import Encoder
from streamer.table.files import PARQUET, STDIN, atomic_writer, is_named
from streamer.table.schema import Table
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import files_of, load_table

# -- routing ----------------------------------------------------------------------------------------------------------
#
# A message about one row is sent under one message key, whatever its format: the row's source key in the input's key
# form. So all messages of a row get into one shard. A statement or a truncation goes to every shard. A message is read
# only as far as that takes; what cannot be read is sent as it is, and becomes a dead letter of the worker.

Body = Mapping[str, object]

_encoder = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class RowMessage:
    """A message about one row."""

    message_key: bytes | None = field(repr=False)  # None: it is unknown which row
    value: bytes | None = field(repr=False)  # None: the row is removed


@dataclass(frozen=True, slots=True)
class Statement:
    """A message about all rows, for every shard."""

    body: Body = field(repr=False)

    @property
    def statement_id(self) -> str | None:
        """The id in the statement itself."""
        own = self.body.get("statement_id")
        return own if isinstance(own, str) and own else None

    def value(self, statement_id: str) -> bytes:
        """The message under this id."""
        return _encoder.encode({**self.body, "statement_id": statement_id})


TRUNCATE = Statement({"op": "truncate"})


class Router:
    """Finds the message keys of rows and messages of one table. key_form: None: the input shows none yet."""

    def __init__(self, table: Table, key_form: AnyKeyForm | None = None, schemas: Known | None = None) -> None:
        self._encoder = Encoder(table)
        self._messages = MessageReader(table, schemas)
        self._key_form = key_form or default_form(table.source_key)

    def rows(self, frame: pd.DataFrame, op: str = "insert") -> Iterator[RowMessage]:
        """Plain insertions or upserts of the rows of a file: the columns of table.yaml, with their types.

        Raises ConfigError at once if a column is missing.
        """
        columns = self._encoder.named_columns(frame)
        cells = zip(*(source_cells(frame[name]).tolist() for name in columns), strict=True)
        return (self._row(dict(zip(columns, row, strict=True)), op) for row in cells)

    def _row(self, cells: dict[str, object], op: str) -> RowMessage:
        row = self._encoder.fields(cells)
        return RowMessage(self._key_of(row, self._messages.schemaless.own), _encoder.encode({"op": op, "row": row}))

    def route(self, message_key: bytes | None, value: bytes | None) -> Iterator[RowMessage | Statement]:
        """The messages to send for one message, in order: usually itself, under its row's message key."""
        if value is None:
            key = self._key_in(message_key)
            yield RowMessage(key, None if key else b"null")  # a removal without a key: the worker refuses it
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
            yield RowMessage(former, None)  # a changed primary key: removed from the shard of the former one
        yield RowMessage(key, value)

    def _object(self, value: bytes) -> tuple[Body, MessageReaders]:
        """The JSON object of a message, without schema/payload wrapping; empty if there is none."""
        try:
            body, readers = self._messages.read(value)
        except EventRefused:
            return {}, self._messages.schemaless
        return body if isinstance(body, dict) else {}, readers

    def _key_of_body(self, body: Body, readers: MessageReaders) -> bytes | None:
        """The message key of the row in a plain event, a Debezium envelope or a flattened row."""
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
            content, readers = self._messages.read(message_key)
        except EventRefused:
            return message_key
        return self._key_of(content, readers.own) or message_key

    def _key_of(self, content: object, readers: RowReaders) -> bytes | None:
        """The message key of a row's fields or of a bare key; None if it cannot be written in the input's form."""
        try:
            return self._key_form.written(self._encoder.source_key_of(readers.key(content)))
        except EventRefused:
            return None


def _is_statement(body: Body) -> bool:
    return body.get("op") == "truncate" or (body.get("op") in ("delete", "modify") and "where" in body)


# -- sending ----------------------------------------------------------------------------------------------------------
#
# * Messages about rows go through one idempotent producer, to the shard that murmur2 of the message key gives, or of
#   the value if there is no message key.
# * A statement goes to every shard in one Kafka transaction, with an id: a shard applies an id once.

MESSAGE_BYTES_MAX = 1_000_000  # key and value; slightly below the limit of a topic with the broker's defaults
UNFLUSHED_MESSAGES_MAX = 10_000


@dataclass
class Sent:
    """The counts of a call, and what it says of them."""

    topic: str
    shards: int
    messages: int = 0  # rows + unrouted + statements * shards
    rows: int = 0
    unrouted: int = 0  # messages without a message key
    statements: int = 0
    statement_ids: list[str] = field(default_factory=list)
    key_form: str = ""
    key_form_seen: bool = False  # in messages of the topic
    seconds: float = 0.0
    lines: int = 0  # rows or lines of the file that were sent
    last: int = 0  # number of the last one
    interrupted: bool = False
    to_go_on: str = ""  # options that send the rest
    left_out: dict[str, Any] | None = None  # refused rows, not sent
    warnings: list[str] = field(default_factory=list)


class Sender:
    """Sends messages in order. Raises ServerUnreachable, and UsageError for a message that is too large.

    rows: the writer of rows; statements: opens the transactional writer, when a statement is sent; statement_id: for a
    statement without one.
    """

    def __init__(
        self, bootstrap: str, sent: Sent, rows: TopicWriter, statements: Callable[[], TopicWriter],
        statement_id: str | None = None,
    ) -> None:  # fmt: skip
        self.sent, self._bootstrap, self._rows = sent, bootstrap, rows
        self._open_statements, self._statement_id = cache(statements), statement_id
        self._unflushed = 0

    def send(self, message: RowMessage | Statement) -> None:
        """Sends one message: rows are in the producer's queue when this returns, a statement is in every shard."""
        if isinstance(message, Statement):
            self.flush()
            self._send_statement(message)
            return
        sent, message_key, value = self.sent, message.message_key, message.value
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
        """Waits until Kafka has confirmed all rows."""
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
        sent, given = self.sent, self._statement_id
        if statement.statement_id is None and given in sent.statement_ids:
            raise UsageError("--statement-id is for one statement, and this is a second one without an id of its own")
        statement_id = statement.statement_id or given or str(uuid.uuid4())
        try:
            self._open_statements().send_to_all(statement.value(statement_id), range(sent.shards))
        except Unconfirmed as error:
            raise ServerUnreachable(
                f"Kafka at {self._bootstrap}: it is not known whether statement {statement_id} was sent "
                f"({error.name}); repeat it with --statement-id {statement_id}, it will be applied once only"
            ) from None
        sent.statements += 1
        sent.statement_ids.append(statement_id)
        sent.messages += sent.shards


def transactional_id(topic: str) -> str:
    """A new one for each command: two operators must not fence each other."""
    return f"{topic}-produce-{uuid.uuid4()}"


@contextmanager
def sending(kafka: str, consumer: Consumer, topic: str, statement_id: str | None) -> Iterator[Sender]:
    """A sender to a topic, with its connections."""
    own = transactional_id(topic)
    sent = Sent(topic, len(shards_in(consumer, topic)))
    with ExitStack() as writers:
        rows = writers.enter_context(open_writer(kafka, topic))
        yield Sender(kafka, sent, rows, lambda: writers.enter_context(open_writer(kafka, topic, own)), statement_id)


BURST_MESSAGES_MAX = 500
BURSTS_PER_SECOND = 50
ROW_FILES, MESSAGE_FILES = (".csv", ".tsv", PARQUET), (".jsonl", ".ndjson")
OTHER_PARTITIONER = (
    "table.yaml says `input: {partitioner: stated}`, so the rows' own producer chooses their partitions, and not "
    "murmur2: send rows through that producer; statements can be sent"
)

Messages = Iterator[RowMessage | Statement]

Lines = Iterable[tuple[int, Iterable[RowMessage | Statement]]]
"""Numbers of rows or lines of a file, from 1 on, and what is sent for each."""


def _send_all(sender: Sender, lines: Lines, rate: float | None, sent: Callable[[int], None], stop: StopSign) -> None:
    """Sends all messages until Ctrl-C, at most `rate` lines a second, in bursts.

    sent: called with the number of lines after every burst.
    """
    burst = BURST_MESSAGES_MAX if rate is None else max(1, int(rate / BURSTS_PER_SECOND))
    started = monotonic()
    for done, (number, messages) in enumerate(stop.until_up(lines), start=1):
        for message in messages:
            sender.send(message)
        sender.sent.last = max(number, sender.sent.last)
        sender.sent.lines += number > 0  # 0: --truncate
        if done % burst == 0:
            sent(done)
            if rate is not None:
                stop.sleep(max(0.0, started + done / rate - monotonic()))
    sender.flush()
    sender.sent.interrupted = stop.is_up


@command_named(
    "produce",
    "streamer produce rows.csv --table mine",
    "streamer produce events.jsonl --table mine --rate 100",
    'echo \'{"op": "delete", "key": 71}\' | streamer produce - --table mine',
)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@table_option
@kafka_option
@click.option("--format", "format_", type=click.Choice(["csv", "jsonl"]), help="The format of FILE, whatever its name.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Messages per second [default: no limit].")
@click.option("--limit", type=click.IntRange(min=0), help="Send at most N rows or lines of FILE.")
@click.option("--from", "first", type=click.IntRange(min=1), default=1, help="Start with row or line N of FILE.")
@click.option("--upsert", is_flag=True, help="Send rows as upserts: insert or replace.")
@skip_refused.skip_refused_option
@force_option
@click.option("--statement-id", metavar="ID", help="Id of the statement; a shard applies an id once.")
@click.option("--truncate", is_flag=True, help="First remove all rows, in every shard.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    file: str | None,
    table: str,
    kafka: str,
    format_: str | None,
    rate: float | None,
    limit: int | None,
    first: int,
    upsert: bool,
    left_out: Path | None,
    force: bool,
    statement_id: str | None,
    truncate: bool,
) -> None:
    """Sends FILE to the input topic of a table.

    FILE holds rows (.csv, .tsv or .parquet), which become insertions, or upserts with --upsert; or it is JSON lines
    (.jsonl or .ndjson): plain or Debezium events, statements, or {"key": ..., "value": ...}. All but Parquet may be
    compressed (.gz). "-" is stdin: JSON lines, or CSV with --format csv. Message keys get the form of the topic's other
    messages. Ctrl-C stops between two messages, and prints how many were sent and how to go on.
    """
    if file is None and not truncate:
        raise UsageError("nothing to send: name a FILE, or give --truncate")
    if statement_id is not None and not 0 < len(statement_id) <= STATEMENT_ID_CHARS_MAX:
        raise UsageError(f"--statement-id: a text of 1 to {STATEMENT_ID_CHARS_MAX} characters")
    if truncate and first > 1:
        raise UsageError("--from continues what was begun, and --truncate would remove it: give only one of them")
    schema = load_table(table)
    is_rows = file is not None and _format_of(file, format_) == "csv"
    if not is_rows and (upsert or left_out is not None):
        raise UsageError("--upsert and --skip-refused are for files of rows; a message has its own `op`")
    if file is not None and left_out is not None:
        require_writable([left_out], force, [*files_of(table), Path(file)])
    facts, warnings, stop, total = None, [], StopSign(), None
    with stages() as progress:
        with progress.stage("read"):
            content: pd.DataFrame | Iterator[Message] | None = None
            if file is not None and is_rows:
                content = read_rows(file, wanted=schema.named)
            elif file is not None:
                end = None if limit is None else first - 1 + limit
                content = islice(read_messages_of_objects(file), first - 1, end)
            if file not in (None, STDIN) and not is_hidden():
                total = None if is_rows else count_lines(file) - first + 1
        if isinstance(content, pd.DataFrame):
            warnings = _warnings(schema, content)
            content, facts = _without_refused(schema, content, left_out, upsert, progress)
            content = content[content.index >= first - 1].head(len(content) if limit is None else limit)
            total = len(content)
        progress.next("connect")
        started = monotonic()
        topic = topic_name(schema.name, CHANGES)
        with reaching(kafka), open_consumer(kafka) as consumer, sending(kafka, consumer, topic, statement_id) as sender:
            sender.sent.left_out, sender.sent.warnings = facts, warnings
            sender.sent.last = first - 1
            lines = chain(
                [(0, [TRUNCATE])] if truncate else (),
                () if content is None else _routed(content, schema, consumer, sender.sent, first, upsert),
            )
            with progress.stage("produce") as on_progress, stop.watched():
                _send_all(sender, lines, rate, _share_of(total, limit, on_progress), stop)
            sender.sent.seconds = round(monotonic() - started, 3)
    if sender.sent.interrupted:
        sender.sent.to_go_on = _to_go_on(sender.sent, limit)
    show(asdict(sender.sent), _lines(sender.sent))
    if sender.sent.interrupted:
        ctx.exit(INTERRUPTED)
    say_next(["status", "--table", table, KAFKA], ["subscribe", "--table", table, KAFKA])


def _share_of(total: int | None, limit: int | None, on_progress: OnProgress) -> Callable[[int], None]:
    """Turns the number of lines sent into a fraction; the total of a pipe is unknown."""
    wanted = min((n for n in (total, limit) if n is not None), default=None)
    return lambda done: on_progress(min(1.0, done / wanted)) if wanted else None


def _warnings(table: Table, rows: pd.DataFrame) -> list[str]:
    found = []
    if len(table.source_key) == 1 and table.source_key[0] in rows.columns:
        found += data_warnings.warning_of_keys(map(cell_text, rows[table.source_key[0]]), table)
    found += data_warnings.spelling_warnings(table, data_warnings.several_spellings(table, rows))
    unlisted = data_warnings.unknown_category_rows(table, rows)
    found += data_warnings.stray_warnings_of(rows)
    return [*found, *data_warnings.unknown_category_warnings(table, unlisted, len(rows), "rows")]


def _without_refused(
    table: Table, rows: pd.DataFrame, left_out: Path | None, upsert: bool, progress: Stages
) -> tuple[pd.DataFrame, dict[str, Any] | None]:
    """With --skip-refused, the rows that table.yaml accepts, and facts about the others."""
    if left_out is None:
        return rows, None
    refused = skip_refused.refused_among(table, rows, progress, upserts=upsert)
    with atomic_writer(left_out, text=True) as file:
        skip_refused.write_list(refused, file)
    return data_warnings.without_refused(rows, refused), skip_refused.facts_of(refused, len(rows), left_out)


def _format_of(file: str, format_: str | None) -> str:
    if format_ is not None:
        return format_
    if is_named(file, *ROW_FILES):
        return "csv"
    if file == STDIN or is_named(file, *MESSAGE_FILES):
        return "jsonl"
    names = ", ".join(ROW_FILES + MESSAGE_FILES)
    raise UsageError(f"{file}: its name has none of the endings {names} (also with .gz): give --format csv or jsonl")


def _routed(
    content: pd.DataFrame | Iterator[Message], table: Table, consumer: Consumer, sent: Sent, first: int, upsert: bool
) -> Lines:
    """The messages to send, under message keys of the input's form."""
    schemas = registry_from()
    key_form = key_form_seen(consumer, sent.topic, table, schemas)
    sent.key_form = (key_form or default_form(table.source_key)).name
    sent.key_form_seen = key_form is not None
    router = Router(table, key_form, schemas.known)
    other_partitioner = table.partitioner_stated and sent.shards > 1
    if isinstance(content, pd.DataFrame):
        if other_partitioner:
            raise UsageError(OTHER_PARTITIONER)
        rows = router.rows(content, "upsert" if upsert else "insert")
        numbers = (int(number) + 1 for number in content.index)
        return ((number, [message]) for number, message in zip(numbers, rows, strict=True))
    lines = ((number, router.route(line.key, line.value)) for number, line in enumerate(content, start=first))
    return ((n, _statements_only(messages)) for n, messages in lines) if other_partitioner else lines


def _statements_only(messages: Messages) -> Messages:
    for message in messages:
        if isinstance(message, RowMessage):
            raise UsageError(OTHER_PARTITIONER)
        yield message


def _to_go_on(sent: Sent, limit: int | None) -> str:
    """The options that send the rest after Ctrl-C, beside the former ones without --truncate."""
    rest = f" --limit {limit - sent.lines}" if limit is not None else ""
    return f"--from {sent.last + 1}{rest}{' --force' if sent.left_out else ''}"  # the list is written again


def _lines(sent: Sent) -> Iterator[str]:
    per_second = sent.messages / sent.seconds if sent.seconds else 0.0
    yield f"{plural(sent.messages, 'message')} to {sent.topic} in {sent.seconds:.1f} s ({per_second:,.0f} a second)"
    yield f"  about rows: {sent.rows:,}; statements, to {plural(sent.shards, 'shard')} each: {sent.statements:,}"
    if sent.key_form:
        why = "" if sent.key_form_seen else ", as no message of the topic shows another form"
        yield f"  message keys: {sent.key_form}{why}"
    if sent.unrouted:
        yield f"  without a row's key, or with one that has no such form (they become dead letters): {sent.unrouted:,}"
    if sent.left_out is not None:
        yield f"  left out: {skip_refused.sentence(sent.left_out)}"
    yield from (f"  warning: {warning}" for warning in sent.warnings)
    if sent.interrupted:
        yield f"  interrupted after row or line {sent.last:,}: to go on, repeat the command with {sent.to_go_on}"
    yield from (f"  statement id: {statement_id}" for statement_id in sent.statement_ids)
