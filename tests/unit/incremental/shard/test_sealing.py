"""The sealed changelog as a part of a shard's machine: in its commits, after crashes and losses, in a reload."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import msgspec
import pandas as pd
import pytest

from streamer.errors import ShardRefused, StreamerError
from streamer.incremental.engine.engine import Engine
from streamer.incremental.release.records import OutboxEntry, Outgoing
from streamer.incremental.sealed.fold import SealedFold
from streamer.incremental.sealed.formation import median_cuts
from streamer.incremental.sealed.records import Add, EpochEnd, Retire, SealedRecord, decode
from streamer.incremental.sealed.stored_state import SealedMark
from streamer.incremental.shard import sealing
from streamer.incremental.shard.bootstrap import Begun, reload
from streamer.incremental.shard.driver import Servers, drive
from streamer.incremental.shard.first_commits import FirstTable, prepare
from streamer.incremental.shard.input import InputState, KeptSecret, Message
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.outlet import DeafOutlet, FoundSealed, Position, PublishedRecord
from streamer.incremental.shard.preflight import check_written_for
from streamer.incremental.shard.ready import Assigned, Messages, SealedFigures, Tick
from streamer.incremental.shard.requests import EpochOver, epochs_in
from streamer.incremental.store.base import Commit, Meta
from streamer.incremental.store.memory import MemoryServer, MemoryStore, ShardBytes
from streamer.incremental.topics import SEALED
from streamer.table.encode import Encoder
from streamer.table.schema import EpochLength, Table
from worlds.sealed_people import InWords, number, sealed_table

SECRET = b"0123456789abcdef"
NOON = 1_795_694_400
MINUTE = 60


def table_of(seconds: int | None = None, events: int | None = None, **more: object) -> Table:
    table = sealed_table(**more)  # type: ignore[arg-type]
    assert table.sealed is not None
    return replace(table, live=True, sealed=replace(table.sealed, epoch=EpochLength(seconds, events)))


BY_TIME, BY_NUMBER = table_of(seconds=MINUTE), table_of(events=4)


class Died(Exception):
    """A worker died."""


@dataclass
class World(DeafOutlet):
    """One shard with servers in memory. dies: the call in which a worker dies next, before or after its effect."""

    table: Table = BY_TIME
    server: MemoryServer = field(default_factory=MemoryServer)
    sent: list[Outgoing] = field(default_factory=list)
    last: Position | None = None
    dies: str = ""
    now: int = NOON
    written: list[Message] = field(default_factory=list)
    kept: dict[int, ShardBytes] = field(default_factory=dict)  # copies of the store, by commit
    sealed_begins: int = 0  # offsets of `sealed` that are lost

    # -- what a machine asks for --

    def state(self, last: int | None = None) -> InputState:
        n = sum(one.topic == SEALED for one in self.sent)
        return InputState(
            {"changes": "c", "live": "l", "sealed": "s", "control": "k"}, 1, 0, len(self.written),
            reach={SEALED: (self.sealed_begins, n)},
        )  # fmt: skip

    def ask(self) -> None: ...
    def check(self, meta: object) -> None: ...

    def holds_sealed(self, since: int) -> bool:
        return since < sum(one.topic == SEALED for one in self.sent)

    def secret(self) -> KeptSecret:
        return KeptSecret(SECRET, is_current=True)

    def epochs_over(self) -> Sequence[EpochOver]:
        return epochs_in([one.value or b"" for one in self.sent if one.topic == "control"], 0)

    def piece(self, start: int, end: int) -> tuple[Sequence[Message], int]:
        return self.written[start:end], end

    def position(self) -> Position | None:
        return self.last

    def published(self) -> Iterable[PublishedRecord]:
        for one in self.sent:
            if one.topic == SEALED and not isinstance(said := decode(one.key, one.value), EpochEnd):
                yield PublishedRecord(said.epoch, one.key, not isinstance(said, Retire), SEALED)
            elif one.topic == SEALED:
                yield PublishedRecord(said.epoch, one.key, True, SEALED)

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        self.die("before publish")
        self.sent += records
        self.last = msgspec.structs.replace(position, ends={SEALED: sum(one.topic == SEALED for one in self.sent)})
        self.die("after publish")

    def die(self, where: str) -> None:
        if self.dies == where:
            self.dies = ""
            raise Died

    # -- what happens --

    def worker(self) -> Worker:
        return Worker(self)

    def lose_commits(self, to: int) -> None:
        """The store falls back to a copy."""
        self.server.shards[self.table.name, 0] = self.kept[to]

    def come(self, line: str) -> None:
        """`p1 20 flu; p2 -`: messages in the input."""
        for text in line.split(";"):
            name, *rest = text.split()
            row = {"id": name, "age": int(rest[0]), "problem": rest[1]} if rest != ["-"] else None
            said = {"op": "upsert", "row": row} if row else {"op": "delete", "key": {"id": name}}
            at = 1_000 * self.now
            self.written.append(Message(len(self.written), None, json.dumps(said).encode(), at))

    @property
    def log(self) -> list[SealedRecord]:
        return [decode(one.key, one.value) for one in self.sent if one.topic == SEALED]

    @property
    def epochs(self) -> list[list[SealedRecord]]:
        epochs: list[list[SealedRecord]] = [[]]
        for record in self.log:
            epochs[-1].append(record)
            if isinstance(record, EpochEnd):
                epochs.append([])
        assert epochs.pop() == []
        return epochs

    @property
    def words(self) -> list[list[str]]:
        words = InWords()
        return [words.of(records) for records in self.epochs]

    def reload(self, lines: str, table: Table | None = None) -> Begun:
        """`p1 20 flu; p2 22 cold`: the rows that the shard gets."""
        table = table or self.table
        rows = [text.split() for text in lines.split(";")]
        records = [{"id": name, "age": int(age), "problem": problem} for name, age, problem in rows]
        first = FirstTable(Encoder(table).frame(pd.DataFrame(records, dtype=str)), (), SECRET, len(self.written))
        store, form = MemoryStore(self.server, table.name, 0), median_cuts(table.space, table.k)
        prepared = prepare(table, 0, 1, first)
        return reload(table, 0, store, self, self.state(), prepared, read_secret=self.secret, form=form, now=self.now)


class KeepingStore(MemoryStore):
    """Keeps copies of every commit, and dies where its world says so."""

    def __init__(self, world: World) -> None:
        super().__init__(world.server, world.table.name, 0)
        self._world = world

    def commit(self, fence: str, before: int, commit: Commit) -> None:
        self._world.die("before commit")
        super().commit(fence, before, commit)
        self._world.kept[commit.meta.commit] = deepcopy(self._shard)
        self._world.die("after commit")


class Worker:
    """Reads all that is there, some messages at a time, and looks at the clock."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.machine = Machine(world.table, 0, SECRET, form=median_cuts(world.table.space, world.table.k))
        self.servers = Servers(KeepingStore(world), world, world)
        drive(self.machine, Assigned(), self.servers)

    def read(self, batch: int = 3) -> None:
        while self.machine.meta.next < len(self.world.written):
            first = self.machine.meta.next
            drive(self.machine, Messages(self.world.written[first : first + batch]), self.servers)

    def tick(self, later: int = 0) -> None:
        self.world.now += later
        drive(self.machine, Tick(self.world.now, float(self.world.now)), self.servers)


