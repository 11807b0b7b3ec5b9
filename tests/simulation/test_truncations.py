"""Several shards whose source truncates the table: whatever is read when, they come to what the source holds.

The source is a list of events in its own order. A connector writes them to partitions, at times twice, and the shards
read these as far apart as chance has it, hear of truncations when chance has it, die, and lose commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from random import Random

import pytest

from simulation.simulator import Fault, World
from simulation.truncating_source import (
    NOON_MS,
    PEOPLE,
    SHARDS,
    Source,
    begun,
    read_apart_and_lose,
    read_to_the_end,
    rows_kept,
    worlds_of,
)
from streamer.errors import ShardRefused
from streamer.incremental.checks.changelog import ChangelogLaws
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.events.registered_schemas import RegisteredSchema, UnusableSchema, schema_from
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.shard.input import Message
from streamer.incremental.store.base import OPERATOR
from streamer.incremental.topics import CONTROL, LIVE
from streamer.table.row import Row
from worlds.avro_messages import LOGGED, envelope
from worlds.avro_messages import message as in_avro

SEEDS = range(12)


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
        laws, letters = ChangelogLaws(PEOPLE), 0
        for records, position in world.topic.transactions:
            rows = [(record.key, record.value) for record in records if record.topic == LIVE]
            letters += sum(record.topic == "dead-letters" for record in records)
            if rows:
                laws.check(FoldedRelease(world.shard, position.release, position.next, rows))
        meta = world.meta()
        assert letters == meta.counts.dead_letters == 0
        assert meta.counts.messages == len(world.messages)
        assert meta.digest == position.digest
        assert laws.n_rows <= len(rows_kept(world)), "nobody is published who is not there"
    assert kept == rows_of(source)


@pytest.mark.parametrize("seed", SEEDS)
def test_shards_that_read_apart_and_lose_commits_come_to_what_the_source_holds(seed: int) -> None:
    chance = Random(seed)
    source = Source(chance)
    source.happen(90)
    source.captured()
    plans = [{step: chance.choice(list(Fault)) for step in range(400) if chance.random() < 0.05} for _ in range(SHARDS)]
    worlds = worlds_of(source.partitions, plans)
    for world in worlds:
        world.hears = Random(seed)
        world.rebuilds = None
    read_apart_and_lose(worlds, chance)
    assert_the_shards_hold_what_the_source_holds(worlds, source)


ENVELOPE = envelope({"id": "long", "years": "long", "city": "string", "problem": "string"}, LOGGED)


class Learned:
    """The schemas of a registry that has one, each known only when it was asked for."""

    def __init__(self) -> None:
        self.known: dict[int, RegisteredSchema | UnusableSchema] = {}

    def learn(self, ids: Iterable[int]) -> None:
        self.known |= {one: schema_from(one, "AVRO", json.dumps(ENVELOPE)) for one in ids if one == 1}

    def register(self, subject: str, schema: str) -> int:
        raise NotImplementedError("nothing is published by a schema here")


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_shards_whose_messages_are_avro_come_to_what_the_source_holds(seed: int) -> None:
    chance = Random(seed)
    source = Source(chance, written=lambda value: in_avro(1, ENVELOPE, {**value, "ts_ms": 1}))  # type: ignore[dict-item]
    source.happen(60)
    source.truncate()
    source.happen(20, truncations=0)
    worlds = worlds_of(source.captured().partitions)
    for world in worlds:
        world.schemas, world.hears = Learned, Random(seed)
    for _ in range(8):
        world = chance.choice(worlds)
        world.written = min(len(world.messages), (world.written or 0) + chance.randrange(1, 20))
        world.run(batch=chance.choice([1, 3, 8]))
        world.snapshot()
        if chance.random() < 0.3:
            world.lose_commits(chance.choice(world.snapshots))
    read_to_the_end(worlds)
    assert sum(world.placed for world in worlds) > 0
    assert_the_shards_hold_what_the_source_holds(worlds, source)


def test_the_runs_by_chance_met_what_they_are_about() -> None:
    """Late truncations and early ones, and such as were placed once more after a loss."""
    placed = repeated = 0
    for seed in range(6):
        chance = Random(seed)
        source = Source(chance)
        source.happen(90)
        worlds = worlds_of(source.captured().partitions)
        for world in worlds:
            world.written = len(world.messages) // 2
            world.run(batch=3)
            world.snapshot()
        read_to_the_end(worlds)
        for world in worlds:
            placed += world.placed
            world.lose_commits(world.snapshots[0])
            world.run(batch=4)
            repeated += world.repeated
        assert_the_shards_hold_what_the_source_holds(worlds, source)
    assert placed > 20
    assert repeated > 8


SAYS, HEARS = 0, 1
"""The shard in whose partition the one truncation lies, and one of the others."""


def steps_of_a_quiet_run(partitions: Sequence[Sequence[Message]], shard: int) -> int:
    worlds = worlds_of(partitions)
    read_to_the_end(worlds)
    return worlds[shard].steps


def one_truncation() -> Source:
    source = Source(Random(8))
    source.happen(14, truncations=0)
    source.truncate()
    source.happen(8, truncations=0)
    source.captured(restarts=0)
    assert [any(b'"op": "t"' in (m.value or b"") for m in messages) for messages in source.partitions] == [
        shard == SAYS for shard in range(SHARDS)
    ]
    return source


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_one_fault_at_every_numbered_step_of_who_says_it_and_of_one_who_hears_it(fault: Fault) -> None:
    source = one_truncation()
    for shard in (SAYS, HEARS):
        for step in range(steps_of_a_quiet_run(source.partitions, shard)):
            plans: list[dict[int, Fault]] = [{} for _ in range(SHARDS)]
            plans[shard] = {step: fault}
            worlds = worlds_of(source.partitions, plans)
            read_to_the_end(worlds)
            assert_the_shards_hold_what_the_source_holds(worlds, source)
            said = sorted(json.loads(value)["command"] for world in worlds for value in world.control)
            said_of_it = ["truncate", "truncate", "truncated", "truncated"]
            assert said == ["secret"] * SHARDS + said_of_it, "each is said once"


def test_a_store_that_lost_everything_but_its_secret_places_truncations_where_they_were() -> None:
    source = one_truncation()
    worlds = begun(worlds_of(source.partitions))
    read_to_the_end(worlds)
    for world in worlds:
        published = len(world.topic.transactions)
        world.lose_commits(world.snapshots[0])
        world.run(batch=100)
        assert len(world.topic.transactions) == published, "a replay publishes nothing"
    assert sum(world.repeated for world in worlds) == SHARDS - 1
    assert_the_shards_hold_what_the_source_holds(worlds, source)


def test_a_store_whose_control_topic_forgot_where_truncations_took_effect_is_refused() -> None:
    source = one_truncation()
    worlds = begun(worlds_of(source.partitions))
    read_to_the_end(worlds)
    heard = next(world for world in worlds if world.placed)
    heard.control.clear()
    heard.lose_commits(heard.snapshots[0])
    with pytest.raises(ShardRefused, match="does not say any more where truncations took effect"):
        heard.run(batch=5)


def make_control_anew(worlds: Sequence[World]) -> None:
    """The control topic is deleted and made again: nothing in it is there any more."""
    worlds[0].topic.control.clear()
    for world in worlds:
        world.make_anew(CONTROL)


def test_a_truncation_that_nobody_has_heard_is_said_again_where_the_control_topic_was_recreated() -> None:
    source = one_truncation()
    worlds = worlds_of(source.partitions)
    for world in (*worlds[HEARS:], worlds[SAYS]):
        world.run(9)
        world.snapshot()
    assert not any(world.placed for world in worlds)
    make_control_anew(worlds)
    read_to_the_end(worlds)
    assert_the_shards_hold_what_the_source_holds(worlds, source)
    assert [world.placed for world in worlds] == [0, 1, 1]
    said = [len(world.control) for world in worlds]
    read_to_the_end(worlds)
    assert [len(world.control) for world in worlds] == said, "once"


@pytest.mark.parametrize("second", [True, False])
def test_it_is_said_again_whenever_the_control_topic_is_recreated(second: bool) -> None:
    source = one_truncation()
    for step in range(second, steps_of_a_quiet_run(source.partitions, SAYS), 6):
        worlds = worlds_of(source.partitions)
        worlds[SAYS].happens[step] = lambda worlds=worlds: make_control_anew(worlds)  # type: ignore[misc]
        worlds[SAYS].plan = {step + 3: Fault.DIE_AFTER} if second else {}
        read_to_the_end(worlds)
        read_to_the_end(worlds)
        assert_the_shards_hold_what_the_source_holds(worlds, source)


def test_a_store_that_repeats_its_input_says_it_again_when_it_has_caught_up() -> None:
    source = one_truncation()
    worlds = worlds_of(source.partitions)
    worlds[SAYS].written = 1
    worlds[SAYS].run(1)
    worlds[SAYS].snapshot()
    worlds[SAYS].written = None
    worlds[SAYS].run(9)
    make_control_anew(worlds)
    worlds[SAYS].lose_commits(worlds[SAYS].snapshots[0])
    read_to_the_end(worlds)
    assert_the_shards_hold_what_the_source_holds(worlds, source)


@pytest.mark.parametrize("heard_while_held", [True, False])
def test_rows_of_a_snapshot_that_is_held_back_go_before_anybody_has_seen_them(heard_while_held: bool) -> None:
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
    if heard_while_held:
        says = next(world for world in worlds if any(b'"op": "t"' in (m.value or b"") for m in world.messages))
        says.written = len(says.messages)
        for world in (says, *worlds):
            worker = world.run(batch=4)
            assert world is says or (worker.holds_back and worker.engine.n_rows == 0)
    read_to_the_end(worlds)
    for world in worlds:
        worker = world.worker()
        worker.take_over(world.input)
        if worker.holds_back:
            worker.release_held(OPERATOR)
    assert_the_shards_hold_what_the_source_holds(worlds, source)


@pytest.mark.parametrize("seed", range(8))
def test_a_table_that_is_rebuilt_meanwhile_is_truncated_all_the_same(seed: int) -> None:
    chance = Random(seed)
    source = Source(chance)
    source.happen(70, truncations=0)
    source.truncate()
    source.happen(40)
    worlds = worlds_of(source.captured().partitions)
    for _ in range(10):
        world = chance.choice(worlds)
        world.rebuilds, world.hears = Random(seed), Random(seed)
        world.written = min(len(world.messages), (world.written or 0) + chance.randrange(30))
        if world.written:
            world.run(batch=4)
    for world in worlds:
        world.rebuilds = None
    read_to_the_end(worlds)
    assert sum(world.replaced for world in worlds) > 0
    assert_the_shards_hold_what_the_source_holds(worlds, source)


# -- sources whose messages name no place, or places in two logs ------------------------------------------------------

KEYS = [[key for key in range(60) if shard_of(str(key).encode(), SHARDS) == shard] for shard in range(SHARDS)]
NOTICE: dict[str, object] = {"ts_ms": 1}


def binlog(log: str, pos: int, key: int | None) -> dict[str, object]:
    """A row that comes, or, where it has no key, a truncation."""
    row = None if key is None else {"id": key, "years": 1, "city": "a1", "problem": "flu"}
    source = {"connector": "mysql", "file": f"{log}.000001", "pos": pos, "row": 0, "ts_ms": NOON_MS + pos}
    return {"op": "t" if key is None else "c", "before": None, "after": row, "source": source}


def said_to_shards(*said: Sequence[dict[str, object]]) -> list[World]:
    """Worlds of partitions that hold these values, their keys those of the rows, of which nothing is written yet."""
    partitions = [
        [Message(offset, _key_of(value), json.dumps(value).encode()) for offset, value in enumerate(values)]
        for values in said
    ]
    return worlds_of(partitions)


def _key_of(value: dict[str, object]) -> bytes | None:
    row = value if "id" in value else value.get("after", value.get("row"))
    return str(row["id"]).encode() if isinstance(row, dict) else None


def read_some(world: World, messages: int | None = None) -> None:
    """Reads what is written of an input after it has heard what was said."""
    world.written = len(world.messages) if messages is None else messages
    world.run(9)


def flattened(key: int, lsn: int, **columns: object) -> dict[str, object]:
    row = {"id": key, "years": 1, "city": "a1", "problem": "flu", **columns}
    return {**row, "__op": "c", "__source_connector": "postgresql", "__source_lsn": lsn, "__source_ts_ms": NOON_MS}


@pytest.mark.parametrize("column", ["source", "payload"])
@pytest.mark.parametrize("late", [True, False])
def test_rows_whose_columns_have_names_of_the_connector_do_not_outlive_a_truncation(column: str, late: bool) -> None:
    truncation: dict[str, object] = {"op": "t", "source": {"connector": "postgresql", "lsn": 500, "ts_ms": NOON_MS}}
    said = "web" if late else None
    rows = [flattened(key, 100 + n, **{column: "web" if n else said}) for n, key in enumerate(KEYS[1][:6])]
    worlds = said_to_shards([truncation], [NOTICE, *rows, flattened(KEYS[1][7], 501, **{column: "web"})], [NOTICE])
    read_some(worlds[0])
    read_some(worlds[1], 1 if late else 4)
    read_to_the_end(worlds)
    assert [list(rows_kept(world)) for world in worlds] == [[], [str(KEYS[1][7])], []]


def test_a_shard_that_hears_truncations_of_two_logs_is_refused() -> None:
    rows = [binlog(log, 100 + n, KEYS[2][n]) for n, log in enumerate("aaabbb")]
    worlds = said_to_shards(
        [NOTICE, binlog("a", 400, None)], [binlog("b", 500, None)], [*rows, binlog("b", 600, KEYS[2][8])]
    )
    read_some(worlds[0], 1)
    read_some(worlds[1])
    read_some(worlds[2])
    assert list(rows_kept(worlds[2])) == [str(KEYS[2][8])]
    worlds[0].control.clear()
    read_some(worlds[0])
    with pytest.raises(ShardRefused, match="two logs"):
        worlds[2].run(9)


def test_a_shard_that_reads_a_truncation_of_another_log_than_it_has_heard_of_is_refused() -> None:
    backlog = [NOTICE, binlog("a", 400, None), *(binlog("b", 100 + n, key) for n, key in enumerate(KEYS[0][:4]))]
    worlds = said_to_shards(backlog, [binlog("b", 500, None)], [NOTICE])
    read_some(worlds[0], 1)
    read_some(worlds[1])
    read_some(worlds[0], 1)
    assert worlds[0].placed == 1
    with pytest.raises(ShardRefused, match="two logs"):
        read_some(worlds[0])
    assert [json.loads(value)["by"] for value in worlds[2].control] == [1], "it has said nothing to the others"


PLAIN: dict[str, object] = {"op": "insert", "row": {"id": KEYS[0][9], "years": 1, "city": "a1", "problem": "flu"}}
"""A row that names no place."""


@pytest.mark.parametrize("row", [binlog("a", 100, KEYS[0][0]), PLAIN], ids=["other log", "no place"])
def test_a_row_that_may_be_older_than_a_truncation_refuses_a_shard_that_saw_nothing_of_its_log(
    row: dict[str, object],
) -> None:
    worlds = said_to_shards([NOTICE, row], [binlog("b", 500, None)], [NOTICE])
    for shard in (0, 1, 0):
        read_some(worlds[shard], 1)
    assert worlds[0].placed == 1
    with pytest.raises(ShardRefused, match=r"offset 1: .* does not say whether it came before"):
        read_some(worlds[0])


@pytest.mark.parametrize("row", [binlog("a", 100, KEYS[0][0]), PLAIN], ids=["other log", "no place"])
def test_the_same_row_read_before_a_truncation_is_heard_refuses_the_shard_too(row: dict[str, object]) -> None:
    worlds = said_to_shards([row, binlog("b", 600, KEYS[0][1])], [binlog("b", 500, None)], [NOTICE])
    read_some(worlds[1])
    with pytest.raises(ShardRefused, match=r"offset 0: .* does not say whether it came before"):
        read_some(worlds[0])


@pytest.mark.parametrize("heard_before", [1, 2, 3, 4])
def test_rows_of_a_later_log_are_there_after_a_message_of_the_truncations_log(heard_before: int) -> None:
    after = [binlog("b", 600, KEYS[0][0]), PLAIN, binlog("c", 100, KEYS[0][1])]
    worlds = said_to_shards([NOTICE, *after], [binlog("b", 500, None)], [NOTICE])
    read_some(worlds[0], heard_before)
    read_some(worlds[1])
    worlds[0].run(9)
    worlds[0].snapshot()
    read_to_the_end(worlds)
    expected = sorted(str(key) for key in (KEYS[0][0], KEYS[0][1], KEYS[0][9]))
    assert sorted(rows_kept(worlds[0])) == expected
    worlds[0].lose_commits(worlds[0].snapshots[0])
    worlds[0].run(1)
    assert sorted(rows_kept(worlds[0])) == expected


def test_a_shard_that_read_the_truncation_itself_has_seen_its_log() -> None:
    worlds = said_to_shards([binlog("b", 500, None), PLAIN, binlog("c", 100, KEYS[0][1])], [NOTICE], [NOTICE])
    read_some(worlds[0])
    assert len(rows_kept(worlds[0])) == 2
