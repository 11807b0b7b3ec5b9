"""What a rebuild would gain, on a copy of what a shard keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.cli.operate.rebuild import tried
from streamer.errors import ShardRefused, UsageError
from streamer.incremental.store.base import State
from worlds.rebuilt_shards import RebuiltShard


def stored() -> tuple[RebuiltShard, State]:
    shard = RebuiltShard()
    shard.take_over()
    shard.come(150)
    state = shard.store.load()
    assert state is not None
    return shard, replace(state, kept=replace(state.kept, records=list(state.kept.records), similarity={}))


def test_a_trial_tells_the_gain_and_changes_nothing() -> None:
    shard, state = stored()
    meta_before = shard.shard.meta
    heard: list[float] = []
    trial = tried(shard.table, 0, state, "ordered", heard.append)
    assert (trial.rows, trial.regions) == (150, 6)
    assert heard == sorted(heard)
    assert (len(heard), heard[-1]) == (trial.regions, 1.0)
    assert trial.regions > 3
    assert trial.ncp_before is not None
    assert trial.ncp_now is not None
    assert 0 < trial.ncp_now < trial.ncp_before
    assert 0 < trial.rows_published_again <= 150
    assert tried(shard.table, 0, state, "ordered", heard.append).ncp_now == trial.ncp_now
    assert shard.shard.meta == meta_before


def test_a_shard_that_never_committed_has_nothing_to_gain() -> None:
    table = RebuiltShard().table
    assert tried(table, 3, None, "ordered", print).rows == 0


def test_what_a_worker_would_refuse_is_refused_here() -> None:
    shard, state = stored()
    with pytest.raises(UsageError, match="150 rows are more than"):
        tried(shard.table, 0, state, "ola", print)


def test_a_shard_of_another_table_yaml_is_not_tried() -> None:
    shard, state = stored()
    with pytest.raises(ShardRefused, match=r"table\.yaml has changed"):
        tried(replace(shard.table, k=4), 0, state, "ordered", print)
