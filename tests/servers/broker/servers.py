"""A real Kafka (one node, KRaft) and a real Redis, as tests and drills hold them.

Servers of our own can be crashed, frozen and started again on the same ports with their data. Every wait has a limit.
Where they come from: `ways.py`.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

START_SECONDS_MAX = 300
STOP_SECONDS_MAX = 60
PROBE_SECONDS_MAX = 3


class NoServers(Exception):
    """No real Kafka and Redis can be had here; the message says what would help."""


class Server(Protocol):
    """One server of our own. `start` is a no-op on one that runs; data and port outlive `kill` and `stop`."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def last_words(self) -> str: ...


class Servers:
    """One Kafka and one Redis; `origin` says in words where they came from."""

    def __init__(self, origin: str, kafka_bootstrap: str, redis_url: str, kafka: Server, redis: Server) -> None:
        self.origin = origin
        self.kafka_bootstrap = kafka_bootstrap
        self.redis_url = redis_url
        self.kafka = kafka
        self._redis = redis

    def beside(self, origin: str, kafka_bootstrap: str, kafka: Server) -> Servers:
        """The same Redis with another Kafka."""
        return Servers(origin, kafka_bootstrap, self.redis_url, kafka, self._redis)

    def environment(self) -> dict[str, str]:
        """The two variables by which every other program finds these servers."""
        return {"KAFKA_BOOTSTRAP": self.kafka_bootstrap, "REDIS_URL": self.redis_url}

    def start(self) -> None:
        """Starts, thaws and awaits both; cheap when they already answer."""
        self.start_redis()
        self.start_kafka()

    def stop(self) -> None:
        """Ends both, even when ending the first one fails."""
        try:
            self.kafka.stop()
        finally:
            self._redis.stop()

    def require_own(self) -> None:
        """Raises NoServers where the servers are someone else's, whom a fault drill would harm."""
        for server in (self.kafka, self._redis):
            if isinstance(server, NamedServer):
                server.kill()

    def start_kafka(self) -> None:
        host, port = address_of(self.kafka_bootstrap)
        bring_up("Kafka", self.kafka, lambda: kafka_answers(host, port))

    def start_redis(self) -> None:
        host, port = address_of(self.redis_url)
        bring_up("Redis", self._redis, lambda: redis_answers(host, port))

    def kill_kafka(self) -> None:
        """kill -9."""
        self.kafka.kill()

    def kill_redis(self) -> None:
        """kill -9."""
        self._redis.kill()

    def freeze_kafka(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        self.kafka.freeze()

    def thaw_kafka(self) -> None:
        self.kafka.thaw()

    def freeze_redis(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        self._redis.freeze()

    def thaw_redis(self) -> None:
        self._redis.thaw()


class NamedServer:
    """A server someone else runs: used, never started, stopped or harmed."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def thaw(self) -> None: ...

    def kill(self) -> None:
        raise NoServers("a fault drill needs servers of its own: unset KAFKA_BOOTSTRAP and REDIS_URL")

    freeze = kill

    def last_words(self) -> str:
        return "it was named by the environment"


class Ports:
    """The ports of one directory: the same directory again means the same addresses."""

    def __init__(self, kafka: int, controller: int, redis: int) -> None:
        self.kafka, self.controller, self.redis = kafka, controller, redis

    @classmethod
    def remembered(cls, directory: Path, kafka_port: int, redis_port: int) -> Ports:
        file = directory / "ports"
        if not file.exists():
            free = free_ports(3)
            file.write_text(f"{kafka_port or free[0]} {free[1]} {redis_port or free[2]}\n")
        return cls(*map(int, file.read_text().split()))


def bring_up(name: str, server: Server, answers: Callable[[], bool]) -> None:
    server.thaw()
    if answers():
        return
    server.start()
    deadline = time.monotonic() + START_SECONDS_MAX
    while not answers():
        if time.monotonic() > deadline:
            raise NoServers(
                f"{name} did not answer within {START_SECONDS_MAX} s; its last words: {server.last_words()}"
            )
        time.sleep(0.1)


def settings(ports: Ports, bind: str, data: str) -> dict[str, str]:
    """The broker's settings, from kafka.properties.in: the same ones for a process and for a container."""
    text = Path(__file__).with_name("kafka.properties.in").read_text()
    places = {"BIND": bind, "PORT": ports.kafka, "CONTROLLER_PORT": ports.controller, "DATA": data}
    for name, value in places.items():
        text = text.replace(f"@{name}@", str(value))
    lines = (line.strip() for line in text.splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def redis_flags(port: int, bind: str) -> list[str]:
    """Redis as the project demands it: nothing confirmed is lost, nothing is evicted."""
    flags = {
        "port": port, "bind": bind, "protected-mode": "no", "save": "", "appendonly": "yes", "appendfsync": "always",
        "maxmemory-policy": "noeviction",
    }  # fmt: skip
    return [word for name, value in flags.items() for word in (f"--{name}", str(value))]


def free_ports(count: int) -> list[int]:
    """Loopback ports no one listens on right now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def address_of(text: str) -> tuple[str, int]:
    """Host and port of `host:port[,…]` or of a redis:// address."""
    parts = urlsplit(text if "://" in text else f"kafka://{text.split(',')[0]}")
    return parts.hostname or "127.0.0.1", parts.port or (6379 if parts.scheme.startswith("redis") else 9092)


def kafka_answers(host: str, port: int) -> bool:
    """Whether the broker answers an ApiVersions request; an open port alone says nothing (a proxy may hold it)."""
    request = struct.pack(">hhih", 18, 0, 7, -1)  # ApiVersions, version 0, correlation id 7, no client id
    answer = _ask(host, port, struct.pack(">i", len(request)) + request, 8)
    return len(answer) == 8 and answer[4:] == struct.pack(">i", 7)


def redis_answers(host: str, port: int) -> bool:
    """Whether Redis answers a PING: one that asks for a password answers too, one that still loads does not count."""
    answer = _ask(host, port, b"PING\r\n", 7)
    return answer.startswith((b"+PONG", b"-NOAUTH"))


def _ask(host: str, port: int, question: bytes, answer_bytes: int) -> bytes:
    try:
        with socket.create_connection((host, port), timeout=PROBE_SECONDS_MAX) as connection:
            connection.sendall(question)
            return connection.recv(answer_bytes, socket.MSG_WAITALL)
    except OSError:
        return b""


def say(text: str) -> None:
    """A line of progress; standard output belongs to the caller."""
    print(text, file=sys.stderr, flush=True)
