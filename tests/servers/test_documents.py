"""Every command that a document or a help text shows, run on a real Kafka and Redis in the order of a table's life.

What a text shows is what is run; put in are only the addresses of the servers, the port of the page and the name of the
table (PUT_IN). Where no real part stands behind a command, something stands in for it (STAND_INS). What cannot run here
is named with its reason (NOT_HERE), what is refused in this state with its sentence (OTHERWISE).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd
import pytest

from docs.generate.commands import all_commands
from servers.broker import processes
from servers.broker.servers import Servers, free_ports
from streamer.cli.support.signals import INTERRUPTED
from worlds.checkout import PATIENTS, ROOT
from worlds.documents import Shown, block_for, shown
from worlds.kafka_and_redis import fresh_name
from worlds.quick_streamer import quick_streamer
from worlds.workers import ENDS_SECONDS_MAX, wait_until

COMMAND_SECONDS_MAX = 240

NOT_HERE = {
    "docker": "there is no Docker in the tests; tests/servers/pipeline/test_example.py runs what it is made of",
    "pip install .": "tests/house/test_wheel.py installs the wheel into an empty environment",
    "examples/messy/ten-minutes.sh": "tests/servers/test_newcomer.py runs it on three tables",
    "examples/pipeline/show.sh": "tests/servers/pipeline/test_example.py runs it on a real Postgres and Connect",
    "kafka-(?:topics|consumer-groups)": "the tests' Kafka has no scripts; tests/servers/test_recreated_topics.py adds "
    "partitions, and tests/servers/test_group.py puts a stranger into a group",
    "streamer demo": "tests/servers/test_demo.py runs it, also on real servers",
    "streamer init 'postgresql": "tests/servers/pipeline/test_rows_of_databases.py reads a real Postgres",
}
"""What a command that does not run here begins with, and why."""

OTHERWISE: dict[str, tuple[int, str]] = {
    "streamer topics create --table mine --shards 4 --replicas 3": (2, "Kafka has fewer brokers than that"),
    "streamer topics create --table mine --shards 8": (2, "have 4 partitions, and the number cannot be changed"),
    "streamer topics create --table mine --compact-changes": (2, "no existing topic was changed"),
    "streamer skip --table mine --shard 0 --offset 1234": (2, "--offset 1234: shard 0 of"),
    "streamer load rows.csv --table mine": (2, "`load` fills empty tables only"),
    "streamer load people.parquet --table mine --shards 0-15": (2, "there is no shard 15"),
    "streamer erase --table mine -": (2, "name either rows by their KEYs"),  # of no keys on standard input
    "streamer erase --table mine --individual 4711 --count --json": (2, "names no column of individuals"),
    "streamer init rows.csv -o mine --ask": (2, "it needs a terminal"),
    "streamer erase --individual": (2, "Option '--individual' requires an argument"),
    "streamer doctor --table mine --connect connect:8083": (1, "Kafka Connect at http://connect:8083 does not answer"),
    "streamer reload --table mine --from-source now.csv --from-offset earliest": (2, "with `--from-offset stored`"),
    "streamer reload --from-source": (2, "Option '--from-source' requires an argument"),
    "streamer end-snapshot --table mine": (2, "no shard holds back rows of a snapshot"),
    "streamer end-snapshot --table mine --shard 2": (2, "shard 2 does not hold back rows of a snapshot"),
}
"""Commands that a table in this state refuses: exit code and what is said."""

STAND_INS = {
    "psql": "cat >sql.$$ && test -s sql.$$",
    "curl": "cat >config.$$ && test -s config.$$",
    "make": f'exec /usr/bin/make -n -C "{ROOT}" "$@"',
}
"""A database and a Kafka Connect that take what they are given; a make that says what it would do."""

WHO_GOES = '{"op": "insert", "row": {"id": 71, "age": 34, "zip": 12400, "bmi": 22.5, "sex": "Male", "problem": "flu"}}'
"""The person of whom texts speak."""

LIVE_ALONE = "  live: {form: rows}"

A_GROUP = "0-17"
"""A QI group as texts name it; put in is one that the table has at that moment."""

ENDLESS = re.compile(r"streamer worker|--follow")

BEFORE_ANY_WORKER = (
    "export",
    "topics create --table mine --shards 4",
    "topics",
    "load mine/rows.csv",
    "load",
    "worker",
)
BEFORE_ANY_CHANGE = ("subscribe", "index", "replay", "verify")
WITH_THE_PERSON = ("explain",)
IN_THE_END = ("dead-letters", "produce --truncate")
WITHOUT_WORKERS = ("reload",)
WITHOUT_A_TABLE = ("init",)
"""How calls begin that belong to a certain time of a table's life, in its order. All others come after the changes."""


