"""Several shards whose source truncates the table: whatever is read when, they come to what the source holds.

The source is a list of events in its own order. A connector writes them to partitions, at times twice, and the shards
read these as far apart as chance has it, hear of truncations when chance has it, die, and lose commits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

import pytest

from simulation.simulator import Fault, World
from simulation.truncating_source import PEOPLE, SHARDS, Source, read_to_the_end, rows_kept, worlds_of
from streamer.errors import ShardRefused
from streamer.incremental.checks.changelog import ChangelogLaws
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.release.fold import Release
from streamer.incremental.shard.input import Message
from streamer.incremental.store.snapshot import OPERATOR
from streamer.incremental.topics import LIVE
from streamer.table.row import Row

SEEDS = range(12)


def rows_of(source: Source) -> dict[str, Row]:
    decoder, rows = Decoder(PEOPLE), {}
    for row in source.rows.values():
        change = decoder.decode(None, json.dumps({"op": "insert", "row": row}).encode())
        rows[str(row["id"])] = change.row  # type: ignore[union-attr]
    return rows


def assert_the_shards_hold_what_the_source_holds(worlds: Sequence[World], source: Source) -> None:
    kept: dict[str, Row] = {}
    for world in worlds:
        kept |= rows_kept(world)
        laws, letters = ChangelogLaws(PEOPLE), 0
        for records, position in world.topic.transactions:
            rows = [(record.key, record.value) for record in records if record.topic == LIVE]
            letters += sum(record.topic == "dead-letters" for record in records)
            if rows:
                laws.check(Release(world.shard, position.release, position.next, rows))
        meta = world.meta()
        assert letters == meta.counts.dead_letters == 0
        assert meta.counts.messages == len(world.messages)
        assert meta.digest == position.digest
        assert laws.n_rows <= len(rows_kept(world)), "nobody is published who is not there"
    assert kept == rows_of(source)


@pytest.mark.parametrize("seed", SEEDS)
def test_shards_that_read_apart_and_lose_commits_come_to_what_the_source_holds(seed: int) -> None:
    chance = Random(seed)
    source = Source(chance)
    source.happen(90)
    source.captured()
    plans = [{step: chance.choice(list(Fault)) for step in range(400) if chance.random() < 0.05} for _ in range(SHARDS)]
    worlds = worlds_of(source.partitions, plans)
    for world in worlds:
        world.hears = Random(seed)
        world.rebuilds = None
    for _ in range(12):
        world = chance.choice(worlds)
        world.written = min(len(world.messages), (world.written or 0) + chance.randrange(20))
        if world.written:
            world.run(batch=chance.choice([1, 3, 8]), tries_max=200)
            world.snapshot()
        if world.snapshots and chance.random() < 0.3:
            world.lose_commits(chance.choice(world.snapshots))
    read_to_the_end(worlds)
    assert_the_shards_hold_what_the_source_holds(worlds, source)


def test_the_runs_by_chance_met_what_they_are_about() -> None:
    """Late truncations and early ones, and such as were placed once more after a loss."""
    placed = repeated = 0
    for seed in range(6):
        chance = Random(seed)
        source = Source(chance)
        source.happen(90)
        worlds = worlds_of(source.captured().partitions)
        for world in worlds:
            world.written = len(world.messages) // 2
            world.run(batch=3)
            world.snapshot()
        read_to_the_end(worlds)
        for world in worlds:
            placed += world.placed
            world.lose_commits(world.snapshots[0])
            world.run(batch=4)
            repeated += world.repeated
        assert_the_shards_hold_what_the_source_holds(worlds, source)
    assert placed > 20
    assert repeated > 8


SAYS, HEARS = 0, 1
"""The shard in whose partition the one truncation lies, and one of the others."""


def steps_of_a_quiet_run(partitions: Sequence[Sequence[Message]], shard: int) -> int:
    worlds = worlds_of(partitions)
    read_to_the_end(worlds)
    return worlds[shard].steps


def one_truncation() -> Source:
    source = Source(Random(8))
    source.happen(14, truncations=0)
    source.truncate()
    source.happen(8, truncations=0)
    source.captured(restarts=0)
    assert [any(b'"op": "t"' in (m.value or b"") for m in messages) for messages in source.partitions] == [
        shard == SAYS for shard in range(SHARDS)
    ]
    return source


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_one_fault_at_every_numbered_step_of_who_says_it_and_of_one_who_hears_it(fault: Fault) -> None:
    source = one_truncation()
    for shard in (SAYS, HEARS):
        for step in range(steps_of_a_quiet_run(source.partitions, shard)):
            plans: list[dict[int, Fault]] = [{} for _ in range(SHARDS)]
            plans[shard] = {step: fault}
            worlds = worlds_of(source.partitions, plans)
            read_to_the_end(worlds)
            assert_the_shards_hold_what_the_source_holds(worlds, source)
            said = sorted(json.loads(value)["command"] for world in worlds for value in world.control)
            assert said == ["truncate", "truncate", "truncated", "truncated"], "each is said once"


def test_a_store_that_lost_everything_but_its_secret_places_truncations_where_they_were() -> None:
    source = one_truncation()
    worlds = worlds_of(source.partitions)
    for world in worlds:
        world.written = 1
        world.run(batch=1)
        world.snapshot()
    read_to_the_end(worlds)
    for world in worlds:
        published = len(world.topic.transactions)
        world.lose_commits(world.snapshots[0])
        world.run(batch=100)
        assert len(world.topic.transactions) == published, "a replay publishes nothing"
    assert sum(world.repeated for world in worlds) == SHARDS - 1
    assert_the_shards_hold_what_the_source_holds(worlds, source)


def test_a_store_whose_control_topic_forgot_where_truncations_took_effect_is_refused() -> None:
    source = one_truncation()
    worlds = worlds_of(source.partitions)
    for world in worlds:
        world.written = 1
        world.run(batch=1)
        world.snapshot()
    read_to_the_end(worlds)
    heard = next(world for world in worlds if world.placed)
    heard.control.clear()
    heard.lose_commits(heard.snapshots[0])
    with pytest.raises(ShardRefused, match="does not say any more where truncations took effect"):
        heard.run(batch=5)


@pytest.mark.parametrize("heard_while_held", [True, False])
def test_rows_of_a_snapshot_that_is_held_back_go_before_anybody_has_seen_them(heard_while_held: bool) -> None:
    source = Source(Random(4))
    source.snapshot(20)
    source.truncate()
    source.happen(9, truncations=0)
    source.captured(restarts=0)
    worlds = worlds_of(source.partitions)
    for world in worlds:
        world.written = sum(b'"op": "r"' in (message.value or b"") for message in world.messages)
        worker = world.run(batch=4)
        assert worker.holds_back
        assert worker.engine.n_rows > 1
    if heard_while_held:
        says = next(world for world in worlds if any(b'"op": "t"' in (m.value or b"") for m in world.messages))
        says.written = len(says.messages)
        for world in (says, *worlds):
            worker = world.run(batch=4)
            assert world is says or (worker.holds_back and worker.engine.n_rows == 0)
    read_to_the_end(worlds)
    for world in worlds:
        worker = world.worker()
        worker.take_over(world.input)
        if worker.holds_back:
            worker.release_held(OPERATOR)
    assert_the_shards_hold_what_the_source_holds(worlds, source)


@pytest.mark.parametrize("seed", range(8))
def test_a_table_that_is_rebuilt_meanwhile_is_truncated_all_the_same(seed: int) -> None:
    chance = Random(seed)
    source = Source(chance)
    source.happen(70, truncations=0)
    source.truncate()
    source.happen(40)
    worlds = worlds_of(source.captured().partitions)
    for _ in range(10):
        world = chance.choice(worlds)
        world.rebuilds, world.hears = Random(seed), Random(seed)
        world.written = min(len(world.messages), (world.written or 0) + chance.randrange(30))
        if world.written:
            world.run(batch=4)
    for world in worlds:
        world.rebuilds = None
    read_to_the_end(worlds)
    assert sum(world.replaced for world in worlds) > 0
    assert_the_shards_hold_what_the_source_holds(worlds, source)
