"""What Kafka's answers mean: the one map from its codes to our errors, and the right that a user lacks.

The rules of this file
----------------------
* All clients use the codes of Kafka's protocol; those below zero are the C client's own.
* Nothing that a client says is repeated but the name of the error and names of this project's own topics.
* Who is not allowed to do something is told the command by which an administrator of Kafka grants it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

from streamer.errors import ConfigError, Fenced, ServerUnreachable, ShardRefused, StreamerError, UsageError
from streamer.incremental.topics import REQUIRED_CONFIGS, worker_group
from streamer.kafka.access import kafka_settings

READ, WRITE, DESCRIBE, CREATE, DESCRIBE_CONFIGS = "Read", "Write", "Describe", "Create", "DescribeConfigs"
ADMINISTRATION = (CREATE, DESCRIBE, DESCRIBE_CONFIGS)
TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "transactional-id"


class Code(IntEnum):
    """Kafka's numbers of the errors that are told apart here."""

    ALL_BROKERS_DOWN = -187
    AUTHENTICATION = -169
    FENCED = -144
    INVALID_ARG = -186
    SSL = -181
    TIMED_OUT = -185
    TRANSPORT = -195
    UNKNOWN_PARTITION_HERE = -190
    UNKNOWN_TOPIC_HERE = -188
    UNSUPPORTED_FEATURE = -165
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER = 6
    MESSAGE_TOO_LARGE = 10
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_REPLICATION_FACTOR = 38
    INVALID_CONFIG = 40
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TRANSACTION_TIMEOUT = 50
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    SASL_AUTHENTICATION_FAILED = 58
    INVALID_RECORD = 87
    PRODUCER_FENCED = 90


MISSING = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_HERE, Code.UNKNOWN_PARTITION_HERE})
"""Of a topic, or one of its partitions, that is not there; or not there yet."""

TOO_EARLY = MISSING | {Code.NOT_LEADER, Code.LEADER_NOT_AVAILABLE}
"""Of a question to a topic just made or a broker just restarted."""

NOT_AUTHORIZED = frozenset(
    {
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
NO_CONNECTION = frozenset({Code.TRANSPORT, Code.ALL_BROKERS_DOWN, Code.AUTHENTICATION, Code.SSL, Code.TIMED_OUT})
"""What the C client answers if it is not let in, and also if the broker is away."""

_FENCED = frozenset({Code.FENCED, Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED})
_NOT_ALLOWED = frozenset(
    {
        Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.SASL_AUTHENTICATION_FAILED,
        Code.UNSUPPORTED_SASL_MECHANISM,
        Code.ILLEGAL_SASL_STATE,
        Code.SECURITY_DISABLED,
    }
)
_TOO_LARGE = "a record is larger than its topic allows: raise the topic's max.message.bytes (`streamer topics check`)"
_IS_MISSING = "a topic or one of its partitions is missing: `streamer topics check` says which"
_TOO_OLD = "the broker is too old for it, or an old message format is set: transactions are needed"
_POLICY = "a policy of the broker or a setting of the topic refuses it: `streamer topics check` says what is needed"
_REMEDIES = {
    **dict.fromkeys((Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE), _TOO_LARGE),
    **dict.fromkeys((*MISSING, Code.INVALID_TOPIC), _IS_MISSING),
    **dict.fromkeys(
        (Code.UNSUPPORTED_VERSION, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, Code.UNSUPPORTED_FEATURE), _TOO_OLD
    ),
    **dict.fromkeys((Code.POLICY_VIOLATION, Code.INVALID_RECORD, Code.INVALID_CONFIG), _POLICY),
    Code.INVALID_TRANSACTION_TIMEOUT: "raise the broker's transaction.max.timeout.ms to 30000 at least",
    Code.INVALID_ARG: "a setting of the connection is not valid: look at --kafka",
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


def refused_to_shard(doing: str, code: int | None, name: str, right: Right, table_name: str) -> StreamerError | None:
    """A worker's error for an answer that no repetition changes; None for any other.

    code: None if the client alone is at fault; name: what the client calls the error. right: what was made use of.
    """
    if code in _FENCED:
        return Fenced(f"{doing}: Kafka has shut this producer out ({name})")
    missing = {
        Code.TOPIC_AUTHORIZATION_FAILED: right,
        Code.GROUP_AUTHORIZATION_FAILED: Right([READ], [worker_group(table_name)], GROUP),
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: transactions_begun_with(f"{table_name}-shard-"),
    }
    if code in missing:
        return ConfigError(not_authorised(doing, missing[Code(code)], kafka_settings().username))
    if code in _NOT_ALLOWED:
        return ConfigError(f"{doing}: Kafka does not let this user do it ({name}): look at KAFKA_CONFIG and its ACLs")
    if code in _REMEDIES:
        return ShardRefused(f"{doing}: Kafka refuses it for good ({name}): {_REMEDIES[Code(code)]}")
    return None


def refused_to_command(bootstrap: str, code: int | None, name: str, right: Right) -> StreamerError | None:
    """The same for a command or a reader; None if the broker did not answer."""
    where = f"Kafka at {bootstrap}"
    if code in MISSING:
        return UsageError(f"a topic is missing at {bootstrap}: `streamer topics create` makes them all")
    if code in NOT_AUTHORIZED:
        return ConfigError(not_authorised(where, right, kafka_settings().username))
    if code is not None and code > 0:
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