def test_an_epoch_ends_by_the_clock_on_a_quiet_stream_too() -> None:
    world = World()
    worker = world.worker()
    worker.tick()
    world.come("p1 20 flu; p2 22 cold; p3 30 flu")
    worker.read()
    worker.tick()
    assert world.words == [[]]
    worker.tick(MINUTE)
    worker.tick(MINUTE - 1)
    assert world.words == [[], ["ADD c1 [20, 30] 3 null"]]
    worker.tick(10 * MINUTE)
    assert [end.time for end in world.log if isinstance(end, EpochEnd)] == [
        "2026-11-26T12:00:00Z", "2026-11-26T12:01:00Z", "2026-11-26T12:11:00Z",
    ]  # fmt: skip


def test_records_have_the_time_of_their_epoch_and_no_header_and_lie_beside_the_rows_of_their_commit() -> None:
    world = World(BY_NUMBER)
    world.come("p1 20 flu; p2 22 cold; p3 30 flu; p4 31 cold")
    world.worker().read(batch=4)
    sealed = [one for one in world.sent if one.topic == SEALED]
    assert {one.at for one in sealed} == {1_000 * NOON}
    assert {one.headers for one in sealed} == {()}
    assert {one.topic for one in world.sent} == {"live", SEALED}


STORY = ["p1 20 flu; p2 22 cold; p3 30 flu; p4 31 cold", "p1 -; p5 40 flu; p6 41 cold", "p3 33 asthma; p7 1 flu"]


