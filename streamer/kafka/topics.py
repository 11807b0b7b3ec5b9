"""A table's topics on the broker: their ids, partitions and settings, how to create them, and who reads them.

The id of a topic tells it from another one of the same name. The embedded broker gives no ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient as Admin
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, OffsetSpec, ResourceType

from streamer.errors import UsageError
from streamer.incremental.topics import CHANGES, OUTPUTS, SEALED, Topic, create_config, topic_name, topics_of
from streamer.kafka.errors import ADMINISTRATION, DESCRIBE, DESCRIBE_CONFIGS, NO_ANSWER, TOO_EARLY, Right
from streamer.kafka.reading import CALL_SECONDS_MAX, Place
from streamer.kafka.settings import EMBEDDED_CLUSTER

__all__ = ["Admin", "Described", "FoundTopic", "Members", "Topics"]


class Reach(NamedTuple):
    """The begin and end of a partition, committed or not; epoch: of its leader."""

    begin: int
    end: int
    epoch: int | None


class Described(NamedTuple):
    """A topic that exists. id: "" on the embedded broker. reach: by partition, as far as they were asked for."""

    id: str
    partitions: int
    reach: Mapping[int, Reach] = {}


Topics = Mapping[str, Described]
"""The topics of a table that exist, by kind."""


def gives_ids(admin: Admin) -> bool:
    """True if the broker gives ids of topics."""
    cluster = admin.list_topics(timeout=CALL_SECONDS_MAX).cluster_id or ""
    return not cluster.startswith(EMBEDDED_CLUSTER)


def described(admin: Admin, table_name: str, ids: bool = True) -> Topics:
    """The topics of a table now. ids: the answer of `gives_ids`. Raises KafkaException."""
    kinds = {topic.name: topic.kind for topic in topics_of(table_name)}
    found = _described(admin, list(kinds)) if ids else _listed(admin, kinds)
    return {kinds[name]: described for name, described in found.items()}


def reach_of(admin: Admin, places: Sequence[Place]) -> dict[Place, Reach]:
    """Beginnings and ends of those partitions that have a leader now. Raises KafkaException."""
    specs = (OffsetSpec.earliest(), OffsetSpec.latest()) if places else ()
    asked = [admin.list_offsets(dict.fromkeys(places, spec), request_timeout=CALL_SECONDS_MAX) for spec in specs]
    found = {}
    for place in places:
        begin, end = (_unless(TOO_EARLY, answers[place], [place.topic]) for answers in asked)
        if begin is not None and end is not None:
            found[place] = Reach(begin.offset, end.offset, end.leader_epoch)
    return found


def written_since(admin: Admin, places: Sequence[Place], seconds: float) -> dict[Place, int]:
    """The first offsets of partitions that were written since a time; without those that hold none, or no leader."""
    specs = dict.fromkeys(places, OffsetSpec.for_timestamp(max(0, int(1000 * seconds))))
    answers = admin.list_offsets(specs, request_timeout=CALL_SECONDS_MAX) if places else {}
    found = {place: _unless(TOO_EARLY, answers[place], [place.topic]) for place in places}
    return {place: one.offset for place, one in found.items() if one is not None and one.offset >= 0}


def with_reach(
    admin: Admin, reader: Consumer, table_name: str, expected: Topics, published: Collection[str] | None = None
) -> Topics:
    """The topics of a table now; those of the input and of published rows with their reach. Raises KafkaException.

    reader: a consumer of all records, committed or not. expected: what the topics were before: their reach is asked for
    while the first answer is on its way, and once more if that has changed. published: as in `topics_of`.
    """
    kinds = {topic.name: topic.kind for topic in topics_of(table_name, published)}
    asked, foreseen = _ask(admin, list(kinds)), _places_with_reach(table_name, expected)
    reaches = reach_at_once(admin, reader, foreseen)
    topics = {kinds[name]: one for name, one in _answered(asked).items()}
    places = _places_with_reach(table_name, topics)
    found: dict[str, dict[int, Reach]] = {}
    for place, reach in (reaches if places == foreseen else reach_at_once(admin, reader, places)).items():
        found.setdefault(place.topic, {})[place.partition] = reach
    return {kind: one._replace(reach=found.get(topic_name(table_name, kind), {})) for kind, one in topics.items()}


def reach_at_once(admin: Admin, reader: Consumer, places: Sequence[Place]) -> dict[Place, Reach]:
    """As `reach_of`, in a fifth of the time: a consumer takes one answer for all partitions. Raises KafkaException.

    In place of a time, Kafka takes the numbers of the beginning and the end. It answers for all partitions or for none;
    then the admin client says what is wrong with which.
    """
    if not places:
        return {}
    try:
        begins, ends = (
            reader.offsets_for_times([Place(one.topic, one.partition, number) for one in places], CALL_SECONDS_MAX)
            for number in (OFFSET_BEGINNING, OFFSET_END)
        )
    except KafkaException as error:
        if error.args[0].name() in NO_ANSWER:
            raise
        return reach_of(admin, places)
    if any(one.error is not None for one in (*begins, *ends)):
        return reach_of(admin, places)
    found = zip(places, begins, ends, strict=True)
    return {place: Reach(begin.offset, end.offset, end.leader_epoch) for place, begin, end in found}


def _places_with_reach(table_name: str, topics: Topics) -> list[Place]:
    kinds = (kind for kind in (CHANGES, *OUTPUTS, SEALED) if kind in topics)
    return [Place(topic_name(table_name, kind), n) for kind in kinds for n in range(topics[kind].partitions)]


def of_shard(topics: Topics, shard: int) -> Topics:
    """The same topics with the reach of one shard's partitions alone, and without the end of the input.

    So messages, to this shard or to others, change nothing in it.

    >>> of_shard({"changes": Described("id", 2, {0: Reach(0, 5, 1), 1: Reach(0, 7, 1)})}, 1)
    {'changes': Described(id='id', partitions=2, reach={1: Reach(begin=0, end=0, epoch=1)})}
    """
    return {kind: one._replace(reach=_reach_of(kind, one.reach, shard)) for kind, one in topics.items()}


def _reach_of(kind: str, reach: Mapping[int, Reach], shard: int) -> dict[int, Reach]:
    return {n: one._replace(end=0) if kind == CHANGES else one for n, one in reach.items() if n == shard}


def topic_ids(admin: Admin, table_name: str) -> dict[str, str]:
    """The ids of a table's topics by kind, without topics that do not exist or are hidden from this user."""
    kinds = {topic.name: topic.kind for topic in topics_of(table_name)}
    return {kinds[name]: id_ for name, id_ in _ids(admin, list(kinds)).items()}


