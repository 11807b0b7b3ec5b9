"""Two commands load one table at the same time, call by call as a schedule has it, while workers try to come in.

One command makes some calls and pauses, for longer than its claim lasts; the other one makes some calls; then both go
on, or one of them never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import starmap
from threading import Semaphore, Thread
from typing import Any

import pytest

from simulation.model_kafka import ModelOutlet
from simulation.reloaded_table import first_table, new_rows
from simulation.simulator import Died, World
from simulation.story import MESSAGES, PEOPLE
from streamer.errors import Conflict, Fenced, ShardRefused, StreamerError, UsageError
from streamer.incremental.shard.bootstrap import Claimed, reload, whole_table
from streamer.incremental.shard.first_commits import Prepared, prepare
from streamer.incremental.store.memory import MemoryServer, MemoryStore

SHARDS, LEASE_SECONDS, RECORDS_MAX = 2, 30.0, 12
"""With so few records in a release, a shard takes two commits."""

OLD, ANN, BOB = "old", "ann", "bob"


def prepared_by(name: str) -> list[Prepared]:
    rows = {f"{name} {key}": row for key, row in new_rows().items()}
    halves = [dict(list(rows.items())[shard::SHARDS]) for shard in range(SHARDS)]
    first = [first_table(World(PEOPLE, MESSAGES, {}), half, PEOPLE.k, 0) for half in halves]
    return [prepare(PEOPLE, shard, SHARDS, one) for shard, one in enumerate(first)]


PREPARED = {name: prepared_by(name) for name in (OLD, ANN, BOB)}


class Paused:
    """A server that is called when it is this command's turn."""

    def __init__(self, target: Any, turn: Callable[[], None]) -> None:
        self._target, self._turn = target, turn

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self._turn()
            return getattr(self._target, name)(*arguments)

        return call


@dataclass
class Servers:
    """The table in a store and a Kafka, and what a worker found there."""

    store: MemoryServer = field(default_factory=MemoryServer)
    worlds: list[World] = field(default_factory=lambda: [World(PEOPLE, MESSAGES, {}) for _ in range(SHARDS)])
    fences: list[str | None] = field(default_factory=lambda: [None] * SHARDS)
    """The worker's, by shard."""

    def __post_init__(self) -> None:
        for shard, world in enumerate(self.worlds):
            world.shard, world.shards, world.server, world.written = shard, SHARDS, self.store, 0

    def stores(self, turn: Callable[[], None]) -> list[Any]:
        return [Paused(MemoryStore(self.store, PEOPLE.name, shard), turn) for shard in range(SHARDS)]

    def load(self, name: str, turn: Callable[[], None] = lambda: None, only_empty: bool = False) -> None:
        """What a command does, in the order in which it does it."""
        stores = self.stores(turn)
        claims = [store.claim(name, LEASE_SECONDS) for store in stores]
        for store, claim in zip(stores, claims, strict=True):
            store.shut_out_older(claim)
        before = [store.meta() for store in stores]
        if only_empty and not self.is_torn and any(meta is not None for meta in before):
            raise UsageError("not empty")
        with whole_table([*starmap(Claimed, zip(map(str, range(SHARDS)), stores, claims, before, strict=True))]):
            for world, store, prepared in zip(self.worlds, stores, PREPARED[name], strict=True):
                outlet: Any = Paused(ModelOutlet(world.topic, world.shard), turn)
                reload(PEOPLE, world.shard, store, outlet, world.state(), prepared, RECORDS_MAX)
        assert {*self.held()} == {frozenset({name})}
        for store, claim in zip(stores, claims, strict=True):
            with suppress(Fenced):  # it has its rows, and another command may have come since
                store.renew(claim, 0)

    @property
    def is_torn(self) -> bool:
        """True if a command has left its mark in a shard."""
        return any(self.store.shard(PEOPLE.name, shard).mark for shard in range(SHARDS))

    def held(self) -> list[frozenset[str]]:
        """Whose rows every shard holds."""
        states = [MemoryStore(self.store, PEOPLE.name, shard).load() for shard in range(SHARDS)]
        return [
            frozenset(key.split()[0] for key, _ in state.kept.records) if state else frozenset() for state in states
        ]

    def let_worker_in(self) -> bool:
        """A worker goes on with the shards that it has, and takes every shard over that it may; whether it may any."""
        for shard, fence in enumerate(self.fences):
            store = MemoryStore(self.store, PEOPLE.name, shard)
            try:
                if fence is None:
                    self.fences[shard] = store.take_over()
                else:
                    store.check_fence(fence)
                self.assert_whole()
            except (Fenced, ShardRefused):
                self.fences[shard] = None
        return any(self.fences)

    def assert_whole(self) -> None:
        """All shards hold the table of one command."""
        held = self.held()
        assert len({*held}) == 1 and len(held[0]) <= 1, f"a worker has a shard, and the shards hold {held}"


