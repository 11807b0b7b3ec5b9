"""Kafka and Redis as containers of a running Docker engine: Apache's and Redis' own images, on loopback ports."""

from __future__ import annotations

import shutil
import subprocess

from servers.broker.servers import NoServers, Ports, Servers, redis_flags, say, settings

KAFKA_IMAGE = "apache/kafka:4.1.0"
REDIS_IMAGE = "redis:7"
PULL_SECONDS_MAX = 300
CALL_SECONDS_MAX = 60
DATA = "/var/lib/kafka/data"  # a volume of the image, owned by its user


def engine_runs() -> bool:
    """Whether there is a Docker engine that answers."""
    return shutil.which("docker") is not None and _docker("info").returncode == 0


def usable() -> bool:
    """Whether an engine answers and has, or can fetch, both images; says why not where an engine runs."""
    if not engine_runs():
        return False
    for image in (KAFKA_IMAGE, REDIS_IMAGE):
        if _docker("image", "inspect", image).returncode == 0:
            continue
        if _docker("pull", "-q", image, seconds_max=PULL_SECONDS_MAX).returncode != 0:
            say(f"the Docker engine cannot fetch {image}: trying Java, Maven and redis-server")
            return False
    return True


def servers(ports: Ports) -> Servers:
    """Both servers in containers named after their ports; not started yet."""
    kafka = Container("kafka", ports.kafka, [*_as_environment(settings(ports, "0.0.0.0", DATA)), KAFKA_IMAGE])
    redis = Container("redis", ports.redis, [REDIS_IMAGE, "redis-server", *redis_flags(ports.redis, "0.0.0.0")])
    bootstrap, url = f"127.0.0.1:{ports.kafka}", f"redis://127.0.0.1:{ports.redis}/0"
    return Servers(f"{KAFKA_IMAGE} and {REDIS_IMAGE} in Docker", bootstrap, url, kafka, redis)


class Container:
    """One container. It is kept over a crash, and its data with it; `stop` removes both."""

    def __init__(self, name: str, port: int, image_and_command: list[str]) -> None:
        self.name = f"streamer-test-{name}-{port}"
        self._run = ["run", "-d", "--name", self.name, "-p", f"127.0.0.1:{port}:{port}", *image_and_command]

    def start(self) -> None:
        if self._exists():
            _must("start", self.name)
        else:
            _must(*self._run)

    def stop(self) -> None:
        _docker("rm", "--force", "--volumes", self.name)

    def kill(self) -> None:
        self.thaw()
        _docker("kill", self.name)

    def freeze(self) -> None:
        _must("pause", self.name)

    def thaw(self) -> None:
        _docker("unpause", self.name)

    def last_words(self) -> str:
        shown = _docker("logs", "--tail", "5", self.name)
        return " | ".join((shown.stdout + shown.stderr).splitlines()) or "none"

    def _exists(self) -> bool:
        return _docker("container", "inspect", self.name).returncode == 0


def _as_environment(properties: dict[str, str]) -> list[str]:
    """The image reads `num.partitions` from KAFKA_NUM_PARTITIONS; ours have no dashes or underscores to escape."""
    return [word for n, v in properties.items() for word in ("-e", f"KAFKA_{n.replace('.', '_').upper()}={v}")]


def _docker(*arguments: str, seconds_max: float = CALL_SECONDS_MAX) -> subprocess.CompletedProcess[str]:
    command = ["docker", *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds_max, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no answer within {seconds_max} s")


def _must(*arguments: str) -> None:
    done = _docker(*arguments)
    if done.returncode != 0:
        raise NoServers(f"docker {arguments[0]} failed: {done.stderr.strip()}")
