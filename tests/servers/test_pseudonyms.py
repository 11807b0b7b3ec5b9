"""Columns that are published as something else, on a real Kafka and Redis."""

from __future__ import annotations

import json

import msgspec

from streamer.incremental.topics import LIVE
from streamer.table.key_files import make_key
from worlds.patients import PROBLEMS
from worlds.workers import WorkedTable

COLUMNS = (
    "  problem: {role: sensitive, hierarchy: hierarchies/problem.csv, publish: {level: 1}}\n"
    "  id: {role: keep, publish: {pseudonym: readers.key}}\n"
)


def test_redis_and_readers_have_pseudonyms_alone_and_another_key_is_refused(world: WorkedTable) -> None:
    key = world.folder / "readers.key"
    make_key(key)
    world.edit_yaml("  problem: {role: sensitive, hierarchy: hierarchies/problem.csv}\n", COLUMNS)
    world.must("load", world.folder / "rows.csv")
    world.serve(60)
    records = [record for shard in range(world.shards) for record in world.state(shard).kept.records]
    pseudonyms = world.report("pseudonym", "--key-file", key, *(source_key for source_key, _ in records))["pseudonyms"]
    assert [json.loads(record.row.values[1]) for _, record in records] == pseudonyms
    published = [msgspec.json.decode(row) for shard in range(world.shards) for row in world.rows(shard).values()]
    assert {row["id"] for row in published} <= {*pseudonyms} and len(published) > 40
    assert {row["problem"] for row in published}.isdisjoint(PROBLEMS)
    source_key = next(one for one, _ in records)
    explained = world.report("explain", source_key, "--raw")
    assert pseudonyms[0] in json.dumps(explained)
    sent = b"".join((record.value() or b"") for record in world.read(LIVE, 0))
    assert not any(json.dumps(problem).encode() in sent for problem in PROBLEMS)
    world.stop()
    key.unlink()
    assert "cannot be read: No such file or directory. Rows cannot be published" in world.refusal()
    make_key(key)
    refused = world.call("status")
    assert "table.yaml has changed since this state was written (columns)" in refused.output.replace("\n", " ")
