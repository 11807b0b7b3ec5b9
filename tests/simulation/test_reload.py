"""A table reloaded with faults at every step: whole QI groups for every reader, and no worker takes half of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simulation import story
from simulation.model_kafka import ModelOutlet
from simulation.reloaded_table import N_NEW, first_table, new_rows
from simulation.simulator import Died, Fault, Faulty, World
from simulation.story import HALF, MESSAGES, PEOPLE, held_to_laws, published_table, tables_by_count
from streamer.errors import Fenced, ServerUnreachable, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.checks.changelog import ChangelogLaws
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.release.records import OUTSIDE
from streamer.incremental.shard.bootstrap import Begun, reload
from streamer.incremental.shard.first_commits import FirstTable, prepare
from streamer.incremental.shard.requests import secrets_in
from streamer.incremental.store.base import Meta
from streamer.incremental.store.memory import MemoryStore
from streamer.incremental.topics import CHANGES, POSITIONS, QIT, STT, outputs_of
from streamer.table.encode import EncodedRows
from streamer.table.schema import GROUPS, LOSSY_JOIN, ROWS, Table
from worlds.published_groups import FORMS
from worlds.small_tables import CITY, YEARS, table

STRICTER = table(YEARS, CITY, k=3)
PUBLISHING = 8
"""The step of a reload that publishes its first commit."""


def begin(world: World, new: Table = STRICTER, next_: int | None = None, records_max: int = 1000) -> Begun:
    """An operator's command."""
    world.table = new
    prepared = prepare(new, 0, 1, first_table(world, new_rows(), new.k, next_))
    store = Faulty(world, MemoryStore(world.server, new.name, 0))
    outlet: Any = Faulty(world, ModelOutlet(world.topic, world.shard))
    return reload(new, 0, store, outlet, world.state(), prepared, records_max, world.kept_secret)


def half_read(table: Table = PEOPLE) -> World:
    """Of which the other half is not written yet."""
    world = story.half_read(table)
    world.written = HALF
    return world


def assert_lawful(world: World) -> ChangelogLaws:
    """k is that of the former table."""
    return held_to_laws(world, of=replace(PEOPLE, form=world.table.form), outside=True)


def source_keys(world: World) -> set[str]:
    state = MemoryStore(world.server, world.table.name, 0).load()
    assert state is not None
    return {key for key, _ in state.kept.records}


def assert_begun(world: World) -> None:
    """Store and output hold the new table and nothing else, and a worker goes on with it."""
    assert source_keys(world) == set(new_rows())
    assert assert_lawful(world).n_rows == N_NEW
    before = published_table(world)
    worker = world.run(batch=5)
    assert published_table(world) == before
    assert (worker.engine.n_rows, worker.meta.secret) == (N_NEW, world.kept_secret().secret)
    assert len(secrets_in(world.control, 0)) == 1
    assert_lawful(world)


def test_the_output_turns_into_the_new_table_in_one_release_that_says_so() -> None:
    world = half_read()
    before = world.topic.transactions[-1][1]
    begin(world)
    records, position = world.topic.transactions[-1]
    assert all(OUTSIDE in record.headers for record in records)
    assert (position.commit, position.release) == (before.commit + 1, before.release + 1)
    assert position.outside == position.commit
    assert_begun(world)


@pytest.mark.parametrize("records_max", [1000, 7])
def test_what_a_reload_did_is_told_in_numbers(records_max: int) -> None:
    world = half_read()
    removed, before = len(published_table(world)), world.topic.transactions[-1][1].release
    told = begin(world, records_max=records_max)
    state = MemoryStore(world.server, world.table.name, 0).load()
    assert state is not None
    releases = world.topic.transactions[-1][1].release - before
    assert told == Begun(0, N_NEW, 0, len([*state.kept.qi_groups]), removed, releases, world.end, 0, 0)


def test_numbers_go_on_above_all_that_were_published() -> None:
    world = half_read()
    before = world.topic.transactions[-1][1].qi_group_next
    begin(world)
    kept = MemoryStore(world.server, world.table.name, 0).load()
    assert kept is not None
    assert min(dict(kept.kept.qi_groups)) == before