def examples_of_help() -> Iterator[Shown]:
    for name, command in all_commands():
        for line in (command.epilog or "").partition("Examples:\n")[2].splitlines():
            yield Shown(f"streamer {name} --help", line.strip())


def every_command() -> list[Shown]:
    """What the documents and the help show, each once."""
    found: dict[str, Shown] = {}
    for one in (*shown(), *examples_of_help()):
        found.setdefault(one.text, one)
    return list(found.values())


def reason_not_to_run(one: Shown) -> str | None:
    return next((reason for begin, reason in NOT_HERE.items() if re.search(rf"(?:^|= ?|\s){begin}", one.text)), None)


def taken_out(commands: list[Shown], begins: tuple[str, ...]) -> list[Shown]:
    """Takes those calls that begin so out of a list, in the order of the beginnings."""
    taken = [
        one
        for begin in begins
        for one in commands
        if re.match(rf"(?:.*\| )?(?:streamer )?{re.escape(begin)}(?:\s|$)", one.text)
    ]
    taken = list(dict.fromkeys(taken))
    commands[:] = [one for one in commands if one not in taken]
    return taken


class Life:
    """A table's folder, its servers and a shell in which `streamer` is this one."""

    def __init__(self, servers: Servers, folder: Path, binaries: Path) -> None:
        self.folder = folder
        self.name = fresh_name()
        (port,) = free_ports(1)
        self.put_in = {
            "127.0.0.1:9092": servers.kafka_bootstrap,
            "redis://127.0.0.1:6379/0": servers.redis_url,
            "--web 8080": f"--web {port}",
            "FROM patients": f"FROM {self.name}",
        }
        path = f"{binaries}:{os.environ['PATH']}"
        self.environment = {**os.environ, **servers.environment(), "STREAMER_TABLE": "mine", "PATH": path}
        self.failures: list[str] = []
        self._numbers = count()
        shutil.copytree(ROOT / "examples", folder / "examples")
        shutil.copytree(PATIENTS, folder / "mine")
        table = folder / "mine" / "table.yaml"
        text = table.read_text("utf-8").replace("table: patients", f"table: {self.name}")
        both = f"{LIVE_ALONE}\n  sealed: {{epoch: 20 events, alpha: 0.67}}"
        assert text.count(LIVE_ALONE) == 1
        table.write_text(text.replace(LIVE_ALONE, both), "utf-8")
        shutil.copy(PATIENTS / "rows.csv", folder / "now.csv")
        rows = pd.read_csv(PATIENTS / "rows.csv")
        icd10 = [("J45.0", "J45.9", "I10.1")[i % 3] for i in range(len(rows))]
        rows.assign(icd10=icd10, pain="mild").to_csv(folder / "rows.csv", index=False)
        (folder / "values.txt").write_text("4711\n4712\n", "utf-8")
        pd.read_csv(PATIENTS / "rows.csv").to_parquet(folder / "source.parquet", index=False)
        shutil.copy(PATIENTS / "events.jsonl", folder)

    def text_of(self, one: Shown) -> str:
        """The command with what is put in."""
        text = self.put_into(one.text)
        if A_GROUP in text:
            text = text.replace(A_GROUP, self.json_of("streamer groups --json")["shown"][0]["qi_group"])
        return text

    def put_into(self, text: str) -> str:
        """A text with the addresses, the port and the name that are put in."""
        for said, real in self.put_in.items():
            text = text.replace(said, real)
        return text

    def said_by(self, call: str) -> str:
        """What a call says, which must succeed."""
        with ended(self.begin(self.put_into(call))) as running:
            assert running.process.wait(COMMAND_SECONDS_MAX) == 0, running.said()
        return running.said()

    def begin(self, text: str) -> Running:
        output = self.folder / f"output-{next(self._numbers)}.txt"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        return Running(process, output)

    def run(self, one: Shown) -> None:
        """Runs a command to its end; what has none is ended by Ctrl-C, once it does what it is there for."""
        began = monotonic()
        for written in re.findall(r"(?:-o|--out|--live|--report) (\S+\.(?:jsonl|csv|html))", one.text):
            (self.folder / written).unlink(missing_ok=True)  # another page's command may have written it
        for written in re.findall(r"replay .*--out (\w+)$", one.text):
            shutil.rmtree(self.folder / written, ignore_errors=True)
        with ended(self.begin(self.text_of(one))) as running:
            if ENDLESS.search(one.text):
                wait_until(lambda: self.does_its_work(one, running), 40, lambda: f"{one}: {running.said()}")
                running.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                running.process.wait(COMMAND_SECONDS_MAX)
        code, sentence = OTHERWISE.get(one.text, (INTERRUPTED if "--follow" in one.text else 0, ""))
        found = running.process.returncode
        print(f"{monotonic() - began:6.1f} s  {found}  {one}")
        if found != code or sentence not in running.said():
            self.failures.append(f"{one}\n  ends with {found}, wanted {code} {sentence!r}:\n{running.said()}")

    def does_its_work(self, one: Shown, running: Running) -> bool:
        """Whether a command without an end has shards, has written its copy, or has printed something."""
        copy = re.search(r"--(?:csv|duckdb|parquet) (\S+)", one.text)
        if running.process.poll() is not None:
            return True
        if copy:
            return (self.folder / copy[1]).exists()
        return ("taken over" if " worker " in one.text else "\n") in running.said()

    def lag(self) -> int:
        return sum(shard["lag"] for shard in self.json_of("streamer status --json")["shards"])

    def json_of(self, call: str) -> Any:
        with ended(self.begin(call)) as running:
            assert running.process.wait(COMMAND_SECONDS_MAX) in (0, 1), running.said()
        return json.loads(running.said())