def topic_id(admin: Admin, table_name: str, kind: str) -> str:
    """The id of one topic; "" if it does not exist or is hidden from this user, or the broker gives no ids."""
    name = topic_name(table_name, kind)
    return _ids(admin, [name]).get(name, "")


def _ids(admin: Admin, names: Sequence[str]) -> dict[str, str]:
    found = _described(admin, names, "TOPIC_AUTHORIZATION_FAILED") if gives_ids(admin) else {}
    return {name: one.id for name, one in found.items()}


def _listed(admin: Admin, names: Iterable[str]) -> dict[str, Described]:
    there = admin.list_topics(timeout=CALL_SECONDS_MAX).topics
    return {n: Described("", len(there[n].partitions)) for n in names if n in there and there[n].error is None}


def _described(admin: Admin, names: Sequence[str], *expected: str) -> dict[str, Described]:
    """The existing ones of some topics. expected: names of further errors that leave a topic out."""
    return _answered(_ask(admin, names), *expected)


def _ask(admin: Admin, names: Sequence[str]) -> Mapping[str, Any]:
    """The answers to come, by topic."""
    answers: Mapping[str, Any] = admin.describe_topics(TopicCollection(list(names)), request_timeout=CALL_SECONDS_MAX)
    return answers


def _answered(asked: Mapping[str, Any], *expected: str) -> dict[str, Described]:
    expected = ("UNKNOWN_TOPIC_OR_PART", *expected)
    found = {name: _unless(expected, answer, asked) for name, answer in asked.items()}
    return {name: Described(str(one.topic_id), len(one.partitions)) for name, one in found.items() if one is not None}


class Allowed(NamedTuple):
    """The rights of a client's user on a topic. operations: names of Kafka's, such as READ."""

    partitions: int
    operations: frozenset[str]


def allowed_on(admin: Admin, names: Sequence[str]) -> dict[str, Allowed]:
    """The rights of this user on those topics that exist. Raises KafkaException."""
    answers = admin.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=True, request_timeout=CALL_SECONDS_MAX
    )
    found = {name: _unless(["UNKNOWN_TOPIC_OR_PART"], answer, names, [DESCRIBE]) for name, answer in answers.items()}
    return {
        name: Allowed(len(one.partitions), frozenset(operation.name for operation in one.authorized_operations or ()))
        for name, one in found.items()
        if one is not None
    }