def told(world: World, dies_at: int = -1, dies: str = "") -> World:
    """A story of batches and ticks, in which a worker dies once."""
    worker, step = world.worker(), 0

    def alive(act: str) -> None:
        nonlocal worker, step
        if step == dies_at:
            world.dies = dies
        step += 1
        try:
            worker.read() if act == "read" else worker.tick()
        except Died:
            worker = world.worker()
            worker.read() if act == "read" else worker.tick()
        world.dies = ""

    for line in STORY:
        world.come(line)
        alive("read")
        world.now += MINUTE
        alive("tick")
    return world


@pytest.mark.parametrize("table", [BY_TIME, BY_NUMBER], ids=["time", "number"])
def test_a_store_that_lost_commits_comes_to_the_same_cohorts_again_without_publishing_any(table: Table) -> None:
    for to in range(1, len(told(World(table)).kept)):
        world = told(World(table))
        before, commit = world.log, max(world.kept)
        world.lose_commits(to)
        worker = world.worker()
        worker.read()
        assert (world.log, worker.machine.meta.commit, worker.machine.replays_to) == (before, commit, None)
        world.come("p8 2 cold; p9 3 flu; p10 4 cold; p11 5 flu")
        worker.read()
        worker.tick(MINUTE)
        assert world.epochs[-1][0].epoch > before[-1].epoch
        SealedFold(table)


def test_an_empty_store_comes_to_the_same_cohorts_again() -> None:
    world = told(World())
    before = world.log
    world.server.shards.clear()
    worker = world.worker()
    worker.read()
    assert world.log == before
    assert worker.machine.replays_to is None


def test_a_topic_of_cohorts_that_has_lost_records_is_not_written_again() -> None:
    for lost in ("its beginning", "its end"):
        world = told(World())
        if lost == "its beginning":
            world.sealed_begins = 1
        else:
            del world.sent[max(i for i, one in enumerate(world.sent) if one.topic == SEALED)]
        with pytest.raises(ShardRefused, match=r"people\.sealed was recreated or has lost cohorts.*under another name"):
            world.worker()


def test_cohorts_that_are_out_are_not_published_again_if_the_positions_have_lost_their_end() -> None:
    """As after a power failure: the outbox is not trimmed, and of two topics one has lost what the other has."""
    world = World(BY_NUMBER)
    world.come("p1 20 flu; p2 22 cold; p3 30 flu; p4 31 cold")
    worker, before = world.worker(), world.last
    world.dies = "after publish"
    with pytest.raises(Died):
        worker.read(batch=4)
    out, world.last = world.log, before
    world.worker().read()
    assert (world.log, world.last and world.last.commit) == (out, 1)


FRESH = Meta(topic_ids={SEALED: "s"})
BEGUN = replace(FRESH, commit=4, sealed=SealedMark(3))
AT_BEGUN = Position(4, 5, 1, 1, 0, 0, sealed=SealedMark(3), ends={SEALED: 9})
TOPICS = InputState({SEALED: "s", "control": "k"}, 1, 0, 0, reach={SEALED: (0, 9)})