class Command:
    """A command that goes on by one call at a time."""

    def __init__(self, servers: Servers, name: str, only_empty: bool = False) -> None:
        self._servers, self.name, self._only_empty = servers, name, only_empty
        self._go, self._stands, self._dies = Semaphore(0), Semaphore(0), False
        self.ended = self.ended_well = False
        self.failure: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()
        self._stands.acquire()

    def _run(self) -> None:
        try:
            self._servers.load(self.name, self._turn, self._only_empty)
            self.ended_well = True
        except BaseException as failure:
            self.failure = failure
        self.ended = True
        self._stands.release()

    def _turn(self) -> None:
        self._stands.release()
        self._go.acquire()
        if self._dies:
            raise Died

    def go_on(self, calls: int = 1_000) -> None:
        """Makes so many calls, or all that are left; then it must have ended for one of the reasons there are."""
        for _ in range(calls):
            if self.ended:
                break
            self._go.release()
            self._stands.acquire()
            self._servers.let_worker_in()
        assert isinstance(self.failure, StreamerError | None), self.failure

    def die(self) -> None:
        if not self.ended:
            self._dies = True
            self._go.release()
            self._stands.acquire()
        self._thread.join()


@contextmanager
def two(only_empty: bool) -> Iterator[tuple[Servers, Command, Command]]:
    servers = Servers()
    if not only_empty:
        servers.load(OLD)
    commands = [Command(servers, name, only_empty) for name in (ANN, BOB)]
    yield servers, commands[0], commands[1]
    for command in commands:
        command.die()


def calls_of_a_command(only_empty: bool) -> int:
    with two(only_empty) as (_, ann, _):
        calls = 0
        while not ann.ended:
            ann.go_on(1)
            calls += 1
        assert ann.ended_well
        return calls


def test_the_second_command_is_refused_at_once_and_the_first_goes_on() -> None:
    for calls in range(1, calls_of_a_command(False)):
        with two(False) as (servers, ann, bob):
            ann.go_on(calls)
            held = servers.held()
            bob.go_on()
            assert isinstance(bob.failure, Conflict)
            assert servers.held() == held
            ann.go_on()
            assert ann.ended_well


ORDERS = ((ANN,), (BOB,), (ANN, BOB), (BOB, ANN))
"""Who goes on after both have paused; who does not is dead."""


@pytest.mark.parametrize("only_empty", [False, True], ids=["reload", "load"])
@pytest.mark.parametrize("apart", [13, pytest.param(1, marks=pytest.mark.night)])
def test_paused_or_dead_anywhere_two_commands_leave_one_whole_table_or_let_no_worker_in(
    only_empty: bool, apart: int
) -> None:
    n, seen = calls_of_a_command(only_empty), set()
    for first in range(1, n):
        for second in range(first % apart, n, apart):
            for order in ORDERS if apart == 1 else [ORDERS[(first + second // apart) % len(ORDERS)]]:
                with two(only_empty) as (servers, ann, bob):
                    ann.go_on(first)
                    servers.store.seconds += LEASE_SECONDS + 1
                    bob.go_on(second)
                    for name in order:
                        {ANN: ann, BOB: bob}[name].go_on()
                    if only_empty:
                        assert not (ann.ended_well and bob.ended_well), "both have found it empty"
                    seen |= {(one.name, one.ended_well or type(one.failure)) for one in (ann, bob)}
                    servers.store.seconds += LEASE_SECONDS + 1
                    # A load that died goes on if it is called again, wherever that was.
                    servers.load(OLD, only_empty=only_empty and servers.is_torn)
                    servers.let_worker_in()
                    assert servers.let_worker_in()
    assert seen >= {(ANN, True), (ANN, Fenced), (BOB, True)}