def _unless(
    expected: Collection[str], answer: Any, names: Iterable[str], operations: Sequence[str] = ADMINISTRATION
) -> Any:
    """An admin client's answer, None for an expected error. names: of the topics asked for. operations: on them.

    Raises KafkaException.
    """
    try:
        return answer.result(CALL_SECONDS_MAX + 1)
    except KafkaException as error:
        if error.args[0].name() in expected:
            return None
        raise KafkaException(error.args[0], Right(operations, sorted(names))) from None


# -- creating topics ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic that exists. config: its values of the settings that the topic must have."""

    partitions: int
    config: dict[str, str]


def found_topics(admin: Admin, topics: Sequence[Topic]) -> dict[str, FoundTopic]:
    """The topics that exist, by name. Raises KafkaException."""
    there = _described(admin, [topic.name for topic in topics])
    wanted = {ConfigResource(ResourceType.TOPIC, topic.name): topic for topic in topics if topic.name in there}
    answers = admin.describe_configs(list(wanted), request_timeout=CALL_SECONDS_MAX) if wanted else {}
    found = {}
    for resource, answer in answers.items():
        topic = wanted[resource]
        said = _unless(["UNKNOWN_TOPIC_OR_PART"], answer, there)
        if said is not None:
            config = {setting: said[setting].value for setting in topic.config if setting in said}
            found[topic.name] = FoundTopic(there[topic.name].partitions, config)
    return found


def settings_of(admin: Admin, topic: str) -> dict[str, str]:
    """All settings of a topic, the broker's defaults among them. Raises KafkaException."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    answer = admin.describe_configs([resource], request_timeout=CALL_SECONDS_MAX)[resource]
    return {name: entry.value or "" for name, entry in _unless((), answer, [topic], [DESCRIBE_CONFIGS]).items()}


def is_compacted(admin: Admin, topic: str) -> bool:
    """True if a topic may lose records that others follow. Raises KafkaException."""
    return "compact" in settings_of(admin, topic)["cleanup.policy"]


def make(admin: Admin, topic: Topic, shards: int, replicas: int) -> None:
    """Creates a topic unless it exists by now. Raises UsageError for too many replicas; KafkaException."""
    new = NewTopic(topic.name, shards, replicas, config=create_config(topic, replicas))
    answer = admin.create_topics([new], operation_timeout=CALL_SECONDS_MAX)[topic.name]
    try:
        _unless(["TOPIC_ALREADY_EXISTS"], answer, [topic.name])
    except KafkaException as error:
        if error.args[0].name() != "INVALID_REPLICATION_FACTOR":
            raise
        raise UsageError(f"--replicas {replicas}: Kafka has fewer brokers than that") from None


def configure(admin: Admin, topic: str, config: Mapping[str, str]) -> None:
    """Sets some settings of a topic; the others stay. Raises KafkaException."""
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    answer = admin.incremental_alter_configs([resource], request_timeout=CALL_SECONDS_MAX)[resource]
    answer.result(CALL_SECONDS_MAX + 1)


# -- the consumer group -------------------------------------------------------------------------------------------


class Members(NamedTuple):
    """A consumer group."""

    settled: bool  # no rebalance is running
    by_partition: Mapping[int, str]  # client ids, for one topic


SETTLED = frozenset({"STABLE", "EMPTY", "DEAD"})
"""States of a group without a rebalance; a group without members is empty or dead."""

_NO_GROUP_YET = frozenset({"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"})
"""The broker does not coordinate groups yet; it begins when it is first asked, in this order."""

_NOT_TOLD = frozenset({"GROUP_AUTHORIZATION_FAILED", "_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION"})


class GroupHidden(Exception):
    """Kafka does not say who is in a group, to this user or to anyone."""


def members_of(admin: Admin, group: str, topic: str) -> Members | None:
    """The members of a consumer group; None if the broker does not coordinate groups yet. Raises GroupHidden."""
    try:
        answer = admin.describe_consumer_groups([group], request_timeout=CALL_SECONDS_MAX)[group]
        said = answer.result(CALL_SECONDS_MAX + 1)
    except KafkaException as error:
        if error.args[0].name() in _NO_GROUP_YET:
            return None
        if error.args[0].name() in _NOT_TOLD:
            raise GroupHidden from None
        raise
    held = ((member.client_id, member.assignment) for member in said.members)
    by_partition = {
        place.partition: client
        for client, assigned in held
        for place in (assigned.topic_partitions if assigned else ())
        if place.topic == topic
    }
    return Members(said.state.name in SETTLED, by_partition)
