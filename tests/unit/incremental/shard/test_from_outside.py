"""Regions of a rebuild and what is remembered of it are commits that no message brings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamer.errors import LawViolated, ShardRefused, StreamerError
from streamer.incremental.engine.replacing import Region
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import DONE, Progress, Rebuild
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from worlds.shards import Shard, insert, served_shard

REBUILD = Rebuild("r1", "ordered", 7, 0)


@pytest.fixture
def served() -> Shard:
    return served_shard()


def in_pairs(region: Region) -> list[Ints]:
    """QI groups of two, by the rows' order."""
    n = len(region.rows.source_keys)
    return np.array_split(np.arange(n), n // 2)


def test_a_region_is_one_commit_one_release_and_no_message() -> None:
    shard = Shard()
    publisher = shard.publisher()
    publisher.take_over(shard)
    publisher.step([insert(offset) for offset in range(8)])
    before, sent = publisher.meta, len(shard.sent)
    engine = publisher.engine
    region = engine.region(engine.regions(0)[0])
    report = publisher.replace_region(region, in_pairs(region), Progress(REBUILD, 1))
    assert report is not None
    meta = publisher.meta
    assert (meta.commit, meta.release, meta.next) == (before.commit + 1, before.release + 1, before.next)
    assert (meta.outside, meta.counts) == (meta.commit, before.counts)
    assert (report.commits, report.published) == (1, len(shard.sent) - sent)
    assert meta.rebuild is not None
    assert (meta.rebuild.done, meta.rebuild.ncp_before) == (1, region.ncp)
    assert shard.last == Position.of(meta)
    assert shard.rows == 8
    headers = [dict(record.headers) for record in shard.sent[sent:]]
    assert {header["release"] for header in headers} == {b"%d" % meta.release}
    publisher.step([insert(8)])
    assert publisher.meta.outside == meta.commit
    assert publisher.meta.rebuild == meta.rebuild


def test_a_region_that_changed_is_not_committed_and_the_shard_goes_on(served: Shard) -> None:
    publisher = served.publisher()
    publisher.take_over(served)
    region = publisher.engine.region(publisher.engine.regions(0)[0])
    publisher.step([insert(6)])
    meta = publisher.meta
    assert publisher.replace_region(region, in_pairs(region), Progress(REBUILD, 1)) is None
    assert publisher.meta is meta
    publisher.step([insert(7)])
    assert publisher.meta.rebuild is None


def test_the_end_of_a_rebuild_is_kept_and_only_the_last_ones_are(served: Shard) -> None:
    publisher = served.publisher()
    publisher.take_over(served)
    before, sent = publisher.meta, len(served.sent)
    for turn in range(7):
        publisher.end_rebuild(Progress(Rebuild("r", "ordered", 7, turn), 1, 1, state=DONE))
    meta = publisher.meta
    assert (meta.rebuild, [one.rebuild.turn for one in meta.rebuilds]) == (None, [2, 3, 4, 5, 6])
    assert (meta.commit, meta.release, meta.outside) == (before.commit + 7, before.release, before.outside)
    assert len(served.sent) == sent
    kept = MemoryStore(served.server, "people", 0).meta()
    assert kept is not None
    assert replace(kept, entries=meta.entries) == meta


def test_groups_that_do_not_hold_are_refused_before_anything_is_committed(served: Shard) -> None:
    publisher = served.publisher()
    publisher.take_over(served)
    region = publisher.engine.region(publisher.engine.regions(0)[0])
    before = publisher.meta
    with pytest.raises(LawViolated, match="do not hold the privacy model"):
        publisher.replace_region(region, [np.array([0]), np.arange(1, 6)])
    with pytest.raises(StreamerError, match="take the shard over first"):
        publisher.step([insert(6)])
    publisher.take_over(served)
    assert publisher.meta == before


def test_nothing_is_rebuilt_while_the_input_is_read_again(served: Shard) -> None:
    served.server = MemoryServer()  # it lost everything
    publisher = served.publisher()
    publisher.take_over(served)
    publisher.step([insert(offset) for offset in range(3)])
    assert publisher.replays_to == 6
    region = publisher.engine.region(publisher.engine.regions(0)[0])
    with pytest.raises(StreamerError, match="is Replaying, and nothing leads on from there"):
        publisher.replace_region(region, in_pairs(region))
    with pytest.raises(StreamerError, match="is Replaying, and nothing leads on from there"):
        publisher.end_rebuild(Progress(REBUILD, 1))
    publisher.step([insert(3)])


def test_a_shard_that_holds_a_table_takes_no_other_as_its_first(served: Shard) -> None:
    publisher = served.publisher()
    publisher.take_over(served)
    before, sent = publisher.meta, len(served.sent)
    with pytest.raises(ShardRefused, match="holds a table already"):
        publisher.load_initial(lambda secret: (EncodedRows.of_rows({}, 2), []))
    assert (publisher.meta, len(served.sent)) == (before, sent)
