"""An output that is deleted and made again, with crashes at every step: a reader sees whole tables only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from simulation.simulator import SECRET, Died, Fault, World
from simulation.story import (
    HALF,
    IN_SIXTHS,
    MESSAGES,
    PEOPLE,
    fold,
    half_read,
    held_to_laws,
    lived_through_once,
    sixth_of,
    steps_of_a_quiet_run,
    table_before,
    tables_by_count,
)
from streamer.errors import ShardRefused
from streamer.incremental.release.records import OUTSIDE
from streamer.incremental.topics import DEAD_LETTERS, LIVE, POSITIONS

TABLES = tables_by_count(MESSAGES)


def table_at(offset: int, tables: list[dict[bytes, bytes]] = TABLES) -> dict[bytes, bytes]:
    return table_before(tables, MESSAGES, offset)


def interrupted(step: int) -> World:
    """A shard whose worker died at a numbered step, be it between its commit and what it publishes."""
    world = World(PEOPLE, MESSAGES, {step: Fault.DIE_AFTER})
    worker = world.worker()
    try:
        after = worker.take_over(world.input)
        while after < world.end:
            messages, after = world.read(after, 5)
            worker.step(messages, after)
    except Died:
        pass
    return world


def assert_a_reader_sees_whole_tables(world: World) -> None:
    """Reads the new topic from its beginning: the table of exactly the messages before it, from the first row on."""
    tables = TABLES if world.secret == SECRET else tables_by_count(MESSAGES, world.secret)
    folded: dict[bytes, bytes] = {}
    begun = False
    for records, position in world.topic.transactions[world.topic.begins[LIVE] :]:
        fold(folded, records)
        begun = begun or bool(folded)
        assert folded == (table_at(position.next, tables) if begun else {})
    assert folded == tables[-1]


def assert_letters_once(world: World) -> None:
    letters = [record.key for records, _ in world.topic.transactions for record in records if record.topic != LIVE]
    assert len(letters) == len(set(letters)) == world.meta().counts.dead_letters


def test_a_reader_of_a_new_output_never_sees_a_table_that_never_was() -> None:
    world = half_read()
    world.make_anew(LIVE)
    world.run(batch=5)
    assert_a_reader_sees_whole_tables(world)
    held_to_laws(world)
    assert_letters_once(world)


def test_what_was_committed_and_not_published_comes_with_the_whole_table_and_its_letters_are_not_lost() -> None:
    for step in range(steps_of_a_quiet_run()):
        world = interrupted(step)
        world.make_anew(LIVE)
        world.run(batch=5)
        assert_a_reader_sees_whole_tables(world)
        assert_letters_once(world)


@IN_SIXTHS
@pytest.mark.parametrize("kinds", [(LIVE,), (LIVE, POSITIONS), (LIVE, POSITIONS, DEAD_LETTERS)], ids="+".join)
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_one_fault_at_every_step_of_the_whole_release(fault: Fault, kinds: tuple[str, ...], sixth: int) -> None:
    for step in sixth_of(25, sixth, fault):
        world = half_read()
        world.make_anew(*kinds)
        world.plan = {world.steps + step: fault}
        world.run(batch=5)
        assert_a_reader_sees_whole_tables(world)
        held_to_laws(world)
        assert_letters_once(world)


@IN_SIXTHS
def test_differences_that_went_out_before_anybody_noticed_leave_no_row_behind(sixth: int) -> None:
    """The worker goes on for a moment into the new topic; what it wrote there is taken in by the whole release."""
    for unnoticed in range(1 + sixth, 10, 6):
        died = True
        for step in count():
            if not died:
                break  # all steps are behind it, and nobody died at this one
            world = half_read()
            worker = world.worker()
            after = worker.take_over(world.input)
            world.make_anew(LIVE)
            world.topic.ends[LIVE] = 1000  # somebody else has written to it: its offsets tell nothing
            world.plan = {world.steps + step: Fault.DIE_AFTER}
            died = False
            try:
                for message in [message for message in MESSAGES if message.offset >= after][:unnoticed]:
                    worker.step([message])
            except Died:
                died = True
            noticed = len(world.topic.transactions)
            world.plan = {}
            world.run(batch=5)
            assert _folds_to_whole_tables_from(world, noticed)


def _folds_to_whole_tables_from(world: World, noticed: int) -> bool:
    rows: dict[bytes, bytes | None] = {}
    for number, (records, position) in enumerate(world.topic.transactions):
        if number < world.topic.begins[LIVE]:
            continue
        for record in records:
            if record.topic == LIVE and record.value is None:
                rows.pop(record.key, None)
            elif record.topic == LIVE:
                rows[record.key] = record.value
        is_letters_only = not any(record.topic == LIVE for record in records)
        if number >= noticed and not is_letters_only and rows != table_at(position.next):
            return False
    return True


def not_begun() -> World:
    return World(PEOPLE, MESSAGES, {})


@lived_through_once
def committed_and_not_published() -> World:
    worlds = (interrupted(step) for step in range(20, steps_of_a_quiet_run()))
    return next(world for world in worlds if world.meta().commit == len(world.topic.transactions) + 1)


@IN_SIXTHS
@pytest.mark.parametrize("answers_late", [False, True])
@pytest.mark.parametrize("before", [not_begun, half_read, committed_and_not_published])
def test_an_output_recreated_before_any_step_never_holds_differences_alone(
    before: Callable[[], World], answers_late: bool, sixth: int
) -> None:
    for step in sixth_of(40, sixth, None):
        world = before()
        world.answers_late = answers_late
        world.happens = {world.steps + step: partial(world.make_anew, LIVE)}
        world.run(batch=5)
        world.run(batch=5)
        assert_a_reader_sees_whole_tables(world)
        assert_letters_once(world)


@IN_SIXTHS
@pytest.mark.parametrize("before", [not_begun, half_read, committed_and_not_published])
def test_an_output_recreated_in_the_midst_of_a_transaction_never_holds_differences_alone(
    before: Callable[[], World], sixth: int
) -> None:
    """Before any record, so that a transaction lies in both; and before its marker, which then lies in the new one."""
    for record in sixth_of(1_000, sixth, None):
        world = before()
        world.plan = {}
        world.happens_in_live = {world.taken_in_live + record: partial(world.make_anew, LIVE)}
        world.run(batch=5)
        world.run(batch=5)
        if LIVE not in world.topic.begins:
            break  # all that is written has been before it
        assert_a_reader_sees_whole_tables(world)
        assert_letters_once(world)
    assert record > 20


def lose_commits(world: World) -> None:
    world.snapshot()
    world.run(batch=5)
    world.lose_commits(world.snapshots[0])


@pytest.mark.parametrize(
    ("lose", "made_anew", "says"),
    [
        (lose_commits, LIVE, "lost commits"),
        (lambda world: world.lose_commits(None), LIVE, r"delete the topics people\.live and people\.positions"),
    ],
    ids=["commits and the output", "everything and the output"],
)
def test_what_cannot_be_published_from_is_refused_with_a_remedy_that_works(
    lose: Callable[[World], None], made_anew: str, says: str
) -> None:
    """Before: the input was read again without publishing, and the new output got differences to what it never held."""
    world = half_read()
    lose(world)
    world.make_anew(made_anew)
    with pytest.raises(ShardRefused, match=says):
        world.run(batch=5)
    world.make_anew(LIVE, POSITIONS)
    world.run(batch=5)
    assert_a_reader_sees_whole_tables(world)


def test_new_dead_letters_are_taken_in_silence() -> None:
    world = half_read()
    world.make_anew(DEAD_LETTERS)
    world.run(batch=5)
    assert world.meta().topic_ids[DEAD_LETTERS] == world.topic_ids[DEAD_LETTERS]
    world.topic.begins[LIVE] = 0
    assert_a_reader_sees_whole_tables(world)


def test_the_whole_release_is_one_transaction_and_counts_as_come_from_outside() -> None:
    world = half_read()
    world.make_anew(LIVE)
    world.written = HALF
    before = world.topic.transactions[-1][1]
    assert world.run(batch=5).published_anew
    assert not world.run(batch=5).published_anew
    (records, position), *more = world.topic.transactions[world.topic.begins[LIVE] :]
    assert not more
    assert {record.key: record.value for record in records} == table_at(before.next)
    assert (position.commit, position.release, position.next) == (before.commit + 1, 1, before.next)
    assert {OUTSIDE, ("whole", b"1")} <= {header for record in records for header in record.headers}
    assert position.outside == before.outside, "a replay has nothing of it to repeat"
