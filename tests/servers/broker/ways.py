"""The ways to a real Kafka and Redis; `find` takes the first one that works.

1. the servers named by KAFKA_BOOTSTRAP and REDIS_URL, used as they are, never stopped;
2. a running Docker engine: `containers.py`;
3. Java 17, Maven and redis-server, installed with apt-get where we are root on Debian: `processes.py`.

None works: `NoServers`, whose message is one sentence that says what to install.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from servers.broker import containers, processes
from servers.broker.servers import NamedServer, NoServers, Ports, Servers


def find(directory: Path, kafka_port: int = 0, redis_port: int = 0) -> Servers:
    """The servers to use, not started yet. Ports of 0: free ones, remembered in `directory`; raises NoServers."""
    named = _named(os.environ)
    if named is not None:
        return named
    directory.mkdir(parents=True, exist_ok=True)
    ports = Ports.remembered(directory, kafka_port, redis_port)
    if containers.usable():
        return containers.servers(ports)
    processes.provide()
    return processes.servers(directory, ports)


def _named(environment: Mapping[str, str]) -> Servers | None:
    kafka, redis = environment.get("KAFKA_BOOTSTRAP", ""), environment.get("REDIS_URL", "")
    if bool(kafka) != bool(redis):
        raise NoServers("KAFKA_BOOTSTRAP and REDIS_URL go together: set both or neither")
    return Servers("named by the environment", kafka, redis, NamedServer(), NamedServer()) if kafka else None


def started_in(directory: Path) -> list[Servers]:
    """What an earlier `find` may have started in `directory`, by either way; stopping what does not run is harmless."""
    ports = Ports.remembered(directory, 0, 0)
    found = [processes.servers(directory, ports)]
    if containers.engine_runs():
        found.append(containers.servers(ports))
    return found
