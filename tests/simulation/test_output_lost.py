"""Topics that lose their end or beginning, with faults at every step: what readers see after that is the whole table.

A broker with one replica loses the end of a log in a power failure; retention, or a person, deletes the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from simulation.simulator import Fault, World
from simulation.story import IN_SIXTHS, MESSAGES, PEOPLE, half_read, sixth_of, table_before, tables_by_count
from streamer.errors import ShardRefused
from streamer.incremental import remedies
from streamer.incremental.checks.changelog import ChangelogLaws
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.shard.input import Message
from streamer.incremental.store.memory import MemoryServer
from streamer.incremental.topics import OUTPUTS, POSITIONS, outputs_of
from worlds.published_groups import FORMS

ALL_FORMS = {form: replace(PEOPLE, form=form) for form in FORMS}


def assert_readers_see_whole_tables(world: World, since: int) -> None:
    """From transaction `since` on; before it the broker lost what it lost."""
    tables = tables_by_count(MESSAGES, people=world.table)
    rows: dict[bytes, bytes] = {}
    for records, position in world.topic.in_topic(*OUTPUTS):
        for record in records:
            if record.value is None:
                rows.pop(record.key, None)  # its row may be lost
            else:
                rows[record.key] = record.value
        if position.commit >= since:
            assert rows == table_before(tables, MESSAGES, position.next)
    assert rows == tables[-1]
    letters = [one.key for records, _ in world.topic.transactions for one in records if one.topic not in OUTPUTS]
    assert len(letters) == len(set(letters)) == world.meta().counts.dead_letters


def lose_ends(world: World, *kinds: str, transactions: int = 2) -> None:
    for kind in kinds or outputs_of(world.table.form):
        world.topic.lose_end(kind, transactions)


def lose_beginnings(world: World) -> None:
    for kind in outputs_of(world.table.form):
        world.topic.lose_beginning(kind, 2)


LOSSES: dict[str, Callable[[World], None]] = {
    "end": lose_ends,
    "end of one": lambda world: lose_ends(world, outputs_of(world.table.form)[0]),
    "end, positions too": lambda world: lose_ends(world, *outputs_of(world.table.form), POSITIONS),
    "end of the positions": lambda world: lose_ends(world, POSITIONS, transactions=1),
    "more of the positions": lambda world: lose_ends(world, POSITIONS, transactions=3),
    "beginning": lose_beginnings,
    "all": lambda world: world.topic.lose_beginning(outputs_of(world.table.form)[0], 1000),
}


@pytest.mark.parametrize("form", ALL_FORMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_an_output_that_lost_records_gets_the_whole_table_in_one_release(loss: str, form: str) -> None:
    """Before: differences went on top of what was gone, and readers saw QI groups of one row for ever."""
    world = half_read(ALL_FORMS[form])
    commit, release = world.meta().commit, world.meta().release
    LOSSES[loss](world)
    assert world.run(batch=5).engine.n_rows
    assert_readers_see_whole_tables(world, commit + 1)
    records, position = next(one for one in world.topic.in_topic(*OUTPUTS) if one[1].commit == commit + 1)
    assert position.release == release + 1
    assert {dict(record.headers)["whole"] for record in records} == {b"%d" % position.release}


@IN_SIXTHS
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
@pytest.mark.parametrize(
    "loss", [pytest.param(one, marks=() if one in ("end", "all") else pytest.mark.night) for one in LOSSES]
)
def test_one_fault_at_every_step_after_a_loss(loss: str, fault: Fault, sixth: int) -> None:
    for step in sixth_of(25, sixth, fault):
        world = half_read()
        commit = world.meta().commit
        LOSSES[loss](world)
        world.plan = {world.steps + step: fault}
        world.run(batch=5)
        assert_readers_see_whole_tables(world, commit + 1)


ALL_GONE = Message(MESSAGES[-1].offset + 1, None, b'{"op":"delete","where":"years >= 0"}')


@pytest.mark.parametrize("form", ALL_FORMS)
def test_a_log_of_an_empty_table_that_lost_records_says_that_it_is_whole_and_says_it_once(form: str) -> None:
    """Before: no record said so, and readers were refused until the first row came."""
    world = World(ALL_FORMS[form], [*MESSAGES, ALL_GONE], {})
    assert not world.run(batch=5).engine.n_rows
    ends, release = dict(world.topic.ends), world.meta().release + 1
    for kind in outputs_of(form):
        world.topic.lose_beginning(kind, 1000)
    world.run(batch=5)
    published = len(world.topic.transactions)
    world.run(batch=5)
    assert len(world.topic.transactions) == published
    records, position = world.topic.transactions[-1]
    assert position.release == release
    assert [(one.topic, one.value) for one in records] == [(kind, None) for kind in outputs_of(form)]
    for record in records:
        said = dict(record.headers)
        assert (said["whole"], said["begins"]) == (b"%d" % release, b"%d" % ends[record.topic])
    written = [(record.key, record.value) for record in records]
    ChangelogLaws(world.table).check(FoldedRelease(0, release, position.next, written, whole=release))


def test_a_table_whose_output_was_mended_is_replayed_after_a_loss_of_redis() -> None:
    world = half_read()
    LOSSES["end"](world)
    world.run(batch=5)
    position = world.topic.transactions[-1][1]
    published = len(world.topic.transactions)
    world.server = MemoryServer()
    world.run(batch=5)
    assert len(world.topic.transactions) == published
    assert (world.meta().commit, world.meta().whole) == (position.commit, position.whole)


@pytest.mark.parametrize("fault", [None, Fault.DIE_AFTER, Fault.ZOMBIE])
def test_an_input_that_lost_its_end_and_was_covered_by_new_messages_is_refused(fault: Fault | None) -> None:
    """Before: the worker read on from its offset, and confirmed messages were never applied."""
    world = half_read()
    at = world.meta().next - 1
    world.messages = [
        one if one.offset < at - 3 else Message(one.offset, one.key, one.value, timestamp=7) for one in world.messages
    ]
    world.plan = {} if fault is None else {world.steps: fault}
    with pytest.raises(ShardRefused, match="holds another message, or none, at offset") as refused:
        world.run(batch=5)
    assert remedies.reload_from_file("people") in str(refused.value)
