"""`streamer topics`: makes the topics of a table, and checks that they are as the guarantees need them.

A topic that exists is never changed: other settings may be somebody's intention, and another number of partitions
would put people into other shards than their rows. It is refused with what was found, what is wanted and what mends
it; no mend takes a topic away from under a table that goes on. Nothing is made beside a topic of another number of
partitions; making twice is the same as once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from time import monotonic, sleep

import click
import msgspec
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import (
    InvalidReplicationFactorError,
    NoError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)

from streamer.cli.options import json_option, kafka_option, table_option
from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental import mends
from streamer.incremental.kafka_clients import ANSWER_MS_MAX, open_admin
from streamer.incremental.topics import SHARDS_DEFAULT, Topic, is_as_required, topics_of
from streamer.table.yaml_loading import load_table

SEEN_SECONDS_MAX = 20.0
SEEN_AGAIN_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Found:
    """What the broker says of one topic that exists."""

    partitions: int
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is not as it must be."""

    topic: str
    setting: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting} is {self.found}, wanted {self.wanted}"


@click.group(name="topics")
def command() -> None:
    """Makes or checks the topics of a table."""


@command.command(name="create")
@table_option
@kafka_option
@click.option(
    "--shards",
    type=click.IntRange(1, 10_000),
    help=f"Partitions of every topic; cannot be changed later [default: as many as there are, else {SHARDS_DEFAULT}].",
)
@click.option("--replicas", type=click.IntRange(1, 100), default=1, show_default=True, help="Copies of every topic.")
@json_option
def create(table: str, kafka: str, shards: int | None, replicas: int, as_json: bool) -> None:
    """Makes the topics that are missing; refuses where an existing one is not as it must be."""
    schema = load_table(table)
    name, topics = schema.name, topics_of(schema.name, schema.form)
    with open_admin(kafka) as admin:
        found = _look(admin, topics)
        count = _same_partitions(name, found, shards)
        missing = [topic for topic in topics if topic.name not in found]
        _make(admin, missing, count, replicas)
        found = _look_until_seen(admin, topics)
        _same_partitions(name, found, count)
        _refuse(list(_faults(topics, found, kafka)))
    _print(topics, found, {topic.name for topic in missing}, as_json)


@command.command(name="check")
@table_option
@kafka_option
@click.option("--shards", type=click.IntRange(min=1), help="Partitions wanted [default: as many as the input has].")
@json_option
def check(table: str, kafka: str, shards: int | None, as_json: bool) -> None:
    """Only looks: whether all topics are there, with the right settings and the same number of partitions."""
    schema = load_table(table)
    name, topics = schema.name, topics_of(schema.name, schema.form)
    with open_admin(kafka) as admin:
        found = _look(admin, topics)
    _same_partitions(name, found, shards)
    _refuse(list(_faults(topics, found, kafka)))
    _print(topics, found, set(), as_json)


def _look(admin: KafkaAdminClient, topics: Sequence[Topic]) -> dict[str, Found]:
    """The topics that exist, by name."""
    names = [topic.name for topic in topics]
    try:
        answers = admin.describe_topics(names)
    except ValueError:  # what the library makes of a topic that is kept from this user
        raise TopicAuthorizationFailedError(names) from None
    partitions = {said["topic"]: len(said["partitions"]) for said in answers if said["error_code"] == NoError.errno}
    wanted = [
        ConfigResource(ConfigResourceType.TOPIC, topic.name, dict(topic.config))
        for topic in topics
        if topic.name in partitions
    ]
    found = {}
    for answer in admin.describe_configs(wanted) if wanted else ():
        for _, _, _, name, entries in answer.resources:
            found[name] = Found(partitions[name], {entry[0]: entry[1] for entry in entries})
    return found


def _same_partitions(table_name: str, found: dict[str, Found], wanted: int | None) -> int:
    """The number of partitions that all topics have, or are to have. Raises UsageError where they differ."""
    counts = {name.removeprefix(f"{table_name}."): there.partitions for name, there in found.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(mends.unlike_counts(table_name, counts))
    count = next(iter(counts.values()), wanted or SHARDS_DEFAULT)
    if wanted not in (None, count):
        raise UsageError(
            f"--shards {wanted}: the topics of {table_name} have {count} partitions, and the number cannot be "
            f"changed; leave --shards out, or, {mends.send_again(table_name)}"
        )
    return count


def _faults(topics: Sequence[Topic], found: dict[str, Found], kafka: str) -> Iterator[Fault]:
    for topic in topics:
        there = found.get(topic.name)
        if there is None:
            yield Fault(topic.name, "the topic", "missing", "there (`streamer topics create` makes it)")
            continue
        for setting, wanted in topic.config.items():
            if not is_as_required(setting, value := there.config.get(setting, "not said"), wanted):
                how = (
                    f"kafka-configs --bootstrap-server {kafka} --alter --entity-type topics --entity-name {topic.name}"
                )
                yield Fault(topic.name, setting, value, f"{wanted} (`{how} --add-config {setting}={wanted}` sets it)")


def _refuse(faults: list[Fault]) -> None:
    if faults:
        lines = "\n  ".join(map(str, faults))
        raise UsageError(f"topics are not as they must be, and no existing one was changed:\n  {lines}")


def _make(admin: KafkaAdminClient, topics: Sequence[Topic], shards: int, replicas: int) -> None:
    for topic in topics:
        try:
            admin.create_topics(
                [NewTopic(topic.name, shards, replicas, topic_configs=dict(topic.config))], ANSWER_MS_MAX
            )
        except TopicAlreadyExistsError:
            pass  # somebody else made it just now; it is checked with the others
        except InvalidReplicationFactorError:
            raise UsageError(f"--replicas {replicas}: Kafka has fewer brokers than that") from None


def _look_until_seen(admin: KafkaAdminClient, topics: Sequence[Topic]) -> dict[str, Found]:
    """All topics; what was just made takes a moment until every broker knows it."""
    until = monotonic() + SEEN_SECONDS_MAX
    while len(found := _look(admin, topics)) < len(topics):
        if monotonic() > until:
            raise ServerUnreachable(
                f"the topics were made, but Kafka does not show them after {SEEN_SECONDS_MAX:.0f} s"
            )
        sleep(SEEN_AGAIN_SECONDS)
    return found


def _print(topics: Sequence[Topic], found: dict[str, Found], made: set[str], as_json: bool) -> None:
    if as_json:
        listed = [{"topic": t.name, "created": t.name in made, **asdict(found[t.name])} for t in topics]
        click.echo(msgspec.json.encode({"shards": found[topics[0].name].partitions, "topics": listed}))
        return
    for topic in topics:
        there, state = found[topic.name], "created" if topic.name in made else "ok"
        settings = ", ".join(f"{name}={value}" for name, value in there.config.items())
        click.echo(f"{state:<8} {topic.name}  {there.partitions} partitions  {settings}")
