"""The frame around the code: packaging, locked versions, make, the compose file, and the way to real servers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.installed import needed_by
from servers.broker import servers as broker
from servers.broker import ways
from servers.broker.servers import NoServers, Ports, Servers, address_of, kafka_answers, redis_answers, settings
from streamer.kafka.registry import BASIC_AUTH, BASIC_AUTH_FILE, CA, URL
from worlds.checkout import ROOT

WITH = [sys.executable, str(ROOT / "tests" / "servers" / "broker" / "with")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = ROOT / "Dockerfile"
SCREEN_LINES = 60
LOCKS = ("base", "worker", "demo", "dev", "mutants")
NOT_LOCKED = "spark"
"""The extra that a cluster brings along: 450 MB, which no machine of the tests installs by itself."""
BUILDS = {"setuptools"}
"""What is locked because it builds the project."""


def requirements() -> list[Requirement]:
    """What the base and every locked extra ask of others; an extra may be made of our own ones."""
    extras = (asked for name, asked in PROJECT["optional-dependencies"].items() if name != NOT_LOCKED)
    asked = [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]
    return [each for each in map(Requirement, asked) if each.name != PROJECT["name"]]


def locked() -> dict[str, tuple[str, int]]:
    """Version and number of hashes of all that is installed, by canonical name; a name stands in one file only."""
    texts = "".join((ROOT / "requirements" / f"{name}.txt").read_text() for name in LOCKS)
    entries = re.findall(r"^(\S+)==(\S+)((?:.*\\\n)+.*)", texts, re.M)
    assert len(entries) == len({name for name, _, _ in entries}) == len(re.findall("^[^-# ].*$", texts, re.M))
    return {canonicalize_name(name): (version, rest.count("--hash=sha256:")) for name, version, rest in entries}


def closure() -> set[str]:
    """Everything our requirements pull into this environment, by canonical name."""
    return needed_by(*map(str, requirements()))


def test_the_locked_versions_lie_in_the_ranges_we_ask_for() -> None:
    pins = locked()
    wrong = [str(one) for one in requirements() if not one.specifier.contains(pins[canonicalize_name(one.name)][0])]
    assert wrong == []


def test_everything_that_our_ranges_pull_in_is_locked_by_hashes_and_nothing_else() -> None:
    pins = locked()
    assert [name for name, (_, hashes) in pins.items() if not hashes] == []
    assert closure() - set(pins) == set()
    assert {name for name in pins if is_installed(name)} - closure() == BUILDS


def test_nothing_is_installed_without_hashes_but_ourselves() -> None:
    recipes = [ROOT / ".ci" / "venv", ROOT / "Makefile", DOCKERFILE]
    calls = [call for one in recipes for call in re.findall(r"\b(?:install|by_pip) --.*[^}\n]$", one.read_text(), re.M)]
    ours = [call for call in calls if "--no-deps --no-build-isolation" in call]
    others = [call for call in calls if "--require-hashes" not in call and call not in ours]
    assert len(ours) == 2
    assert others == []


def is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def make(*words: str) -> list[str]:
    """Output of make, as if called by hand: a make around the tests would hand down its own flags."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    return done.stdout.splitlines()


def test_make_alone_lists_every_target() -> None:
    targets = {line.split()[1] for line in make()}
    assert targets == {*re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)}


@pytest.mark.parametrize(("flag", "beside_servers"), [("REAL=", False), ("REAL=1", True)])
def test_the_demo_runs_beside_real_servers_only_when_asked(flag: str, beside_servers: bool) -> None:
    last = make("-n", "demo", flag)[-1]
    assert ("tests/servers/broker/with" in last and "--real" in last) is beside_servers
    assert ".venv/bin/streamer demo" in last


def test_compose_starts_two_servers_and_two_programs_of_ours() -> None:
    assert {name for name, one in SERVICES.items() if "profiles" not in one} == {"kafka", "redis", "topics", "worker"}
    assert SERVICES["topics"]["command"] == ["streamer", "topics", "create", "--table", "/table/table.yaml"]
    pages = ["--web", "0.0.0.0:8080"]  # of the container; the host shows them to itself alone
    assert SERVICES["worker"]["command"] == ["streamer", "worker", "--table", "/table/table.yaml", *pages]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["worker"]["ports"])


