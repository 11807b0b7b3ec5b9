"""Kafka and Redis as processes of this machine: Java 17 or newer, Maven (fetches Kafka's jars once), redis-server."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from servers.broker.servers import STOP_SECONDS_MAX, NoServers, Ports, Servers, redis_flags, say, settings

HERE = Path(__file__).parent
JARS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamer" / "kafka-4.1.0"
CLASSES = f"{JARS}/*"
CLUSTER_ID = "c3RyZWFtZXItdGVzdHMtMA"  # 16 bytes in base64url; which ones does not matter
JAVA_MIN = 17
PROGRAMS = {"java": "default-jre-headless", "mvn": "maven", "redis-server": "redis-server"}  # program -> Debian package
COPY, UNPACK = "dependency:copy-dependencies", "dependency:unpack"
INSTALL_SECONDS_MAX = 600
FORMAT_SECONDS_MAX = 300
SHORT_LIVED = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
"""Of a Java that runs for minutes: the compiler for long runs costs it more than it gives back."""
INSTEAD = (
    "a real Kafka and Redis are needed: start a Docker engine, or install {} (Debian's names; Java "
    f"{JAVA_MIN} or newer), or name running servers in KAFKA_BOOTSTRAP and REDIS_URL"
)


def provide() -> None:
    """Sees that the programs and the jars are there; raises NoServers where they cannot be had."""
    missing = [package for program, package in PROGRAMS.items() if not is_present(program)]
    if missing:
        install(missing, INSTEAD.format(" ".join(missing)))
    fetch("Kafka's jars", HERE / "pom.xml", JARS)


def servers(directory: Path, ports: Ports) -> Servers:
    """Both servers, with data, logs and process ids in `directory`; not started yet."""
    kafka = Kafka(directory, ports)
    redis = Process(directory, "redis", ports.redis, ["redis-server", *redis_flags(ports.redis, "127.0.0.1")])
    bootstrap, url = f"127.0.0.1:{ports.kafka}", f"redis://127.0.0.1:{ports.redis}/0"
    return Servers("Kafka 4.1.0 from its jars, Redis from redis-server", bootstrap, url, kafka, redis)


class Process:
    """One server process in a session of its own, so that a Ctrl-C at the terminal leaves it to us."""

    def __init__(self, directory: Path, name: str, port: int, command: list[str]) -> None:
        self.home = directory / name
        self.home.mkdir(exist_ok=True)
        self.port = port
        self.command = command
        self._log = directory / f"{name}.log"
        self._pid_file = directory / f"{name}.pid"
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it where nothing listens on its port; whether it answers, the caller finds out."""
        if self._listens():
            return
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                self.command, cwd=self.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._pid_file.write_text(str(self._child.pid))

    def stop(self) -> None:
        """Asks it to end, and kills it when it does not."""
        self.thaw()
        if self._signal(signal.SIGTERM) and not self._gone_within(STOP_SECONDS_MAX):
            self.kill()
        self._pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        if self._signal(signal.SIGKILL) and not self._gone_within(STOP_SECONDS_MAX):
            raise NoServers(f"port {self.port} is still held {STOP_SECONDS_MAX} s after kill -9")
        self._pid_file.unlink(missing_ok=True)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-5:] if self._log.exists() else []
        return " | ".join(lines) or "none"

    def _signal(self, number: signal.Signals) -> bool:
        """Sends to our child, or to the process an earlier command started; says whether there was one."""
        pid = self._child.pid if self._child is not None else self._remembered_pid()
        if pid is None or not self._lives():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    def _remembered_pid(self) -> int | None:
        """The process an earlier command started. In another working directory it is someone else's: left alone."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(self._pid_file.read_text())
            if Path(f"/proc/{pid}/cwd").resolve(strict=True) == self.home.resolve():
                return pid
        return None

    def _gone_within(self, seconds: float) -> bool:
        """Port and process: a broker closes its port long before it has let go of its data."""
        deadline = time.monotonic() + seconds
        while self._lives() or self._listens():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def _lives(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return self._remembered_pid() is not None  # None for a zombie too: it has no working directory any more

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Kafka(Process):
    """The broker: before it starts, its settings are written and, the first time, its data folder is formatted.

    more: settings beside those of every test broker, or in their place; to_format: more words for the formatting.
    """

    def __init__(
        self, directory: Path, ports: Ports, more: Mapping[str, str] | None = None, to_format: Sequence[str] = ()
    ) -> None:
        self._data = directory / "kafka" / "data"
        self._properties = directory / "kafka.properties"
        self._settings = settings(ports, "127.0.0.1", str(self._data)) | dict(more or {})
        self._to_format = [*to_format]
        logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}"
        memory = ["-Xms256m", "-Xmx512m"]
        command = ["java", *memory, *SHORT_LIVED, logging, "-cp", CLASSES, "kafka.Kafka", str(self._properties)]
        super().__init__(directory, "kafka", ports.kafka, command)

    def start(self) -> None:
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        if not (self._data / "meta.properties").exists():
            java = ["java", "-Xmx256m", *SHORT_LIVED, "-cp", CLASSES]
            tool = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
            run(
                "format the broker's data folder",
                [*tool, "-c", str(self._properties), *self._to_format],
                FORMAT_SECONDS_MAX,
            )
        super().start()


def is_present(program: str) -> bool:
    """Whether a program is there; Java only where it is new enough."""
    if shutil.which(program) is None:
        return False
    return program != "java" or _java_version() >= JAVA_MIN


def _java_version() -> int:
    shown = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=FORMAT_SECONDS_MAX)
    found = re.search(r'version "(\d+)', shown.stderr)
    return int(found[1]) if found else 0


def install(packages: list[str], instead: str) -> None:
    """Installs Debian packages; raises NoServers that says what to do instead where we may not."""
    wanted = " ".join(packages)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoServers(instead)
    say(f"installing {wanted} with apt-get")
    apt_get = ["apt-get", "-o", f"DPkg::Lock::Timeout={INSTALL_SECONDS_MAX}"]  # someone else may be installing
    run("apt-get update", [*apt_get, "update", "-qq"], INSTALL_SECONDS_MAX)
    command = [*apt_get, "install", "-y", "-qq", "--no-install-recommends", *packages]
    run(f"apt-get install {wanted}", command, INSTALL_SECONDS_MAX)


def fetch(what: str, pom: Path, folder: Path, goal: str = COPY) -> None:
    """What a pom names, by a goal of Maven's dependency plugin, into a folder; a no-op where that is there.

    Into a folder beside it first, renamed when complete: a broken download leaves nothing that looks whole. Maven gets
    a copy of the pom, because it notes beside a pom what it has unpacked, and does not unpack it again.
    """
    if folder.exists():
        return
    say(f"fetching {what} with Maven")
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="fetching-", dir=folder.parent))
    try:
        with tempfile.TemporaryDirectory() as building:
            copied = shutil.copy(pom, building)
            command = ["mvn", "-B", "-q", "-ntp", "-f", copied, goal, "-DincludeScope=runtime"]
            run(f"fetch {what}", [*command, f"-DoutputDirectory={fresh}"], INSTALL_SECONDS_MAX)
        with contextlib.suppress(OSError):  # someone else was faster
            fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def run(what: str, command: list[str], seconds_max: float) -> None:
    """Runs a command to its end; raises NoServers with what it said last."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds_max, stdin=subprocess.DEVNULL, env=environment
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise NoServers(f"could not {what}: {type(error).__name__}") from None
    if done.returncode != 0:
        last = " | ".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise NoServers(f"could not {what}: {last}")