def refused(meta: Meta, position: Position | None, found: InputState, new: Iterable[str] = ()) -> str:
    try:
        sealing.check(BY_TIME, "shard 0 of people", meta, position, found, new)
    except ShardRefused as refusal:
        return str(refusal)
    return ""


def test_a_shard_goes_on_with_a_topic_that_holds_all_that_was_published_there() -> None:
    assert refused(BEGUN, AT_BEGUN, TOPICS) == refused(BEGUN, None, TOPICS) == ""
    assert refused(BEGUN, AT_BEGUN, replace(TOPICS, reach={SEALED: (0, 12)})) == ""
    for reach in ({SEALED: (1, 9)}, {SEALED: (0, 8)}, {}):
        assert "has lost cohorts" in refused(BEGUN, AT_BEGUN, replace(TOPICS, reach=reach))
    one = msgspec.structs.replace(AT_BEGUN, ends={SEALED: 1})
    assert "has lost cohorts" in refused(BEGUN, one, replace(TOPICS, reach={}))
    silent = msgspec.structs.replace(AT_BEGUN, ends={})
    assert refused(BEGUN, silent, replace(TOPICS, reach={})) == "", "a former position, of a broker that tells no ends"


def test_a_topic_that_is_new_is_no_loss_before_the_first_epoch_is_over() -> None:
    assert refused(FRESH, None, replace(TOPICS, reach={SEALED: (0, 0)}), {SEALED}) == ""
    assert refused(replace(BEGUN, sealed=SealedMark(0)), None, TOPICS, {SEALED}) == ""
    assert "has lost cohorts" in refused(BEGUN, None, TOPICS, {SEALED})


def test_a_table_that_was_live_alone_gets_no_cohorts_without_a_reload() -> None:
    assert "knows of no sealed changelog" in refused(replace(BEGUN, sealed=None), None, TOPICS)
    assert refused(FRESH, None, replace(TOPICS, topic_ids={})) == "", "a broker that gives no ids"


def test_the_end_of_an_epoch_is_a_record_of_the_shard_that_says_where_it_was() -> None:
    meta = replace(BEGUN, next=980, retried=((7, 3),))
    said = b'{"command":"epoch-over","shard":1,"epoch":4,"seconds":60,"next":980,"retried":1,"truncations":0}'
    assert sealing.said_of_end(meta, 1, 60) == OutboxEntry("control", b"1", said)


def test_cohorts_are_published_of_a_table_that_wants_them_by_a_machine_that_can_form_them() -> None:
    form, engine = median_cuts(BY_TIME.space, BY_TIME.k), Engine(BY_TIME)
    assert sealing.taken_over(BY_TIME, 0, form, Meta(secret=SECRET), None, engine) is not None
    assert sealing.taken_over(BY_TIME, 0, None, Meta(secret=SECRET), None, engine) is None
    assert sealing.taken_over(replace(BY_TIME, sealed=None), 0, form, Meta(secret=SECRET), None, engine) is None


def test_what_the_sealed_changelog_came_to_is_shown_in_numbers() -> None:
    world = World(BY_NUMBER)
    worker = world.worker()
    world.come("p1 20 flu; p2 22 cold; p3 30 flu; p4 31 cold; p5 40 flu")
    worker.read(batch=5)
    cohorts = sum(isinstance(one, Add) for one in world.log)
    published = sum(one.n for one in world.log if isinstance(one, Add))
    assert cohorts
    assert worker.machine.facts.sealed == SealedFigures(1, cohorts, 5 - published)


def test_an_epoch_that_is_neither_in_the_topic_nor_in_the_outbox_is_lost() -> None:
    meta, end = Meta(sealed=SealedMark(3)), OutboxEntry(SEALED, b"epoch-0", b"{}")
    of = (BY_TIME, "shard 0 of people", meta)
    assert sealing.not_out_yet(*of, FoundSealed(3), [end]) == []
    assert sealing.not_out_yet(*of, FoundSealed(2), [end]) == [end]
    with pytest.raises(ShardRefused, match=r"has lost cohorts.*only `live` is to go on, take `sealed` out"):
        sealing.not_out_yet(*of, FoundSealed(1), [end])