@dataclass(frozen=True)
class Running:
    """A call in a shell, and the file that has what it says."""

    process: subprocess.Popen[bytes]
    output: Path

    def said(self) -> str:
        return self.output.read_text("utf-8")


@contextmanager
def ended(running: Running) -> Iterator[Running]:
    """A process that does not outlive the context."""
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                running.process.wait(ENDS_SECONDS_MAX)
            running.process.kill()


@pytest.fixture
def life(servers: Servers, tmp_path: Path) -> Iterator[Life]:
    folder = tmp_path / "life"
    folder.mkdir()
    with quick_streamer(tmp_path / "bin") as binaries:
        for name, does in STAND_INS.items():
            (binaries / name).write_text(f"#!/bin/sh\n{does}\n", "utf-8")
            (binaries / name).chmod(0o755)
        yield Life(servers, folder, binaries)


@pytest.mark.slow
@pytest.mark.timeout(3 * COMMAND_SECONDS_MAX)
def test_every_command_that_a_text_shows_runs(life: Life) -> None:
    commands = [one for one in every_command() if reason_not_to_run(one) is None]
    without_workers, without_a_table = taken_out(commands, WITHOUT_WORKERS), taken_out(commands, WITHOUT_A_TABLE)
    in_the_end = taken_out(commands, IN_THE_END)
    for one in taken_out(commands, BEFORE_ANY_WORKER):
        life.run(one)
    with ended(life.begin("exec streamer worker --log-level error")):
        wait_until(lambda: life.json_of("streamer status --json")["ok"], 40, lambda: "the worker does not begin")
        for one in taken_out(commands, BEFORE_ANY_CHANGE):
            life.run(one)
        life.run(Shown("before them", f"echo '{WHO_GOES}' | streamer produce -"))
        wait_until(lambda: life.lag() == 0, 40, lambda: "what was sent is not read")
        for one in (*taken_out(commands, WITH_THE_PERSON), *commands, *in_the_end):
            life.run(one)
    for one in without_workers:
        life.run(one)
    (life.folder / "mine").rename(life.folder / "before")
    for one in without_a_table:
        life.run(one)
    assert not life.failures, "\n\n".join(life.failures)


