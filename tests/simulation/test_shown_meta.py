"""What a machine shows of its shard is committed: it changes by a take-over, and by a commit that is done."""

from __future__ import annotations

from collections import Counter

import pytest

from simulation.schedules import KINDS
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.ready import Event, Owned, Performed, Ready
from streamer.incremental.store.base import Meta


@pytest.mark.parametrize("kind", ["between batches", "first snapshot", "retries", "sealed cohorts", "output made anew"])
def test_a_machine_whose_commit_is_under_way_shows_the_committed_meta(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    handle, under_way, met = Machine.handle, dict[Machine, Meta](), Counter[str]()

    def watched(machine: Machine, event: Event) -> Ready:
        shown, asked = machine.meta, handle(machine, event)
        if asked.commit is not None:
            assert (machine.meta.commit, machine.meta == asked.commit.meta) == (asked.before, False)
        performed = under_way.pop(machine, None)
        if not isinstance(event, Performed | Owned):
            assert machine.meta == shown, type(event).__name__
        elif performed is not None and asked.commit is None:
            assert machine.meta.commit == performed.commit
        if asked.commit is not None:
            under_way[machine] = asked.commit.meta
            met[type(event).__name__] += 1
        return asked

    monkeypatch.setattr(Machine, "handle", watched)
    for seed in range(4):
        KINDS[kind](seed)
    assert sum(met.values()) > 30, met
