"""Kafka Connect with Debezium's plugins, as one process, and what is asked of it over REST.

It is a distributed worker with the settings of examples/pipeline: connectors, offsets and states stand in topics of the
broker, so a kill -9 loses none of them.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servers.broker.processes import COPY, JARS, PROGRAMS, SHORT_LIVED, UNPACK, Process, fetch, install, is_present
from servers.broker.servers import free_ports
from worlds.checkout import ROOT
from worlds.kafka_and_redis import fresh_name

HERE = Path(__file__).parent
EXAMPLE = ROOT / "examples" / "pipeline"
CLASSES = JARS.parent / "connect-4.2.1"
"""Connect's jars, and those of Kafka's console tools."""

PLUGINS = JARS.parent / "debezium-3.3.1"
ANSWER_SECONDS_MAX = 30.0
LOGGING = HERE.parent / "broker" / "log4j2.xml"

# A worker that was killed comes back at once and is the only one; what it has read is known soon.
QUICK = {
    "scheduled.rebalance.max.delay.ms": "0",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "2000",
    "offset.flush.interval.ms": "1000",
}


CLIENTS = ("", "producer.", "consumer.", "admin.")
"""Before the names of settings: of Connect itself, of its sources, of its sinks, and of those who make topics."""


class ConnectRefused(Exception):
    """Connect said no; the message is its own."""


class Connect(Process):
    """One Connect worker on a broker; group and topics of its own.

    environment: what connectors may refer to. client: settings of all its Kafka clients, as a secured broker asks for.
    plugins: folders of plugins beside PLUGINS.
    """

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        environment: Mapping[str, str],
        client: Mapping[str, str],
        plugins: Sequence[Path] = (),
    ) -> None:
        (port,) = free_ports(1)
        self._properties = directory / "connect.properties"
        name = f"connect-{fresh_name()}"
        topics = {f"{kind}.storage.topic": f"{name}-{kind}s" for kind in ("config", "offset", "status")}
        own = {"bootstrap.servers": bootstrap, "group.id": name, "listeners": f"http://127.0.0.1:{port}"}
        clients = {f"{whose}{name}": value for whose in CLIENTS for name, value in client.items()}
        path = ",".join(map(str, (PLUGINS, *plugins)))
        self._settings = {**example_settings(), **QUICK, **topics, **own, "plugin.path": path, **clients}
        memory = ["-Xms256m", "-Xmx512m", *SHORT_LIVED]
        java = ["java", *memory, f"-Dlog4j2.configurationFile={LOGGING}", "-cp", f"{CLASSES}/*"]
        main = ["org.apache.kafka.connect.cli.ConnectDistributed", str(self._properties)]
        told = [f"{variable}={value}" for variable, value in environment.items()]
        super().__init__(directory, "connect", port, ["env", *told, *java, *main])

    def start(self) -> None:
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        super().start()

    def answers(self) -> bool:
        """Whether it takes connectors: its REST interface is there before it has read its topics."""
        try:
            self._ask("GET", "/connectors")
        except (OSError, ConnectRefused):
            return False
        return True

    def put(self, name: str, configuration: Mapping[str, str]) -> None:
        """Makes a connector, or gives one another configuration. Raises ConnectRefused."""
        self._ask_patiently("PUT", f"/connectors/{name}/config", configuration)

    def delete(self, name: str) -> None:
        self._ask_patiently("DELETE", f"/connectors/{name}")

    def faults(self) -> dict[str, str]:
        """What Connect says of each connector and task that failed, its first line."""
        try:
            said = self._ask("GET", "/connectors?expand=status")
        except (OSError, ConnectRefused) as error:
            return {"connect": type(error).__name__}
        states = {name: [one["status"]["connector"], *one["status"]["tasks"]] for name, one in said.items()}
        failed = [(name, state) for name, parts in states.items() for state in parts if state["state"] == "FAILED"]
        return {name: _cause(state.get("trace", "")) for name, state in failed}

    def runs(self, name: str) -> bool:
        """Whether a connector and a task of it run."""
        try:
            said = self._ask("GET", f"/connectors/{name}/status")
        except (OSError, ConnectRefused):
            return False
        states = [said["connector"], *said["tasks"]]
        return len(states) > 1 and all(state["state"] == "RUNNING" for state in states)

    def follows_log(self, name: str) -> bool:
        """Whether a connector has read all tables, and would go on from there after a kill."""
        try:
            kept = [one["offset"] for one in self._ask("GET", f"/connectors/{name}/offsets")["offsets"]]
        except (OSError, ConnectRefused):
            return False
        return bool(kept) and not any("snapshot" in offset for offset in kept)

    def restart_failed(self) -> None:
        """What an operator, or what watches Connect for one, does: Connect leaves alone what has failed."""
        for name in self.faults():
            with contextlib.suppress(OSError, ConnectRefused):  # it is at it already
                self._ask("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _ask_patiently(self, method: str, path: str, body: Mapping[str, str] | None = None) -> None:
        """Again while it finds its place in its group, for which it says 409 or nothing."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            try:
                self._ask(method, path, body)
                return
            except (OSError, ConnectRefused):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        asked.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(asked, timeout=ANSWER_SECONDS_MAX) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refused:
            said = refused.read().decode(errors="replace")
            raise ConnectRefused(f"{method} {path}: {refused.code} {said}") from None


def example_settings() -> dict[str, str]:
    """Those of the example's Connect."""
    lines = (EXAMPLE / "connect.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def provide() -> None:
    """Sees that Java and the jars are there; raises NoServers where they cannot be had."""
    missing = [PROGRAMS[program] for program in ("java", "mvn") if not is_present(program)]
    if missing:
        install(missing, f"a real Kafka Connect is needed: install {' '.join(missing)} (Debian's names)")
    fetch("Kafka Connect's jars", HERE / "pom.xml", CLASSES, COPY)
    fetch("Debezium's plugins", EXAMPLE / "plugins.xml", PLUGINS, UNPACK)


def _cause(trace: str) -> str:
    """The last cause that a Java stack trace names."""
    causes = [line for line in trace.splitlines() if line.startswith("Caused by:")]
    return (causes or trace.splitlines() or [""])[-1]
