"""What changes cost: as much as a replay of the same changes publishes, whatever the table publishes and asks for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from sys import getsizeof

import numpy as np
import pandas as pd
import pytest

from streamer.grouping import cohort_formation, first_groups
from streamer.incremental import forecast
from streamer.incremental.forecast import (
    DELETE,
    INSERT,
    LEAST,
    MODIFY,
    MOST,
    ChangeTally,
    CountingOutlet,
    Forecast,
    MadeChanges,
    ShardTrial,
    TriedShard,
    bytes_in_memory,
    try_changes,
)
from streamer.incremental.replay import Replay, secret_of_seed
from streamer.incremental.topics import DEAD_LETTERS, LIVE, POSITIONS, QIT, SEALED, STT
from streamer.table.codes import Diversity
from streamer.table.schema import AVRO, CONNECT_JSON, JSON, LOSSY_JOIN, EpochLength, SealedRules, Table
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS
from worlds.forecasts import many_patients

TABLE = load_table(PATIENTS)
ROWS, SEED = 120, 3


@pytest.fixture(autouse=True)
def _few_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "SINGLE_CHANGES", 60)
    monkeypatch.setattr(forecast, "CHANGES_TOGETHER", 100)
    monkeypatch.setattr(forecast, "CHANGES_PER_BATCH", 50)


def tried(table: Table = TABLE, rows: pd.DataFrame | None = None) -> TriedShard:
    form = cohort_formation(table) if table.sealed is not None else None
    return try_changes(table, many_patients(ROWS) if rows is None else rows, first_groups, form, SEED)


def test_changes_are_counted_as_a_replay_of_them_publishes_them() -> None:
    rows = many_patients(ROWS)
    changes = MadeChanges(TABLE, rows, SEED)
    there, outlet = rows.iloc[changes.there], CountingOutlet(TABLE)
    replay = Replay(TABLE, outlet, 1, secret_of_seed(SEED))
    replay.load_initial(lambda: there, lambda table, encoded, _: first_groups(table, encoded, SEED))
    outlet.tally = ChangeTally()
    assert sum(replay.run(message for _, message in islice(changes, 200))) == 200
    trial = ShardTrial(TABLE, rows, first_groups, None, SEED)
    counted = ChangeTally()
    for one in trial.one_by_one(200).values():
        counted.add(one)
    assert counted.records[LIVE] > 200
    assert counted.records == outlet.tally.records
    assert counted.bytes[LIVE] == outlet.tally.bytes[LIVE]


def test_insertions_deletions_and_modifications_are_counted_apart_and_none_is_refused() -> None:
    found = tried()
    assert sum(one.changes for one in found.costs.values()) == found.alone.changes == 60
    assert all(found.costs[kind].records_of_each(LIVE) > 1 for kind in (INSERT, DELETE, MODIFY))
    assert (found.refused, found.alone.records[DEAD_LETTERS]) == (0, 0)
    assert found.rows + found.waiting == ROWS
    assert found.alone.records[POSITIONS] == 60 > found.together.records[POSITIONS] == 2
    assert found.together.records_of_each(LIVE) < found.alone.records_of_each(LIVE)


def test_the_same_rows_and_seed_give_the_same_figures() -> None:
    one, other = tried(), tried()
    assert (one.costs[INSERT].bytes, one.stored_bytes, one.ncp) == (
        other.costs[INSERT].bytes,
        other.stored_bytes,
        other.ncp,
    )


def test_of_fewer_rows_than_k_nothing_is_published() -> None:
    found = tried(replace(TABLE, k=50), many_patients(20))
    assert (found.published, found.ncp, found.alone.records[LIVE]) == (0, None, 0)
    assert found.stored_bytes > 0


def test_rows_of_individuals_come_and_go_with_them() -> None:
    rows = many_patients(ROWS).assign(person=[str(number // 2) for number in range(ROWS)])
    found = tried(replace(TABLE, individual="person"), rows)
    assert (found.refused, found.alone.records_of_each(LIVE) > 1) == (0, True)


def test_a_lossy_join_publishes_into_two_topics() -> None:
    found = tried(replace(TABLE, form=LOSSY_JOIN, diversity=Diversity(l=2)))
    assert min(found.alone.records[QIT], found.alone.records[STT]) > 0 == found.alone.records[LIVE]


@pytest.mark.parametrize("epoch", [EpochLength(seconds=600), EpochLength(events=5)])
@pytest.mark.parametrize("live", [True, False])
def test_a_sealed_changelog_is_counted_beside_live_or_without_it(epoch: EpochLength, live: bool) -> None:
    found = tried(replace(TABLE, sealed=SealedRules(epoch), live=live))
    assert found.together.records[SEALED] > 0
    assert bool(found.together.records[LIVE]) == live
    assert found.stored_bytes > tried().stored_bytes


def test_a_format_with_schemas_has_the_records_of_plain_json_and_more_bytes_and_avro_fewer() -> None:
    avro, plain, with_schemas = (tried(replace(TABLE, format=name)).alone for name in (AVRO, JSON, CONNECT_JSON))
    assert avro.records[LIVE] == plain.records[LIVE] == with_schemas.records[LIVE]
    assert 2 * avro.bytes[LIVE] < 2 * plain.bytes[LIVE] < with_schemas.bytes[LIVE]


# -- bytes ------------------------------------------------------------------------------------------------------------


def test_what_servers_add_grows_with_records_and_entries() -> None:
    found = tried()
    added = (MOST.record - LEAST.record) * found.alone.records[LIVE]
    assert found.alone.bytes_on(LIVE, MOST) - found.alone.bytes_on(LIVE, LEAST) == added > 0
    assert found.redis_bytes(MOST) - found.redis_bytes(LEAST) == (MOST.entry - LEAST.entry) * found.stored_entries


def test_memory_counts_each_array_and_text_once() -> None:
    array, text = np.zeros(1_000), "x" * 500
    assert bytes_in_memory(array) == 8_000
    held = [array, array[10:], array.data, text, text]
    assert bytes_in_memory(held) == 8_000 + getsizeof(held) + getsizeof(text)


def test_a_worker_takes_more_for_more_rows() -> None:
    assert tried(rows=many_patients(3_000)).worker_bytes > tried().worker_bytes > tried().empty_bytes > 0


# -- what is foreseen -------------------------------------------------------------------------------------------------


def test_a_shard_is_foreseen_from_two_smaller_ones_by_doublings_and_by_rows() -> None:
    few, many = (replace(tried(), rows=rows, stored_bytes=100 * rows) for rows in (1_000, 4_000))
    shard = Forecast(16_000, [few, many])
    assert shard.of_change(lambda one: 5.0 if one is few else 6.0) == 7.0
    assert shard.kept(lambda one: one.stored_bytes) == 1_600_000
    assert shard.is_foreseen


def test_changes_together_are_foreseen_to_cost_no_more_than_alone() -> None:
    found, sizes = tried(), {1_000: 1, 4_000: 90_000}
    few, many = (replace(found, rows=n, together=ChangeTally(100, Counter({LIVE: live}))) for n, live in sizes.items())
    shard = Forecast(10_000, [few, many])
    alone = shard.of_each(lambda one: one.alone, lambda tally: tally.records_of_each(LIVE))
    assert shard.of_each(lambda one: one.together, lambda tally: tally.records_of_each(LIVE)) == alone > 0


def test_what_was_tried_is_not_foreseen() -> None:
    found = tried()
    shard = Forecast(ROWS, [found])
    assert not shard.is_foreseen
    assert shard.of_change(lambda one: one.alone.records_of_each(LIVE)) == found.alone.records_of_each(LIVE)
