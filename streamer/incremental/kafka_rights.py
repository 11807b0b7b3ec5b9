"""What a user of Kafka is not authorised to do, and the command of Kafka's own by which an administrator grants it.

Of what a client library says only names of this project's own topics are repeated, whatever else stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from streamer.incremental.topics import REQUIRED_CONFIGS

READ, WRITE, DESCRIBE, CREATE, DESCRIBE_CONFIGS = "Read", "Write", "Describe", "Create", "DescribeConfigs"
TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "transactional-id"

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


def topics_named(text: str) -> list[str]:
    """The topics of tables whose names stand in what a client says.

    >>> topics_named("{'mine.changes'}: b'flu' 'mine.changesmine.live'")
    ['mine.changes']
    """
    return sorted(name for name in set(_TOPICS.findall(text)) if name.count(".") == 1)


def not_authorised(where: str, right: Right, user: str = "") -> str:
    """What is missing, and what grants it. user: whom Kafka knows us by; "" where only the broker knows."""
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
