"""The topics of one table: their names and what must hold of each, as values.

The rules of this file
----------------------
* Every topic of a table has the same number of partitions: partition n belongs to shard n.
* The input is kept for ever unless the operator decides otherwise: a shard that lost its store is repeated from it.
* What is published stands in `live`; of a lossy join in `qit` and `stt` (`streamer.table.published.groups`), to which
  the same applies.
* `live` is compacted, but not sooner than a reader needs to get from a start to the end (24 h); nor are tombstones
  dropped sooner. Readers that fall further behind start again.
* `live` takes the largest row that a table may publish, whatever the broker's own limit says.
* Of three copies or more, two confirm what is written: one lost disk then loses nothing that was confirmed, and one
  lost broker stops nobody. Of fewer copies no number gives both, so the broker's own stands. Nobody is refused for it:
  it is set when a topic is made.
* `control` is kept for ever: what an operator asked for must be found at every take-over.
* `positions` holds one record per commit and shard, of which only the last one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from streamer.table.schema import LOSSY_JOIN

SHARDS_DEFAULT = 4

CHANGES, LIVE, POSITIONS, DEAD_LETTERS, CONTROL = "changes", "live", "positions", "dead-letters", "control"
QIT, STT = "qit", "stt"

OUTPUTS = (LIVE, QIT, STT)
"""All topics that may hold published rows."""

JOINED: Mapping[str, str] = MappingProxyType({QIT: STT, STT: QIT})
"""Topics that are one table together: what a release has in the one belongs to what it has in the other."""

READER_TIME_MS = str(24 * 60 * 60 * 1000)
"""How long a reader of `live` may take to get from a start to the end of the topic, in milliseconds."""

RECORD_BYTES_MAX = 1_048_588
"""Kafka's own limit of a record with its framing. `ROW_BYTES_MAX` of `streamer.table.schema` fits into it."""

AT_LEAST = frozenset({"max.message.bytes"})
"""Settings that may be larger than what is required."""

PUBLISHED_CONFIG = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": READER_TIME_MS,
    "delete.retention.ms": READER_TIME_MS,
    "max.message.bytes": str(RECORD_BYTES_MAX),
}

REQUIRED_CONFIGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        CHANGES: {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
        LIVE: PUBLISHED_CONFIG,
        QIT: PUBLISHED_CONFIG,
        STT: PUBLISHED_CONFIG,
        POSITIONS: {"cleanup.policy": "compact"},
        DEAD_LETTERS: {"cleanup.policy": "delete"},
        CONTROL: {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
    }
)


COPIES_FOR_TWO = 3
"""From so many copies on, two have to confirm."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: its kind, its name on the broker, and the settings it must have."""

    kind: str
    name: str
    config: Mapping[str, str]


def made_with(topic: Topic, replicas: int) -> dict[str, str]:
    """The settings that a topic of so many copies is made with.

    >>> made_with(Topic(POSITIONS, "t.positions", REQUIRED_CONFIGS[POSITIONS]), 3)
    {'cleanup.policy': 'compact', 'min.insync.replicas': '2'}
    """
    return {**topic.config, **({"min.insync.replicas": "2"} if replicas >= COPIES_FOR_TWO else {})}


def is_as_required(setting: str, found: str, required: str) -> bool:
    """Whether a topic's setting is what it must be.

    >>> is_as_required("max.message.bytes", "9000000", "1048588"), is_as_required("cleanup.policy", "x", "delete")
    (True, False)
    """
    if setting in AT_LEAST and found.isdecimal():
        return int(found) >= int(required)
    return found == required


def topic_name(table_name: str, kind: str) -> str:
    """The name of a table's topic on the broker.

    >>> topic_name("patients", LIVE)
    'patients.live'
    """
    return f"{table_name}.{kind}"


def worker_group(table_name: str) -> str:
    """The name of Kafka's consumer group that the workers of a table form."""
    return f"streamer-{table_name}"


def outputs_of(form: str) -> tuple[str, ...]:
    """The kinds of topics that hold what is published in a form.

    >>> outputs_of("groups"), outputs_of("lossy-join")
    (('live',), ('qit', 'stt'))
    """
    return (QIT, STT) if form == LOSSY_JOIN else (LIVE,)


def output_id(topic_ids: Mapping[str, str]) -> str:
    """What tells the topics that hold a published table from others of the same names; "" where no ids are known.

    >>> output_id({"changes": "a", "live": "b"}), output_id({"qit": "c", "stt": "d"})
    ('b', 'c,d')
    """
    return ",".join(topic_ids[kind] for kind in OUTPUTS if kind in topic_ids)


def topics_of(table_name: str, form: str | None = None) -> tuple[Topic, ...]:
    """The topics of a table that publishes in a form, the input first; None: those of any form.

    >>> [topic.name for topic in topics_of("t", "rows")]
    ['t.changes', 't.live', 't.positions', 't.dead-letters', 't.control']
    """
    unused = set(OUTPUTS).difference(outputs_of(form)) if form else ()
    wanted = {kind: config for kind, config in REQUIRED_CONFIGS.items() if kind not in unused}
    return tuple(Topic(kind, topic_name(table_name, kind), config) for kind, config in wanted.items())
