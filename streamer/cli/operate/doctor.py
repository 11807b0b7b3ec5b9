"""`streamer doctor`: tries all that a worker of a table needs, part by part, before one is started.

Nothing is left behind and no row is shown. A part that needs one that failed is not tried, and that is said.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import time
from typing import Any, NamedTuple, cast

import click

from streamer.cli.stream.topics import checked
from streamer.cli.support.next_call import KAFKA, REDIS, say_next
from streamer.cli.support.options import command_named, json_option, kafka_option, redis_option, table_option
from streamer.cli.support.tables import as_json, plural, say, show
from streamer.errors import EXIT_LAW, EXIT_OK, ConfigError, ServerUnreachable, StreamerError, UsageError
from streamer.incremental.store.redis_lookups import server_now
from streamer.incremental.store.redis_server import address_of, answers, connect_now, kind_of, masters, require_durable
from streamer.incremental.topics import (
    CHANGES,
    CONTROL,
    DEAD_LETTERS,
    POSITIONS,
    published_kinds,
    topic_name,
    topics_of,
)
from streamer.kafka.clients import open_admin, open_consumer, open_writer, reaching, require_answer
from streamer.kafka.connect_tasks import connectors_at
from streamer.kafka.registry import URL, SchemaRegistry, registry_from
from streamer.kafka.topics import Allowed, allowed_on
from streamer.loading.key_form import key_form_seen
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table

CLOCKS_APART_SECONDS_MAX = 5.0
"""Leases last 30 s: by more than this, two machines could count them too differently to tell who is late."""

Try = Callable[[], str]
"""Tries one part, and returns what it found. Raises StreamerError, whose text has the remedy."""


class NotShown(Exception):
    """A part that this user may not see, and that a worker can do without."""


class Tried(NamedTuple):
    """One part, and how it is; ok None: it was not tried."""

    part: str
    ok: bool | None
    said: str
    remedy: str = ""


@command_named("doctor", "streamer doctor --table mine", "streamer doctor --table mine --json")
@table_option
@kafka_option
@redis_option
@click.option("--connect", metavar="URL", help="Look at the tasks of this Kafka Connect, too: HOST:PORT or a URL.")
@json_option
@click.pass_context
def command(ctx: click.Context, table: str, kafka: str, redis: str, connect: str | None) -> None:
    """Tries Kafka, its topics and rights, Redis, the clocks and the schema registry: OK, or what to do.

    Call it before the first worker is started, with the worker's own settings, on the worker's own machine. It changes
    nothing. Ends with 1 if there is a fault. For a table that is already served, call `status`.
    """
    schema = load_table(table)
    tried = []
    for one in _all(schema, kafka, redis, connect):
        tried.append(one)
        if not as_json():  # at once: the next part may wait for a server
            _say(one)
    is_well = all(one.ok is not False for one in tried)
    parts = [one._asdict() for one in tried]
    show({"ok": is_well, "table": schema.name, "parts": parts}, ["All is there."] * is_well)
    if is_well:
        say_next(["load", "ROWS.csv", "--table", table, KAFKA, REDIS], ["worker", "--table", table, KAFKA, REDIS])
    ctx.exit(EXIT_OK if is_well else EXIT_LAW)


def _say(one: Tried) -> None:
    word = {True: "OK   ", False: "FAULT", None: "-    "}[one.ok]
    say(f"{word} {one.part}: {one.said}")
    if one.remedy:
        say(f"      {one.remedy}")


def _all(table: Table, kafka: str, redis: str, connect: str | None) -> Iterator[Tried]:
    if any(column.disguise for column in table.kept):
        yield from _in_turn([("table.yaml", partial(_keys, table))])
    yield from _in_turn(
        [
            ("Kafka", partial(_kafka, kafka)),
            ("topics", partial(_topics, table, kafka)),
            ("rights", partial(_rights, table, kafka)),
            ("input", partial(_input, table, kafka)),
            ("transactions", partial(_transactions, table, kafka)),
            ("topics' settings", partial(_settings, table, kafka)),
        ]
    )
    yield from _in_turn(
        [
            ("Redis", partial(_redis, redis)),
            ("writes to Redis", partial(_writes, table, redis)),
            ("Redis on disk", partial(_on_disk, table, redis)),
            ("Redis' memory", partial(_memory, redis)),
            ("clocks", partial(_clocks, redis)),
        ]
    )
    yield from _in_turn([("schema registry", partial(_registry, table))])
    if connect is not None:
        yield from _in_turn([("Kafka Connect", partial(_connect, connect))])


def _in_turn(parts: Sequence[tuple[str, Try]]) -> Iterator[Tried]:
    """Tries the parts up to the first one that fails."""
    failed = ""
    for part, try_ in parts:
        if failed:
            yield Tried(part, None, f"not tried, because of the fault of {failed}")
            continue
        try:
            yield Tried(part, True, try_())
        except NotShown as why:
            yield Tried(part, None, str(why))
        except StreamerError as error:
            failed = part
            yield Tried(part, False, str(error), error.hint if isinstance(error, ServerUnreachable) else "")


# -- the parts --------------------------------------------------------------------------------------------------------


def _keys(table: Table) -> str:
    """Raises ConfigError if a key of pseudonyms or dates is missing."""
    return f"its keys can be read (fingerprint {table.fingerprint})"


def _kafka(kafka: str) -> str:
    require_answer(kafka)
    return f"{kafka} answers"


def _topics(table: Table, kafka: str) -> str:
    """Raises UsageError if a topic is missing."""
    found = _allowed(table, kafka)
    if missing := [topic.name for topic in topics_of(table.name, published_kinds(table)) if topic.name not in found]:
        raise UsageError(f"missing: {', '.join(missing)} (`streamer topics create` creates what is missing)")
    shards = next(iter(found.values())).partitions
    return f"{len(found)} are there, in {plural(shards, 'shard')}"


def _rights(table: Table, kafka: str) -> str:
    """Raises ConfigError if this user may not do what a worker does."""
    lacking: dict[str, list[str]] = {}
    outputs = published_kinds(table)
    needed = {"read": (CHANGES, CONTROL, POSITIONS, *outputs), "write": (POSITIONS, CONTROL, DEAD_LETTERS, *outputs)}
    for name, found in sorted(_allowed(table, kafka).items()):
        kind = name.removeprefix(f"{table.name}.")
        for operation, kinds in needed.items():
            if kind in kinds and operation.upper() not in found.operations:
                lacking.setdefault(operation, []).append(name)
    if lacking:
        said = "; may not ".join(f"{operation} {', '.join(names)}" for operation, names in lacking.items())
        raise ConfigError(f"this user may not {said}: examples/security/acls.sh has the rights of a worker")
    return "this user may read and write what a worker does"


def _allowed(table: Table, kafka: str) -> dict[str, Allowed]:
    with open_admin(kafka) as admin:
        return allowed_on(admin, [topic.name for topic in topics_of(table.name, published_kinds(table))])


def _input(table: Table, kafka: str) -> str:
    """Reads the first and the last messages of the input."""
    topic = topic_name(table.name, CHANGES)
    with reaching(kafka), open_consumer(kafka) as consumer:
        form = key_form_seen(consumer, topic, table, registry_from())
    shown = "its messages show no row's key yet" if form is None else f"its messages have keys as {form.name}"
    return f"{topic} can be read; {shown}"


def _transactions(table: Table, kafka: str) -> str:
    """Begins as a writer of the output does, under a name that is nobody's: no worker is shut out."""
    with open_writer(kafka, topic_name(table.name, POSITIONS), f"{table.name}-shard-{uuid.uuid4()}"):
        return "this user may have them"


