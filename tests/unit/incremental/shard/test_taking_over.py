"""A shard that is taken over holds back what its owner wants held back; of publishing, test_machine.py tells more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

import msgspec
import pytest

from streamer.errors import Fenced, StreamerError
from streamer.incremental.engine.tie_break import SECRET_BYTES
from streamer.incremental.release.records import OutboxEntry, Outgoing
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import DeafOutlet, Position
from streamer.incremental.shard.states import Holding
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from worlds.shards import Driven
from worlds.small_tables import CITY, YEARS, table

PEOPLE = table(YEARS, CITY, k=2)
INPUT = InputState({}, 1, 0, 1000)


class Taken(DeafOutlet):
    """An outlet that takes everything."""

    def __init__(self) -> None:
        self.last: Position | None = None
        self.records: list[Outgoing] = []

    def position(self) -> Position | None:
        return self.last

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        self.records += records
        self.last = position


class Owners:
    """One shard, and the owners that follow one another."""

    def __init__(self) -> None:
        self.server, self.outlet = MemoryServer(), Taken()

    def owner(self, holding: Holding) -> Driven:
        owner = Driven(PEOPLE, 0, MemoryStore(self.server, "people", 0), self.outlet, holding=holding)
        owner.take_over(INPUT)
        return owner


def read(count: int, first: int = 0, op: str = "r", snapshot: str = "true") -> list[Message]:
    rows = [{"id": i, "years": i % 10, "city": "a1", "problem": "flu"} for i in range(first, first + count)]
    source = {"snapshot": snapshot}
    return [
        Message(row["id"], None, msgspec.json.encode({"op": op, "after": row, "source": source}))  # type: ignore[arg-type]
        for row in rows
    ]


@pytest.mark.parametrize(
    ("holding", "pending", "held"),
    [(Holding.NOTHING, 0, False), (Holding.SNAPSHOT, 8, True), (Holding.ALL, 8, False)],
    ids=lambda value: str(value),
)
def test_what_a_shard_holds_back_is_for_its_owner_to_say(holding: Holding, pending: int, held: bool) -> None:
    owner = Owners().owner(holding)
    owner.step(read(8))
    assert (owner.engine.n_pending, owner.holds_back, owner.awaits_release) == (pending, held, False)


def test_who_takes_over_holds_back_on() -> None:
    owners = Owners()
    owners.owner(Holding.SNAPSHOT).step(read(8))
    following = owners.owner(Holding.SNAPSHOT)
    assert (following.engine.n_pending, following.holds_back) == (8, True)
    following.step(read(4, first=8))
    assert following.engine.n_pending == 12
    assert not owners.outlet.records


def test_a_release_that_was_interrupted_is_all_that_the_next_owner_can_do() -> None:
    owners = Owners()
    owner = owners.owner(Holding.SNAPSHOT)
    change = read(1, first=8, op="c", snapshot="false")
    owner.step([*read(8), *change])
    assert owner.awaits_release
    groups = [[i, i + 1] for i in range(0, 8, 2)]
    fine, owners.outlet.publish = owners.outlet.publish, breaks  # type: ignore[method-assign]
    with pytest.raises(StreamerError):
        owner.release(groups, records_max=4)  # type: ignore[arg-type]
    owners.outlet.publish = fine  # type: ignore[method-assign]
    following = owners.owner(Holding.SNAPSHOT)
    assert following.awaits_release
    with pytest.raises(StreamerError, match="is Releasing, without a table"):
        _ = following.engine
    following.step(change)
    following.release(groups, records_max=4)  # type: ignore[arg-type]
    assert (following.engine.n_pending, following.engine.n_qi_groups, following.meta.release) == (0, 4, 2)
    assert following.meta.next == change[0].offset + 1


def breaks(records: Sequence[Outgoing], position: Position) -> None:
    raise StreamerError("nothing is taken")


def test_a_secret_is_drawn_for_a_shard_that_never_committed() -> None:
    owner = Owners().owner(Holding.SNAPSHOT)
    owner.step(read(3))
    assert len(owner.meta.secret) == SECRET_BYTES


class FallsBack(MemoryStore):
    """A store whose server, when the outbox is asked for, has become a replica that had not got the last commit."""

    def __init__(self, server: MemoryServer, before: MemoryServer) -> None:
        super().__init__(server, "people", 0)
        self._before: MemoryServer | None = before

    def outbox(self) -> Iterator[tuple[int, OutboxEntry]]:
        if self._before is not None:
            self._server.shards, self._before = self._before.shards, None
        return super().outbox()


def test_a_store_that_falls_back_while_it_is_taken_over_publishes_no_commit_without_its_records() -> None:
    """Else the position would say that they are published, and they never would be."""
    owners = Owners()
    owner = owners.owner(Holding.NOTHING)
    owner.step(read(8, op="c", snapshot="false"))
    before, published = deepcopy(owners.server), list(owners.outlet.records)
    former = deepcopy(owners.outlet.last)
    owner.step(read(8, first=8, op="c", snapshot="false"))
    wanted = list(owners.outlet.records)
    owners.outlet.records, owners.outlet.last = published, former  # the second commit was stored, and not published
    owners.server.shards[("people", 0)].outbox.extend(
        (2, OutboxEntry(record.topic, record.key, record.value)) for record in wanted[len(published) :]
    )
    next_owner = Driven(PEOPLE, 0, FallsBack(owners.server, before), owners.outlet)
    with pytest.raises(Fenced):
        next_owner.take_over(INPUT)
    assert (owners.outlet.records, owners.outlet.last) == (published, former)
    again = owners.owner(Holding.NOTHING)
    again.step(read(8, first=8, op="c", snapshot="false"))
    assert owners.outlet.records == wanted