def test_a_damaged_state_is_refused() -> None:
    world = told(World())
    kept = world.server.shards["people", 0]
    kept.sealed.popitem()
    with pytest.raises(ShardRefused, match="sealed cohorts in the store are not those of commit"):
        world.worker()


# -- load and reload --------------------------------------------------------------------------------------------------


def test_a_table_that_is_loaded_is_an_epoch_of_its_own_and_workers_go_on_with_the_next() -> None:
    world = World()
    done = world.reload("p1 20 flu; p2 22 cold; p3 30 flu; p4 31 cold; p5 90 flu")
    assert (done.cohorts, done.cohorts_lost) == (2, 0)
    assert world.words == [["ADD c1 [20, 30] 3 null", "ADD c2 [31, 90] 2 cold,flu"]]
    worker = world.worker()
    world.come("p6 40 flu; p7 41 cold")
    worker.read()
    worker.tick(MINUTE)
    assert world.words[1:] == [["ADD c3 [40, 41] 2 cold,flu"]]


def test_in_a_reload_people_whose_values_stay_are_where_they_were_and_others_leave_and_come_again() -> None:
    world = told(World())
    before = world.words
    world.now += MINUTE
    world.reload("p2 99 cold; p4 31 asthma; p5 40 flu; p6 41 cold; p3 33 asthma; p8 70 flu; p9 71 cold; p7 1 flu")
    assert all(said.startswith(("LIVE", "RETIRE", "ADD")) for said in world.words[-1])
    added = [one for one in world.epochs[-1] if isinstance(one, Add)]
    assert sum(one.n for one in added) <= 5  # p4 with another value, p8, p9, and who waited: p3, p7
    assert world.words[: len(before)] == before
    worker = world.worker()
    worker.tick(MINUTE)
    assert len(world.words) == len(before) + 2


def test_an_epoch_of_a_reload_is_not_before_the_last_one_though_the_clock_was_set_back() -> None:
    world = told(World())
    world.now -= 60 * MINUTE
    world.reload("p2 22 cold; p4 31 cold; p5 40 flu; p6 41 cold; p3 33 asthma; p7 1 flu")
    times = [end.time for end in world.log if isinstance(end, EpochEnd)]
    assert times == sorted(times)


def test_a_reload_that_is_repeated_publishes_nobody_twice() -> None:
    world = told(World())
    rows = "p2 22 cold; p4 31 asthma; p5 40 flu; p6 41 cold; p3 33 asthma; p8 70 flu; p9 71 cold; p7 1 flu"
    world.now += MINUTE
    world.dies = "before publish"
    with pytest.raises(Died):
        world.reload(rows)
    world.now += MINUTE
    world.reload(rows)
    n = sum(one.n for one in world.log if isinstance(one, Add))
    again = told(World())
    again.now += MINUTE
    again.reload(rows)
    assert n == sum(one.n for one in again.log if isinstance(one, Add))


def test_cohorts_that_redis_does_not_know_are_retired_and_who_is_there_is_not_published_again() -> None:
    world = told(World())
    there = {record.cohort for record in world.log if isinstance(record, Add)} - {
        record.cohort for record in world.log if isinstance(record, Retire)
    }
    world.server.shards.clear()
    world.now += MINUTE
    done = world.reload("p2 22 cold; p4 31 cold; p5 40 flu; p6 41 cold")
    assert (done.cohorts, done.cohorts_lost) == (0, len(there))
    assert {record.cohort for record in world.epochs[-1] if isinstance(record, Retire)} == there
    worker = world.worker()
    world.come("p8 70 flu; p9 71 cold; p2 22 asthma")
    worker.read()
    worker.tick(MINUTE)
    assert sum(one.n for one in world.epochs[-1] if isinstance(one, Add)) == 3