# -- blocks that need a table of their own -----------------------------------------------------------------------------


def run_block(life: Life, document: str, has: str, *before: str) -> str:
    """Runs a block as it is printed after some calls; returns all that is said."""
    said = ""
    for call in (*before, *block_for(__file__, document, has).splitlines()):
        said += life.said_by(call)
    return said


@pytest.mark.slow
def test_an_input_is_compacted_as_the_page_says(life: Life) -> None:
    said = run_block(life, "docs/operations.md", "--compact-changes")
    assert f"{life.name}.changes" in said


@pytest.mark.slow
def test_several_hosts_load_a_table_as_the_page_says(life: Life) -> None:
    rows = pd.read_csv(PATIENTS / "rows.csv")
    many = pd.concat([rows.assign(id=rows["id"] + 1000 * i) for i in range(40)])
    many.to_parquet(life.folder / "people.parquet", index=False)
    run_block(life, "docs/how-to/big-tables.md", "--prepare", "streamer topics create --table mine --shards 32")
    found = life.json_of("streamer status --table mine --json")["shards"]
    assert (len(found), sum(shard["rows"] for shard in found)) == (32, len(many))


@pytest.mark.slow
def test_a_topic_is_compressed_as_the_page_says(life: Life, tmp_path: Path) -> None:
    script = f'#!/bin/sh\nexec java -Xmx256m -cp "{processes.CLASSES}" kafka.admin.ConfigCommand "$@"\n'
    (tmp_path / "bin" / "kafka-configs").write_text(script)
    (tmp_path / "bin" / "kafka-configs").chmod(0o755)
    life.put_in |= {"kafka:9092": life.put_in["127.0.0.1:9092"], "mine.live": f"{life.name}.live"}
    said = run_block(life, "docs/how-to/sizing.md", "zstd", "streamer topics create --table mine --shards 1")
    assert "Completed updating config for topic" in said


@pytest.mark.slow
def test_the_sealed_table_is_read_in_python_as_the_page_says(life: Life) -> None:
    for call in ("topics create --table mine --shards 1", "load mine/rows.csv --table mine"):
        life.said_by(f"streamer {call}")
    (life.folder / "read.py").write_text(life.put_into(block_for(__file__, "docs/how-to/sealed.md")), "utf-8")
    said = life.said_by(f'cd mine && PYTHONPATH="{ROOT}" "{sys.executable}" ../read.py')
    assert f"[{len(pd.read_csv(PATIENTS / 'rows.csv'))} rows" in said


def test_few_commands_are_not_run_and_each_for_a_reason_that_is_still_one() -> None:
    reasons = [reason_not_to_run(one) for one in every_command()]
    assert len(NOT_HERE) <= 7
    assert set(NOT_HERE.values()) == set(reasons) - {None}, "a reason that no command needs any more"
    assert sum(reason is not None for reason in reasons) <= 13
    named = {name for reason in NOT_HERE.values() for name in re.findall(r"[\w/]+\.py", reason)}
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_what_is_refused_in_this_state_is_still_shown() -> None:
    assert set(OTHERWISE) <= {one.text for one in every_command()}


def test_enough_commands_are_found_for_this_to_mean_something() -> None:
    assert len(every_command()) >= 80
