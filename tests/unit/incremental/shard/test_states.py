"""The table of a shard's states: what every state can do, and what it cannot."""

from __future__ import annotations

import pytest

from streamer.errors import StreamerError
from streamer.incremental.shard.machine import TABLE, Machine
from streamer.incremental.shard.ready import Assigned, Failed, Messages, Performed, Preflight, Ready, Replace, Revoked
from streamer.incremental.shard.states import Doing, Phase
from streamer.incremental.shard.steps import StepTally
from streamer.incremental.store.base import Meta
from worlds.shards import PEOPLE


@pytest.mark.parametrize("state", Phase, ids=lambda state: state.value)
def test_from_every_state_there_is_a_way_back_to_the_take_over(state: Phase) -> None:
    for event in (Failed, Revoked):
        assert TABLE[state, event].leads == (Phase.IDLE,)
    assert TABLE[state, Assigned].leads == (Phase.INSPECTING,)


def test_every_state_is_reached_from_idle() -> None:
    reached, new = {Phase.IDLE, Phase.REFUSED}, {Phase.IDLE}  # a refusal is an error, and no entry of the table
    while new:
        new = {leads for (state, _), one in TABLE.items() if state in new for leads in one.leads} - reached
        reached |= new
    assert reached == set(Phase)


def test_what_means_nothing_in_a_state_is_an_error_that_names_both() -> None:
    machine = Machine(PEOPLE, 0, b"")
    with pytest.raises(StreamerError, match="is Idle, and nothing leads on from there by Messages"):
        machine.handle(Messages(()))
    assert machine.handle(Assigned()) == Ready(read=Preflight())
    with pytest.raises(StreamerError, match="is Inspecting, and nothing leads on from there by Performed"):
        machine.handle(Performed())


def test_nothing_is_replaced_or_published_out_of_its_state() -> None:
    assert [state for state, event in TABLE if event is Replace] == [Phase.SERVING]
    assert {state for state, event in TABLE if event is Messages} == {
        Phase.SERVING,
        Phase.REPLAYING,
        Phase.BUFFERING,
        Phase.RELEASING,
    }


def test_a_commit_that_is_for_nothing_else_is_for_no_message_and_publishes_no_record() -> None:
    doing = Doing(Meta(), StepTally(0, ""))
    assert (doing.records, doing.first, doing.late, doing.due, doing.complaint) == (0, 0, None, None, "")
