"""`streamer topics`: creates the topics of a table, and checks that their settings meet the guarantees.

An existing topic is not changed, as other settings may be intended: it is refused with what was found, what is wanted
and the remedy, which never deletes a topic of a running table. --adopt sets the wanted settings, for a topic that Kafka
Connect or the broker created first. The number of partitions is never changed: people's later messages would get into
other shards than their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from time import monotonic, sleep

import click

from streamer.cli.support.next_call import KAFKA, say_next
from streamer.cli.support.options import examples, json_option, kafka_option, table_option
from streamer.cli.support.tables import Line, plural, say, show
from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental import remedies
from streamer.incremental.topics import (
    CHANGES,
    COMPACTED_CHANGES,
    SHARDS_DEFAULT,
    Topic,
    is_as_required,
    published_kinds,
    topic_name,
    topics_of,
)
from streamer.kafka.clients import open_admin, open_consumer
from streamer.kafka.reading import shards_in, watermarks
from streamer.kafka.topics import Admin, FoundTopic, configure, found_topics, make
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table

CREATED_SECONDS_MAX, SET_SECONDS_MAX, LOOKED_AGAIN_SECONDS = 20.0, 5.0, 0.2
COPIES_ASKED = 3
FEW_COPIES = (
    "streamer: the new topics have {replicas} of each record: a broker that loses its disk or power can lose confirmed "
    "records. Workers publish the table again, but lost changes must be reloaded from their source. With --replicas 3 "
    "two brokers confirm each record (min.insync.replicas)"
)


@dataclass(frozen=True, slots=True)
class TopicFault:
    """A wrong setting, or a missing topic."""

    topic: str
    setting: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting} is {self.found}, wanted {self.wanted}"


@click.group(name="topics")
def command() -> None:
    """Creates or checks the topics of a table."""


@command.command(
    name="create",
    short_help="Creates the topics that are missing.",
    epilog=examples(
        "streamer topics create --table mine --shards 4 --replicas 3",
        "streamer topics create --table mine --adopt",
        "streamer topics create --table mine --compact-changes",
    ),
)
@table_option
@kafka_option
@click.option(
    "--shards",
    type=click.IntRange(1, 10_000),
    help=f"Partitions of every topic; cannot be changed later [default: as many as there are, else {SHARDS_DEFAULT}].",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Copies of every topic; with three or more, two must confirm each record.",
)
@click.option("--adopt", is_flag=True, help="Set the wanted settings on existing topics, too.")
@click.option(
    "--compact-changes",
    "compact",
    is_flag=True,
    help="Let Kafka keep only the last message of each row of the input, and none of a deleted row.",
)
@json_option
def create(table: str, kafka: str, shards: int | None, replicas: int, adopt: bool, compact: bool) -> None:
    """Creates missing topics; refuses if an existing one has wrong settings.

    --adopt corrects the settings of topics that Kafka Connect or the broker created first. The number of partitions is
    never changed. --compact-changes is for inputs whose messages say whole rows (upserts, Debezium's), under message
    keys: then `streamer erase` leaves nothing in the input, and a lost Redis needs a reload from it.
    """
    schema = load_table(table)
    name = schema.name
    with open_admin(kafka) as admin:
        topics = _wanted(admin, schema, compact)
        found = found_topics(admin, topics)
        count = _same_partitions(name, found, shards)
        missing = [topic for topic in topics if topic.name not in found]
        for topic in missing:
            make(admin, topic, count, replicas)
        if missing and replicas < COPIES_ASKED:
            say(FEW_COPIES.format(replicas="one copy" if replicas == 1 else f"{replicas} copies"), err=True)
        found = _wait_until_seen(admin, topics)
        _same_partitions(name, found, count)
        adopted = _adopt(admin, topics, found) if adopt else {}
        found = _wait_until_set(admin, topics) if adopted else found
        _refuse(list(_faults(topics, found, kafka)), adopt)
    if topic_name(name, CHANGES) in adopted:
        _warn_of_dropped_messages(kafka, topic_name(name, CHANGES))
    _show(topics, found, {topic.name for topic in missing}, adopted)
    say_next(["doctor", "--table", table, KAFKA])


@command.command(
    name="check",
    short_help="Checks the topics and their settings.",
    epilog=examples("streamer topics check --table mine"),
)
@table_option
@kafka_option
@click.option("--shards", type=click.IntRange(min=1), help="Partitions wanted [default: as many as the input has].")
@json_option
def check(table: str, kafka: str, shards: int | None) -> None:
    """Checks that all topics exist, with the right settings and the same number of partitions; changes nothing."""
    _show(*checked(load_table(table), kafka, shards), set(), {})
    say_next(["doctor", "--table", table, KAFKA])


def checked(table: Table, kafka: str, shards: int | None = None) -> tuple[Sequence[Topic], dict[str, FoundTopic]]:
    """The topics of a table. Raises UsageError if one is missing or has a wrong setting, ServerUnreachable."""
    with open_admin(kafka) as admin:
        topics = _wanted(admin, table)
        found = found_topics(admin, topics)
    _same_partitions(table.name, found, shards)
    _refuse(list(_faults(topics, found, kafka)))
    return topics, found


def _wanted(admin: Admin, table: Table, compact: bool = False) -> list[Topic]:
    """The topics as they must be, the input first: compacted if that is asked for, or if it is as one should be."""
    changes, *others = topics_of(table.name, published_kinds(table))
    compacted = replace(changes, config=COMPACTED_CHANGES)
    if not compact:
        found = found_topics(admin, [compacted])
        compact = changes.name in found and not _wrong(compacted, found[changes.name])
    return [compacted if compact else changes, *others]


def _same_partitions(table_name: str, found: dict[str, FoundTopic], wanted: int | None) -> int:
    """The number of partitions that all topics have, or will get. Raises UsageError if they differ."""
    counts = {name.removeprefix(f"{table_name}."): there.partitions for name, there in found.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(remedies.unequal_partitions(table_name, counts))
    count = next(iter(counts.values()), wanted or SHARDS_DEFAULT)
    if wanted not in (None, count):
        raise UsageError(
            f"--shards {wanted}: the topics of {table_name} have {count} partitions, and the number cannot be "
            f"changed (a row's later messages would get into other shards than the row); leave out --shards, or "
            f"{remedies.start_over(table_name)}"
        )
    return count


def _faults(topics: Sequence[Topic], found: dict[str, FoundTopic], kafka: str) -> Iterator[TopicFault]:
    for topic in topics:
        there = found.get(topic.name)
        if there is None:
            yield TopicFault(topic.name, "the topic", "missing", "there (`streamer topics create` creates it)")
            continue
        how = f"kafka-configs --bootstrap-server {kafka} --alter --entity-type topics --entity-name {topic.name}"
        for setting, value in _wrong(topic, there).items():
            wanted = topic.config[setting]
            yield TopicFault(topic.name, setting, value, f"{wanted} (`{how} --add-config {setting}={wanted}` sets it)")


def _wrong(topic: Topic, found: FoundTopic) -> dict[str, str]:
    """The settings that are not as required, with their present values."""
    values = {setting: found.config.get(setting, "not set") for setting in topic.config}
    return {name: value for name, value in values.items() if not is_as_required(name, value, topic.config[name])}


def _refuse(faults: list[TopicFault], adopt: bool = False) -> None:
    if faults:
        lines = "\n  ".join(map(str, faults))
        what = "no existing topic was changed; if they are not intended, `streamer topics create --adopt` corrects them"
        what = "Kafka did not change them" if adopt else what
        raise UsageError(f"topics have wrong settings, and {what}:\n  {lines}")


def _adopt(admin: Admin, topics: Sequence[Topic], found: dict[str, FoundTopic]) -> dict[str, dict[str, str]]:
    """Corrects wrong settings; returns the former ones, by topic."""
    former = {topic.name: wrong for topic in topics if (wrong := _wrong(topic, found[topic.name]))}
    for topic in topics:
        if topic.name in former:
            configure(admin, topic.name, {setting: topic.config[setting] for setting in former[topic.name]})
    return former


def _wait_until_set(admin: Admin, topics: Sequence[Topic]) -> dict[str, FoundTopic]:
    """All topics, once every broker knows the new settings, or after SET_SECONDS_MAX."""
    until = monotonic() + SET_SECONDS_MAX
    while list(_faults(topics, found := found_topics(admin, topics), "")) and monotonic() < until:
        sleep(LOOKED_AGAIN_SECONDS)
    return found


def _warn_of_dropped_messages(kafka: str, changes: str) -> None:
    """Warns if an input with a retention has lost messages before it was adopted."""
    with open_consumer(kafka) as consumer:
        starts = [watermarks(consumer, partition)[0] for partition in shards_in(consumer, changes)]
    if any(starts):
        say(
            f"streamer: {changes} has lost its first messages by its former settings: let the source send all rows "
            "again (Debezium: an incremental snapshot), or a shard cannot be restored from it",
            err=True,
        )


def _wait_until_seen(admin: Admin, topics: Sequence[Topic]) -> dict[str, FoundTopic]:
    """All topics, once every broker knows the new ones. Raises ServerUnreachable."""
    until = monotonic() + CREATED_SECONDS_MAX
    while len(found := found_topics(admin, topics)) < len(topics):
        if monotonic() > until:
            raise ServerUnreachable(
                f"the topics were created, but Kafka does not show them after {CREATED_SECONDS_MAX:.0f} s"
            )
        sleep(LOOKED_AGAIN_SECONDS)
    return found


def _show(
    topics: Sequence[Topic], found: dict[str, FoundTopic], made: set[str], adopted: dict[str, dict[str, str]]
) -> None:
    """Reports the topics. adopted: the former values of corrected settings, by topic."""
    listed = [
        {"topic": t.name, "created": t.name in made, "adopted_from": adopted.get(t.name), **asdict(found[t.name])}
        for t in topics
    ]
    lines: list[Line] = []
    for topic in topics:
        there = found[topic.name]
        state = "created" if topic.name in made else "adopted" if topic.name in adopted else "ok"
        settings = ", ".join(f"{name}={value}" for name, value in there.config.items())
        lines.append((f"{state:<8} {topic.name}  {plural(there.partitions, 'partition')}  {settings}", 9))
    show({"shards": found[topics[0].name].partitions, "topics": listed}, lines)