def test_the_worker_waits_for_healthy_servers_and_for_its_topics() -> None:
    waits = {name: each["condition"] for name, each in SERVICES["worker"]["depends_on"].items()}
    assert waits == {
        "kafka": "service_healthy",
        "redis": "service_healthy",
        "topics": "service_completed_successfully",
    }
    assert SERVICES["topics"]["depends_on"]["kafka"]["condition"] == "service_healthy"
    assert SERVICES["worker"]["restart"] == "unless-stopped"
    assert "healthcheck" in SERVICES["kafka"] and "healthcheck" in SERVICES["redis"]


def test_programs_in_compose_hear_of_a_schema_registry() -> None:
    for name in ("topics", "worker"):
        given = SERVICES[name]["environment"]
        for variable in (URL, BASIC_AUTH, BASIC_AUTH_FILE, CA):
            assert given[variable] == f"${{{variable}:-}}"


def test_redis_in_compose_loses_and_evicts_nothing() -> None:
    words = SERVICES["redis"]["command"]
    flags = dict(zip(words[1::2], words[2::2], strict=True))
    assert flags == {"--appendonly": "yes", "--appendfsync": "always", "--maxmemory-policy": "noeviction"}
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]


def test_kafka_in_compose_is_reached_by_the_worker_and_from_the_host() -> None:
    kafka = SERVICES["kafka"]["environment"]
    advertised = dict(each.split("://") for each in kafka["KAFKA_ADVERTISED_LISTENERS"].split(","))
    assert SERVICES["worker"]["environment"]["KAFKA_BOOTSTRAP"] == advertised["INTERNAL"] == "kafka:29092"
    assert advertised["HOST"] == "localhost:9092"
    assert SERVICES["kafka"]["ports"] == ["127.0.0.1:9092:9092"]


def test_the_image_is_built_from_files_that_exist_with_the_pinned_versions() -> None:
    recipe = DOCKERFILE.read_text()
    calls = [line.split() for line in recipe.splitlines() if line.startswith("COPY") and "--from" not in line]
    copied = {word for call in calls for word in call[1:-1]}
    assert [name for name in copied if not (ROOT / name).exists()] == []
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {name.partition("/")[0] for name in sent} == {name.partition("/")[0] for name in copied}, (
        "what the build is sent is what it copies"
    )
    assert all((ROOT / name).exists() for name in sent)
    assert "pip install --no-cache-dir --require-hashes -r requirements/worker.txt" in recipe
    assert needed_by("streamer[stream,avro]") - {"streamer"} <= {
        canonicalize_name(name)
        for lock in ("base", "worker")
        for name in re.findall(r"^(\S+)==", (ROOT / "requirements" / f"{lock}.txt").read_text(), re.M)
    }


def test_the_image_runs_as_nobody_and_has_no_tools_of_the_build() -> None:
    build, worker = re.split(r"^FROM ", DOCKERFILE.read_text(), flags=re.M)[1:]
    assert "pip install" in build and "pip install" not in worker and "COPY --from=build" in worker
    assert "USER 65534:65534" in worker and "RUN" not in worker
    for name in ("topics", "worker"):
        assert (SERVICES[name]["build"], SERVICES[name]["read_only"]) == (".", True)
        assert (SERVICES[name]["cap_drop"], SERVICES[name]["tmpfs"]) == (["ALL"], ["/tmp"])