def test_what_a_replay_repeats_are_the_ends_of_epochs_that_a_store_has_lost_in_their_order() -> None:
    said = [EpochOver(0, epoch, 60 * epoch, 5, 0, 0) for epoch in (4, 2, 3, 5)]
    meta, position = Meta(sealed=SealedMark(2)), Position(9, 5, 1, 1, 0, 0, sealed=SealedMark(4))
    lost = sealing.to_repeat(World().table, "shard 0", meta, position, said)
    assert [one.epoch for one in lost] == [3, 4]
    with pytest.raises(ShardRefused, match=r"has lost epoch 3 of the sealed changelog.*a copy that holds epoch 4, or"):
        sealing.to_repeat(World().table, "shard 0", meta, position, said[1:2])


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"k": 3}, "privacy"),
        ({"attributes": (number("age", 99, 2),)}, "columns"),
        ({"sealed": {"alpha": Decimal("0.6")}}, "sealed"),
        ({"sealed": {"epoch": EpochLength(seconds=30), "theta": Decimal("0.5")}}, ""),
        ({"live": False}, ""),
    ],
)
def test_a_reload_may_change_when_epochs_end_but_nothing_that_the_promise_rests_on(
    change: dict[str, Any], changed: str
) -> None:
    meta, state = Meta(fingerprint=BY_TIME.fingerprint, sealed=SealedMark(3)), InputState({}, 1, 0, 0)
    if isinstance(rules := change.get("sealed"), dict):
        change = {"sealed": replace(BY_TIME.sealed, **rules)}  # type: ignore[type-var]
    table = replace(BY_TIME, **change)
    assert table.fingerprint != BY_TIME.fingerprint
    with pytest.raises(ShardRefused) as refused:  # where the change is first refused, it is said what can follow it
        check_written_for(table, 0, meta)
    ends = "publish under another name" if changed else "start the workers: the cohorts that are published stay"
    assert ends in str(refused.value)
    if not changed:
        sealing.check_goes_on(table, 0, meta, state)
        return
    with pytest.raises(ShardRefused, match=rf"for another table.yaml \({changed}\).*under another name"):
        sealing.check_goes_on(table, 0, meta, state)
    sealing.check_goes_on(table, 0, replace(meta, sealed=None), state)


def test_a_reload_does_not_touch_a_topic_that_was_recreated_or_has_lost_its_beginning() -> None:
    meta = Meta(fingerprint=BY_TIME.fingerprint, sealed=SealedMark(3), topic_ids={SEALED: "first"})
    sealing.check_goes_on(BY_TIME, 0, meta, InputState({SEALED: "first"}, 1, 0, 0, reach={SEALED: (0, 9)}))
    sealing.check_goes_on(BY_TIME, 0, replace(meta, sealed=None), InputState({SEALED: "second"}, 1, 0, 0))
    sealing.check_goes_on(BY_TIME, 0, None, InputState({SEALED: "first"}, 1, 0, 0))
    for state in (
        InputState({SEALED: "second"}, 1, 0, 0),
        InputState({SEALED: "first"}, 1, 0, 0, reach={SEALED: (1, 9)}),
    ):
        with pytest.raises(ShardRefused, match="was recreated or has lost cohorts"):
            sealing.check_goes_on(BY_TIME, 0, meta, state)


def test_rows_of_a_snapshot_that_alpha_cannot_hide_are_refused_before_they_are_published() -> None:
    rows = Encoder(BY_TIME).frame(pd.DataFrame({"id": ["1", "2", "3"], "age": ["1", "2", "3"], "problem": ["flu"] * 3}))
    with pytest.raises(ShardRefused, match=r"cannot be published in sealed cohorts.*set alpha to 1 or more.*reload"):
        sealing.check_snapshot(BY_TIME, "shard 0 of people", rows)


def test_a_shard_without_a_control_topic_is_refused_as_it_could_not_say_where_epochs_end() -> None:
    world = World()
    state = world.state()
    world.state = lambda last=None: replace(state, topic_ids={"changes": "c", "sealed": "s"})  # type: ignore
    with pytest.raises(StreamerError, match="there is no control topic"):
        world.worker()
