"""Crashes and lost answers at every numbered step of the loop: nothing lost, doubled, or below k for a reader."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from msgspec.structs import replace

from simulation.simulator import ANOTHER_SECRET, SECRET, Fault, FragileEngine, World
from simulation.story import (
    MESSAGES,
    PEOPLE,
    assert_nothing_lost_or_doubled,
    events,
    steps_of_a_quiet_run,
)
from streamer.errors import Fenced, ShardRefused
from streamer.incremental.shard import machine
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.requests import Secret, secrets_in
from streamer.incremental.topics import CONTROL
from streamer.table.schema import Limits
from worlds.small_tables import CITY, YEARS, table

SEEDS = range(40)


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_one_fault_at_every_numbered_step(fault: Fault) -> None:
    for step in range(steps_of_a_quiet_run()):
        world = World(PEOPLE, MESSAGES, {step: fault})
        world.run(batch=5)
        assert_nothing_lost_or_doubled(world, MESSAGES)


@pytest.mark.parametrize("fault", [Fault.MOVED, Fault.LOST_AFTER], ids=lambda fault: fault.value)
def test_a_retry_never_takes_a_shard_back_that_moved_on(fault: Fault) -> None:
    """An answer is lost, and before the next try another worker has the shard: at any two steps."""
    for step in range(steps_of_a_quiet_run()):
        world = World(PEOPLE, MESSAGES, {step: fault, step + 1: Fault.LOST_AFTER, step + 2: Fault.MOVED}, arrivals=1)
        world.run(batch=5)
        assert_nothing_lost_or_doubled(world, MESSAGES)


def test_who_was_shut_out_stays_shut_out_however_often_it_tries() -> None:
    world = World(PEOPLE, MESSAGES, {})
    sleeper = world.worker()
    sleeper.take_over(world.state())
    owner = world.other_worker_takes_over()
    for _ in range(3):
        with pytest.raises(Fenced):
            sleeper.take_over(world.state())
    owner.step(MESSAGES[1:5])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_loses_commits_is_repeated_from_the_input_and_publishes_nothing_twice(seed: int) -> None:
    rng = random.Random(seed)
    messages = events(60, seed)
    world = World(PEOPLE, messages, {})
    world.run_in_parts((1, len(messages) // 3, 2 * len(messages) // 3), lambda: rng.choice([1, 4, 9]))
    published = len(world.topic.transactions)
    world.lose_commits(rng.choice(world.snapshots))
    world.plan = {world.steps + rng.randrange(60): rng.choice(list(Fault)) for _ in range(rng.randrange(4))}
    world.run(batch=rng.choice([1, 3, 50]))
    assert len(world.topic.transactions) == published
    assert_nothing_lost_or_doubled(world, messages)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_was_emptied_comes_back_by_itself_also_where_rows_are_alike(seed: int) -> None:
    """The control topic has its secret. It is emptied once more in the middle of the replay, and faults come, too."""
    rng = random.Random(seed)
    messages = events(60, seed)
    world = World(PEOPLE, messages, {})
    world.run_in_parts((20, 40), lambda: 5)
    published = len(world.topic.transactions)
    world.lose_commits(None)
    replayed = world.worker()
    replayed.read_on(replayed.take_over(replayed.input), rng.randrange(1, 40))
    world.lose_commits(None)
    world.plan = {world.steps + rng.randrange(60): rng.choice(list(Fault)) for _ in range(rng.randrange(4))}
    world.run(batch=rng.choice([1, 3, 50]))
    assert len(world.topic.transactions) == published
    assert_nothing_lost_or_doubled(world, messages)


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_a_shard_has_one_secret_whatever_happens_to_the_worker_that_draws_it(fault: Fault) -> None:
    """It is kept before the first commit; a worker that begins after that draws another in vain."""
    for step in range(14):
        world = World(PEOPLE, MESSAGES[:10], {step: fault})
        world.run(batch=5)
        assert [one.plain for one in secrets_in(world.control, 0)] == [world.meta().secret] == [SECRET]


def test_a_recreated_control_topic_gets_the_secret_again_and_a_lost_redis_is_no_harm() -> None:
    world = World(PEOPLE, MESSAGES, {})
    world.written = 20
    world.run(batch=5)
    recreate_control(world)
    world.written = None
    world.run(batch=5)
    world.lose_commits(None)
    world.run(batch=5)
    assert [one.plain for one in secrets_in(world.control, 0)] == [SECRET]
    assert_nothing_lost_or_doubled(world, MESSAGES)


def recreate_control(world: World) -> None:
    world.control.clear()
    world.make_anew(CONTROL)


def test_a_store_with_another_secret_than_the_control_topic_is_refused_before_its_owner_is_shut_out() -> None:
    world = quiet_world()
    world.control[0] = Secret(0, b"of another table").to_json()
    epoch = world.topic.epoch
    worker = world.worker()
    with pytest.raises(ShardRefused, match="Redis has another secret than the control topic") as refused:
        worker.take_over(worker.input)
    assert (world.topic.epoch, str(SECRET) in str(refused.value)) == (epoch, False)


def test_a_store_emptied_together_with_the_control_topic_is_refused_and_a_former_copy_still_helps() -> None:
    world = World(PEOPLE, MESSAGES, {})
    world.run_in_parts([20], lambda: 5)
    recreate_control(world)
    world.lose_commits(None)
    world.secret = ANOTHER_SECRET
    with pytest.raises(ShardRefused, match="secret by which rows that are alike are ordered was lost"):
        world.run(batch=5)
    assert not secrets_in(world.control, 0), "a secret that gives another table must not be kept"
    world.lose_commits(world.snapshots[0])
    world.run(batch=5)
    assert_nothing_lost_or_doubled(world, MESSAGES)
    assert [one.plain for one in secrets_in(world.control, 0)] == [SECRET]


def test_a_zombie_publishes_nothing_more() -> None:
    world = World(PEOPLE, MESSAGES, {})
    sleeper = world.worker()
    sleeper.take_over(world.state())
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
        (InputState({"changes": "second changes"}, 1, 0, 1000), "recreated"),
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
        world.worker().take_over(world.state())


def test_an_input_that_does_not_give_the_published_table_again_is_refused() -> None:
    world = World(PEOPLE, MESSAGES, {})
    world.run_in_parts([1], lambda: 5)
    world.lose_commits(world.snapshots[0])
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
        world.worker().take_over(world.state())


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


# -- messages that break the engine -----------------------------------------------------------------------------------


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Publishers with an engine that some rows break."""
    monkeypatch.setattr(machine, "Engine", FragileEngine)
    yield
    FragileEngine.chances = 0


