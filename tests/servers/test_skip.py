"""`streamer skip`: what it writes, and what it refuses because it cannot be right."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from servers.broker.servers import Servers
from streamer.errors import ServerUnreachable
from streamer.incremental.shard.outlet import Position
from streamer.incremental.topics import CHANGES, CONTROL
from streamer.kafka import reading
from streamer.kafka.control import KafkaControl
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from worlds.kafka_and_redis import write
from worlds.workers import WorkedTable

SHARD = 2


@pytest.fixture
def table(servers: Servers, tmp_path: Path) -> WorkedTable:
    """Shard 2 holds the offsets 0 to 9, published up to 3."""
    table = WorkedTable(servers, tmp_path, shards=3)
    table.send((SHARD, b"%d" % i, b"{}") for i in range(10))
    outlet = KafkaOutlet(table.bootstrap, table.name, SHARD)
    outlet.fence()
    outlet.publish([], Position(1, 4, 0, 1, 0, 0))
    return table


def skips(table: WorkedTable, shard: int = SHARD) -> set[int]:
    """The offsets that a shard finds asked for."""
    ids = KafkaInput(table.bootstrap, table.name, shard).state().topic_ids
    return set(KafkaControl(table.bootstrap, table.name, shard).skips(ids[CHANGES]))


def test_what_is_asked_for_is_found_by_the_shard_and_by_no_other(table: WorkedTable) -> None:
    assert skips(table) == set()
    for offset in (4, 9, 9):
        done = table.must("skip", "--shard", SHARD, "--offset", offset)
        assert f"offset {offset} of shard 2 will be skipped" in done.output
    assert skips(table) == {4, 9}
    assert skips(table, 0) == set()


@pytest.mark.parametrize(
    ("offset", "shard", "says"),
    [
        (4, 3, "has the shards 0 to 2"),
        (10, SHARD, "holds the offsets 0 to 9"),
        (0, 1, "is empty"),
        (3, SHARD, "is published up to offset 3"),
    ],
)
def test_what_cannot_be_right_is_refused_and_nothing_is_written(
    table: WorkedTable, offset: int, shard: int, says: str
) -> None:
    assert says in table.refused("skip", "--shard", shard, "--offset", offset)
    assert skips(table) == set()


def test_what_others_wrote_into_the_topic_is_no_request(table: WorkedTable) -> None:
    values = [b"", b"null", b"{}", msgspec.json.encode({"command": "skip", "shard": 1, "offset": 5})]
    write(table.bootstrap, f"{table.name}.{CONTROL}", [(SHARD, None, value) for value in [*values, None]])
    assert skips(table) == set()


def test_a_control_topic_that_is_missing_is_named(table: WorkedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SETTLING_SECONDS_MAX", 0.5)
    table.delete_topics(CONTROL)
    with pytest.raises(ServerUnreachable, match=r"reading the control topic.*is missing: `streamer topics check`"):
        KafkaControl(table.bootstrap, table.name, SHARD).skips("")
