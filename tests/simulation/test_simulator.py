"""Crashes and lost answers at every numbered step of the loop: nothing lost, doubled, or below k for a reader."""

from __future__ import annotations

import random

import msgspec
import pytest

from simulation.simulator import Fault, World
from streamer.errors import ShardRefused
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Position
from streamer.table.schema import Limits
from worlds.small_tables import CITY, YEARS, table

PEOPLE = table(YEARS, CITY, k=2)
SEEDS = range(40)


def events(n: int, seed: int = 0) -> list[Message]:
    """Inserts, deletes, modifies and nonsense; offsets with gaps, as transactions leave them."""
    rng = random.Random(seed)
    messages, offset = [], 0
    for _ in range(n):
        key = rng.randrange(n // 2)
        row = {
            "id": key,
            "years": rng.randrange(11),  # 10 is out of the domain
            "city": rng.choice(["a1", "a2", "b1", "c1", "c2", "d1"]),
            "problem": rng.choice(["flu", "cough", None]),
        }
        value = rng.choice(
            [
                {"op": "insert", "row": row},
                {"op": "insert", "row": row},
                {"op": "delete", "key": key},
                {"op": "modify", "key": key, "row": {"years": rng.randrange(10)}},
                {"op": "delete", "where": "years = 3"} if rng.random() < 0.2 else {"op": "what"},
            ]
        )
        messages.append(Message(offset, None, msgspec.json.encode(value)))
        offset += rng.choice([1, 1, 1, 2])
    return messages


def tables_by_offset(messages: list[Message]) -> dict[int, dict[bytes, bytes]]:
    """The published table after each offset, from a run without faults and with batches of one."""
    world = World(PEOPLE, messages, {})
    world.run(batch=1)
    folded: dict[bytes, bytes] = {}
    tables = {0: {}}
    for records, position in world.topic.transactions:
        fold(folded, records)
        tables[position.next] = dict(folded)
    return tables


def fold(folded: dict[bytes, bytes], records) -> None:
    for record in records:
        if record.topic == "live":
            if record.value is None:
                del folded[record.key]
            else:
                folded[record.key] = record.value


def assert_nothing_lost_or_doubled(world: World, messages: list[Message]) -> None:
    tables = tables_by_offset(messages)
    folded: dict[bytes, bytes] = {}
    letters, commits = [], []
    for records, position in world.topic.transactions:
        fold(folded, records)
        assert folded == tables[position.next]  # every release is the table of exactly the events before it
        letters += [record.key for record in records if record.topic == "dead-letters"]
        commits.append(position.commit)
    assert commits == sorted(set(commits))
    assert len(letters) == len(set(letters))
    assert position.next == messages[-1].offset + 1
    meta = world.worker()._store._target.meta()
    assert meta.counts.messages == len(messages)
    assert meta.counts.dead_letters == len(letters)


MESSAGES = events(36)


def steps_of_a_quiet_run() -> int:
    world = World(PEOPLE, MESSAGES, {})
    world.run(batch=5)
    return world.steps


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_one_fault_at_every_numbered_step(fault: Fault) -> None:
    for step in range(steps_of_a_quiet_run()):
        world = World(PEOPLE, MESSAGES, {step: fault})
        world.run(batch=5)
        assert_nothing_lost_or_doubled(world, MESSAGES)


@pytest.mark.parametrize("seed", SEEDS)
def test_many_faults_at_random_steps(seed: int) -> None:
    rng = random.Random(seed)
    messages = events(60, seed)
    plan = {step: rng.choice(list(Fault)) for step in range(200) if rng.random() < 0.15}
    world = World(PEOPLE, messages, plan)
    world.run(batch=rng.choice([1, 3, 7, 20]))
    assert_nothing_lost_or_doubled(world, messages)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_loses_commits_is_repeated_from_the_input_and_publishes_nothing_twice(seed: int) -> None:
    rng = random.Random(seed)
    messages = events(60, seed)
    world = World(PEOPLE, messages, {})
    half = len(messages) // 2
    everything, world.messages = world.messages, messages[:half]
    world.snapshot()
    world.run(batch=rng.choice([1, 4, 9]))
    world.snapshot()
    world.messages = everything
    world.run(batch=rng.choice([1, 4, 9]))
    published = len(world.topic.transactions)
    world.lose_commits(rng.choice([None, *world.snapshots]))
    world.plan = {world.steps + rng.randrange(60): rng.choice(list(Fault)) for _ in range(rng.randrange(4))}
    world.run(batch=rng.choice([1, 3, 50]))
    assert len(world.topic.transactions) == published
    assert_nothing_lost_or_doubled(world, messages)


def test_a_zombie_publishes_nothing_more() -> None:
    world = World(PEOPLE, MESSAGES, {})
    sleeper = world.worker()
    sleeper.take_over(world.input_state())
    world.run(batch=5)
    published = len(world.topic.transactions)
    with pytest.raises(Exception, match=r"taken over|fenced"):
        sleeper.step(MESSAGES[:5])
    assert len(world.topic.transactions) == published


def quiet_world() -> World:
    world = World(PEOPLE, MESSAGES, {})
    world.run(batch=5)
    return world


@pytest.mark.parametrize(
    ("input_state", "says"),
    [
        (InputState({"changes": "second changes"}, 1, 0, 1000), "made anew"),
        (InputState({}, 2, 0, 1000), "had 1 partitions and has 2"),
        (InputState({}, 1, 900, 1000), "expired"),
        (InputState({}, 1, 0, 3), "ends at 3"),
    ],
)
def test_an_input_that_does_not_fit_is_refused_by_name(input_state: InputState, says: str) -> None:
    with pytest.raises(ShardRefused, match=says):
        quiet_world().worker().take_over(input_state)


def test_a_changed_table_is_refused() -> None:
    world = quiet_world()
    world.table = table(YEARS, CITY, k=3)
    with pytest.raises(ShardRefused, match=r"table\.yaml has changed"):
        world.worker().take_over(world.input_state())


def test_lost_positions_are_refused() -> None:
    world = quiet_world()
    world.topic.transactions.clear()
    with pytest.raises(ShardRefused, match="positions were lost"):
        world.worker().take_over(world.input_state())


def test_an_input_that_does_not_give_the_published_table_again_is_refused() -> None:
    world = quiet_world()
    world.lose_commits(None)
    world.messages[3] = Message(world.messages[3].offset, None, b'{"op":"what"}')
    with pytest.raises(ShardRefused, match="does not give the published table"):
        world.run(batch=5)


def test_a_commit_from_outside_cannot_be_repeated_from_the_input() -> None:
    world = quiet_world()
    records, last = world.topic.transactions[-1]
    values = {name: getattr(last, name) for name in last.__struct_fields__} | {"outside": last.commit}
    world.topic.transactions[-1] = (records, Position(**values))
    world.lose_commits(None)
    with pytest.raises(ShardRefused, match="did not come from the input"):
        world.worker().take_over(world.input_state())


def test_a_batch_is_cut_between_events_where_it_would_publish_too_much() -> None:
    limited = table(YEARS, CITY, k=2)
    object.__setattr__(limited, "limits", Limits(transaction_rows_max=10))
    world = World(limited, MESSAGES, {})
    world.run(batch=len(MESSAGES))
    assert len(world.topic.transactions) > 3
    most = max(len([r for r in records if r.topic == "live"]) for records, _ in world.topic.transactions)
    assert most <= 10 + 4 * limited.k
    world.table = PEOPLE
    assert_nothing_lost_or_doubled(world, MESSAGES)
