"""Schedules by number: what a seed makes happen to a shard or to several, each held to its laws, and what it comes to.

A kind of schedule is a function of a seed: it runs worlds with faults by chance, asserts what must hold of them, and
gives them back. `digest_of` says in one number what they published and what their stores hold in the end: so that a
shard's rewritten code can be held to the very bytes of the former one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256

from simulation import test_first_snapshots as snapshots
from simulation import test_forms as forms
from simulation import test_input_recreated as new_inputs
from simulation import test_output_lost as lost_outputs
from simulation import test_output_recreated as new_outputs
from simulation import test_rebuilds as rebuilds
from simulation import test_reload as starts
from simulation import test_retries as retries
from simulation import test_sealed as sealed
from simulation import test_truncations as truncations
from simulation.simulator import Fault, World
from simulation.story import MESSAGES, PEOPLE, assert_nothing_lost_or_doubled, events, faults
from simulation.truncating_source import SHARDS, Source, read_apart_and_lose, worlds_of
from streamer.errors import Fenced, ServerUnreachable, ShardRefused
from streamer.incremental.shard.requests import CancelRebuild, FullRebuild
from streamer.incremental.topics import LIVE
from streamer.table.schema import Limits
from worlds.published_groups import FORMS

Worlds = Sequence[World]


def with_faults(seed: int) -> Worlds:
    chance = random.Random(seed)
    messages = events(60, seed)
    world = World(PEOPLE, messages, faults(chance, 0.15), arrivals=chance.choice([0, 0.2, 1, 5]))
    world.run(batch=chance.choice([1, 3, 7, 20]))
    assert_nothing_lost_or_doubled(world, messages)
    return [world]


def with_a_store_that_lost_commits(seed: int) -> Worlds:
    chance = random.Random(seed)
    messages = events(60, seed)
    world = World(PEOPLE, messages, {})
    world.run_in_parts((1, 20, 40), lambda: chance.choice([1, 4, 9]))
    published = len(world.topic.transactions)
    world.lose_commits(chance.choice(world.snapshots))
    world.plan = faults(chance, 0.06, 60, world.steps)
    world.run(batch=chance.choice([1, 3, 50]))
    assert len(world.topic.transactions) == published
    assert_nothing_lost_or_doubled(world, messages)
    return [world]


def with_forms(seed: int) -> Worlds:
    chance = random.Random(seed)
    messages = events(60, seed)
    people = forms.TABLES[chance.choice(list(forms.TABLES))]
    world = World(people, messages, faults(chance, 0.15), arrivals=chance.choice([0, 0.2, 1, 5]))
    world.run(batch=chance.choice([1, 3, 7, 20]))
    forms.assert_true_and_lawful(world, messages)
    return [world]


def with_rebuilds(seed: int) -> Worlds:
    chance = random.Random(seed)
    messages = events(60, seed)
    world = rebuilds.rebuilt_world(messages, faults(chance, 0.1, 300), seed, chance.choice([0, 0.2, 1, 5]))
    world.run(batch=chance.choice([1, 3, 7]), tries_max=200)
    rebuilds.assert_nothing_lost_doubled_or_told_wrong(world, messages)
    return [world]


def between_batches(seed: int) -> Worlds:
    """Rebuilds that operators ask for and cancel, region by region, as the machine itself goes on with them."""
    chance = random.Random(seed)
    messages = events(60, seed)
    people = replace(PEOPLE, limits=Limits(transaction_rows_max=chance.choice([8, 1000])))
    world = World(people, messages, faults(chance, chance.choice([0, 0.02, 0.1]), 300), chance.choice([0, 1, 5]))
    world.between = random.Random(seed)
    for number in range(chance.randrange(1, 4)):
        world.wanted.append(FullRebuild(0, f"r{number}", 0, chance.choice(["", "ola"])).to_json())
        if chance.random() < 0.3:
            world.wanted.append(CancelRebuild(0, f"c{number}", 0).to_json())
    world.run(batch=chance.choice([1, 3]), tries_max=200)
    assert all(one.rebuild.id[0] in "rc" for one in world.meta().rebuilds)
    rebuilds.assert_people_are_told_right(world, messages)
    return [world]


def with_a_first_snapshot(seed: int) -> Worlds:
    chance = random.Random(seed)
    world = World(PEOPLE, snapshots.MESSAGES, faults(chance, 0.1), arrivals=chance.choice([0, 0.5, 2]))
    world.records_max = chance.choice([4, 1000])
    world.run(batch=chance.choice([1, 3, 7]), tries_max=300)
    snapshots.assert_whole(world)
    return [world]


def with_retries(seed: int) -> Worlds:
    chance = random.Random(seed)
    world = retries.story(seed)
    world.plan = faults(chance, 0.05)
    world.run(batch=chance.choice([1, 4, 9]), tries_max=200)
    retries.assert_done_once_and_in_order(world, seed)
    return [world]


def with_truncations(seed: int) -> Worlds:
    chance = random.Random(seed)
    source = Source(chance)
    source.happen(90)
    source.captured()
    worlds = worlds_of(source.partitions, [faults(chance, 0.05, 400) for _ in range(SHARDS)])
    read_apart_and_lose(worlds, chance)
    truncations.assert_the_shards_hold_what_the_source_holds(worlds, source)
    return worlds


def with_sealed_cohorts(seed: int) -> Worlds:
    return [sealed.run_with_retries_and_lost_commits(seed)]


def with_an_output_recreated(seed: int) -> Worlds:
    chance = random.Random(seed)
    world = World(PEOPLE, MESSAGES, {})
    for read in sorted(chance.sample(range(1, len(MESSAGES)), 4)):
        world.written = read
        world.plan = faults(chance, 0.15, 60, world.steps)
        world.run(batch=chance.choice([1, 4]))
        world.make_anew(LIVE)
    world.written = None
    world.run(batch=5)
    new_outputs.assert_a_reader_sees_whole_tables(world)
    new_outputs.assert_letters_once(world)
    return [world]


def with_an_output_that_lost_records(seed: int) -> Worlds:
    chance = random.Random(seed)
    world = World(lost_outputs.ALL_FORMS[chance.choice(list(lost_outputs.ALL_FORMS))], MESSAGES, {})
    for read in sorted(chance.sample(range(1, len(MESSAGES)), 4)):
        world.written = read
        world.plan = faults(chance, 0.1, 60, world.steps)
        world.run(batch=chance.choice([1, 4]), tries_max=200)
        lost_outputs.LOSSES[chance.choice(list(lost_outputs.LOSSES))](world)
    world.plan, world.written, commit = {}, None, world.meta().commit
    world.run(batch=5)
    lost_outputs.assert_readers_see_whole_tables(world, commit + 1)
    return [world]


def with_an_input_recreated(seed: int) -> Worlds:
    chance = random.Random(seed)
    world = World(PEOPLE, MESSAGES, faults(chance, 0.1, 100))
    world.answers_late = chance.random() < 0.5
    world.happens = {chance.randrange(60): partial(world.make_input_anew, new_inputs.OTHERS)}
    if new_inputs.read_until_refused(world, chance.choice([1, 4])):
        new_inputs.assert_published_from(world, MESSAGES, new_inputs.TABLES)
    else:
        new_inputs.assert_published_from(world, new_inputs.OTHERS, new_inputs.OTHER_TABLES)
    return [world]


def with_a_reload(seed: int) -> Worlds:
    chance = random.Random(seed)
    world = starts.half_read(replace(PEOPLE, form=chance.choice(FORMS)))
    new = replace(starts.STRICTER, form=world.table.form)
    records_max = chance.choice([7, 1000])
    world.plan = {world.steps + chance.randrange(30): chance.choice([Fault.LOST_BEFORE, Fault.LOST_AFTER])}
    for _ in range(3):
        try:
            starts.begin(world, new, records_max=records_max)
            break
        except (ServerUnreachable, Fenced, ShardRefused):
            continue
    world.plan = {}
    starts.assert_begun(world)
    return [world]


KINDS: Mapping[str, Callable[[int], Worlds]] = {
    "faults": with_faults,
    "lost commits": with_a_store_that_lost_commits,
    "forms": with_forms,
    "rebuilds": with_rebuilds,
    "between batches": between_batches,
    "first snapshot": with_a_first_snapshot,
    "retries": with_retries,
    "truncations": with_truncations,
    "sealed cohorts": with_sealed_cohorts,
    "output made anew": with_an_output_recreated,
    "output lost records": with_an_output_that_lost_records,
    "input made anew": with_an_input_recreated,
    "start anew": with_a_reload,
}


def digest_of(worlds: Worlds) -> str:
    """What was published, in its order, and what is stored; fences are drawn by chance and left out."""
    known = sha256()
    for world in worlds:
        for records, position in world.topic.transactions:
            known.update(position.to_json())
            for record in records:
                known.update(repr((record.topic, record.key, record.value, record.headers)).encode())
        for name, shard in sorted(world.server.shards.items()):
            known.update(repr((name, shard.commit, shard.meta, sorted(shard.records.items()))).encode())
            known.update(repr((sorted(shard.qi_groups.items()), sorted(shard.origins.items()))).encode())
            known.update(repr((sorted(shard.similarity.items()), [*shard.statement_ids])).encode())
            if shard.sealed:
                known.update(repr((sorted(shard.sealed.items()), sorted(shard.cohorts.items()))).encode())
            known.update(repr([(n, entry.topic, entry.key, entry.value) for n, entry in shard.outbox]).encode())
    return known.hexdigest()[:16]
