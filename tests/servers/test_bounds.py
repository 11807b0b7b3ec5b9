"""Columns with a `coarsest`, on a real Kafka and Redis: what is wider waits, and every door says so."""

from __future__ import annotations

import json

from worlds.workers import WorkedTable, wait_until

AGE = "  age: {role: quasi-identifier, type: integer, domain: [0, 119], grid: 5, coarsest: 4, weight: 3}"


def test_groups_that_are_too_wide_are_pending_for_everybody_and_what_is_published_is_narrow(world: WorkedTable) -> None:
    text = (world.folder / "table.yaml").read_text("utf-8")
    world.edit_yaml(next(line for line in text.splitlines() if line.startswith("  age:")), AGE)
    world.serve(400)
    world.assert_published_as_expected()
    published = [json.loads(row) for shard in range(world.shards) for row in world.rows(shard).values()]
    assert published
    assert all(row["age_hi"] - row["age_lo"] <= 4 for row in published)
    shown = world.report("groups", "--limit", "1000")["shown"]
    withheld = [one for one in shown if one["withheld"]]
    rows = sum(one["size"] for one in withheld)
    assert rows == sum(one["size"] for one in shown) - len(published) > 0
    explained = world.must("explain", "--group", withheld[0]["qi_group"]).output
    assert "withheld: it is wider than `coarsest` allows" in explained
    wait_until(lambda: world.status()["total"]["pending"] == rows, 30, lambda: str(world.status()["total"]))