def test_a_linter_finds_nothing_in_the_image_s_recipe() -> None:
    checked = subprocess.run([Path(sys.executable).with_name("hadolint"), DOCKERFILE], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_the_changelog_begins_with_this_version_and_gives_each_a_screen() -> None:
    _, *versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert versions[0].startswith(f"[{PROJECT['version']}] - ")
    numbers = [tuple(map(int, re.findall(r"\d+", version.partition("]")[0]))) for version in versions]
    assert numbers == sorted(numbers, reverse=True)
    assert max(version.count("\n") for version in versions) <= SCREEN_LINES


def test_compose_accepts_the_file_where_it_is_installed() -> None:
    command = ["docker", "compose"]
    if shutil.which("docker") is None or subprocess.run([*command, "version"], capture_output=True).returncode != 0:
        pytest.skip("docker compose is not installed: the file was checked as YAML only")
    checked = subprocess.run([*command, "config", "-q"], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert checked.returncode == 0, checked.stderr


def test_named_servers_are_used_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "a.example:9092")
    monkeypatch.setenv("REDIS_URL", "redis://b.example:6379/1")
    servers = ways.find(tmp_path)
    assert servers.environment() == {"KAFKA_BOOTSTRAP": "a.example:9092", "REDIS_URL": "redis://b.example:6379/1"}
    with pytest.raises(NoServers, match="servers of its own"):
        servers.kill_kafka()


def test_one_named_server_without_the_other_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "a.example:9092")
    monkeypatch.delenv("REDIS_URL", raising=False)
    with pytest.raises(NoServers, match="both or neither"):
        ways.find(tmp_path)


def test_without_any_way_the_sentence_says_what_to_install(tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run([*WITH, "true"], env=bare, capture_output=True, text=True, timeout=240)
    assert done.returncode == 3
    assert "install default-jre-headless maven redis-server" in done.stderr


def test_the_same_folder_means_the_same_ports(tmp_path: Path) -> None:
    first, again = Ports.remembered(tmp_path, 0, 0), Ports.remembered(tmp_path, 1, 2)
    assert vars(first) == vars(again)


def test_the_broker_gets_its_ports_and_creates_no_topic_by_itself(tmp_path: Path) -> None:
    found = settings(Ports(kafka=11, controller=12, redis=13), "0.0.0.0", "/data")
    assert found["listeners"] == "PLAINTEXT://0.0.0.0:11,CONTROLLER://127.0.0.1:12"
    assert found["advertised.listeners"] == "PLAINTEXT://127.0.0.1:11"
    assert found["auto.create.topics.enable"] == "false"
    assert not [value for value in found.values() if "@" in value.replace("1@127.0.0.1", "")]


def test_a_port_that_is_open_but_silent_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "PROBE_SECONDS_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = silent.getsockname()
        assert not kafka_answers(*address)
        assert not redis_answers(*address)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("one:9093,two:9094", ("one", 9093)),
        ("one", ("one", 9092)),
        ("redis://:secret@two:6380/1", ("two", 6380)),
        ("redis://two", ("two", 6379)),
    ],
)
def test_addresses_are_read_as_kafka_and_redis_write_them(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address


def test_a_killed_server_comes_back_with_its_data(servers: Servers) -> None:
    import redis

    redis.Redis.from_url(servers.redis_url).set("frame:kept", "yes")
    servers.kill_redis()
    assert not redis_answers(*address_of(servers.redis_url))
    servers.start_redis()
    assert redis.Redis.from_url(servers.redis_url).getdel("frame:kept") == b"yes"


def test_a_frozen_server_is_silent_until_thawed(servers: Servers) -> None:
    address = address_of(servers.redis_url)
    servers.freeze_redis()
    assert not redis_answers(*address)
    servers.thaw_redis()
    assert redis_answers(*address)


def test_a_command_beside_servers_is_ended_with_them(servers: Servers) -> None:
    """SIGTERM to `with` ends its command too; the exit code says which signal it was."""
    command = [*WITH, "sh", "-c", "echo started; exec sleep 60"]
    with subprocess.Popen(command, env=os.environ | servers.environment(), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stdout.readline() == b"started\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(120) == 128 + signal.SIGTERM
        assert running.stdout.read() == b""  # the end of the pipe: the command has gone


def test_the_exit_code_beside_servers_is_the_command_s(servers: Servers) -> None:
    command = [*WITH, sys.executable, "-c", "import os; raise SystemExit(7 if os.environ['REDIS_URL'] else 0)"]
    assert subprocess.run(command, env=os.environ | servers.environment(), timeout=240).returncode == 7
