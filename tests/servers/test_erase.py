"""`streamer erase` on a real Kafka and Redis: the row is gone from Redis and from readers, and the receipt says so.

Here are also the tests of a compacted input, without which messages about an erased person stay for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.incremental.events.key_form import shard_of
from streamer.incremental.topics import CHANGES
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
    assert {"for ever", "the operator"} <= {word for word in ("for ever", "the operator") if word in receipt.read_text()}


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
    send(world, *((key, {"op": "c", "before": None, "after": row}) for key, row in people.items()))
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
