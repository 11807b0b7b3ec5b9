"""A loss is the mean over rows and quasi-identifiers, 0 to 1, wherever the product shows one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agents.shard_metrics import ShardMetrics
from agents.web.watch import Seen, page_facts, registry_of
from streamer.cli.operate import groups
from streamer.cli.operate.rebuild import tried
from streamer.incremental.shard.rebuild import described
from streamer.incremental.shard.requests import FullRebuild
from streamer.incremental.store.base import State
from worlds.rebuilt_shards import CLOCK, RebuiltShard
from worlds.status_facts import WELL, worker

NOW = int(CLOCK.seconds)


def peopled() -> tuple[RebuiltShard, State]:
    shard = RebuiltShard()
    shard.take_over()
    shard.come(150)
    shard.go_on(1)
    state = shard.store.load()
    assert state is not None
    return shard, replace(state, kept=replace(state.kept, records=list(state.kept.records), similarity={}))


def mean_width(shard: RebuiltShard, state: State) -> float:
    """Published width over the domain's, the mean over all published cells."""
    held = list(dict(state.kept.qi_groups).values())
    lo, hi = (np.array([getattr(one, side) for one in held]) for side in ("lo", "hi"))
    widths = shard.table.space.ncp_terms(lo, hi)
    return float(np.repeat(widths, [len(one.members) for one in held], axis=0).mean())


def test_a_live_table_groups_a_trial_and_a_rebuild_say_the_loss_that_anonymize_would() -> None:
    shard, state = peopled()
    table, expected = shard.table, mean_width(shard, state)
    assert 0 < expected < 0.5 < expected * table.space.d, "a sum would be seen"
    assert shard.shard.machine.engine.published.loss == pytest.approx(expected)
    assert shard.facts.ncp == pytest.approx(expected)
    by_group = [groups.group_described(table, 0, *one, raw=False) for one in dict(state.kept.qi_groups).items()]
    assert sum(one["size"] * one["ncp"] for one in by_group) / 150 == pytest.approx(expected)
    trial = tried(table, 0, state, "ordered", lambda _: None)
    assert trial.ncp_before == pytest.approx(expected)
    assert trial.ncp_now is not None
    assert 0 < trial.ncp_now < expected

    shard.asks(FullRebuild(0, "r1", NOW), CLOCK.seconds)
    shard.go_on()
    (done,) = shard.shard.meta.rebuilds
    said = described(done, table.space)
    assert said["ncp_before"] == pytest.approx(expected, abs=1e-6)
    assert 0 < said["ncp_now"] < expected


def test_the_page_and_the_metrics_show_it_as_it_is() -> None:
    shard, _ = peopled()
    facts = worker(replace(WELL, ncp=shard.facts.ncp))
    page = page_facts(shard.table, facts, {0: ShardMetrics()}, Seen(), ())
    assert page["shards"][0]["ncp"] == pytest.approx(shard.facts.ncp, abs=1e-6)
    registry = registry_of(lambda: facts, {0: ShardMetrics()})
    assert (
        registry.get_sample_value("streamer_information_loss_ratio", {"table": facts.table, "shard": "0"})
        == shard.facts.ncp
    )
