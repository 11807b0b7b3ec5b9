"""Several shards whose table is truncated: by command in all of them, and by a connector, which reaches only one.

The source is a list of events in its own order. A connector writes them to partitions, at times twice, and the shards
read these as far apart as chance has it, die, and lose commits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from simulation.simulator import World
from simulation.story import held_to_laws
from simulation.truncating_source import (
    PEOPLE,
    Source,
    read_to_the_end,
    rows_kept,
    worlds_of,
)
from streamer.errors import ShardRefused
from streamer.incremental import remedies
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.shard.input import Message
from streamer.incremental.store.base import OPERATOR
from streamer.table.row import Row


def rows_of(source: Source) -> dict[str, Row]:
    decoder, rows = Decoder(PEOPLE), {}
    for row in source.rows.values():
        change = decoder.decode(None, json.dumps({"op": "insert", "row": row}).encode())
        rows[str(row["id"])] = change.row  # type: ignore[union-attr]
    return rows


def assert_the_shards_hold_what_the_source_holds(worlds: Sequence[World], source: Source) -> None:
    kept: dict[str, Row] = {}
    for world in worlds:
        kept |= rows_kept(world)
        meta = world.meta()
        assert len(letters_of(world)) == meta.counts.dead_letters == 0
        assert meta.counts.messages == len(world.messages)
        assert meta.digest == world.topic.transactions[-1][1].digest
        assert held_to_laws(world).n_rows <= len(rows_kept(world)), "nobody is published who is not there"
    assert kept == rows_of(source)


def test_rows_of_a_snapshot_that_is_held_back_go_before_anybody_has_seen_them() -> None:
    source = Source(Random(4))
    source.snapshot(20)
    source.truncate()
    source.happen(9, truncations=0)
    source.captured(restarts=0)
    worlds = worlds_of(source.partitions)
    for world in worlds:
        world.written = sum(b'"op": "r"' in (message.value or b"") for message in world.messages)
        worker = world.run(batch=4)
        assert worker.holds_back
        assert worker.engine.n_rows > 1
    read_to_the_end(worlds)
    for world in worlds:
        worker = world.worker()
        worker.take_over(world.input)
        if worker.holds_back:
            worker.release_held(OPERATOR)
    assert_the_shards_hold_what_the_source_holds(worlds, source)


def letters_of(world: World) -> list[dict[str, object]]:
    records = [one for records, _ in world.topic.transactions for one in records if one.topic == "dead-letters"]
    return [msgspec.json.decode(one.value or b"") for one in records]


CAPTURED = b'{"op":"t","source":{"connector":"postgresql","lsn":900,"ts_ms":9}}'
"""A truncation as a connector writes it, to one partition."""


def test_a_captured_truncation_is_a_dead_letter_that_names_the_command_which_mends_it() -> None:
    source = Source(Random(8))
    source.happen(60, truncations=0)
    source.captured(restarts=0)
    at = len(source.partitions[1])
    source.partitions[1].append(Message(at, None, CAPTURED))
    worlds = worlds_of(source.partitions)
    read_to_the_end(worlds)
    assert [len(letters_of(world)) for world in worlds] == [0, 1, 0]
    (letter,) = letters_of(worlds[1])
    assert (letter["kind"], letter["reason"], letter["offset"]) == ("refused", "truncate-one-shard", at)
    assert "`streamer produce --truncate`" in str(letter["detail"])
    assert {key for world in worlds for key in rows_kept(world)} == {*rows_of(source)}, "nothing is removed"
    worlds[1].ask_to_retry([at])
    worlds[1].run(9)
    assert [letter["kind"] for letter in letters_of(worlds[1])] == ["refused", "refused-again"]


FORMER = b'{"command":"truncate","shard":1,"source":{"log":"postgresql","place":[900],"at":9},"by":0,"offset":12}'


def test_a_truncation_that_a_former_version_has_carried_half_is_said_and_one_that_took_effect_is_not() -> None:
    source = Source(Random(8))
    source.happen(60, truncations=0)
    worlds = worlds_of(source.captured(restarts=0).partitions)
    worlds[1].between = Random(1)
    worlds[1].control.append(FORMER)
    with pytest.raises(ShardRefused, match="a former version carried a truncation here") as refused:
        read_to_the_end(worlds[1:2])
    assert remedies.reload_from_file("people") in str(refused.value)
    worlds[1].control[:1] = [FORMER.replace(b'"truncate"', b'"truncated"'), FORMER.replace(b'"shard":1', b'"shard":2')]
    read_to_the_end(worlds)
    assert_the_shards_hold_what_the_source_holds(worlds, source)
