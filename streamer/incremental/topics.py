"""The topics of one table: their names, and the settings that each must have.

* All topics of a table have the same number of partitions: partition n belongs to shard n.
* The input is kept for ever unless the operator decides otherwise: a shard that lost its store is replayed from it.
* An operator who must be able to erase people has it compacted by key. A lost store then is not replayed, but reloaded
  from the input, if each message says a whole row. A shard has a day to read a message before a later one takes its
  place, and another week to read a deletion.
* Published rows are in `live`; those of a lossy join in `qit` and `stt`, with the same settings.
* `sealed` holds cohorts, whose records are never repeated: it is kept for ever. Its timestamps are those of epochs.
* `live` is compacted, but rows and tombstones stay for 24 h: a reader needs them to get from a start to the end. A
  reader that falls further behind starts again.
* A record of `live` that was replaced is compacted a week later at the latest, so that people can be erased: topics are
  created so, and none is refused for another time.
* `live` accepts the largest row that a table may publish, whatever the broker's own limit is.
* With three replicas or more, two confirm a write: one lost disk loses nothing, one lost broker stops nothing. With
  fewer no number gives both, and the broker's own setting holds. No topic is refused for it after its creation.
* `control` is kept for ever: every take-over must find what an operator asked for, and the shards' secrets.
* `positions` has one record per commit and shard; only the last one counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from streamer.table.schema import LOSSY_JOIN, Table

SHARDS_DEFAULT = 4

CHANGES, LIVE, POSITIONS, DEAD_LETTERS, CONTROL = "changes", "live", "positions", "dead-letters", "control"
QIT, STT, SEALED = "qit", "stt", "sealed"

OUTPUTS = (LIVE, QIT, STT)
"""All topics that may hold published rows."""

JOINED: Mapping[str, str] = MappingProxyType({QIT: STT, STT: QIT})
"""Topics that are one table together: a release has records in both."""

READER_TIME_MS = str(24 * 60 * 60 * 1000)
"""Milliseconds that a reader of `live` may take from a start to the end of the topic."""

RECORD_BYTES_MAX = 1_048_588
"""Kafka's default limit of a record with its framing. `ROW_BYTES_MAX` of `streamer.table.schema` fits into it."""

_KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_PUBLISHED_CONFIG = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": READER_TIME_MS,
    "delete.retention.ms": READER_TIME_MS,
    "max.message.bytes": str(RECORD_BYTES_MAX),
}

REQUIRED_CONFIGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        CHANGES: _KEPT_FOR_EVER,
        LIVE: _PUBLISHED_CONFIG,
        QIT: _PUBLISHED_CONFIG,
        STT: _PUBLISHED_CONFIG,
        SEALED: {**_KEPT_FOR_EVER, "max.message.bytes": str(RECORD_BYTES_MAX), "message.timestamp.type": "CreateTime"},
        POSITIONS: {"cleanup.policy": "compact"},
        DEAD_LETTERS: {"cleanup.policy": "delete"},
        CONTROL: _KEPT_FOR_EVER,
    }
)

WEEK_MS = str(7 * 24 * 60 * 60 * 1000)

COMPACTED_CHANGES: Mapping[str, str] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": READER_TIME_MS,
        "max.compaction.lag.ms": WEEK_MS,
        "delete.retention.ms": WEEK_MS,
    }
)
"""The settings of an input that forgets erased people, in place of those above."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its kind, its name on the broker, and the settings that it must have."""

    kind: str
    name: str
    config: Mapping[str, str]


def create_config(topic: Topic, replicas: int) -> dict[str, str]:
    """The settings with which a topic is created.

    >>> create_config(Topic(POSITIONS, "t.positions", REQUIRED_CONFIGS[POSITIONS]), 3)
    {'cleanup.policy': 'compact', 'min.insync.replicas': '2'}
    """
    confirmed = {"min.insync.replicas": "2"} if replicas >= 3 else {}
    erasable = {"max.compaction.lag.ms": WEEK_MS} if topic.kind in OUTPUTS else {}
    return {**topic.config, **confirmed, **erasable}


AT_LEAST = ("max.message.bytes", "min.compaction.lag.ms", "delete.retention.ms")
AT_MOST = ("max.compaction.lag.ms",)


def is_as_required(setting: str, found: str, required: str) -> bool:
    """True if a topic's setting is what it must be; a size may be larger, a time on the safe side of what is required.

    >>> is_as_required("max.message.bytes", "9000000", "1048588"), is_as_required("cleanup.policy", "x", "delete")
    (True, False)
    """
    if setting in AT_LEAST and found.isdecimal():
        return int(found) >= int(required)
    if setting in AT_MOST and found.isdecimal():
        return int(found) <= int(required)
    return found == required


def topic_name(table_name: str, kind: str) -> str:
    """The name of a table's topic on the broker.

    >>> topic_name("patients", LIVE)
    'patients.live'
    """
    return f"{table_name}.{kind}"


def worker_group(table_name: str) -> str:
    return f"streamer-{table_name}"


def outputs_of(form: str) -> tuple[str, ...]:
    """The kinds of topics that hold the published rows of a form.

    >>> outputs_of("groups"), outputs_of("lossy-join")
    (('live',), ('qit', 'stt'))
    """
    return (QIT, STT) if form == LOSSY_JOIN else (LIVE,)


def live_kinds(table: Table) -> tuple[str, ...]:
    """The kinds of topics that hold a table's published rows; none if it publishes a sealed changelog alone."""
    return outputs_of(table.form) if table.live else ()


def published_kinds(table: Table) -> tuple[str, ...]:
    """The kinds of topics that hold what a table publishes."""
    return (*live_kinds(table), *((SEALED,) if table.sealed is not None else ()))


def output_id(topic_ids: Mapping[str, str]) -> str:
    """The ids of the topics of what a table publishes, "" if none is known: names can be given again, ids cannot.

    >>> output_id({"changes": "a", "live": "b"}), output_id({"qit": "c", "stt": "d"})
    ('b', 'c,d')
    """
    return ",".join(topic_ids[kind] for kind in (*OUTPUTS, SEALED) if kind in topic_ids)


def topics_of(table_name: str, published: Collection[str] | None = None) -> tuple[Topic, ...]:
    """The topics of a table, the input first. published: the kinds that hold what it publishes; None: all kinds.

    >>> [topic.name for topic in topics_of("t", [LIVE])]
    ['t.changes', 't.live', 't.positions', 't.dead-letters', 't.control']
    """
    unused = set() if published is None else {*OUTPUTS, SEALED}.difference(published)
    wanted = {kind: config for kind, config in REQUIRED_CONFIGS.items() if kind not in unused}
    return tuple(Topic(kind, topic_name(table_name, kind), config) for kind, config in wanted.items())
