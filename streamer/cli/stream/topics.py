"""`streamer topics`: makes the topics of a table, and checks that they are as the guarantees need them.

A topic that exists is not changed: other settings may be somebody's intention. It is refused with what was found, what
is wanted and what mends it; no mend takes a topic away from under a table that goes on. Who knows that nobody meant
them (Kafka Connect was there first, or the broker made the topic by itself) says --adopt, and the settings are set; the
topic's others stay as they are. The number of partitions is never changed: more of them would put people's later
messages into other shards than their rows. Nothing is made beside a topic of another number of partitions; making twice
is the same as once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from time import monotonic, sleep

import click
import msgspec

from streamer.cli.support.options import examples, json_option, kafka_option, table_option
from streamer.cli.support.tables import plural, say
from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental import remedies
from streamer.incremental.topics import CHANGES, SHARDS_DEFAULT, Topic, is_as_required, topic_name, topics_of
from streamer.kafka.clients import open_admin, open_consumer
from streamer.kafka.reading import shards_in, watermarks
from streamer.kafka.topics import Admin, FoundTopic, configure, found_topics, make
from streamer.table.yaml.loading import load_table

CREATED_SECONDS_MAX = 20.0
CREATED_AGAIN_SECONDS = 0.2
SET_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class TopicFault:
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


@command.command(
    name="create",
    epilog=examples(
        "streamer topics create --table mine --shards 4 --replicas 3", "streamer topics create --table mine --adopt"
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
    help="Copies of every topic; of three or more, two must confirm what is written.",
)
@click.option("--adopt", is_flag=True, help="Give topics that exist the settings they must have.")
@json_option
def create(table: str, kafka: str, shards: int | None, replicas: int, adopt: bool, as_json: bool) -> None:
    """Makes the topics that are missing; refuses where an existing one is not as it must be.

    With --adopt, settings of topics that Kafka Connect or the broker made first are corrected. Partitions never are.
    """
    schema = load_table(table)
    name, topics = schema.name, topics_of(schema.name, schema.form)
    with open_admin(kafka) as admin:
        found = found_topics(admin, topics)
        count = _same_partitions(name, found, shards)
        missing = [topic for topic in topics if topic.name not in found]
        for topic in missing:
            make(admin, topic, count, replicas)
        found = _look_until_seen(admin, topics)
        _same_partitions(name, found, count)
        adopted = _adopt(admin, topics, found) if adopt else {}
        found = _look_until_as_required(admin, topics) if adopted else found
        _refuse(list(_faults(topics, found, kafka)), adopt)
    if topic_name(name, CHANGES) in adopted:
        _warn_of_dropped_messages(kafka, topic_name(name, CHANGES))
    _print(topics, found, {topic.name for topic in missing}, adopted, as_json)


@command.command(name="check", epilog=examples("streamer topics check --table mine"))
@table_option
@kafka_option
@click.option("--shards", type=click.IntRange(min=1), help="Partitions wanted [default: as many as the input has].")
@json_option
def check(table: str, kafka: str, shards: int | None, as_json: bool) -> None:
    """Only looks: whether all topics are there, with the right settings and the same number of partitions."""
    schema = load_table(table)
    name, topics = schema.name, topics_of(schema.name, schema.form)
    with open_admin(kafka) as admin:
        found = found_topics(admin, topics)
    _same_partitions(name, found, shards)
    _refuse(list(_faults(topics, found, kafka)))
    _print(topics, found, set(), {}, as_json)


def _same_partitions(table_name: str, found: dict[str, FoundTopic], wanted: int | None) -> int:
    """The number of partitions that all topics have, or are to have. Raises UsageError where they differ."""
    counts = {name.removeprefix(f"{table_name}."): there.partitions for name, there in found.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(remedies.unlike_counts(table_name, counts))
    count = next(iter(counts.values()), wanted or SHARDS_DEFAULT)
    if wanted not in (None, count):
        raise UsageError(
            f"--shards {wanted}: the topics of {table_name} have {count} partitions, and the number cannot be "
            f"changed (a row's later messages would come to other shards than the row); leave --shards out, or, "
            f"{remedies.send_again(table_name)}"
        )
    return count


def _faults(topics: Sequence[Topic], found: dict[str, FoundTopic], kafka: str) -> Iterator[TopicFault]:
    for topic in topics:
        there = found.get(topic.name)
        if there is None:
            yield TopicFault(topic.name, "the topic", "missing", "there (`streamer topics create` makes it)")
            continue
        for setting, wanted in topic.config.items():
            if not is_as_required(setting, value := there.config.get(setting, "not said"), wanted):
                how = (
                    f"kafka-configs --bootstrap-server {kafka} --alter --entity-type topics --entity-name {topic.name}"
                )
                yield TopicFault(
                    topic.name, setting, value, f"{wanted} (`{how} --add-config {setting}={wanted}` sets it)"
                )


def _refuse(faults: list[TopicFault], adopt: bool = False) -> None:
    if faults:
        lines = "\n  ".join(map(str, faults))
        what = "no existing one was changed; where nobody meant them so, `streamer topics create --adopt` sets them"
        what = "Kafka did not let their settings be changed" if adopt else what
        raise UsageError(f"topics are not as they must be, and {what}:\n  {lines}")


def _adopt(admin: Admin, topics: Sequence[Topic], found: dict[str, FoundTopic]) -> dict[str, dict[str, str]]:
    """Sets what is not as it must be, and nothing else; the former settings, by topic."""
    former = {}
    for topic in topics:
        there = found[topic.name].config
        wrong = {
            setting: there.get(setting, "not said")
            for setting, wanted in topic.config.items()
            if not is_as_required(setting, there.get(setting, "not said"), wanted)
        }
        if wrong:
            configure(admin, topic.name, {setting: topic.config[setting] for setting in wrong})
            former[topic.name] = wrong
    return former


def _look_until_as_required(admin: Admin, topics: Sequence[Topic]) -> dict[str, FoundTopic]:
    """All topics; what was just set takes a moment until every broker knows it, and may have been refused."""
    until = monotonic() + SET_SECONDS_MAX
    while list(_faults(topics, found := found_topics(admin, topics), "")) and monotonic() < until:
        sleep(CREATED_AGAIN_SECONDS)
    return found


def _warn_of_dropped_messages(kafka: str, changes: str) -> None:
    """An input that was kept for a time only may have lost messages before it was adopted."""
    with open_consumer(kafka) as consumer:
        starts = [watermarks(consumer, place)[0] for place in shards_in(consumer, changes)]
    if any(starts):
        say(
            f"streamer: {changes} has dropped its first messages already, by the settings that it had: let the source "
            "send all rows again (Debezium: an incremental snapshot), or a shard cannot be repeated from it",
            err=True,
        )


def _look_until_seen(admin: Admin, topics: Sequence[Topic]) -> dict[str, FoundTopic]:
    """All topics; what was just made takes a moment until every broker knows it."""
    until = monotonic() + CREATED_SECONDS_MAX
    while len(found := found_topics(admin, topics)) < len(topics):
        if monotonic() > until:
            raise ServerUnreachable(
                f"the topics were made, but Kafka does not show them after {CREATED_SECONDS_MAX:.0f} s"
            )
        sleep(CREATED_AGAIN_SECONDS)
    return found


def _print(
    topics: Sequence[Topic],
    found: dict[str, FoundTopic],
    made: set[str],
    adopted: dict[str, dict[str, str]],
    as_json: bool,
) -> None:
    """adopted: the settings that were changed, as they were, by topic."""
    if as_json:
        listed = [
            {"topic": t.name, "created": t.name in made, "adopted_from": adopted.get(t.name), **asdict(found[t.name])}
            for t in topics
        ]
        click.echo(msgspec.json.encode({"shards": found[topics[0].name].partitions, "topics": listed}))
        return
    for topic in topics:
        there = found[topic.name]
        state = "created" if topic.name in made else "adopted" if topic.name in adopted else "ok"
        settings = ", ".join(f"{name}={value}" for name, value in there.config.items())
        say(f"{state:<8} {topic.name}  {plural(there.partitions, 'partition')}  {settings}", indent=9)
