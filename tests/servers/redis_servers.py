"""Redis in other shapes than one server: replicas under sentinels, and a cluster, as processes of this machine.

They are started empty for one test, can be killed and frozen one by one, and are gone with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from servers.broker.processes import Process
from servers.broker.servers import free_ports, redis_flags

SERVICE = "streamer"
NODE_TIMEOUT_MS = 1_500
"""After how long a node or a master that does not answer is taken for dead."""

MASTERS, REPLICAS, SENTINELS = 3, 2, 3
SLOTS = 16_384
UP_SECONDS_MAX = 120.0


class Fleet:
    """Some servers; url: how the store names them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.servers: list[Process] = []

    def start(self) -> None:
        """Starts all of them, and waits until they know each other."""
        raise NotImplementedError

    def _add(self, servers: Sequence[Process]) -> None:
        for server in servers:
            self.servers.append(server)
            server.start()
        for server in servers:
            wait_until(partial(self._answers, server.port), f"no Redis on port {server.port}")

    def _answers(self, port: int) -> bool:
        return bool(_ask(port, "PING") == b"PONG")

    def end(self) -> None:
        """Kills all of them: nothing of them is kept."""
        for server in self.servers:
            server.thaw()
            server.kill()

    def bring_back(self) -> None:
        """Thaws and starts again what was frozen or killed, and waits until all are one fleet once more."""
        for server in self.servers:
            server.thaw()
            server.start()
        wait_until(self._whole, "the fleet is not whole again")

    def _whole(self) -> bool:
        raise NotImplementedError

    def server_on(self, port: int) -> Process:
        (found,) = (server for server in self.servers if server.port == port)
        return found


