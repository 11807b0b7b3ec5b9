"""`streamer skip`: what it writes, and what it refuses because it cannot be right."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.errors import ShardRefused
from streamer.incremental.shard.outlet import Position
from streamer.incremental.topics import CHANGES
from streamer.kafka.control import KafkaControl
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from worlds.kafka_and_redis import fresh_name, make_topics, write
from worlds.patients import write_table

SHARDS, SHARD = 3, 2


class Input:
    """A table whose shard 2 holds the offsets 0 to 9, published up to 3."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.name, self.bootstrap = fresh_name(), bootstrap
        self.table = write_table(directory, self.name)
        make_topics(bootstrap, self.name, SHARDS)
        write(bootstrap, f"{self.name}.changes", [(SHARD, b"%d" % i, b"{}") for i in range(10)])
        outlet = KafkaOutlet(bootstrap, self.name, SHARD)
        outlet.fence()
        outlet.publish([], Position(1, 4, 0, 1, 0, 0))

    def skip(self, offset: int, shard: int = SHARD) -> Result:
        options = [
            "--table",
            str(self.table),
            "--kafka",
            self.bootstrap,
            "--shard",
            f"{shard}",
            "--offset",
            f"{offset}",
        ]
        return CliRunner().invoke(main, ["skip", *options])

    def skips(self, shard: int = SHARD) -> set[int]:
        ids = KafkaInput(self.bootstrap, self.name, shard).state().topic_ids
        return set(KafkaControl(self.bootstrap, self.name, shard).skips(ids[CHANGES]))


@pytest.fixture
def shard(servers: Servers, tmp_path: Path) -> Input:
    return Input(servers.kafka_bootstrap, tmp_path)


def test_what_is_asked_for_is_found_by_the_shard_and_by_no_other(shard: Input) -> None:
    assert shard.skips() == set()
    for offset in (4, 9, 9):
        done = shard.skip(offset)
        assert (done.exit_code, f"offset {offset} of shard 2 will be passed over" in done.output) == (0, True)
    assert shard.skips() == {4, 9}
    assert shard.skips(0) == set()


@pytest.mark.parametrize(
    ("offset", "number", "says"),
    [
        (4, 3, "has the shards 0 to 2"),
        (10, SHARD, "holds the offsets 0 to 9"),
        (0, 1, "is empty"),
        (3, SHARD, "is published up to offset 3"),
    ],
)
def test_what_cannot_be_right_is_refused_and_nothing_is_written(
    shard: Input, offset: int, number: int, says: str
) -> None:
    refused = shard.skip(offset, number)
    assert (refused.exit_code, says in refused.output) == (2, True), refused.output
    assert shard.skips() == set()


def test_what_somebody_else_wrote_into_the_topic_is_nobodys_request(shard: Input) -> None:
    values = [b"", b"null", b"{}", msgspec.json.encode({"command": "skip", "shard": 1, "offset": 5})]
    write(shard.bootstrap, f"{shard.name}.control", [(SHARD, None, value) for value in [*values, None]])
    assert shard.skips() == set()


def test_a_control_topic_that_is_missing_is_named(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.kafka.reading.SETTLING_SECONDS_MAX", 0.5)
    name = fresh_name()
    make_topics(servers.kafka_bootstrap, name, SHARDS, but={"control": 0})
    with pytest.raises(ShardRefused, match=r"reading the control topic.*topics check"):
        KafkaControl(servers.kafka_bootstrap, name, SHARD).skips("")
