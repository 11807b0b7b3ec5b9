"""The demo: what it refuses, and the whole run, embedded and on real servers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from servers.broker.servers import Servers
from streamer.cli.batch.verify import EngineBeside
from streamer.cli.demo import command
from streamer.cli.main import main
from streamer.errors import LawViolated
from streamer.incremental.checks.changelog import ChangelogLaws
from streamer.incremental.engine.engine import Engine
from streamer.incremental.message_files import read_live
from streamer.incremental.shard.input import Message
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import CHANGES
from streamer.incremental.verification import follow
from streamer.table.yaml.loading import load_table
from worlds.checkout import ROOT
from worlds.kafka_and_redis import read
from worlds.workers import wait_until

DEMO = [sys.executable, "-m", "streamer.cli.main", "demo"]
SMALL = """
from streamer.cli.demo import command
from streamer.cli.main import main

command.PEOPLE_INITIAL, command.ARRIVALS, write = 400, 150, command.write_table

def with_short_epochs(*arguments, **named):
    path = write(*arguments, **named)
    path.write_text(path.read_text().replace("500 events", "100 events"))
    return path

command.write_table = with_short_epochs
main()
"""
"""The same demo with so few people that it is over soon."""

SECONDS_MAX = 300
pytestmark = pytest.mark.timeout(2 * SECONDS_MAX)
COUNTS = re.compile(
    r"^changes:  rows ([\d,]+)  pending (\d+)  QI groups [\d,]+  splits [1-9][\d,]*  merges [\d,]+  ", re.M
)


def test_a_broken_law_ends_the_demo_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_law(*_: object) -> None:
        raise LawViolated("law 'size' is broken")

    monkeypatch.setattr(command, "stage_in", break_law)
    result = CliRunner().invoke(main, ["demo"])
    assert (result.exit_code, "law 'size' is broken" in result.output) == (1, True)


def test_files_are_not_written_among_others(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    result = CliRunner().invoke(main, ["demo", "--out", str(tmp_path)])
    assert (result.exit_code, "is not empty" in result.output) == (2, True)


# -- the whole run ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    return play(tmp_path_factory.mktemp("demo") / "out")


def play(out: Path, *words: str, demo: list[str] = DEMO) -> tuple[subprocess.CompletedProcess[str], Path]:
    run = subprocess.run(
        [*demo, "--out", str(out), *words], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    return run, out


@pytest.mark.slow
def test_a_small_embedded_demo_ends_with_a_verdict_and_files_that_verify_again(tmp_path: Path) -> None:
    ends_well(*play(tmp_path / "out", demo=[sys.executable, "-c", SMALL, "demo"]), "706 = applied 703")


@pytest.mark.night
def test_the_embedded_demo_ends_with_a_verdict_and_files_that_verify_again(
    embedded: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    ends_well(*embedded, "5,189 = applied 5,186")


def ends_well(run: subprocess.CompletedProcess[str], out: Path, counts: str) -> None:
    assert run.returncode == 0, run.stdout + run.stderr
    assert "every law holds at every release" in run.stdout
    assert "nothing of crashes" in " ".join(run.stdout.split())
    assert f"messages in: {counts} + ignored 0 + dead letters 3: ok" in run.stdout
    assert re.search(r"published records per event: \d", run.stdout)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", run.stdout), "without a terminal"
    verify_again(out)


def verify_again(out: Path) -> None:
    source = ["--source", str(out / "rows.csv"), "--index", str(out / "index.csv")]
    result = CliRunner().invoke(main, ["verify", "--table", str(out), str(out / "live.jsonl"), *source])
    assert result.exit_code == 0, result.output


def verify_every_release_against_its_people(out: Path, bootstrap: str, redis: str) -> None:
    """Shard by shard: an engine follows what is in the input topic, and the source laws hold at every release."""
    table, records = load_table(out), list(read_live(out / "live.jsonl", load_table(out)))
    for shard in range(4):
        messages = [Message(m.offset(), m.key(), m.value()) for m in read(bootstrap, table.name, CHANGES, shard)]
        laws = ChangelogLaws(table)
        meta = RedisStore(connect(redis), table.name, shard).meta()
        assert meta is not None
        beside = EngineBeside(table, laws, Engine(table, shard, 4, meta.secret), messages)
        verified = follow(laws, [record for record in records if record.shard == shard], beside)
        assert verified.releases > 1


@pytest.mark.night
def test_ctrl_c_ends_it_and_its_worker(tmp_path: Path) -> None:
    out = tmp_path / "out"
    demo = subprocess.Popen([*DEMO, "--out", str(out)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: bool(processes_of(out / "table.yaml")), 10, lambda: "no worker is started")
        demo.send_signal(signal.SIGINT)
        output, _ = demo.communicate(timeout=SECONDS_MAX)
        assert demo.returncode == 130, output
        assert b"Traceback" not in output
        assert processes_of(out / "table.yaml") == []
    finally:
        demo.kill()
        demo.wait()


def processes_of(table: Path) -> list[str]:
    """The running workers of one table."""
    named = str(table).encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if named in words and b"worker" in words:
            found.append(entry.parent.name)
    return found


@pytest.mark.slow
def test_on_real_servers_two_workers_come_to_the_same(
    servers: Servers, embedded: tuple[subprocess.CompletedProcess[str], Path], tmp_path: Path
) -> None:
    run, out = play(tmp_path / "out", "--real", "--kafka", servers.kafka_bootstrap, "--redis", servers.redis_url)
    assert run.returncode == 0, run.stdout + run.stderr
    assert counts(run.stdout) == counts(embedded[0].stdout)
    verify_again(out)
    verify_every_release_against_its_people(out, servers.kafka_bootstrap, servers.redis_url)
    taken = [set(re.findall(r"shard (\d) of \S+ taken over", log.read_text())) for log in sorted(out.glob("worker-*"))]
    assert len(taken) == 2
    assert all(taken)
    assert set.union(*taken) == {"0", "1", "2", "3"}


def counts(output: str) -> tuple[str, ...]:
    """Rows, and those that are pending. How many QI groups there are is for the shards' secrets to decide, too."""
    found = COUNTS.search(output)
    assert found, output
    return found.groups()