class Sentinels(Fleet):
    """One master with two replicas, and three sentinels that agree by two."""

    def __init__(self, directory: Path) -> None:
        ports = free_ports(1 + REPLICAS + SENTINELS)
        self._directory = directory
        self._ports, self.sentinel_ports = ports[: 1 + REPLICAS], ports[1 + REPLICAS :]
        super().__init__(f"redis+sentinel://{_hosts(self.sentinel_ports)}/{SERVICE}")

    def start(self) -> None:
        master = self._ports[0]
        self._add([_server(self._directory, port, master) for port in self._ports])
        wait_until(lambda: all(map(_linked, self._ports[1:])), "the replicas do not find their master")
        self._add([_sentinel(self._directory, port, master) for port in self.sentinel_ports])
        wait_until(self._whole, "the sentinels do not know each other")

    def master(self) -> int:
        """The port of the master, as the sentinels say that answer."""
        for port in self.sentinel_ports:
            told = _ask(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
            if told:
                return int(told[1])
        raise AssertionError("no sentinel answers")

    def fail_over(self, fault: Callable[[Process], None]) -> int:
        """Does something to the master, and returns when another one is in its place: its port before."""
        before = self.master()
        fault(self.server_on(before))
        wait_until(lambda: self.master() != before and _role(self.master()) == "master", "no replica was promoted")
        return before

    def _whole(self) -> bool:
        for port in self.sentinel_ports:
            known = _ask(port, "SENTINEL", "MASTER", SERVICE) or []
            told = dict(zip(known[::2], known[1::2], strict=True))
            others = told.get(b"num-slaves"), told.get(b"num-other-sentinels")
            if others != (b"%d" % REPLICAS, b"%d" % (SENTINELS - 1)):
                return False
        return sum(map(_linked, self._ports)) == REPLICAS


class Cluster(Fleet):
    """Three masters with a third of the slots each, and a replica of each."""

    def __init__(self, directory: Path) -> None:
        ports = free_ports(4 * MASTERS)
        self._directory = directory
        self._ports, self._buses = ports[: 2 * MASTERS], ports[2 * MASTERS :]
        super().__init__(f"redis+cluster://{_hosts(self._ports)}")

    def start(self) -> None:
        places = zip(self._ports, self._buses, strict=True)
        self._add([_node(self._directory, port, bus) for port, bus in places])
        ids = [_ask(port, "CLUSTER", "MYID") for port in self._ports]
        for number, port in enumerate(self._ports):
            order(port, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            order(port, "CLUSTER", "MEET", "127.0.0.1", self._ports[0], self._buses[0])
        for number in range(MASTERS):
            bounds = number * SLOTS // MASTERS, (number + 1) * SLOTS // MASTERS - 1
            order(self._ports[number], "CLUSTER", "ADDSLOTSRANGE", *bounds)
        wait_until(lambda: all(len(self._view(port)) == 2 * MASTERS for port in self._ports), "the nodes do not meet")
        for number in range(MASTERS):
            order(self._ports[MASTERS + number], "CLUSTER", "REPLICATE", ids[number])
        wait_until(self._whole, "the cluster does not come up")

    def master_of(self, name: str) -> int:
        """The port of the master that has a key, as most nodes say."""
        slot = key_slot(name.encode())
        for port in self._ports:
            for first, last, master, *_ in _ask(port, "CLUSTER", "SLOTS") or ():
                if first <= slot <= last and _role(int(master[1])) == "master":
                    return int(master[1])
        return 0

    def fail_over(self, name: str, fault: Callable[[Process], None]) -> int:
        """Does something to the master of a key; returns when its replica is in its place: its port before."""
        before = self.master_of(name)
        fault(self.server_on(before))
        wait_until(lambda: self.master_of(name) not in (0, before), "no replica was promoted")
        return before

    def move_slot(self, name: str, pause: Callable[[], None] = lambda: None, at_a_time: int = 1) -> None:
        """Gives the slot of a key to another master, as resharding does: some keys at a time; pause: between them."""
        slot, source = key_slot(name.encode()), self.master_of(name)
        target = next(port for port in self._ports if _role(port) == "master" and port != source)
        ids = {port: _ask(port, "CLUSTER", "MYID").decode() for port in (source, target)}
        order(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
        order(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
        with redis.Redis(port=source, socket_timeout=10) as client:
            while keys := client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, at_a_time):
                pause()
                client.execute_command("MIGRATE", "127.0.0.1", target, "", 0, 5_000, "KEYS", *keys)
        for port in (target, source):
            order(port, "CLUSTER", "SETSLOT", slot, "NODE", ids[target])
        wait_until(lambda: self.master_of(name) == target, "the slot has not moved")

    def _view(self, port: int) -> list[bytes]:
        nodes: bytes = _ask(port, "CLUSTER", "NODES") or b""
        return [line for line in nodes.splitlines() if b"handshake" not in line]

    def _whole(self) -> bool:
        ok = all(b"cluster_state:ok" in (_ask(port, "CLUSTER", "INFO") or b"") for port in self._ports)
        views = (self._view(port) for port in self._ports)
        told = all(sum(b"slave" in line for line in view) == MASTERS for view in views)
        return ok and told and sum(map(_linked, self._ports)) == MASTERS


FleetKind = TypeVar("FleetKind", bound=Fleet)


@contextmanager
def running(fleet: FleetKind) -> Iterator[FleetKind]:
    """The fleet, up and whole; nothing of it runs on."""
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.end()


def wait_until(holds: Callable[[], Any], otherwise: str, seconds: float = UP_SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def server_of(directory: Path, name: str, port: int, settings: Iterable[str]) -> Process:
    """A redis-server with settings of its own."""
    return Process(directory, name, port, ["redis-server", *settings])


def _server(directory: Path, port: int, master: int) -> Process:
    more = ["--repl-diskless-sync-delay", "0"]
    replica = [] if port == master else ["--replicaof", f"127.0.0.1 {master}"]
    return server_of(directory, f"redis-{port}", port, [*redis_flags(port, "127.0.0.1"), *more, *replica])


def _node(directory: Path, port: int, bus: int) -> Process:
    cluster = {
        "cluster-enabled": "yes", "cluster-port": bus, "cluster-node-timeout": NODE_TIMEOUT_MS,
        "cluster-allow-replica-migration": "no", "repl-diskless-sync-delay": 0,
    }  # fmt: skip
    more = [word for name, value in cluster.items() for word in (f"--{name}", str(value))]
    return server_of(directory, f"node-{port}", port, [*redis_flags(port, "127.0.0.1"), *more])


def _sentinel(directory: Path, port: int, master: int) -> Process:
    """A sentinel writes what it learns into its own configuration."""
    file = directory / f"sentinel-{port}.conf"
    lines = [
        f"port {port}",
        "bind 127.0.0.1",
        f"sentinel monitor {SERVICE} 127.0.0.1 {master} 2",
        f"sentinel down-after-milliseconds {SERVICE} {NODE_TIMEOUT_MS}",
        f"sentinel failover-timeout {SERVICE} 6000",
    ]
    file.write_text("".join(f"{line}\n" for line in lines))
    return server_of(directory, f"sentinel-{port}", port, [str(file), "--sentinel"])


def _hosts(ports: Iterable[int]) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in ports)


def order(port: int, *command: Any) -> Any:
    """The answer of one server, which has to give one."""
    with redis.Redis(port=port, socket_timeout=10) as client:
        return client.execute_command(*command)


def _ask(port: int, *command: Any) -> Any:
    """The raw answer of one server; None from one that gives none."""
    try:
        with redis.Redis(port=port, protocol=2, socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
            client.response_callbacks.clear()
            return client.execute_command(*command)
    except redis.RedisError:
        return None


def _role(port: int) -> str:
    told = _ask(port, "ROLE")
    return told[0].decode() if told else ""


def _linked(port: int) -> bool:
    told = _ask(port, "ROLE")
    return bool(told) and len(told) > 3 and told[3] == b"connected"
