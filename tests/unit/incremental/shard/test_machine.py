"""The loop of a shard: what it asks before it shuts anybody out, and what one faulty message may do to it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from streamer.errors import Conflict, Fenced, LawViolated, ShardRefused, StreamerError
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.engine import Engine, Outcome
from streamer.incremental.events.changes import Change, Insert
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.shard import machine
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.ready import Tick
from streamer.incremental.shard.states import Holding, Phase
from streamer.incremental.store import codec
from streamer.incremental.store.base import State
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.codes import KeptColumn
from streamer.table.encode import EncodedRows
from streamer.table.row import Row
from streamer.table.schema import Limits, Table
from worlds.shards import PEOPLE, Driven, Shard, insert, served_shard
from worlds.small_tables import CITY, PROBLEM, YEARS, table

CANARY = "canary"


# -- taking over ------------------------------------------------------------------------------------------------------


@pytest.fixture
def served() -> Shard:
    return served_shard()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"table": table(YEARS, CITY, k=3)}, r"table\.yaml has changed"),
        ({"end": 3}, "ends at 3"),
        ({"earliest": 900}, "expired"),
    ],
)
def test_who_is_refused_has_shut_nobody_out(served: Shard, changes: dict[str, object], says: str) -> None:
    """Before: a worker with a changed table.yaml stopped the healthy one, and then itself."""
    healthy = served.publisher()
    healthy.take_over(served)
    fences = served.fences
    intruder = replace(served, **changes)  # type: ignore[arg-type]
    with pytest.raises(ShardRefused, match=says):
        intruder.publisher().take_over(intruder)
    assert intruder.fences == fences
    healthy.step([insert(6)])


def test_an_input_that_is_lost_already_shuts_nobody_out(served: Shard) -> None:
    class Lost:
        def state(self, last: int | None = None) -> InputState:
            raise Fenced("given back")

        def secret(self) -> None: ...

    fences = served.fences
    with pytest.raises(Fenced):
        served.publisher().take_over(Lost())
    assert served.fences == fences


def test_the_inputs_end_is_read_after_the_former_owner_was_shut_out(served: Shard) -> None:
    """Before it, that one could still read on and publish, and its progress looked like lost messages."""
    served.asked.clear()
    served.publisher().take_over(served)
    assert served.asked == ["input", "fence", "input"]


def test_a_healthy_worker_that_publishes_during_the_look_is_no_contradiction(served: Shard) -> None:
    healthy = served.publisher()
    offset = healthy.take_over(served)

    class Busy(Shard):
        """Its position is read just before the healthy worker publishes twice more."""

        def position(self) -> Position | None:
            before = served.last
            if self.fences == 0:
                for i in range(2):
                    healthy.step([insert(offset + i)])
            return before if self.fences == 0 else served.last

    newcomer = Busy(server=served.server)
    newcomer.publisher().take_over(newcomer)


def test_a_retry_shuts_out_delayed_calls_of_its_own(served: Shard) -> None:
    publisher = served.publisher()
    publisher.take_over(served)
    fence = served.server.shards["people", 0].fence or ""
    publisher.take_over(served)
    with pytest.raises(Fenced):
        MemoryStore(served.server, "people", 0).check_fence(fence)


SNAPSHOT = [
    Message(i, None, msgspec.json.encode({"op": "r", "after": {"id": i, "years": i, "city": "a1", "problem": "flu"},
                                          "source": {"snapshot": "true"}}))
    for i in range(8)
]  # fmt: skip


@pytest.mark.parametrize(
    ("holding", "pending", "held"),
    [(Holding.NOTHING, 0, False), (Holding.SNAPSHOT, 8, True), (Holding.ALL, 8, False)],
    ids=lambda value: str(value),
)
def test_what_a_shard_holds_back_is_for_its_owner_to_say(holding: Holding, pending: int, held: bool) -> None:
    owner = (shard := Shard()).publisher(holding)
    owner.take_over(shard)
    owner.step(SNAPSHOT)
    assert (owner.engine.n_pending, owner.holds_back, owner.awaits_release) == (pending, held, False)


def test_the_loss_of_the_whole_table_is_summed_up_every_five_seconds(served: Shard) -> None:
    owner = served.publisher()
    owner.take_over(served)
    losses = [owner.machine.facts.ncp]
    owner.drive(Tick(0.0, 0.0))
    losses.append(first := owner.machine.facts.ncp)
    assert [loss is None for loss in losses] == [True, False]
    owner.step([insert(6 + n, city="d1") for n in range(9)])
    for clock, is_new in ((4.9, False), (5.0, True), (9.9, True)):
        owner.drive(Tick(0.0, clock))
        assert (owner.machine.facts.ncp != first) == is_new, clock


@pytest.mark.parametrize("groups", [[np.arange(4)], []], ids=["one group", "nobody is in one"])
def test_a_table_that_is_loaded_is_release_0_whether_anybody_is_published_or_not(groups: list[Any]) -> None:
    owner = (shard := Shard()).publisher()
    owner.take_over(shard)
    rows = EncodedRows.of_rows({f"r{i}": Row((i, 0), (b'"flu"',)) for i in range(4)}, 2)
    report = owner.load_initial(lambda _secret: (rows, groups))
    assert (owner.meta.commit, owner.meta.release, owner.meta.outside) == (1, 0, 1)
    assert (report.published, len(shard.sent), report.commits) == (4 * len(groups), 4 * len(groups), 1)


def test_a_batch_reports_the_records_of_its_commit_without_the_letters(served: Shard) -> None:
    owner = served.publisher()
    owner.take_over(served)
    before = len(served.sent)
    letters = owner.step([Message(6, None, b"nonsense"), Message(7, None, b"nonsense")])
    assert (letters.published, letters.counts.dead_letters, len(served.sent) - before) == (0, 2, 2)
    rows = owner.step([*(insert(8 + n) for n in range(4)), Message(12, None, b"nonsense")])
    assert (rows.published, rows.reasons.total()) == (len(served.sent) - before - 3, 1)


class FallsBack(MemoryStore):
    """A store whose server, when the outbox is asked for, has become a replica that had not got the last commit."""

    def __init__(self, server: MemoryServer, before: MemoryServer) -> None:
        super().__init__(server, "people", 0)
        self._before: MemoryServer | None = before

    def outbox(self) -> Iterator[tuple[int, OutboxEntry]]:
        if self._before is not None:
            self._server.shards, self._before = self._before.shards, None
        return super().outbox()


def test_a_store_that_falls_back_while_it_is_taken_over_publishes_no_commit_without_its_records(served: Shard) -> None:
    """Else the position would say that they are published, and they never would be."""
    before, published, former = deepcopy(served.server), list(served.sent), served.last
    more = [insert(offset) for offset in range(6, 14)]
    owner = served.publisher()
    owner.take_over(served)
    owner.step(more)
    wanted = list(served.sent)
    served.sent, served.last = list(published), former  # the second commit was stored, and not published
    served.server.shards["people", 0].outbox.extend(
        (2, OutboxEntry(record.topic, record.key, record.value)) for record in wanted[len(published) :]
    )
    with pytest.raises(Fenced):
        Driven(PEOPLE, 0, FallsBack(served.server, before), served).take_over(served)
    assert (served.sent, served.last) == (published, former)
    again = served.publisher()
    again.take_over(served)
    again.step(more)
    assert served.sent == wanted


# -- messages at fault ------------------------------------------------------------------------------------------------


class Fragile(Engine):
    """An engine that fails half-way at some rows."""

    broken_by = (b'"%b"' % CANARY.encode(),)
    made: ClassVar[list[weakref.ref[Engine]]] = []
    most = 0

    def __init__(
        self, table: Table, shard: int = 0, shards: int = 1, secret: bytes = b"", gathers: bool = False
    ) -> None:
        super().__init__(table, shard, shards, secret, gathers)
        alive = [engine for engine in Fragile.made if engine() is not None]
        Fragile.made = [*alive, weakref.ref(self)]
        Fragile.most = max(Fragile.most, len(Fragile.made))

    def apply(self, change: Change) -> Outcome:
        outcome = super().apply(change)
        if isinstance(change, Insert) and change.row.values[0] in self.broken_by:
            raise KeyError(change.row.values[0])
        return outcome


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(machine, "Engine", Fragile)
    Fragile.made, Fragile.most = [], 0
    yield


@pytest.mark.usefixtures("fragile")
def test_a_message_that_breaks_the_engine_becomes_a_dead_letter_and_the_others_are_published() -> None:
    """Before: the worker ended, was started again, read the same message, and ended."""
    shard = Shard()
    publisher = shard.publisher()
    publisher.take_over(shard)
    report = publisher.step([insert(0), insert(1), insert(2, CANARY), insert(3)])
    assert (shard.reasons, shard.rows) == (["internal-error"], 3)
    assert (report.counts.applied, report.counts.dead_letters, report.reasons) == (3, 1, {"internal-error": 1})
    assert shard.last is not None
    assert publisher.meta.skipped == shard.last.skipped == (2,)
    (fault,) = report.faults
    assert fault.startswith("offset 2 is passed over: KeyError in test_machine.py")
    assert CANARY not in repr(shard.sent) + "".join(str(record.value) for record in shard.sent) + fault


class LatelyFragile(Fragile):
    """An engine whose fault shows only when what the rows left behind is run."""

    broken = False

    def apply(self, change: Change) -> Outcome:
        try:
            return super().apply(change)
        except KeyError:
            self.broken = True
            return Outcome(applied=True)

    def run(self) -> None:
        if self.broken:
            raise LawViolated("QI group 7 has a row outside its box")
        super().run()

    def compute(self) -> None:
        self.run()
        super().compute()


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param({"op": "delete", "where": "years = 0"}, id="delete"),
        pytest.param({"op": "modify", "where": "years = 0", "set": {"problem": "'ulcer'"}}, id="modify"),
    ],
)
def test_a_statement_is_not_taken_for_what_was_at_fault_before_it(
    statement: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement runs what is queued: before, it became a dead letter for the fault of another message."""
    monkeypatch.setattr(machine, "Engine", LatelyFragile)
    shard = Shard()
    publisher = shard.publisher()
    publisher.take_over(shard)
    publisher.step(
        [insert(0), insert(1), insert(2, CANARY), Message(3, None, msgspec.json.encode(statement)), insert(4)]
    )
    assert publisher.meta.skipped == (2,)
    assert shard.reasons == ["internal-error"]
    assert publisher.meta.counts.applied == 4


