"""A worker's settings: its table, its servers, and how it shows itself."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from secrets import token_hex
from time import time_ns

from streamer.errors import ConfigError
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.formats.live_format import LiveFormat, live_format
from streamer.incremental.topics import worker_group
from streamer.kafka.access import kafka_settings
from streamer.kafka.registry import registry_from
from streamer.kafka.secret_records import secret_keys
from streamer.kafka.settings import servers_of
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table
from streamer.worker.options import INSTANCE, TEXT, WEB, Address, read_address

SESSION_SECONDS, RESTART_SECONDS = 10.0, 60.0


VARIABLES = {
    "STREAMER_TABLE": "the path of table.yaml",
    "KAFKA_BOOTSTRAP": "Kafka's bootstrap servers; or bootstrap.servers in the file KAFKA_CONFIG",
    "REDIS_URL": "the URL of Redis",
}


def _this_run() -> str:
    """A name for a run of a worker; of two runs, the one that began later has the greater one."""
    return f"{time_ns():016x}-{token_hex(8)}"


@dataclass(frozen=True)
class WorkerSettings:
    """A worker's settings."""

    table: Table
    kafka: str
    redis: str = field(repr=False)  # may hold a password
    embedded: bool = False  # the servers are in this process, so that Redis need not be durable
    schemas: Schemas = field(default_factory=NoSchemas, repr=False)  # of the schema registry, if there is one
    instance: str | None = None  # its name as a static member of the consumer group, which keeps its shards meanwhile
    session_seconds: float = 0.0  # how long Kafka waits for a silent worker before it reassigns its shards; 0: default
    web: Address | None = None  # where it answers browsers and probes
    log_format: str = TEXT
    name: str = ""  # in Kafka, Redis and `status`; by default its instance, or its host and process
    process: str = field(default_factory=_this_run)  # this run of it, and no other under its name

    def __post_init__(self) -> None:
        """Raises ConfigError if the servers are not named as they should be."""
        servers_of(self.kafka)
        if not self.name:  # a restarted instance keeps, in Kafka, the name of its first process
            object.__setattr__(self, "name", self.instance or f"{socket.gethostname()}:{os.getpid()}")
        if not self.session_seconds:
            object.__setattr__(self, "session_seconds", RESTART_SECONDS if self.instance else SESSION_SECONDS)

    @cached_property
    def live_format(self) -> LiveFormat:
        """The format of `live`. Raises ConfigError if that needs a registry, and none is named."""
        return live_format(self.table, self.schemas)

    @property
    def app_id(self) -> str:
        """Name of the Faust app and of Kafka's consumer group."""
        return worker_group(self.table.name)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> WorkerSettings:
        """Reads the environment variables. Raises ConfigError that names missing ones."""
        environment = {"KAFKA_BOOTSTRAP": kafka_settings(environment).bootstrap, **environment}
        missing = [f"{name} ({what})" for name, what in VARIABLES.items() if not environment.get(name)]
        if missing:
            raise ConfigError(f"the environment does not name {', '.join(missing)}")
        secret_keys(environment)  # refuses now what every take-over would be refused for
        table, kafka, redis = (environment[name] for name in VARIABLES)
        web = environment.get(WEB)
        return cls(
            load_table(table),
            kafka,
            redis,
            schemas=registry_from(environment),
            web=read_address(web) if web else None,
            instance=environment.get(INSTANCE) or None,
        )
