"""A first load that comes as a snapshot, with faults at every step: held back until it is whole, and never lost."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import msgspec
import pytest

from simulation.simulator import Fault, World
from simulation.story import IN_SIXTHS, PEOPLE, fold, published_table, sixth_of
from simulation.worker_group import WorkerGroup
from streamer.errors import ShardRefused
from streamer.incremental.checks.changelog import ChangelogLaws
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.release.records import OUTSIDE
from streamer.incremental.shard.driver import read_again
from streamer.incremental.shard.input import Message
from streamer.incremental.store.base import CHANGE, OPERATOR
from streamer.incremental.store.memory import MemoryStore
from streamer.incremental.topics import DEAD_LETTERS, OUTPUTS
from streamer.table.schema import Repair, Table
from streamer.worker.tenure import Due
from worlds.published_groups import FORMS
from worlds.small_tables import as_of_version

K = PEOPLE.k
N_READ = 15


def captured(op: str, key: int, snapshot: str, rng: random.Random) -> bytes:
    """A message as Debezium writes it."""
    years = 99 if key == 7 else rng.randrange(10)  # 99 is out of the domain
    row = {"id": key, "years": years, "city": rng.choice(["a1", "b1", "c1", "d1"]), "problem": "flu"}
    before, after = (row, None) if op == "d" else (None, row)
    source = {"version": "3.3.1.Final", "connector": "postgresql", "snapshot": snapshot, "table": "people", "lsn": 1}
    payload = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1, "transaction": None}
    return msgspec.json.encode({"schema": {"type": "struct"}, "payload": payload} if key % 2 else payload)


def messages_of(values: Sequence[bytes | None]) -> list[Message]:
    """Offsets with gaps, as transactions leave them."""
    return [Message(i + i // 5, b"%d" % i, value) for i, value in enumerate(values)]


def story(changes: int = 8, restarts: bool = True) -> list[Message]:
    """A snapshot that begins twice, with a plain statement and an insertion in between, then changes."""
    rng = random.Random(3)
    begun = [captured("r", key, "first" if key == 0 else "true", rng) for key in range(6)] if restarts else []
    whole = [captured("r", key, {0: "first", N_READ - 1: "last"}.get(key, "true"), rng) for key in range(N_READ)]
    meanwhile = [
        b'{"op": "delete", "where": "years = 3", "statement_id": "s-1"}',
        b'{"op": "insert", "row": {"id": 50, "years": 4, "city": "a1", "problem": "cough"}}',
    ]
    later = [captured(rng.choice("cud"), rng.randrange(20), "false", rng) for _ in range(changes)]
    return messages_of([*begun, *whole[:9], *meanwhile, *whole[9:], *later])


MESSAGES = story()
LAST_READ = max(m.offset for m in MESSAGES if b'"op":"r"' in (m.value or b""))


def quiet_run(batch: int = 5, records_max: int = 1000, table: Table = PEOPLE) -> World:
    world = World(table, MESSAGES, {})
    world.records_max = records_max
    world.run(batch)
    return world


def rows_of(messages: Sequence[Message], table: Table = PEOPLE) -> Mapping[str, object]:
    """The rows that the messages come to if nothing is held back."""
    return _rows_of(tuple(messages), table)


@cache
def _rows_of(messages: tuple[Message, ...], table: Table) -> Mapping[str, object]:
    read = read_again(table, 0, 1, [messages], messages[-1].offset + 1).rows
    return dict(zip(read.source_keys, read.rows(), strict=True))


def assert_whole(world: World, messages: Sequence[Message] = MESSAGES) -> None:
    """Nothing was published too early, every release is lawful, and the end is what all messages come to."""
    laws, folded, letters = ChangelogLaws(world.table), dict[bytes, bytes](), []
    commits = []
    for records, position in world.topic.transactions:
        rows = [(record.key, record.value) for record in records if record.topic in OUTPUTS]
        if position.next <= LAST_READ:
            assert not rows, "published before the snapshot was whole"
        if rows:
            outside = any(OUTSIDE in record.headers for record in records)
            laws.check(FoldedRelease(0, position.release, position.next, rows, outside))
        fold(folded, records)
        letters += [record.key for record in records if record.topic == DEAD_LETTERS]
        commits.append(position.commit)
    assert commits == sorted(set(commits))
    assert len(letters) == len(set(letters)) == world.meta().counts.dead_letters
    assert world.meta().counts.messages == len(messages)
    state = MemoryStore(world.server, world.table.name, 0).load()
    assert state is not None
    assert {key: record.row for key, record in state.kept.records} == rows_of(messages, world.table)
    assert laws.n_rows == len(rows_of(messages))
    assert state.meta.digest == world.topic.transactions[-1][1].digest
    assert state.meta.next == messages[-1].offset + 2


def test_the_first_release_has_the_whole_snapshot_and_changes_follow() -> None:
    world = quiet_run()
    assert_whole(world)
    releases = [(records, p) for records, p in world.topic.transactions if any(r.topic in OUTPUTS for r in records)]
    first, position = releases[0]
    n_first = len(rows_of([m for m in MESSAGES if m.offset <= LAST_READ]))
    assert (position.release, len(first)) == (0, n_first)
    assert all(OUTSIDE in record.headers for record in first)
    assert len(releases) > 1
    snapshot = world.meta().snapshot
    assert snapshot is not None
    assert (snapshot.holds, snapshot.ended, snapshot.seen, snapshot.reads) == (False, CHANGE, CHANGE, N_READ + 6)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_publishing_holds_back(form: str) -> None:
    world = quiet_run(table=replace(PEOPLE, form=form))
    assert MemoryStore(world.server, "people", 0).meta() is not None
    assert not world.meta().snapshot.holds  # type: ignore[union-attr]
    assert world.topic.transactions[-1][1].release > 0


def test_how_messages_are_cut_into_batches_decides_nothing() -> None:
    one, four, all_at_once = (published_table(quiet_run(batch)) for batch in (1, 4, 1000))
    assert one == four == all_at_once


@IN_SIXTHS
@pytest.mark.parametrize("records_max", [1000, 5])
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_one_fault_at_every_numbered_step(fault: Fault, records_max: int, sixth: int) -> None:
    """Of holding back, of the first release, in one commit or several, and of the changes after it."""
    for step in sixth_of(quiet_run(records_max=records_max).steps, sixth, fault):
        world = World(PEOPLE, MESSAGES, {step: fault})
        world.records_max = records_max
        world.run(batch=5)
        assert_whole(world)


@IN_SIXTHS
@pytest.mark.parametrize("stays", [1.0, 0.0], ids=["stays", "moves"])
def test_a_rebalance_at_every_numbered_step(stays: float, sixth: int) -> None:
    """What was gathered, and a release that is under way, rest with their shard."""
    for step in sixth_of(1_000, sixth, None):
        world = World(PEOPLE, MESSAGES, {})
        world.records_max = 5
        group = WorkerGroup([world], 2, random.Random(0))
        group.begin_rebalance()
        group.end_rebalance()

        def happens(group: WorkerGroup = group) -> None:
            group.begin_rebalance(stays)
            group.end_rebalance()

        world.happens = {step: happens}
        group.run_until_read()
        assert_whole(world)
        loads = [to for _, kind, to in group.told if kind is Due]
        assert stays < 1 or step < 10 or len(loads) == 1
        if step >= world.steps:
            break


def test_without_a_word_of_its_end_a_snapshot_waits_until_somebody_ends_it() -> None:
    world = World(PEOPLE, [m for m in MESSAGES if m.offset <= LAST_READ], {})
    worker = world.run(batch=4)
    assert worker.holds_back
    assert not any(record.topic in OUTPUTS for records, _ in world.topic.transactions for record in records)
    assert worker.engine.n_rows == worker.engine.n_pending > K
    worker.release_held(OPERATOR)
    assert (worker.holds_back, worker.engine.n_pending, worker.meta.snapshot.ended) == (False, 0, OPERATOR)  # type: ignore[union-attr]
    assert world.topic.transactions[-1][1].release == 0


def test_a_snapshot_of_fewer_than_k_rows_leaves_them_pending_and_the_next_ones_are_published() -> None:
    rng = random.Random(1)
    values = [captured("r", 2, "first", rng), *(captured("c", key, "false", rng) for key in (4, 6, 8))]
    world = World(replace(PEOPLE, k=3), messages_of(values), {})
    worker = world.run(batch=10)
    assert (worker.engine.n_rows, worker.engine.n_pending) == (4, 0)
    assert world.topic.transactions[-1][1].release == 1


def test_a_table_that_has_begun_takes_rows_that_are_read_as_single_changes() -> None:
    rng = random.Random(1)
    born = [captured("c", key, "false", rng) for key in range(0, 6, 2)]
    for snapshot in ("true", "incremental"):
        values = [*born, *(captured("r", key, snapshot, rng) for key in range(10, 16))]
        world = World(PEOPLE, messages_of(values), {})
        worker = world.run(batch=1)
        assert not worker.holds_back
        assert worker.meta.snapshot is None
        assert worker.engine.n_pending == 0


def test_an_incremental_snapshot_of_a_table_that_has_not_begun_holds_changes_too() -> None:
    rng = random.Random(1)
    values = [
        captured("r" if key % 3 else "u", key, "incremental" if key % 3 else "false", rng) for key in range(2, 14)
    ]
    world = World(PEOPLE, messages_of(values), {})
    worker = world.run(batch=5)
    assert worker.holds_back
    assert worker.engine.n_pending == worker.engine.n_rows > K


def test_a_store_that_was_lost_while_rows_were_held_back_holds_them_back_again() -> None:
    world = World(PEOPLE, MESSAGES, {})
    world.written = 12
    world.run(batch=3)
    world.lose_commits(None)
    world.run(batch=4)
    world.written = None
    world.run(batch=5)
    assert_whole(world)


def test_a_store_that_lost_the_first_release_is_refused_with_the_mend() -> None:
    world = World(PEOPLE, MESSAGES, {})
    world.written = 12
    world.run(batch=3)
    world.snapshot()
    world.written = None
    world.run(batch=5)
    world.lose_commits(world.snapshots[0])
    with pytest.raises(ShardRefused, match="did not come from the input"):
        world.run(batch=5)


@pytest.mark.parametrize("written", range(5, 24, 2))
def test_rows_that_an_older_engine_held_back_or_released_are_all_there_when_a_newer_one_adopts_them(
    written: int,
) -> None:
    world = World(as_of_version("1", PEOPLE, repair=Repair(50.0), recut=False), MESSAGES, {})
    world.written = written
    world.run(batch=5)
    world.table, world.written = PEOPLE, None
    world.run(batch=5)
    assert_whole(world)
    assert len(world.meta().adopted) == 1
