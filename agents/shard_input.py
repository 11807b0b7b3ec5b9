"""The input of one shard as the broker sees it right now: its topics, and from which offset to which it is held.

The rules of this file
----------------------
* A topic is told from another one of the same name by its id. Ids and numbers of partitions are read in one question,
  of a millisecond or two, so it is asked twice per commit: about the input when the batch was read and before it is
  stored, about the output when its records were taken and before their transaction ends. No id comes back: what was
  read or taken before the answer was so by the topic that the answer names. Brokers learn of a new topic one after the
  other; only within that time they may disagree.
* `check` only says that something is not as it was. What that means, `state` and the rules of a take-over decide.
* A topic that is missing may be on its way: it is waited for, for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, sleep
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, TopicDescription

from agents.kafka_calls import CALL_SECONDS_MAX, KafkaCalls
from streamer.errors import Conflict, ShardRefused
from streamer.incremental import mends
from streamer.incremental.shard.input import InputState
from streamer.incremental.topic_ids import EMBEDDED_CLUSTER
from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, LIVE, POSITIONS, topic_name

NEEDED = (CHANGES, LIVE, POSITIONS, DEAD_LETTERS)
MISSING_SECONDS_MAX, MISSING_AGAIN_SECONDS = 3.0, 0.1
"""How long a topic may be missing that somebody is making anew."""


class Described(NamedTuple):
    """What tells a topic from another one of the same name. id: empty on the embedded broker, which gives none."""

    id: str
    partitions: int


class KafkaInput:
    """The input of one shard; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self._kafka = KafkaCalls(bootstrap, table_name, shard)
        self._admin: AdminClient | None = None
        self._seen: dict[str, Described] = {}
        self.looked_at = 0.0
        """When the topics were asked for last, by the monotonic clock."""

    def state(self) -> InputState:
        """What the broker says of the shard's input right now.

        Raises ShardRefused where a topic is missing or the topics do not have the same number of partitions;
        ServerUnreachable.
        """
        with self._kafka.failures("asking for the topics"), self._kafka.consumer() as consumer:
            self._seen = self._all_topics(consumer)
            shards = self._shards()
            earliest, end = self._kafka.watermarks(consumer, self._place(CHANGES))
            live_begun = self._has_begun(consumer, self._place(LIVE))
        ids = {kind: described.id for kind, described in self._seen.items() if described.id}
        return InputState(ids, shards, earliest, end, live_begun)

    def check(self, *kinds: str) -> None:
        """Raises Conflict where a topic is not the one that `state` saw, or has another number of partitions.

        What was read from the topics, or confirmed by them, before the answer came was so by the very same topics.
        """
        if not any(described.id for described in self._seen.values()):
            return  # the embedded broker: it gives no ids, and makes nothing anew
        with self._kafka.failures("asking for the topics"):
            now = self._describe(kinds)
        changed = [kind for kind in kinds if now.get(kind) != self._seen.get(kind)]
        if changed:
            names = ", ".join(topic_name(self._kafka.table_name, kind) for kind in changed)
            raise Conflict(f"{self._kafka.name}: made anew, grown or gone since the shard was taken over: {names}")

    def _all_topics(self, consumer: Consumer) -> dict[str, Described]:
        """The topics of the table by kind; raises ShardRefused where one that is needed is missing."""
        until = monotonic() + MISSING_SECONDS_MAX
        while True:
            found = self._listed(consumer) if self._is_embedded(consumer) else self._describe((*NEEDED, CONTROL))
            missing = [topic_name(self._kafka.table_name, kind) for kind in NEEDED if kind not in found]
            if not missing:
                return found
            if monotonic() > until:
                raise ShardRefused(f"topic {missing[0]} does not exist: `streamer topics create` makes it")
            sleep(MISSING_AGAIN_SECONDS)

    def _is_embedded(self, consumer: Consumer) -> bool:
        return (consumer.cluster_id(CALL_SECONDS_MAX) or "").startswith(EMBEDDED_CLUSTER)

    def _listed(self, consumer: Consumer) -> dict[str, Described]:
        """The topics without their ids."""
        topics = consumer.list_topics(timeout=CALL_SECONDS_MAX).topics
        names = {kind: topic_name(self._kafka.table_name, kind) for kind in NEEDED}
        there = {kind: topics[name] for kind, name in names.items() if name in topics and topics[name].error is None}
        return {kind: Described("", len(topic.partitions)) for kind, topic in there.items()}

    def _describe(self, kinds: Sequence[str]) -> dict[str, Described]:
        """Those of some topics that exist, by kind."""
        admin = self._admin = self._admin or AdminClient(self._kafka.settings())
        names = {topic_name(self._kafka.table_name, kind): kind for kind in kinds}
        answers = admin.describe_topics(TopicCollection(list(names)), request_timeout=CALL_SECONDS_MAX)
        found = {}
        for name, answer in answers.items():
            try:
                said: TopicDescription = answer.result(CALL_SECONDS_MAX + 1)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
            else:
                found[names[name]] = Described(str(said.topic_id), len(said.partitions))
        self.looked_at = monotonic()
        return found

    def _shards(self) -> int:
        """The number of partitions that the topics of the table have in common."""
        counts = {kind: self._seen[kind].partitions for kind in NEEDED}
        if len(set(counts.values())) > 1:
            raise ShardRefused(f"{self._kafka.name}: {mends.unlike_counts(self._kafka.table_name, counts)}")
        return self._seen[CHANGES].partitions

    def _has_begun(self, consumer: Consumer, topic_partition: TopicPartition) -> bool:
        """Whether a partition holds a committed record."""
        first, end = self._kafka.watermarks(consumer, topic_partition)
        if first == end:
            return False
        records = self._kafka.records(consumer, topic_partition, first, monotonic() + CALL_SECONDS_MAX)
        return next(records, None) is not None

    def _place(self, kind: str) -> TopicPartition:
        return TopicPartition(topic_name(self._kafka.table_name, kind), self._kafka.shard)
