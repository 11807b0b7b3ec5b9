"""Kafka's errors as ours: the one map for all client libraries, and the rights that a user lacks.

The rules of this file
----------------------
* All clients know the errors of Kafka's protocol by the same names. Names that begin with _ are librdkafka's own: what
  it lacks, not what a broker said. After an outage it takes any topic for unknown. So none of them is final.
* A message repeats the name of the error and names of this project's topics, and nothing else that a client said.
* If a user lacks a right, the message holds the command by which an administrator of Kafka grants it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from streamer.errors import (
    ConfigError,
    Fenced,
    ServerUnreachable,
    ShardRefused,
    StreamerError,
    UsageError,
    out_of_memory,
)
from streamer.incremental.topics import REQUIRED_CONFIGS, worker_group
from streamer.kafka.access import kafka_settings
from streamer.kafka.diagnose import shut_out
from streamer.kafka.settings import servers_of

READ_RIGHT, WRITE, DESCRIBE, CREATE, DESCRIBE_CONFIGS = "Read", "Write", "Describe", "Create", "DescribeConfigs"
ADMINISTRATION = (CREATE, DESCRIBE, DESCRIBE_CONFIGS)
TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "transactional-id"

_MISSING_BY_BROKER = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION"})
MISSING = _MISSING_BY_BROKER | {"_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}
"""A topic or a partition does not exist, or not yet, or the client does not know of it yet."""
TOO_EARLY = MISSING | {
    *("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE"),
    *("UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH"),  # client and broker know different leaders of a new topic
}
"""The topic was just created, or the broker just restarted: the same request may succeed a moment later."""
NOT_AUTHORIZED = frozenset(f"{what}_AUTHORIZATION_FAILED" for what in ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID"))
NO_ANSWER = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "NoBrokersAvailable"})
"""The clients' names for a broker that is down, is still starting, or is silent."""
_NO_CONNECTION = NO_ANSWER | {"_AUTHENTICATION", "_SSL"}
"""The answers of librdkafka if the broker refuses the login, and also if the broker is down."""
_SHORT_OF_MEMORY = frozenset({"NO_ERROR", "_CRIT_SYS_RESOURCE"})
"""librdkafka's names for a client that could not be made because the system gave it no thread."""
_FENCED = frozenset({"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"})
_NOT_ALLOWED = frozenset(
    {"CLUSTER_AUTHORIZATION_FAILED", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"}
    | {"ILLEGAL_SASL_STATE", "SECURITY_DISABLED"}
)
_TOO_LARGE = "a record is larger than its topic allows: raise the topic's max.message.bytes (`streamer topics check`)"
_IS_MISSING = "a topic or one of its partitions is missing: `streamer topics check` says which"
_TOO_OLD = "the broker is too old for it, or an old message format is set: transactions are needed"
_POLICY = "a policy of the broker or a setting of the topic refuses it: `streamer topics check` says what is needed"
_STRANGER = (
    "another program is in this consumer group, or a worker of a version before 0.4.0: end it "
    "(`kafka-consumer-groups --describe --members --group` shows it)"
)
_SESSION = (
    "its group.min.session.timeout.ms and group.max.session.timeout.ms must allow 10 s, and 60 s for a worker with "
    "--instance"
)
_REMEDIES = {
    "INCONSISTENT_GROUP_PROTOCOL": _STRANGER,
    "INVALID_SESSION_TIMEOUT": _SESSION,
    "MSG_SIZE_TOO_LARGE": _TOO_LARGE,
    "RECORD_LIST_TOO_LARGE": _TOO_LARGE,
    "UNKNOWN_TOPIC_OR_PART": _IS_MISSING,
    "TOPIC_EXCEPTION": _IS_MISSING,
    "INVALID_TRANSACTION_TIMEOUT": "raise the broker's transaction.max.timeout.ms to 300000 at least",
    "UNSUPPORTED_VERSION": _TOO_OLD,
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": _TOO_OLD,
    "POLICY_VIOLATION": _POLICY,
    "INVALID_RECORD": _POLICY,
    "INVALID_CONFIG": _POLICY,
}
"""The remedy for an answer of the broker that no retry changes."""
_HINTS = {
    "_UNSUPPORTED_FEATURE": f": {_TOO_OLD}",
    "_INVALID_ARG": ": a setting of the connection is not valid: look at --kafka",
    "_UNKNOWN_TOPIC": f": if that lasts, {_IS_MISSING}",
    "_UNKNOWN_PARTITION": f": if that lasts, {_IS_MISSING}",
}
"""Another meaning that an error of the client may have."""

_TOPICS = re.compile(rf"[\w.-]+\.(?:{'|'.join(map(re.escape, REQUIRED_CONFIGS))})(?![\w.-])")
_USER = re.compile(r"[\w.@-]+")


@dataclass(frozen=True, slots=True)
class Right:
    """Operations on resources with these names. prefixed: on all resources whose names begin so."""

    operations: Collection[str]
    names: Collection[str]
    resource: str = TOPIC
    prefixed: bool = False

    def __str__(self) -> str:
        names = ", ".join(f"{name}*" if self.prefixed else name for name in self.names)
        return f"{' and '.join(self.operations)} on {self.resource} {names}"


def refused_to_shard(doing: str, name: str, right: Right, table_name: str) -> StreamerError | None:
    """A worker's error if no retry changes the answer `name`, else None. right: what the request needed."""
    if name in _SHORT_OF_MEMORY:
        return out_of_memory(doing)
    if name in _FENCED:
        return Fenced(f"{doing}: Kafka has shut this producer out ({name})")
    missing = {
        "TOPIC_AUTHORIZATION_FAILED": right,
        "GROUP_AUTHORIZATION_FAILED": Right([READ_RIGHT], [worker_group(table_name)], GROUP),
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": transactions_begun_with(f"{table_name}-shard-"),
    }
    if name in missing:
        return ConfigError(not_authorised(doing, missing[name], kafka_settings().username))
    if name in _NOT_ALLOWED:
        return ConfigError(f"{doing}: Kafka does not let this user do it ({name}): look at KAFKA_CONFIG and its ACLs")
    if name in _REMEDIES:
        return ShardRefused(f"{doing}: Kafka refuses it for good ({name}): {_REMEDIES[name]}")
    return None


def refused_to_command(bootstrap: str, name: str, right: Right) -> StreamerError | None:
    """A command's or a reader's error for the broker's answer `name`; None if the broker did not answer."""
    where = f"Kafka at {bootstrap}"
    if name in _SHORT_OF_MEMORY:
        return out_of_memory(f"a client of {where}")
    if name in _MISSING_BY_BROKER:
        return UsageError(f"a topic is missing at {bootstrap}: `streamer topics create` makes them all")
    if name in NOT_AUTHORIZED:
        return ConfigError(not_authorised(where, right, kafka_settings().username))
    if name and not name.startswith("_"):
        return ServerUnreachable(f"{where} refuses the request: {name}")
    return None


def worker_error(bootstrap: str, doing: str, name: str, right: Right, table_name: str) -> StreamerError:
    """A worker's error for the answer `name`: refused for good, not let in, or worth another try."""
    refused = refused_to_shard(doing, name, right, table_name)
    if refused is None and name in _NO_CONNECTION:
        refused = shut_out(servers_of(bootstrap))
    if refused is None and name.startswith("_"):
        return ServerUnreachable(f"{doing}: Kafka at {bootstrap} does not answer ({name}){_HINTS.get(name, '')}")
    return refused or ServerUnreachable(f"{doing}: Kafka at {bootstrap} answers {name}")


def command_error(bootstrap: str, name: str, right: Right, unanswered: str) -> StreamerError:
    """A command's or a reader's error. unanswered: the client's name of the error if the broker did not answer.

    A broker that is silent is not asked for a reason: `diagnose.require_access` has asked before the first request.
    """
    refused = refused_to_command(bootstrap, name, right)
    if refused is None and unanswered not in NO_ANSWER:
        refused = shut_out(servers_of(bootstrap))
    return refused or does_not_answer(bootstrap, unanswered)


def does_not_answer(bootstrap: str, name: str) -> ServerUnreachable:
    """The error if nothing else is known about the broker."""
    return ServerUnreachable(
        f"Kafka at {bootstrap} does not answer ({name}): is it up, is --kafka right, does it want TLS or a password "
        "(KAFKA_CONFIG)?"
    )


def sent_nothing(seconds: float) -> ServerUnreachable:
    """The error if Kafka sends no records for that time before an end is reached."""
    return ServerUnreachable(f"Kafka has sent nothing for {seconds:.0f} s, though there is more")


def missing_topic(topic: str) -> UsageError:
    """A command's or a reader's error for a topic that does not exist."""
    return UsageError(f"topic {topic} does not exist: `streamer topics create` makes it")


def transactions_begun_with(prefix: str) -> Right:
    """The right that a producer needs for transactional ids with this prefix."""
    return Right([WRITE, DESCRIBE], [prefix], TRANSACTIONAL_ID, prefixed=True)


def topics_named(text: str) -> list[str]:
    """The names of tables' topics in the text of a client's error.

    >>> topics_named("{'mine.changes'}: b'flu' 'mine.changesmine.live'")
    ['mine.changes']
    """
    return sorted(name for name in set(_TOPICS.findall(text)) if name.count(".") == 1)


def not_authorised(where: str, right: Right, user: str = "") -> str:
    """The missing right, and the command that grants it. user: our name in Kafka; "" if only the broker knows it."""
    who = user if _USER.fullmatch(user) else "NAME"
    options = [
        *(f"--operation {operation}" for operation in right.operations),
        *(f"--{right.resource} {name}" for name in right.names),
        *(["--resource-pattern-type prefixed"] if right.prefixed else []),
    ]
    return (
        f"{where}: this user is not authorised: {right}. An administrator of Kafka grants it: `kafka-acls "
        f"--bootstrap-server HOST:PORT --add --allow-principal User:{who} {' '.join(options)}`"
    )
