"""Every form of publication through crashes at every numbered step: nothing lost, doubled, or against a law."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from simulation.simulator import Fault, World
from simulation.story import (
    IN_SIXTHS,
    MESSAGES,
    PEOPLE,
    assert_the_source_agrees,
    events,
    fold,
    published_table,
    records_of,
    sixth_of,
    table_before,
    tables_by_count,
)
from streamer.incremental.checks.changelog import ChangelogLaws, in_releases
from streamer.incremental.release.fold import Fold, FoldedRelease, parse_part
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.input import Message
from streamer.incremental.topics import QIT, STT, outputs_of
from streamer.table.schema import GROUPS, LOSSY_JOIN, Table

TABLES = {form: replace(PEOPLE, form=form) for form in (GROUPS, LOSSY_JOIN)}
FORMS = pytest.mark.parametrize("form", TABLES)


@cache
def tables_of(form: str, messages: tuple[Message, ...]) -> list[dict[bytes, bytes]]:
    return tables_by_count(list(messages), people=TABLES[form])


def first_with_rows(world: World, first: int) -> int:
    """The first transaction from one on that publishes rows: letters may go before."""
    while not records_of(world.topic.transactions[first][0]):
        first += 1
    return first


def assert_true_and_lawful(world: World, messages: list[Message], first: int = 0) -> None:
    """At every transaction the table of exactly the messages before it; by the laws, from `first` on."""
    tables = tables_of(world.table.form, tuple(messages))
    folded: dict[bytes, bytes] = {}
    for sent, position in world.topic.transactions[first:]:
        fold(folded, sent)
        assert folded == table_before(tables, messages, position.next)
    assert position.next == messages[-1].offset + 2
    laws = ChangelogLaws(world.table)
    kept = [record for sent, _ in world.topic.transactions[first:] for record in records_of(sent)]
    for release in in_releases(kept):
        laws.check(release)
    assert_the_source_agrees(world, laws)


@IN_SIXTHS
@FORMS
@pytest.mark.parametrize("fault", [Fault.DIE_AFTER, Fault.ZOMBIE], ids=lambda fault: fault.value)
def test_one_fault_at_every_numbered_step(form: str, fault: Fault, sixth: int) -> None:
    quiet = World(TABLES[form], MESSAGES, {})
    quiet.run(batch=5)
    for step in sixth_of(quiet.steps, sixth, fault):
        world = World(TABLES[form], MESSAGES, {step: fault})
        world.run(batch=5)
        assert_true_and_lawful(world, MESSAGES)


@FORMS
@pytest.mark.parametrize("seed", range(10))
def test_a_store_that_loses_commits_is_repeated_and_publishes_nothing_twice(form: str, seed: int) -> None:
    rng = random.Random(seed)
    messages = events(60, seed)
    world = World(TABLES[form], messages, {})
    world.run_in_parts((1, len(messages) // 2), lambda: rng.choice([1, 4, 9]))
    published = len(world.topic.transactions)
    world.lose_commits(world.snapshots[-1])
    world.run(batch=rng.choice([1, 3, 50]))
    assert len(world.topic.transactions) == published
    assert_true_and_lawful(world, messages)


@FORMS
@pytest.mark.parametrize("seed", range(10))
def test_regions_are_replaced_in_every_form_with_faults_at_random_steps(form: str, seed: int) -> None:
    rng = random.Random(seed)
    messages = events(60, seed)
    plan = {step: rng.choice(list(Fault)) for step in range(300) if rng.random() < 0.05}
    world = World(TABLES[form], messages, plan)
    world.rebuilds = random.Random(seed)
    world.run(batch=rng.choice([3, 7]), tries_max=200)
    assert world.replaced
    laws = ChangelogLaws(world.table)
    for release in in_releases(record for sent, _ in world.topic.transactions for record in records_of(sent)):
        laws.check(release)
    assert_the_source_agrees(world, laws)


@FORMS
@pytest.mark.parametrize("fault", [Fault.DIE_BEFORE, Fault.DIE_AFTER], ids=lambda fault: fault.value)
def test_an_output_recreated_gets_the_whole_table_as_one_release(form: str, fault: Fault) -> None:
    for step in range(20):
        world = World(TABLES[form], MESSAGES, {})
        world.written = len(MESSAGES) // 2
        world.run(batch=5)
        world.written = None
        world.make_anew(*outputs_of(form))
        world.plan = {world.steps + step: fault}
        world.run(batch=5)
        begins = first_with_rows(world, world.topic.begins[outputs_of(form)[0]])
        assert_true_and_lawful(world, MESSAGES, begins)
        assert world.topic.transactions[begins][1].release == 1


@pytest.mark.parametrize("kind", [QIT, STT])
def test_one_of_two_topics_recreated_gets_its_part_with_the_whole_table(kind: str) -> None:
    world = World(TABLES[LOSSY_JOIN], MESSAGES, {})
    world.run(batch=5)
    world.make_anew(kind)
    world.run(batch=5)
    assert published_table(world) == tables_of(LOSSY_JOIN, tuple(MESSAGES))[-1]


@pytest.mark.parametrize("seed", range(10))
def test_whoever_reads_two_topics_in_any_order_sees_the_tables_of_whole_commits_only(seed: int) -> None:
    """Two topics come as they please; each keeps its own order."""
    rng = random.Random(seed)
    world = World(TABLES[LOSSY_JOIN], events(90, seed), {})
    world.run(batch=rng.choice([1, 4]))
    assert_readers_see_every_release_in_its_order(world, rng)


def lose_a_store(world: World, rng: random.Random) -> None:
    world.lose_commits(world.snapshots[-1])


def lose_workers(world: World, rng: random.Random) -> None:
    world.plan = {world.steps + i: rng.choice(list(Fault)) for i in range(60) if rng.random() < 0.2}


def lose_the_output(world: World, rng: random.Random) -> None:
    world.make_anew(QIT, STT)


@pytest.mark.parametrize("lose", [lose_a_store, lose_workers, lose_the_output], ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("seed", range(5))
def test_no_loss_makes_a_reader_of_two_topics_see_a_later_release_first(
    seed: int, lose: Callable[[World, random.Random], None]
) -> None:
    rng, messages = random.Random(seed), events(90, seed)
    world = World(TABLES[LOSSY_JOIN], messages, {})
    for written in (20, 45):
        world.written = written
        world.run(batch=1)
        world.snapshot()
    world.written = 60
    world.run(batch=1)
    lose(world, rng)
    world.run(batch=1)
    world.written = None
    world.run(batch=1)
    assert_readers_see_every_release_in_its_order(world, rng, world.topic.begins.get(QIT, 0))


def assert_readers_see_every_release_in_its_order(world: World, rng: random.Random, first: int = 0) -> None:
    """The tables of all releases, one after the other, however the two topics come, and what they see is lawful."""
    tables: list[dict[bytes, bytes]] = [{}]
    queues: dict[str, list[Outgoing]] = {QIT: [], STT: []}
    for sent, _ in world.topic.transactions[first:]:
        if records_of(sent):
            fold(known := dict(tables[-1]), sent)
            tables.append(known)
        for record in sent:
            if record.topic in queues:
                queues[record.topic].append(record)
    for ahead in (1, 5, 50):
        laws = ChangelogLaws(world.table)
        reader, n_seen, left = Fold(world.table), 0, {kind: list(queue) for kind, queue in queues.items()}
        while any(left.values()):
            kind = rng.choice([kind for kind, queue in left.items() if queue])
            for _ in range(min(ahead, len(left[kind]))):
                for release in tell(reader, left[kind].pop(0)):
                    laws.check(release)
                    n_seen += 1
                assert dict(reader.stored()) == tables[n_seen]
        assert reader.is_whole(0)
        assert n_seen == len(tables) - 1


def tell(reader: Fold, record: Outgoing) -> list[FoldedRelease]:
    headers = dict(record.headers)
    numbers = int(headers["release"]), int(headers["through"])
    part, beside = parse_part(headers["part"]), int(headers["beside"])
    after, whole = int(headers["after"]) if "after" in headers else None, int(headers.get("whole", 0))
    return reader.apply(0, *numbers, record.key, record.value, part, record.topic, beside, whole=whole, after=after)


def test_the_tables_are_of_their_forms() -> None:
    """Else all of the above would be said of rows."""
    assert {form: one.fingerprint for form, one in TABLES.items()} != dict.fromkeys(TABLES, PEOPLE.fingerprint)
    assert isinstance(TABLES[GROUPS], Table)