NONSENSE = b'{"op":"what"}'


def with_poison(messages: list[Message], problems: Sequence[bytes], rng: random.Random) -> list[Message]:
    """Some inserts replaced by rows that break the engine; never two of them side by side."""
    poisoned = list(messages)
    for place in range(rng.randrange(2), len(messages), rng.choice([4, 7, 11])):
        problem = json.loads(rng.choice(problems))
        row = {"id": 900 + place, "years": rng.randrange(10), "city": "b1", "problem": problem}
        value = msgspec.json.encode({"op": "insert", "row": row})
        poisoned[place] = replace(messages[place], value=value)
    return poisoned


def as_refused(messages: list[Message], offsets: Sequence[int]) -> list[Message]:
    """The same input with other dead letters at these offsets: it has to give the same tables."""
    return [replace(one, value=NONSENSE) if one.offset in offsets else one for one in messages]


@pytest.mark.usefixtures("fragile")
@pytest.mark.parametrize("seed", SEEDS)
def test_messages_that_break_the_engine_become_dead_letters_and_nothing_else_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    quiet = events(60, seed)
    messages = with_poison(quiet, [FragileEngine.BREAKS, FragileEngine.BREAKS_A_LAW], rng)
    plan = {step: rng.choice(list(Fault)) for step in range(200) if rng.random() < rng.choice([0, 0.1])}
    world = World(PEOPLE, messages, plan, arrivals=rng.choice([0, 1]))
    world.run(batch=rng.choice([1, 3, 7, 60]), tries_max=200)
    poison = [one.offset for one, other in zip(messages, quiet, strict=True) if one != other]
    assert list(world.meta().skipped) == poison
    sent = [record for records, _ in world.topic.transactions for record in records if record.topic == "dead-letters"]
    reasons = [json.loads(letter.value or b"")["reason"] for letter in sent]
    assert reasons.count("internal-error") == len(poison)
    assert_nothing_lost_or_doubled(world, as_refused(messages, poison))


@pytest.mark.usefixtures("fragile")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_passes_over_what_was_passed_over_though_it_could_be_applied_now(seed: int) -> None:
    """Errors by chance, and skips: only the published position knows of them when the store lost its commits."""
    rng = random.Random(seed)
    messages = with_poison(events(60, seed), [FragileEngine.BREAKS_BY_CHANCE], rng)
    world = World(PEOPLE, messages, {})
    world.skips = rng.sample([message.offset for message in messages], 5)
    FragileEngine.chances = 4
    world.run_in_parts((1, len(messages) // 2), lambda: rng.choice([1, 4, 9]))
    published, skipped = len(world.topic.transactions), world.meta().skipped
    assert set(world.skips) < set(skipped)
    world.lose_commits(rng.choice(world.snapshots))
    world.skips = rng.choice([[], world.skips, [message.offset for message in messages]])  # too late for all of these
    world.plan = {world.steps + rng.randrange(60): rng.choice(list(Fault)) for _ in range(rng.randrange(4))}
    world.run(batch=rng.choice([1, 3, 50]))
    assert (len(world.topic.transactions), world.meta().skipped) == (published, skipped)
    FragileEngine.chances = 0
    assert_nothing_lost_or_doubled(world, as_refused(messages, skipped))


@pytest.mark.usefixtures("fragile")
def test_a_replay_that_fails_where_nothing_was_passed_over_stops_and_says_so() -> None:
    world = World(PEOPLE, with_poison(MESSAGES, [FragileEngine.BREAKS_BY_CHANCE], random.Random(1)), {})
    world.run(batch=5)
    world.lose_commits(None)
    FragileEngine.chances = 1
    with pytest.raises(ShardRefused, match=r"offset \d+ has been decided and cannot be repeated: RecursionError in"):
        world.run(batch=5)


# -- an input whose beginning moves -----------------------------------------------------------------------------------


def test_a_marker_that_expired_behind_everything_read_is_not_missed() -> None:
    """Retention took all there was, the marker of the last transaction as well."""
    world = quiet_world()
    world.earliest = world.end
    assert world.worker().take_over(world.state()) == world.end


def test_messages_that_expired_before_they_were_read_are_missed() -> None:
    world = World(PEOPLE, MESSAGES, {})
    world.written = 30
    world.run(batch=5)
    world.written = None
    world.earliest = MESSAGES[31].offset
    with pytest.raises(ShardRefused, match="expired"):
        world.worker().take_over(world.state())