@pytest.mark.usefixtures("fragile")
def test_two_tables_need_not_fit_into_memory_when_one_is_loaded_again() -> None:
    shard = Shard()
    publisher = shard.publisher()
    publisher.take_over(shard)
    gc.disable()
    try:
        publisher.step([insert(0), insert(1), insert(2, CANARY), insert(3)])
        assert Fragile.most == 1
    finally:
        gc.enable()


@pytest.mark.usefixtures("fragile")
def test_an_engine_that_breaks_at_everything_stops_the_shard_and_publishes_no_letters() -> None:
    shard = Shard()
    publisher = shard.publisher()
    publisher.take_over(shard)
    with pytest.raises(ShardRefused, match="the fault is not theirs"):
        publisher.step([insert(offset, CANARY) for offset in range(50)])
    assert shard.sent == []
    with pytest.raises(StreamerError, match="take the shard over first"):
        publisher.step([insert(0)])


def test_an_offset_that_an_operator_named_is_skipped_without_being_looked_at() -> None:
    """Else the letter would say that it cannot be decoded."""
    shard = Shard()
    publisher = shard.publisher()
    publisher.take_over(shard, [1])
    publisher.step([insert(0), Message(1, None, b"nonsense"), insert(2)])
    assert (shard.reasons, publisher.meta.counts.dead_letters, publisher.meta.skipped) == (["skipped"], 1, (1,))


