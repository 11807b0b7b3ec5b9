"""The engines beside the demo's worker: whoever published something else is found out."""

from __future__ import annotations

import msgspec
import pytest

from agents.demo.beside import EnginesBeside
from agents.demo.survey import Register, people
from streamer.cli.routing import Router, RowMessage
from streamer.errors import LawViolated
from streamer.table.schema import Table


def send(beside: EnginesBeside, table: Table, count: int) -> None:
    for event, _ in zip(Register(people()).initial(), range(count), strict=False):
        for message in Router(table).route(None, msgspec.json.encode(event)):
            assert isinstance(message, RowMessage)
            beside.apply(message)


def test_a_worker_that_published_something_else_is_found_out(table: Table) -> None:
    beside = EnginesBeside(table, 4)
    beside.learn(dict.fromkeys(range(3), b"secret"))
    send(beside, table, 200)
    assert (beside.unknown, beside.digests[3]) == ([3], 0)
    beside.learn({3: b"another secret"})
    assert beside.unknown == []
    assert all(beside.digests.values())
    beside.check(dict(beside.digests))
    with pytest.raises(LawViolated, match="shard 2"):
        beside.check({**beside.digests, 2: beside.digests[2] + 1})


def test_while_the_core_is_compiled_everything_waits_and_comes_to_the_same(table: Table) -> None:
    secrets, compiling = dict.fromkeys(range(2), b"secret"), [True]
    beside, at_once = EnginesBeside(table, 2, lambda: compiling[0]), EnginesBeside(table, 2)
    for engines in beside, at_once:
        engines.learn(secrets)
        send(engines, table, 100)
    assert (beside.waits, beside.splits, set(beside.digests.values())) == (True, 0, {0})
    beside.learn({})
    assert (beside.waits, beside.splits) == (True, 0)
    compiling[0] = False
    beside.learn({})
    assert (beside.waits, beside.splits, beside.digests) == (False, at_once.splits, at_once.digests)
    assert at_once.splits
    beside.check(at_once.digests)
