"""Logs that lose their end or their beginning on a real Kafka: no reader is shown a QI group below k for long, and no
message is passed over in silence.

A broker with one replica that loses power comes back with shorter logs. Here its log files are cut while it is down.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from servers.broker.processes import Kafka
from servers.broker.servers import Servers
from streamer.incremental import remedies
from streamer.incremental.topics import CHANGES, LIVE, POSITIONS
from streamer.kafka.topics import configure
from streamer.reader import Subscription
from worlds.kafka_and_redis import admin_of, expire
from worlds.workers import SHARDS, WorkedTable, wait_until

K = 3
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


@pytest.fixture
def logs(servers: Servers) -> Path:
    """The folder of the broker's logs."""
    servers.require_own()
    if not isinstance(servers.kafka, Kafka):
        pytest.skip("logs can be cut only if the broker is a process of this machine")
    return next(servers.kafka.home.rglob("meta.properties")).parent


def batches_of(log: bytes) -> list[tuple[int, int]]:
    """Of each batch of a log file its first offset and where it begins."""
    found, at = [], 0
    while at + 12 <= len(log):
        offset, length = struct.unpack(">qi", log[at : at + 12])
        found.append((offset, at))
        at += 12 + length
    return found


def cut(folder: Path, share: float) -> None:
    """Removes the end of a partition's log."""
    (log,) = folder.glob("*.log")
    data = log.read_bytes()
    batches = batches_of(data)
    _, at = batches[int(len(batches) * share)]
    log.write_bytes(data[:at])
    for beside in (*folder.glob("*index"), *folder.glob("*.snapshot"), *folder.glob("leader-epoch-checkpoint")):
        beside.unlink()


def cut_logs(servers: Servers, logs: Path, world: WorkedTable, *kinds: str, share: float = 0.5) -> None:
    """The broker is killed, and comes back with shorter logs."""
    servers.kill_kafka()
    for kind in kinds:
        for shard in range(SHARDS):
            cut(logs / f"{world.name}.{kind}-{shard}", share)
    for name in CHECKPOINTS:
        (logs / name).unlink(missing_ok=True)
    servers.start_kafka()


def smallest_seen(world: WorkedTable) -> int:
    """The smallest QI group that a new reader is shown."""
    with Subscription(world.table, world.bootstrap) as people:
        people.catch_up()
        return int(people.frame().groupby("qi_group").size().min())


def problems(world: WorkedTable) -> str:
    """What status finds wrong, besides the share of dead letters."""
    return "\n".join(
        one for one in world.status()["problems"] if "dead letters" not in one and "were refused" not in one
    )


@pytest.mark.gate("a log that lost its end")
@pytest.mark.parametrize(
    ("share", "rounds"),
    [
        pytest.param(0.5, 2, id="half of it"),
        pytest.param(0.5, 4, id="half of more", marks=pytest.mark.night),
        pytest.param(0.99, 4, id="a marker of a transaction", marks=pytest.mark.night),  # found and mended the same way
    ],
)
def test_a_published_log_that_lost_its_end_is_told_and_gets_the_whole_table(
    world: WorkedTable, servers: Servers, logs: Path, share: float, rounds: int
) -> None:
    """Before: differences went on top of what was gone, readers saw groups of one row, and status was green."""
    for _ in range(rounds):
        world.serve(200) if not world.workers else world.write(200)
        world.wait_until_published()
    world.stop()
    cut_logs(servers, logs, world, LIVE, share=share)
    assert f"{world.name}.{LIVE} lost records" in problems(world)
    world.start()
    world.write(100)
    world.wait_until_published()
    world.assert_published_as_expected()
    assert not problems(world)
    assert smallest_seen(world) >= K


@pytest.mark.slow
def test_logs_that_all_lost_their_end_under_a_worker_are_mended_by_it(
    world: WorkedTable, servers: Servers, logs: Path
) -> None:
    """A worker that has nothing to do finds it, too."""
    world.serve(800)
    cut_logs(servers, logs, world, LIVE, POSITIONS)
    wait_until(lambda: "the whole table was published into it" in world.logs(), 60, world.logs)
    wait_until(lambda: not problems(world) and is_as_expected(world), 60, world.logs)  # shard after shard finds it
    assert smallest_seen(world) >= K


def is_as_expected(world: WorkedTable) -> bool:
    try:
        world.assert_published_as_expected()
    except AssertionError:
        return False
    return True


def test_an_input_that_lost_its_end_and_took_new_messages_is_refused_with_the_mend(
    world: WorkedTable, servers: Servers, logs: Path
) -> None:
    """Before: the worker read on from its offset, confirmed messages were never applied, and all was green."""
    world.serve(800)
    world.stop()
    cut_logs(servers, logs, world, CHANGES)
    world.write(1200)
    assert "holds another message" in problems(world)
    said = world.refusal()
    assert "holds another message" in said
    assert remedies.reload_from_file(world.name) in said


def test_a_published_log_that_lost_its_beginning_is_told_and_gets_the_whole_table(world: WorkedTable) -> None:
    """Before: a new reader got half of the rows, QI groups of two at k = 3, and exit code 0."""
    world.serve(600)
    configure(admin_of(world.bootstrap), f"{world.name}.{LIVE}", {"cleanup.policy": "compact,delete"})
    expire(world.bootstrap, f"{world.name}.{LIVE}", dict.fromkeys(range(SHARDS), 40))
    wait_until(lambda: "the whole table was published into it" in world.logs(), 60, world.logs)
    wait_until(lambda: not problems(world), 60, world.logs)
    world.assert_published_as_expected()
    assert smallest_seen(world) >= K
    world.stop()
    expire(world.bootstrap, f"{world.name}.{LIVE}", dict.fromkeys(range(SHARDS), 60))
    assert f"{world.name}.{LIVE} lost records" in problems(world)


def test_a_published_log_of_an_empty_table_that_lost_everything_is_shown_as_empty(world: WorkedTable) -> None:
    """Before: readers were refused until the first row came."""
    world.serve(200)
    world.send((shard, None, b'{"op":"delete","where":"age >= 0"}') for shard in range(SHARDS))
    wait_until(lambda: world.n_rows() == 0, 60, world.logs)
    world.stop()
    configure(admin_of(world.bootstrap), f"{world.name}.{LIVE}", {"cleanup.policy": "compact,delete"})
    expire(world.bootstrap, f"{world.name}.{LIVE}", dict.fromkeys(range(SHARDS), -1))
    world.start()
    wait_until(lambda: not problems(world), 60, world.logs)
    with Subscription(world.table, world.bootstrap) as people:
        people.catch_up()
        assert people.frame().empty