def test_a_store_that_is_at_another_commit_than_expected_is_not_loaded(served: Shard) -> None:
    class MovedOn(MemoryStore):
        """Somebody has written since its position was read."""

        def load(self) -> State | None:
            state = super().load()
            assert state is not None
            return replace(state, meta=replace(state.meta, commit=7))

    shard = Driven(served.table, 0, MovedOn(served.server, "people", 0), served)
    with pytest.raises(Conflict):
        shard.take_over(served)
    assert shard.machine.facts.state == Phase.IDLE.value
    assert shard.machine.fence, "to be taken over again"


@pytest.mark.parametrize("lost", ["everything", "a QI group with its rows"])
def test_a_store_that_lost_what_was_published_is_refused_though_the_rest_fits_together(
    served: Shard, lost: str
) -> None:
    """Else lost rows would stay published, and nothing could remove them."""
    kept = served.server.shards["people", 0]
    numbers = set(kept.qi_groups) if lost == "everything" else {min(kept.qi_groups)}
    assert numbers
    for number in numbers:
        for source_key in codec.decode_qi_group(kept.qi_groups.pop(number)).members:
            del kept.records[source_key.encode()]
    kept.similarity.clear()
    refused = served.publisher()
    with pytest.raises(ShardRefused, match="the QI groups in the store are not those of commit 1"):
        refused.take_over(served)
    assert refused.machine.facts.state == Phase.REFUSED.value
    assert not refused.machine.fence, "the remedy may be an older copy of the store"


# -- rows that Kafka would not take -----------------------------------------------------------------------------------