@pytest.mark.parametrize("lost", ["nothing", "redis", "some commits", "positions", "redis and positions", "output"])
@pytest.mark.parametrize("records_max", [1000, 7])
@pytest.mark.parametrize("form", FORMS)
def test_whatever_is_lost_the_output_ends_with_the_new_table(form: str, lost: str, records_max: int) -> None:
    world = half_read(replace(PEOPLE, form=form))
    world.snapshot()
    world.written = None
    world.run(batch=5)
    if "redis" in lost or lost == "some commits":
        world.lose_commits(world.snapshots[0] if lost == "some commits" else None)
    if "positions" in lost:
        world.make_anew(POSITIONS)
    if lost == "output":
        world.make_anew(*outputs_of(form))
    begin(world, replace(STRICTER, form=form), records_max=records_max)
    assert_begun(world)


@pytest.mark.parametrize("kind", [QIT, STT])
def test_of_two_topics_of_which_one_is_lost_the_other_is_emptied(kind: str) -> None:
    world = half_read(replace(PEOPLE, form=LOSSY_JOIN))
    world.make_anew(kind)
    begin(world, replace(STRICTER, form=LOSSY_JOIN))
    laws = ChangelogLaws(world.table)
    laws.check(FoldedRelease(0, 1, world.end, list(published_table(world).items())))
    assert laws.n_rows == N_NEW
    assert world.run(batch=5).engine.n_rows == N_NEW


@pytest.mark.parametrize(("before", "after"), [(ROWS, GROUPS), (GROUPS, ROWS)])
def test_a_table_may_begin_anew_in_another_form_of_the_same_topic(before: str, after: str) -> None:
    """What was published goes, however it was written; only the laws of one form cannot be held to both."""
    world = half_read(replace(PEOPLE, form=before))
    begin(world, replace(PEOPLE, form=after))
    laws = ChangelogLaws(world.table)
    laws.check(FoldedRelease(0, 1, world.end, list(published_table(world).items())))
    assert laws.n_rows == N_NEW
    assert world.run(batch=5).engine.n_rows == N_NEW


def steps_of_a_start(records_max: int) -> int:
    world = half_read()
    before = world.steps
    begin(world, records_max=records_max)
    return world.steps - before


@pytest.mark.parametrize("records_max", [1000, 7])
@pytest.mark.parametrize("fault", [Fault.DIE_BEFORE, Fault.DIE_AFTER], ids=lambda fault: fault.value)
def test_a_crash_at_every_step_leaves_the_old_table_or_the_new_or_a_refusal_that_names_the_command(
    fault: Fault, records_max: int
) -> None:
    old = set(tables_by_count(MESSAGES)[HALF])
    seen = set()
    for step in range(steps_of_a_start(records_max)):
        for again in (False, True):
            world = half_read()
            world.plan = {world.steps + step: fault}
            with pytest.raises(Died):
                begin(world, PEOPLE, records_max=records_max)
            assert_lawful(world)
            if again:
                begin(world, PEOPLE, records_max=records_max)
            try:
                world.run(batch=5)
            except ShardRefused as refused:
                assert not again
                assert remedies.reload("people") in str(refused)
                seen.add("refused")
                begin(world, PEOPLE, records_max=records_max)
                assert_begun(world)
                continue
            if set(published_table(world)) == old:
                seen.add("old")
                assert not again
            else:
                seen.add("new")
                assert_begun(world)
    assert seen == ({"old", "new"} if records_max == 1000 else {"old", "new", "refused"})


@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER], ids=lambda fault: fault.value)
def test_a_lost_answer_ends_the_command_and_it_can_be_repeated(fault: Fault) -> None:
    for step in range(steps_of_a_start(7)):
        world = half_read()
        world.plan = {world.steps + step: fault}
        with pytest.raises(ServerUnreachable):
            begin(world, records_max=7)
        begin(world, records_max=7)
        assert_begun(world)


def test_a_worker_that_takes_the_shard_back_is_never_written_over() -> None:
    for step in range(steps_of_a_start(7)):
        world = half_read()
        world.written = None
        world.table = PEOPLE
        world.plan = {world.steps + step: Fault.ZOMBIE}
        try:
            begin(world, PEOPLE, next_=MESSAGES[HALF].offset, records_max=7)
        except (Fenced, ShardRefused):
            assert_lawful(world)
            begin(world, PEOPLE, records_max=7)
        assert source_keys(world) >= set(new_rows())
        assert_lawful(world)


