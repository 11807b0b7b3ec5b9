"""Refused messages are retried in shards whose source truncates the table: no one who is gone comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from simulation.simulator import Fault, World
from simulation.truncating_source import SHARDS, Source, begun, read_to_the_end, rows_kept, worlds_of
from streamer.incremental.shard.input import Message
from streamer.incremental.store.memory import MemoryServer, MemoryStore

SEEDS = range(10)

Letters = dict[int, list[tuple[str, str]]]
"""By offset, kind and reason of each letter about it, in the order they were written."""


def letters_of(world: World) -> Letters:
    found: Letters = {}
    for records, _ in world.topic.transactions:
        for letter in (msgspec.json.decode(one.value or b"") for one in records if one.topic == "dead-letters"):
            found.setdefault(letter["offset"], []).append((letter["kind"], letter["reason"]))
    return found


def story(seed: int, faults: float) -> tuple[list[World], Random]:
    """Some rows of each shard are passed over, as an unknown fault would have it; operators want most tried again."""
    chance = Random(seed)
    source = Source(chance)
    source.happen(70)
    plans = [
        {step: chance.choice(list(Fault)) for step in range(300) if chance.random() < faults} for _ in range(SHARDS)
    ]
    worlds = worlds_of(source.captured(restarts=0).partitions, plans)  # what is sent twice must not be passed over once
    for world in worlds:
        world.skips = sorted(chance.sample([one.offset for one in world.messages[:-1] if not truncates(one)], 8))
    return worlds, chance


def truncates(message: Message) -> bool:
    return b'"op": "t"' in (message.value or b"")


def read_apart(worlds: Sequence[World], chance: Random) -> None:
    """The shards read, hear, try again and lose commits as chance has it."""
    for world in worlds:
        world.hears = Random(chance.random())
    for _ in range(12):
        world = chance.choice(worlds)
        world.written = min(len(world.messages), (world.written or 0) + chance.randrange(20))
        read = [offset for offset in world.skips if offset < world.written]
        if read and chance.random() < 0.6:
            world.ask_to_retry(chance.sample(read, min(len(read), 3)))
        if world.written:
            world.run(batch=chance.choice([1, 3, 8]), tries_max=200)
            world.snapshot()
        if chance.random() < 0.3 and (earlier := snapshots_before(world)):
            world.lose_commits(chance.choice(earlier))
    read_to_the_end(worlds)


def snapshots_before(world: World) -> list[MemoryServer]:
    """Of a store that lacks messages; one that lacks letters alone, and says the same otherwise, is refused."""
    stores = [(kept, MemoryStore(kept, world.table.name, world.shard).meta()) for kept in world.snapshots]
    return [kept for kept, meta in stores if meta is not None and meta.next < world.meta().next]


def assert_the_shards_hold_what_messages_at_their_places_give(worlds: Sequence[World]) -> None:
    """What stands refused is as if it were never said; all else as if it had never been refused."""
    others = worlds_of([world.messages[:-1] for world in worlds])
    for world, other in zip(worlds, others, strict=True):
        said, meta = letters_of(world), world.meta()
        other.skips = [offset for offset, kinds in said.items() if kinds[-1][0] in ("refused", "refused-again")]
        applied = [offset for offset, kinds in said.items() if "retried" in dict(kinds)]
        assert sorted(offset for _, offset in meta.retried) == sorted(applied), "each is applied once"
        assert world.topic.transactions[-1][1].retried == meta.retried
        assert meta.counts.dead_letters == len(world.skips) - len(applied)
    read_to_the_end(others)
    assert [rows_kept(world) for world in worlds] == [rows_kept(other) for other in others]


@pytest.mark.parametrize("seed", SEEDS)
def test_shards_that_try_again_and_hear_of_truncations_at_any_time_hold_what_is_said(seed: int) -> None:
    worlds, chance = story(seed, faults=0.03)
    read_apart(worlds, chance)
    assert_the_shards_hold_what_messages_at_their_places_give(worlds)


def test_a_loss_repeats_both_in_their_order() -> None:
    """And the runs meet what they are about: both between the same two messages, and letters of rows that are gone."""
    met: Counter[str] = Counter()
    for seed in range(8):
        worlds, chance = story(seed, faults=0)
        begun(worlds)
        read_apart(worlds, chance)
        for world in worlds:
            before, out = (rows_kept(world), world.meta().retried), len(world.topic.transactions)
            met["retried"] += bool(world.meta().retried)
            met.update(kinds[-1][1] for kinds in letters_of(world).values())
            repeated = world.repeated
            world.lose_commits(world.snapshots[0])
            world.run(batch=4)
            assert (rows_kept(world), world.meta().retried) == before
            assert not any(one.topic == "live" for records, _ in world.topic.transactions[out:] for one in records)
            met["both repeated"] += world.repeated > repeated and bool(world.meta().retried)
        assert_the_shards_hold_what_messages_at_their_places_give(worlds)
    assert min(met[what] for what in ("retried", "both repeated", "superseded", "before-a-truncation")) > 1, met
