"""Refused messages that are tried again, with faults at every numbered step: applied once, never over newer ones."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import msgspec
import pytest

from simulation.simulator import Fault, World
from simulation.story import IN_SIXTHS, PEOPLE, published_table, sixth_of
from streamer.errors import ShardRefused
from streamer.incremental.shard.input import Message
from streamer.incremental.store.memory import MemoryStore
from streamer.table.row import Row

SEEDS = range(30)


def captured(n: int, seed: int) -> list[Message]:
    """Captured changes: rows as they are afterwards, primary keys that change, deletions, and few truncations."""
    rng = random.Random(seed)
    return [Message(2 * i, None, msgspec.json.encode(_envelope(rng, n // 3))) for i in range(n)]


def _envelope(rng: random.Random, keys: int) -> dict[str, object]:
    before, after = ({"id": rng.randrange(keys)} | _values(rng) for _ in range(2))
    chance = rng.random()
    if chance < 0.02:
        return {"op": "t"}
    if chance < 0.2:
        return {"op": "d", "before": before, "after": None}
    if chance < 0.3:
        return {"op": "u", "before": before, "after": after}
    return {"op": "c", "before": None, "after": after}


def _values(rng: random.Random) -> dict[str, object]:
    return {"years": rng.randrange(10), "city": rng.choice(["a1", "b1", "c2"]), "problem": rng.choice(["flu", "cough"])}


def rows(world: World) -> dict[str, Row]:
    state = MemoryStore(world.server, "people", 0).load()
    assert state is not None
    return {source_key: record.row for source_key, record in state.kept.records}


def answers(world: World) -> dict[int, list[str]]:
    """By offset, the kinds of letters about it, in the order they were written."""
    kinds: dict[int, list[str]] = {}
    for records, _ in world.topic.transactions:
        for letter in (msgspec.json.decode(one.value or b"") for one in records if one.topic == "dead-letters"):
            kinds.setdefault(letter["offset"], []).append(letter["kind"])
    return kinds


def story(seed: int) -> World:
    """Some messages are passed over, as an unknown fault would have it; most are tried again, some asked for twice."""
    rng = random.Random(seed)
    messages = captured(40, seed)
    world = World(PEOPLE, messages, {}, arrivals=rng.choice([0, 1, 5]))
    world.skips = sorted(rng.sample([message.offset for message in messages], 9))
    world.ask_to_retry(rng.sample(world.skips, 4))
    world.ask_to_retry(rng.sample(world.skips, 6))
    return world


def assert_done_once_and_in_order(world: World, seed: int) -> None:
    asked, said, meta = {offset for request in world.retries for offset in request}, answers(world), world.meta()
    last = {offset: kinds[-1] for offset, kinds in said.items()}
    applied = [offset for offset in asked if "retried" in said[offset]]
    assert all(kinds.count("retried") <= 1 and kinds[0] == "refused" for kinds in said.values())
    assert sorted(offset for _, offset in meta.retried) == sorted(applied)
    assert world.topic.transactions[-1][1].retried == meta.retried
    assert meta.counts.messages == len(world.messages)
    assert meta.counts.dead_letters == len(world.skips) - len(applied)
    assert len(published_table(world)) in (0, len(rows(world)))
    stand = frozenset(offset for offset in world.skips if last[offset] in ("refused", "refused-again"))
    assert rows(world) == rows_without(seed, stand)


@cache
def rows_without(seed: int, passed_over: frozenset[int]) -> dict[str, Row]:
    """The rows of a story in which nothing is tried again, and everything else is applied at its place."""
    world = World(PEOPLE, captured(40, seed), {})
    world.skips = sorted(passed_over)
    world.run(batch=50)
    return rows(world)


def test_what_is_tried_again_gives_the_table_that_it_would_have_given_at_its_place() -> None:
    kinds: Counter[str] = Counter()
    for seed in SEEDS:
        world = story(seed)
        world.run(batch=7)
        assert_done_once_and_in_order(world, seed)
        kinds.update(kinds_of[-1] for kinds_of in answers(world).values())
    assert min(kinds[kind] for kind in ("retried", "superseded", "refused-again")) > 5


@IN_SIXTHS
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_one_fault_at_every_numbered_step(fault: Fault, sixth: int) -> None:
    quiet = story(seed=1)
    quiet.run(batch=20)
    assert quiet.meta().retried
    for step in sixth_of(quiet.steps, sixth, fault):
        world = story(seed=1)
        world.plan = {step: fault}
        world.run(batch=20)
        assert_done_once_and_in_order(world, seed=1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_loses_commits_tries_the_same_again_at_the_same_places(seed: int) -> None:
    rng = random.Random(seed)
    world = story(seed)
    world.arrivals = 0
    world.run_in_parts((1, 12, 25), lambda: rng.choice([1, 4, 9]))
    retried, before, out = world.meta().retried, published_table(world), len(world.topic.transactions)
    world.lose_commits(rng.choice(world.snapshots))
    world.plan = {world.steps + rng.randrange(60): rng.choice(list(Fault)) for _ in range(rng.randrange(4))}
    world.run(batch=rng.choice([1, 3, 50]))
    assert (world.meta().retried, published_table(world)) == (retried, before)
    assert not any(one.topic == "live" for records, _ in world.topic.transactions[out:] for one in records)
    assert_done_once_and_in_order(world, seed)


def test_a_store_that_has_lost_nothing_but_what_was_tried_again_repeats_it() -> None:
    world = story(seed=1)
    later = world.retries.copy()
    world.control.clear()
    world.run(batch=50)
    world.snapshot()
    for offsets in later:
        world.ask_to_retry(offsets)
    world.run(batch=50)
    retried = world.meta().retried
    assert retried
    world.lose_commits(world.snapshots[0])
    world.run(batch=50)
    assert world.meta().retried == retried
    assert_done_once_and_in_order(world, seed=1)


def test_what_was_tried_again_and_is_not_in_the_input_any_more_refuses_the_replay() -> None:
    world = story(seed=1)
    world.run_in_parts([1], lambda: 50)
    world.lose_commits(world.snapshots[0])
    worker = world.worker()
    world.expired = set(world.skips)
    with pytest.raises(ShardRefused, match="was a dead letter that was tried again"):
        worker.read_on(worker.take_over(worker.input), 50)
