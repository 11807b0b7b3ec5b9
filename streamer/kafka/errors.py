"""What Kafka's answers mean: the one map from its errors to ours, and the right that a user lacks.

The rules of this file
----------------------
* All clients know the errors of Kafka's protocol by their names; those that begin with _ are the C client's own.
* Nothing that a client says is repeated but the name of the error and names of this project's own topics.
* Who is not allowed to do something is told the command by which an administrator of Kafka grants it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from streamer.errors import ConfigError, Fenced, ServerUnreachable, ShardRefused, StreamerError, UsageError
from streamer.incremental.topics import REQUIRED_CONFIGS, worker_group
from streamer.kafka.access import kafka_settings

READ_RIGHT, WRITE, DESCRIBE, CREATE, DESCRIBE_CONFIGS = "Read", "Write", "Describe", "Create", "DescribeConfigs"
ADMINISTRATION = (CREATE, DESCRIBE, DESCRIBE_CONFIGS)
TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "transactional-id"


MISSING = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
"""Of a topic, or one of its partitions, that is not there; or not there yet."""
TOO_EARLY = MISSING | {"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"}
"""Of a question to a topic just made or a broker just restarted."""
NOT_AUTHORIZED = frozenset(f"{what}_AUTHORIZATION_FAILED" for what in ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID"))
NO_CONNECTION = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_AUTHENTICATION", "_SSL", "_TIMED_OUT"})
"""What the C client answers if it is not let in, and also if the broker is away."""
_FENCED = frozenset({"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"})
_NOT_ALLOWED = frozenset(
    {"CLUSTER_AUTHORIZATION_FAILED", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"}
    | {"ILLEGAL_SASL_STATE", "SECURITY_DISABLED"}
)
_TOO_LARGE = "a record is larger than its topic allows: raise the topic's max.message.bytes (`streamer topics check`)"
_IS_MISSING = "a topic or one of its partitions is missing: `streamer topics check` says which"
_TOO_OLD = "the broker is too old for it, or an old message format is set: transactions are needed"
_POLICY = "a policy of the broker or a setting of the topic refuses it: `streamer topics check` says what is needed"
_REMEDIES = {
    "MSG_SIZE_TOO_LARGE": _TOO_LARGE,
    "RECORD_LIST_TOO_LARGE": _TOO_LARGE,
    "UNKNOWN_TOPIC_OR_PART": _IS_MISSING,
    "_UNKNOWN_TOPIC": _IS_MISSING,
    "_UNKNOWN_PARTITION": _IS_MISSING,
    "TOPIC_EXCEPTION": _IS_MISSING,
    "INVALID_TRANSACTION_TIMEOUT": "raise the broker's transaction.max.timeout.ms to 30000 at least",
    "UNSUPPORTED_VERSION": _TOO_OLD,
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": _TOO_OLD,
    "_UNSUPPORTED_FEATURE": _TOO_OLD,
    "POLICY_VIOLATION": _POLICY,
    "INVALID_RECORD": _POLICY,
    "INVALID_CONFIG": _POLICY,
    "_INVALID_ARG": "a setting of the connection is not valid: look at --kafka",
}
"""What to do about an answer that will not change by itself."""

_TOPICS = re.compile(rf"[\w.-]+\.(?:{'|'.join(map(re.escape, REQUIRED_CONFIGS))})(?![\w.-])")
_USER = re.compile(r"[\w.@-]+")


@dataclass(frozen=True, slots=True)
class Right:
    """Operations on what has one of these names; prefixed: on all that begins with one."""

    operations: Collection[str]
    names: Collection[str]
    resource: str = TOPIC
    prefixed: bool = False

    def __str__(self) -> str:
        names = ", ".join(f"{name}*" if self.prefixed else name for name in self.names)
        return f"{' and '.join(self.operations)} on {self.resource} {names}"


def refused_to_shard(doing: str, name: str, right: Right, table_name: str) -> StreamerError | None:
    """A worker's error for an answer that no repetition changes; None for any other. right: what was made use of."""
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
    """The error of a command, or of a reader, for what the broker answered; None if it did not answer."""
    where = f"Kafka at {bootstrap}"
    if name in MISSING:
        return UsageError(f"a topic is missing at {bootstrap}: `streamer topics create` makes them all")
    if name in NOT_AUTHORIZED:
        return ConfigError(not_authorised(where, right, kafka_settings().username))
    if name and not name.startswith("_"):
        return ServerUnreachable(f"{where} refuses the request: {name}")
    return None


def does_not_answer(bootstrap: str, name: str) -> ServerUnreachable:
    """What is said of a broker of which nothing else is known."""
    return ServerUnreachable(
        f"Kafka at {bootstrap} does not answer ({name}): is it up, is --kafka right, does it want TLS or a password "
        "(KAFKA_CONFIG)?"
    )


def transactions_begun_with(prefix: str) -> Right:
    """What a producer needs for transactions whose names begin so."""
    return Right([WRITE, DESCRIBE], [prefix], TRANSACTIONAL_ID, prefixed=True)


def topics_named(text: str) -> list[str]:
    """The topics of tables whose names stand in what a client says.

    >>> topics_named("{'mine.changes'}: b'flu' 'mine.changesmine.live'")
    ['mine.changes']
    """
    return sorted(name for name in set(_TOPICS.findall(text)) if name.count(".") == 1)


def not_authorised(where: str, right: Right, user: str = "") -> str:
    """What is missing, and what grants it. user: whom Kafka knows us by; "" if only the broker knows."""
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