def test_the_worker_of_before_is_shut_out_and_a_new_one_finds_the_new_table() -> None:
    world = half_read()
    worker = world.worker()
    worker.take_over(world.input)
    begin(world, PEOPLE)
    world.written = None
    with pytest.raises(Fenced):
        worker.step(MESSAGES[HALF:])
    assert_begun_and_reads_on(world)


def assert_begun_and_reads_on(world: World) -> None:
    worker = world.run(batch=5)
    assert worker.meta.next == world.end
    assert_lawful(world)


def test_a_start_in_front_of_a_commit_that_is_not_published_loses_no_letter() -> None:
    """The former worker died between its commit and what it publishes: at every step of its run."""
    for step in range(60):
        world = World(PEOPLE, MESSAGES, {step: Fault.DIE_AFTER})
        worker = world.worker()
        try:
            after = worker.take_over(worker.input)
            while after < world.end:
                after = worker.read_on(after, 5)
        except Died:
            pass
        decided = MemoryStore(world.server, "people", 0).meta() or Meta()
        begin(world, PEOPLE)
        letters = [r.key for records, _ in world.topic.transactions for r in records if r.topic == "dead-letters"]
        assert len(letters) == len(set(letters)) == decided.counts.dead_letters
        assert world.meta().counts.messages == 0
        assert_begun(world)


def test_an_input_that_goes_on_at_a_lower_offset_is_read_from_there() -> None:
    for fault in (None, Fault.DIE_BEFORE):
        world = half_read()
        world.plan = {} if fault is None else {world.steps + PUBLISHING: fault}
        if fault is None:
            begin(world, PEOPLE, next_=0)
        else:
            with pytest.raises(Died):
                begin(world, PEOPLE, next_=0)
            published = world.topic.transactions[-1][1].commit
            assert world.meta().commit > published, "the fault comes between the commit and what it publishes"
        world.written = None
        worker = world.run(batch=5)
        assert worker.meta.next == world.end
        assert set(new_rows()) <= {key for key, _ in worker.engine.index_table()}
        assert_lawful(world)


def test_an_input_recreated_is_no_obstacle() -> None:
    world = half_read()
    world.make_input_anew(MESSAGES[:3])
    world.written = None
    with pytest.raises(ShardRefused, match="recreated"):
        world.run(batch=5)
    begin(world, PEOPLE)
    assert world.meta().topic_ids[CHANGES] == world.topic_ids[CHANGES]
    assert_begun(world)


def test_statement_ids_stay_known() -> None:
    world = half_read()
    store = MemoryStore(world.server, "people", 0)
    world.server.shard("people", 0).statement_ids.extend([b"s-1", b"s-2"])
    world.table = PEOPLE
    first = replace(first_table(world, new_rows(), 2), statement_ids=("s-2", "s-3"))
    outlet = ModelOutlet(world.topic, world.shard)
    reload(PEOPLE, 0, store, outlet, world.state(), prepare(PEOPLE, 0, 1, first))
    assert store.statement_ids()[-3:] == ("s-1", "s-2", "s-3")


def test_requests_that_have_their_answers_are_not_answered_again() -> None:
    world = half_read()
    worker = world.worker()
    worker.take_over(world.input)
    worker.remember_rebuilds(None, heard=4)
    begin(world, PEOPLE, records_max=7)
    assert world.meta().control_next == 4


def test_a_table_of_nobody_takes_all_rows_away() -> None:
    world = half_read()
    assert published_table(world)
    prepared = prepare(PEOPLE, 0, 1, FirstTable(EncodedRows.of_rows({}, 2), [], world.secret, world.end))
    store, outlet = MemoryStore(world.server, "people", 0), ModelOutlet(world.topic, world.shard)
    reload(PEOPLE, 0, store, outlet, world.state(), prepared)
    assert not published_table(world)
    assert world.run(batch=5).engine.n_rows == 0
    assert_lawful(world)


def test_a_first_load_that_redis_lost_before_anything_was_written_is_refused_with_the_command() -> None:
    world = World(PEOPLE, MESSAGES, {})
    world.written = 0
    begin(world, PEOPLE, next_=0)
    assert_begun(world)
    world.lose_commits(None)
    with pytest.raises(ShardRefused) as refused:
        world.run(batch=5)
    assert remedies.reload("people") in str(refused.value)
    begin(world, PEOPLE, next_=0)
    assert_begun(world)
    world.written = None
    assert_begun_and_reads_on(world)
