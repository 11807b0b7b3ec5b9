"""The engines beside the demo's worker: whoever published something else is found out."""

from __future__ import annotations

import msgspec
import pytest

from agents.demo.beside import EnginesBeside
from agents.demo.survey import Register, people
from streamer.cli.routing import Router, RowMessage
from streamer.errors import LawViolated
from streamer.table.schema import Table


def test_a_worker_that_published_something_else_is_found_out(table: Table) -> None:
    beside, register = EnginesBeside(table, 4), Register(people())
    beside.learn(dict.fromkeys(range(3), b"secret"))
    for event, _ in zip(register.initial(), range(200), strict=False):
        for message in Router(table).route(None, msgspec.json.encode(event)):
            assert isinstance(message, RowMessage)
            beside.apply(message)
    assert (beside.unknown, beside.digests[3]) == ([3], 0)
    beside.learn({3: b"another secret"})
    assert beside.unknown == []
    assert all(beside.digests.values())
    beside.check(dict(beside.digests))
    with pytest.raises(LawViolated, match="shard 2"):
        beside.check({**beside.digests, 2: beside.digests[2] + 1})
