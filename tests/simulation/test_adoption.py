"""A new version of the engine takes a shard over that an older one kept: the groups stay, in one commit, or it refuses.

The older version never shrinks a box and never cuts a group: its groups are legal, and are not what this
version would make of the same messages.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from msgspec import structs

from simulation.simulator import Fault, World
from simulation.story import IN_SIXTHS, PEOPLE, events, held_to_laws, lived_through_once, published_table, sixth_of
from streamer.errors import ShardRefused
from streamer.incremental.store.base import Adopted, State
from streamer.incremental.store.memory import MemoryStore
from streamer.incremental.topics import LIVE, POSITIONS
from streamer.table.schema import GROUPS, LOSSY_JOIN, Repair, Table, version_of
from worlds.small_tables import as_of_version

FORMER = as_of_version("1", PEOPLE, repair=Repair(50.0), recut=False, shrink=False)
HALF, MORE = 60, 75
SEEDS = range(8)


@lived_through_once
def kept_by_the_former(seed: int = 2) -> World:
    """A shard at rest, whose first messages an older version has read."""
    world = World(FORMER, events(90, seed), {})
    world.written = HALF
    world.run(batch=4)
    return world


def stored(world: World) -> State:
    state = MemoryStore(world.server, PEOPLE.name, 0).load()
    assert state is not None
    return state


def table_of(world: World) -> tuple[object, ...]:
    """All that decides how the shard goes on."""
    kept = stored(world).kept  # how long its similarity lists are depends on batches
    return dict(kept.records), dict(kept.qi_groups), kept.qi_group_next


def adopted(
    world: World,
    batch: int = 5,
    plan: dict[int, Fault] | None = None,
    written: int | None = None,
    ours: Table = PEOPLE,
) -> World:
    """The same shard after this version has read so many messages, or all."""
    world.table, world.written = ours, written
    world.plan = {world.steps + step: fault for step, fault in (plan or {}).items()}
    world.run(batch)
    return world


def published(world: World) -> dict[bytes, bytes]:
    """What readers have in the end, after each release obeyed the laws."""
    commits = [position.commit for _, position in world.topic.transactions]
    assert commits == sorted(set(commits))
    held_to_laws(world, outside=True)
    return published_table(world)


def values(folded: dict[bytes, bytes]) -> Counter[str]:
    return Counter(str(json.loads(row)["problem"]) for row in folded.values())


def test_the_groups_of_an_older_engine_are_adopted_in_one_commit_that_publishes_only_the_boxes_that_shrink() -> None:
    world = kept_by_the_former()
    before, groups, next_ = world.meta(), dict(stored(world).kept.qi_groups), world.meta().next
    adopted(world, written=HALF)
    (records, position), meta = world.topic.transactions[-1], world.meta()
    assert meta.fingerprint == PEOPLE.fingerprint
    assert (meta.commit, meta.outside, meta.next) == (before.commit + 1, before.commit + 1, next_)
    assert meta.adopted == (Adopted("1", len(groups), meta.commit),)
    assert (position.commit, position.outside, position.engine) == (
        meta.commit,
        meta.commit,
        version_of(PEOPLE.fingerprint),
    )
    now = dict(stored(world).kept.qi_groups)
    assert {number: state.members for number, state in now.items()} == {n: g.members for n, g in groups.items()}
    narrower = {number for number in groups if groups[number] != now[number]}
    assert 0 < len(narrower) < len(groups)
    assert len(records) == sum(len(groups[number].slots) for number in narrower)
    assert published(world)


def test_similarity_lists_of_an_older_engine_are_no_hints() -> None:
    world = kept_by_the_former()
    lists = world.server.shard(PEOPLE.name, 0).similarity
    lists.update(dict.fromkeys(dict(stored(world).kept.qi_groups), b"0.0005"))  # a floor, as it was stored
    assert published(adopted(world, written=HALF)) == published(adopted(kept_by_the_former(), written=HALF))


def test_nothing_is_committed_by_the_next_take_over_of_an_adopted_shard() -> None:
    world = adopted(kept_by_the_former())
    commits = len(world.topic.transactions)
    world.run(batch=5)
    assert len(world.topic.transactions) == commits
    assert len(world.meta().adopted) == 1


@IN_SIXTHS
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_one_fault_at_every_step_of_an_adoption_and_after_it_leaves_the_same_table(fault: Fault, sixth: int) -> None:
    quiet = kept_by_the_former()
    begun = quiet.steps
    adopted(quiet)
    for step in sixth_of(quiet.steps - begun, sixth, fault):
        world = adopted(kept_by_the_former(), plan={step: fault})
        assert table_of(world) == table_of(quiet)
        assert published(world) == published(quiet)
        assert [one.qi_groups for one in world.meta().adopted] == [one.qi_groups for one in quiet.meta().adopted]


@IN_SIXTHS
@pytest.mark.parametrize("fault", [Fault.DIE_BEFORE, Fault.DIE_AFTER], ids=lambda fault: fault.value)
def test_whatever_step_the_older_version_dies_at_the_newer_one_publishes_what_it_stored_and_adopts_it(
    fault: Fault, sixth: int
) -> None:
    quiet = values(published(adopted(kept_by_the_former())))
    ahead = 0
    for step in sixth_of(40, sixth, fault):
        world = World(FORMER, events(90, 2), {20 + step: fault})
        world.written = HALF
        with suppress(AssertionError):  # no other worker of that version goes on
            world.run(batch=4, tries_max=1)
        ahead += bool(world.topic.transactions) and world.meta().commit > world.topic.transactions[-1][1].commit
        assert values(published(adopted(world))) == quiet
        assert len(world.meta().adopted) == 1
    assert ahead > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_lost_commits_after_the_adoption_repeats_them(seed: int) -> None:
    world = adopted(kept_by_the_former(seed), written=MORE)
    world.snapshot()
    adopted(world)
    after, sent = table_of(world), len(world.topic.transactions)
    world.lose_commits(world.snapshots[-1])
    world.run(batch=Random(seed).choice([1, 3, 7]))
    assert table_of(world) == after
    assert len(world.topic.transactions) == sent


def test_a_store_that_lost_the_adoption_is_refused_and_both_versions_are_named() -> None:
    world = kept_by_the_former()
    world.snapshot()
    commit = adopted(world).meta().adopted[0].commit
    world.lose_commits(world.snapshots[-1])
    with pytest.raises(ShardRefused, match="kept by engine version 1; since then version ") as refused:
        world.run(batch=5)
    assert f"commit {commit} did not come from the input, so reading on cannot repeat it" in str(refused.value)


def test_commits_of_an_older_engine_that_the_store_lost_are_not_repeated_by_another_one() -> None:
    world = World(FORMER, events(90, 2), {})
    world.written = 40
    world.run(batch=4)
    world.snapshot()
    world.written = HALF
    world.run(batch=4)
    for copy in (world.snapshots[-1], None):
        world.lose_commits(copy)
        world.table = PEOPLE
        with pytest.raises(
            ShardRefused, match="has lost commits that engine version 1 decided, and this streamer's is"
        ):
            world.run(batch=5)
        assert not world.server.shard(PEOPLE.name, 0).meta or world.meta().fingerprint == FORMER.fingerprint
    world.lose_commits(world.snapshots[-1])
    world.table = FORMER
    world.run(batch=5)
    adopted(world)
    assert table_of(world) == table_of(adopted(kept_by_the_former()))


def test_the_older_streamer_refuses_what_the_newer_one_adopted_and_names_both_versions() -> None:
    world = adopted(kept_by_the_former(), written=MORE)
    before = world.server.shard(PEOPLE.name, 0).meta
    world.table = FORMER
    with pytest.raises(
        ShardRefused, match=r"kept by engine version \d+(\.\d+)?, and this streamer's is 1, which is older"
    ):
        world.run(batch=5)
    assert world.server.shard(PEOPLE.name, 0).meta == before
    world.lose_commits(None)
    with pytest.raises(ShardRefused, match="did not come from the input"):
        world.run(batch=5)


def test_groups_that_this_engine_would_not_publish_are_not_adopted_and_nothing_is_written() -> None:
    """As if an older version had counted something else."""
    former = as_of_version("1", PEOPLE, k=2)
    world = World(former, events(90, 2), {})
    world.written = HALF
    world.run(batch=4)
    ours = as_of_version("9", former, k=3)
    before, world.table, world.written = world.server.shard(PEOPLE.name, 0).meta, ours, None
    with pytest.raises(
        ShardRefused, match="was kept by engine version 1, and this streamer's, 9, cannot adopt it"
    ) as said:
        world.run(batch=5)
    assert "run the version that kept it" in str(said.value) and "fewer than the k = 3" in str(said.value)
    assert world.server.shard(PEOPLE.name, 0).meta == before


def test_positions_that_do_not_say_the_engine_are_those_of_the_store() -> None:
    world = kept_by_the_former()
    world.topic.transactions = [(records, structs.replace(one, engine="")) for records, one in world.topic.transactions]
    assert published(adopted(world))


@pytest.mark.parametrize("form", [GROUPS, LOSSY_JOIN])
def test_other_forms_publish_of_an_adoption_what_their_readers_see_of_it(form: str) -> None:
    ours = replace(PEOPLE, form=form)
    world = World(as_of_version("1", ours, repair=Repair(50.0), recut=False, shrink=False), events(90, 2), {})
    world.written = HALF
    world.run(batch=4)
    before = len(world.topic.transactions)
    assert published(adopted(world, ours=ours))
    assert bool(world.topic.transactions[before][0]) == (form == GROUPS), "a lossy join publishes no box"


@pytest.mark.parametrize("step", range(0, 30, 3))
def test_an_output_that_was_recreated_gets_the_whole_table_and_then_the_adoption(step: int) -> None:
    world = kept_by_the_former()
    world.make_anew(LIVE, POSITIONS)
    first = len(world.topic.transactions)
    adopted(world, plan={step: Fault.DIE_AFTER})
    world.topic.transactions = world.topic.transactions[first:]
    world.topic.begins.clear()
    assert published(world) == published(adopted(kept_by_the_former()))
    whole, adoption = (position for records, position in world.topic.transactions if records and position.release < 3)
    assert (whole.release, adoption.release, adoption.outside) == (1, 2, adoption.commit)


def test_the_worker_is_told_how_many_groups_of_which_version_were_adopted() -> None:
    world = kept_by_the_former()
    groups = len(dict(stored(world).kept.qi_groups))
    world.table = PEOPLE
    for expected in ([("info", f"adopted {groups} QI groups that engine version 1 kept")], []):
        worker = world.worker()
        worker.take_over(worker.input)
        assert worker.machine.activities.said == expected