def test_two_changes_that_together_make_too_large_a_row_do_not_stop_the_shard() -> None:
    """Before: the second one was committed, could never be published, and was tried for ever."""
    notes = (PROBLEM, KeptColumn("note", sensitive=False))
    shard = Shard(replace(PEOPLE, kept=notes, limits=Limits(row_bytes_max=1_000)))
    publisher = shard.publisher()
    publisher.take_over(shard)
    rows = [{"id": i, "years": 1, "city": "a1", "problem": "flu", "note": ""} for i in range(2)]
    half = "x" * 600
    changes = [
        *({"op": "insert", "row": row} for row in rows),
        {"op": "modify", "key": 0, "row": {"note": half}},
        {"op": "modify", "key": 0, "row": {"problem": half}},
        {"op": "modify", "where": "years = 1", "set": {"problem": f"'{half}'"}},
    ]
    publisher.step([Message(i, None, msgspec.json.encode(change)) for i, change in enumerate(changes)])
    assert shard.reasons == ["row-too-large", "rows-left-unchanged"]
    assert max(len(record.key) + len(record.value or b"") for record in shard.sent) <= 1_000


# -- offsets without messages -----------------------------------------------------------------------------------------


class Turn:
    """The turn of a worker's shards."""

    def __init__(self) -> None:
        self.is_held, self.times = False, 0

    def __enter__(self) -> None:
        self.is_held, self.times = True, self.times + 1

    def __exit__(self, *_: object) -> None:
        self.is_held = False


def test_the_core_computes_outside_the_turn_so_that_other_shards_may_compute(
    served: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: it ran inside where a batch had many messages, and one shard computed at a time."""
    turn, held = Turn(), list[bool]()
    run = CoreArrays.run

    def seen(core: CoreArrays, operations: Any, cells: Any) -> None:
        held.append(turn.is_held)
        run(core, operations, cells)

    monkeypatch.setattr(CoreArrays, "run", seen)
    limits = replace(served.table.limits, transaction_rows_max=100)
    shard = replace(served, table=replace(served.table, limits=limits))
    publisher = Driven(shard.table, 0, MemoryStore(shard.server, "people", 0), shard, turn=turn)
    publisher.take_over(shard)
    publisher.step([insert(6 + n) for n in range(60)])
    assert held
    assert not any(held)
    assert turn.times > 3


def test_offsets_that_hold_no_message_count_as_read() -> None:
    """A marker of a transaction behind the last message would else look like a message that expired unread."""
    shard = Shard()
    publisher = shard.publisher()
    publisher.take_over(shard)
    publisher.step([insert(0), insert(1)], through=3)
    assert publisher.meta.next == 3
    report = publisher.step([], through=5)
    assert (publisher.meta.next, report.commits, report.counts.messages) == (5, 1, 0)
    assert publisher.step([], through=5).commits == 0
    shard.earliest = 5
    assert shard.publisher().take_over(shard) == 5


# -- the secret of a shard --------------------------------------------------------------------------------------------


def test_messages_that_were_read_before_are_passed_over_and_those_after_them_applied(served: Shard) -> None:
    """As after a rebalance, if the reader begins again a little earlier."""
    publisher = served.publisher()
    offset = publisher.take_over(served)
    rows = publisher.engine.n_rows
    report = publisher.step([insert(offset - 2), insert(offset - 1), insert(offset), insert(offset + 1)])
    assert (publisher.engine.n_rows, report.counts.messages, publisher.meta.next) == (rows + 2, 2, offset + 2)
    commit = publisher.meta.commit
    publisher.step([insert(offset), insert(offset + 1)])
    assert publisher.meta.commit == commit, "there is nothing to commit"


def test_a_new_shard_draws_a_secret_and_keeps_it_over_restarts() -> None:
    secrets = set()
    for _ in range(20):
        shard = Shard()
        for offset in range(3):
            publisher = shard.publisher()
            publisher.take_over(shard)
            publisher.step([insert(offset)])
            secrets.add(publisher.meta.secret)
    assert len(secrets) == 20
    assert min(map(len, secrets)) >= 16


def test_a_secret_that_nothing_was_committed_with_is_not_kept() -> None:
    shard = Shard()
    shard.publisher().take_over(shard)
    assert MemoryStore(shard.server, "people", 0).meta() is None


def test_the_secret_goes_into_the_store_and_nowhere_else() -> None:
    shard = Shard()
    publisher = Driven(PEOPLE, 0, MemoryStore(shard.server, "people", 0), shard, secret=b"canary of 16 bytes")
    publisher.take_over(shard)
    report = publisher.step([insert(offset) for offset in range(40)])
    assert report.splits
    engine = publisher.engine
    with pytest.raises(ShardRefused, match="holds a table already") as refused:
        publisher.load_initial(lambda secret: (EncodedRows.of_rows({}, 2), []))
    said = [repr(publisher.meta), str(publisher.meta), repr(report), repr(refused.value), repr(shard.last)]
    said += [repr(MemoryStore(shard.server, "people", 0).load()), repr(shard.server.shards), repr(engine)]
    said += [repr(record) for record in shard.sent]
    assert not [text for text in said if "canary" in text]
    assert b"canary" in (shard.server.shards["people", 0].meta or b"")
