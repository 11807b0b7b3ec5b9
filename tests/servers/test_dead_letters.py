"""Dead letters on real servers: listed, exported, tried again once and in order; a replay reads the input once more."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from worlds.workers import WorkedTable, inserts, wait_until


@pytest.mark.gate("refused messages")
def test_what_an_error_skipped_is_tried_again_in_order_and_repeated_by_a_replay(
    world: WorkedTable, tmp_path: Path
) -> None:
    """Offsets: 3 and 4 break the first worker; the second one applies 3, and 6 after which 4 comes too late.

    Before: a worker ended with such an unexpected error, was started again, read the same message, and so on.
    """
    poisons = inserts(["poison-a", "poison-b"])
    world.send([*inserts(["a", "b", "c"]), *poisons, *inserts("d")])
    fragile = world.start("fragile")
    wait_until(lambda: world.reached()[0] == 6, 40, world.logs)
    assert re.search(r"ERROR.*shard 0 of .*offset 3 is passed over: KeyError in <string>, line \d+", world.logs())
    assert len(world.rows(0)) == 4
    assert fragile.terminate()[0] == 0

    copy = world.copy_redis()
    (reason,) = world.report("dead-letters", "--export", tmp_path / "letters.csv")["reasons"]
    assert (reason["reason"], reason["letters"], reason["shards"]) == ("internal-error", 2, [0])
    assert reason["first"] <= reason["last"]
    assert reason["example"]["offset"] in (3, 4)
    with (tmp_path / "letters.csv").open() as file:
        assert [(line["partition"], line["offset"]) for line in csv.DictReader(file)] == [("0", "3"), ("0", "4")]

    worker = world.start()
    world.send(poisons[1:])  # the source says it once more
    wait_until(lambda: world.reached()[0] == 7, 40, world.logs)
    forecast = world.report("dead-letters retry", "--dry-run")
    assert [(one["offset"], one["kind"]) for one in forecast["messages"]] == [(3, "retried"), (4, "superseded")]
    assert world.meta().retried == ()
    assert world.report("dead-letters retry")["asked"] == 2
    wait_until(lambda: world.meta().retried == ((7, 3),), 40, world.logs)
    assert (world.meta().counts.dead_letters, len(world.rows(0))) == (1, 6)
    assert world.report("dead-letters retry")["asked"] == 0
    assert world.report("dead-letters retry", "--shard", "0", "--offset", "3", code=2)["kind"] == "UsageError"

    digest = world.meta().digest
    worker.terminate()
    copy.restore()
    assert world.meta().retried == ()
    world.start()
    wait_until(lambda: world.meta().retried == ((7, 3),), 40, world.logs)
    assert world.meta().digest == digest
    world.send(inserts("e"))
    wait_until(lambda: world.reached()[0] == 8, 40, world.logs)
    assert len(world.rows(0)) == 7
    assert "poison" not in world.logs()