def _settings(table: Table, kafka: str) -> str:
    """Raises NotShown to a user who may not see settings, as a worker's need not."""
    if any("DESCRIBE_CONFIGS" not in found.operations for found in _allowed(table, kafka).values()):
        raise NotShown("settings are not shown to this user: let an operator call `streamer topics check`")
    checked(table, kafka)
    return "as the guarantees need them"


def _redis(redis: str) -> str:
    client = connect_now(redis)
    return f"{address_of(client)} answers ({kind_of(client).value})"


def _writes(table: Table, redis: str) -> str:
    """Writes as a commit does, and leaves nothing. Raises ServerUnreachable if Redis refuses."""
    now = server_now(client := connect_now(redis), table.name, shards=1)
    if now.full or now.refuses:
        refused = now.refuses or f"{address_of(client)} is full, or nearly so: raise maxmemory"
        raise ServerUnreachable(f"{refused}; no worker could commit")
    return "taken, as a commit's would be"


def _on_disk(table: Table, redis: str) -> str:
    require_durable(connect_now(redis), table.durability_stated)
    if table.durability_stated:
        return "table.yaml says that it keeps what it confirms; its settings were not asked for"
    return "it keeps what it confirms"


def _memory(redis: str) -> str:
    said = []
    for master in masters(connect_now(redis)):
        address, asked = address_of(master), cast("Any", master)
        with answers(address):
            found = asked.info("memory")
        limit, used = found.get("maxmemory", 0), found.get("used_memory", 0)
        said.append(f"{used / 2**30:.1f} GB used of {f'{limit / 2**30:.1f} GB' if limit else 'no limit of its own'}")
    return "; ".join(said)


def _clocks(redis: str) -> str:
    """Raises ConfigError if this machine's clock and that of a Redis differ."""
    apart = 0.0
    for master in masters(connect_now(redis)):
        address, asked, before = address_of(master), cast("Any", master), time()
        with answers(address):
            seconds, microseconds = asked.time()
        ahead = seconds + microseconds / 1e6 - (before + time()) / 2
        if abs(ahead) > CLOCKS_APART_SECONDS_MAX:
            raise ConfigError(
                f"the clock of {address} is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} that of this"
                " machine: set both by NTP"
            )
        apart = max(apart, abs(ahead))
    return f"Redis and this machine are {apart:.1f} s apart"


def _connect(address: str) -> str:
    """Raises ServerUnreachable if a task does not run."""
    found = connectors_at(address)
    if faults := [fault for of in found.values() for fault in of]:
        raise ServerUnreachable(f"{'; '.join(faults)} (Connect restarts no task by itself)")
    return f"all tasks of {plural(len(found), 'connector')} run"


def _registry(table: Table) -> str:
    schemas = registry_from()
    if isinstance(schemas, SchemaRegistry):
        schemas.require_answer()
        return f"{schemas.url} answers"
    if table.format == "avro":
        raise ConfigError(f"table.yaml wants Avro, and no registry is named: set {URL}")
    return f"none is named ({URL}), and table.yaml needs none"
