"""`streamer erase` on a real Kafka and Redis: the row is gone from Redis and from readers, and the receipt says so.

Here are also the tests of a compacted input, without which messages about an erased person stay for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.broker.servers import Servers
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, OUTPUTS, POSITIONS, SEALED
from worlds.kafka_and_redis import configured, make_topics, wait_until_deleted
from worlds.patients import CANARY, smallest_group
from worlds.served_patients import inserted, rows, send, wait_until_read
from worlds.workers import SHARDS, WorkedTable, wait_until

SECONDS = ("--timeout", "240")


@pytest.fixture
def served(world: WorkedTable) -> Iterator[WorkedTable]:
    """A table of 120 people that a worker keeps."""
    send(world, *inserted(rows(120)))
    world.start()
    wait_until_read(world)
    yield world


def holds(world: WorkedTable, key: str) -> bool:
    return key in set().union(*world.source_keys())


@pytest.mark.gate("erase")
def test_a_row_is_gone_from_redis_and_from_readers_and_the_receipt_names_nobody(
    served: WorkedTable, tmp_path: Path
) -> None:
    people = {CANARY: rows(1, 7)["7"] | {"id": CANARY}}
    send(served, *inserted(people))
    wait_until_read(served)
    before = served.n_rows()
    receipt = tmp_path / "receipt.json"
    said = served.must("erase", CANARY, *SECONDS, "--reference", "case 17", "--count", "-o", receipt)
    assert not holds(served, CANARY)
    assert served.n_rows() == before - 1 == served.laws().n_rows
    assert CANARY not in said.output + receipt.read_text() + served.logs()
    found = json.loads(receipt.read_text())
    (row,) = found["rows"]
    assert (found["ok"], found["reference"], row["state"], row["was"]) == (True, "case 17", "gone", "in a QI group")
    deletion = served.read(CHANGES, row["shard"])[-1]
    assert (deletion.offset(), deletion.key(), deletion.value()) == (row["offset"], CANARY.encode(), None)
    assert served.meta(row["shard"]).commit >= row["commit"] > 0
    assert served.meta(row["shard"]).release >= row["release"] > 0
    assert found["messages"] == 2  # the insertion and the deletion
    left = {one["where"]: one for one in found["left"]}
    assert left[served.input]["who"] == "you" and "for ever" in left[served.input]["what"]
    assert left[f"{served.name}.live"]["who"] == "Kafka" and left[f"{served.name}.live"]["not_before"] is not None


def test_a_group_that_would_fall_below_k_is_merged(world: WorkedTable) -> None:
    of_shard = {key: row for key, row in rows(60).items() if shard_of(key.encode(), SHARDS) == 0}
    six = dict(list(of_shard.items())[:6])
    send(world, *inserted(six))
    world.start()
    wait_until_read(world)
    assert len(world.store(0).qi_group_numbers()) == 2
    (row,) = world.report("erase", next(iter(six)), *SECONDS)["rows"]
    assert row["state"] == "gone"
    assert len(world.store(0).qi_group_numbers()) == 1
    assert smallest_group(world.rows(0)) == 5 == world.laws().n_rows


def test_keys_that_no_history_of_a_shell_is_to_keep_are_read_from_standard_input(served: WorkedTable) -> None:
    ends = served.ends()
    assert "1 of 3 keys" in served.call("erase", "-", stdin="7\n8\nnot there\n").stderr
    assert served.ends() == ends
    said = served.must("erase", "-", *SECONDS, stdin="7\n8\n")
    assert "2 rows erased" in said.stdout
    assert not holds(served, "7") and not holds(served, "8")


def test_an_unknown_key_is_refused_and_sends_nothing_and_the_second_time_is_like_that(served: WorkedTable) -> None:
    served.must("erase", "7", *SECONDS)
    ends = served.ends()
    for key in ("7", "not there"):
        said = served.refused("erase", key)
        assert "--no-send" in said and "not there" not in said
    assert served.ends() == ends
    again = served.report("erase", "7", "--no-send")
    assert (again["ok"], again["rows"], again["messages"]) == (True, [], None)
    assert served.report("erase", "7", "--no-send", "--count")["messages"] == 2


def test_without_a_worker_the_command_says_what_it_has_written_and_may_be_repeated(
    served: WorkedTable, tmp_path: Path
) -> None:
    served.stop()
    receipt = tmp_path / "receipt.txt"
    waiting = served.call("erase", "7", "--timeout", "0.5", "-o", receipt)
    assert waiting.exit_code == 1
    assert "is a worker running?" in waiting.stdout and "call this again with --no-send" in waiting.stdout
    assert not receipt.exists()
    served.start()
    said = served.must("erase", "7", "--no-send", *SECONDS, "-o", receipt)
    assert not holds(served, "7")
    assert receipt.read_text().splitlines()[0] == said.stdout.splitlines()[0]


def test_rows_of_a_database_are_deleted_there(world: WorkedTable) -> None:
    people = rows(60)
    for key, row in people.items():
        send(world, (key, {"op": "c", "before": None, "after": row}))
    world.start()
    wait_until_read(world)
    ends = world.ends()
    assert "delete it there, then call this with --no-send" in world.refused("erase", "7")
    assert world.ends() == ends
    send(world, ("7", {"op": "d", "before": people["7"], "after": None}), ("7", None))
    (row,) = world.report("erase", "7", "--no-send", *SECONDS)["rows"] or [{"state": "gone"}]
    assert row["state"] == "gone"
    assert not holds(world, "7")


def test_all_rows_of_an_individual_are_erased_in_all_shards(world: WorkedTable) -> None:
    world.edit_yaml("key: id ", "individual: name\nkey: id ")
    people = rows(120)
    for number, row in enumerate(people.values()):
        row["name"] = CANARY if number % 40 == 0 else f"someone {number}"
    send(world, *inserted(people))
    world.start()
    wait_until_read(world)
    found = world.report("erase", "--individual", CANARY, *SECONDS)
    assert len(found["rows"]) == 3
    assert len({row["shard"] for row in found["rows"]}) > 1
    assert not any(holds(world, key) for key in ("0", "40", "80"))
    assert len(set().union(*world.source_keys())) == 117


def test_a_row_that_is_sent_again_is_reported(served: WorkedTable) -> None:
    served.stop()
    served.call("erase", "7", "--timeout", "0.1")
    send(served, *inserted({"7": rows(1, 7)["7"]}))
    served.start()
    wait_until_read(served)
    waiting: dict[str, Any] = served.report("erase", "7", "--no-send", "--timeout", "0.5", code=1)
    assert waiting["rows"][0]["why"] == "no deletion of it has been applied yet"


# -- a compacted input ------------------------------------------------------------------------------------------------


@pytest.fixture
def compacted(servers: Servers, tmp_path: Path) -> Iterator[WorkedTable]:
    """A table whose input Kafka compacts at once, with 80 people that a worker keeps, each sent three times."""
    world = WorkedTable(servers, tmp_path, shards=0)
    world.must("topics create", "--shards", "2", "--compact-changes")
    world.must("topics check")
    world.shards = 2
    at_once = configured(world.bootstrap, world.input, AT_ONCE)
    with configured(world.bootstrap, "broker", {"log.cleaner.backoff.ms": "100"}), at_once:
        for turn in range(3):
            send(world, *upserted(rows(80), turn))
        world.start()
        wait_until_all_is_read(world)
        yield world
        world.kill()


AT_ONCE = {
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1",
    "delete.retention.ms": "0",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0",
}


def upserted(people: dict[str, dict[str, object]], turn: int = 0) -> list[tuple[str, dict[str, object] | None]]:
    """The people as they are, each some years older every turn."""
    return [
        (key, {"op": "upsert", "row": row | {"age": (int(key) * 7 + 23 * turn) % 100}}) for key, row in people.items()
    ]


def wait_until_all_is_read(world: WorkedTable) -> None:
    """Until what the offsets of the last messages say: compaction leaves gaps."""

    def is_read() -> bool:
        lasts = [world.read(CHANGES, shard)[-1].offset() + 1 for shard in range(world.shards)]
        return all(reached >= last for reached, last in zip(world.reached(), lasts, strict=True))

    wait_until(is_read, 40, world.logs)


def wait_until_compacted(world: WorkedTable, key: str, left: int) -> None:
    """Until the input holds so many messages of a row: later messages of others close the segments."""
    shard = shard_of(key.encode(), world.shards)
    others = {other: row for other, row in rows(5, 500).items() if shard_of(other.encode(), world.shards) == shard}

    def is_compacted() -> bool:
        send(world, *upserted(others, 2))
        return sum(message.key() == key.encode() for message in world.read(CHANGES, shard)) == left

    wait_until(is_compacted, 20, lambda: f"{key} is still there")


@pytest.mark.slow
def test_a_compacted_input_forgets_an_erased_row_and_a_lost_redis_is_reloaded_from_it(compacted: WorkedTable) -> None:
    world = compacted
    found = world.report("erase", "7", *SECONDS)
    (of_input,) = [left for left in found["left"] if left["where"] == world.input]
    assert of_input["who"] == "Kafka" and of_input["not_after"] is not None
    wait_until_compacted(world, "7", 0)
    wait_until_all_is_read(world)
    kept = set().union(*world.source_keys())
    assert kept >= set(rows(80)) - {"7"} and "7" not in kept

    world.stop()
    world.start()
    send(world, *upserted(rows(1, 900)))
    wait_until_all_is_read(world)

    world.stop()
    world.lose_redis()
    assert "reading the input again does not give the published table" in world.refusal()
    world.report("reload", "--from-source", "topic")
    world.start()
    wait_until_all_is_read(world)
    assert set().union(*world.source_keys()) == kept | {"900"}
    assert world.laws().n_rows == len(kept) + 1


@pytest.mark.slow
def test_a_message_that_says_a_part_of_a_row_is_no_reason_to_lose_the_row_in_silence(compacted: WorkedTable) -> None:
    world = compacted
    send(world, ("9", {"op": "modify", "key": "9", "row": {"age": 50}}))
    wait_until_compacted(world, "9", 1)
    wait_until_all_is_read(world)
    assert holds(world, "9")
    world.stop()
    assert "is compacted, and 1 of its messages are refused" in world.refused("reload", "--from-source", "topic")
    assert holds(world, "9")


def test_a_compacted_input_takes_no_statement_and_no_truncation(compacted: WorkedTable) -> None:
    ends = compacted.ends()
    statement = json.dumps({"op": "delete", "where": "age > 30"})
    assert "takes no message without a message key" in compacted.refused("produce", "-", stdin=statement)
    assert "takes no message without a message key" in compacted.refused("produce", "--truncate")
    assert sum(compacted.ends()) <= sum(ends)


def test_a_row_of_a_shard_that_the_input_no_longer_has_gets_no_message_to_nobody(
    served: WorkedTable,
) -> None:
    served.stop()
    of_last = next(iter(served.source_keys()[SHARDS - 1]))
    served.delete_topics(CHANGES)
    wait_until_deleted(served.bootstrap, served.name, CHANGES)
    make_topics(
        served.bootstrap, served.name, 2, dict.fromkeys((*OUTPUTS, SEALED, POSITIONS, DEAD_LETTERS, CONTROL), 0)
    )
    assert f"Redis holds shard {SHARDS - 1}" in served.refused("erase", of_last)
