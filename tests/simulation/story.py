"""What happens in the simulated shard: its people, its messages, and the table that they come to."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache, wraps
from typing import ParamSpec

import msgspec
import pytest

from simulation.simulator import SECRET, Fault, World
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord
from streamer.incremental.checks.source import SourceLaws, index_table
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.release.fold import FoldedRelease, parse_part
from streamer.incremental.release.records import OUTSIDE, Outgoing
from streamer.incremental.shard.input import Message
from streamer.incremental.store.memory import MemoryStore
from streamer.incremental.topics import OUTPUTS
from streamer.table.schema import Table
from worlds.small_tables import CITY, YEARS, table

PEOPLE = table(YEARS, CITY, k=2)

P = ParamSpec("P")


def lived_through_once(make: Callable[P, World]) -> Callable[P, World]:
    """Has a world made for the first who asks, and copied for all: its story takes ten times as long as a copy."""
    made = cache(make)

    @wraps(make)
    def copied(*arguments: P.args, **named: P.kwargs) -> World:
        world = made(*arguments, **named)  # type: ignore[arg-type]  # what is hashable is not known here
        return deepcopy(world, {id(world.table): world.table})

    return copied


def events(n: int, seed: int = 0) -> list[Message]:
    """Inserts, deletes, modifies and nonsense; offsets with gaps, as transactions leave them."""
    rng = random.Random(seed)
    messages, offset = [], 0
    for _ in range(n):
        key = rng.randrange(n // 2)
        row = {
            "id": key,
            "years": rng.randrange(11),  # 10 is out of the domain
            "city": rng.choice(["a1", "a2", "b1", "c1", "c2", "d1"]),
            "problem": rng.choice(["flu", "cough", None]),
        }
        value = rng.choice(
            [
                {"op": "insert", "row": row},
                {"op": "insert", "row": row},
                {"op": "delete", "key": key},
                {"op": "modify", "key": key, "row": {"years": rng.randrange(10)}},
                {"op": "delete", "where": "years = 3"} if rng.random() < 0.2 else {"op": "what"},
            ]
        )
        messages.append(Message(offset, None, msgspec.json.encode(value)))
        offset += rng.choice([1, 1, 1, 2])
    return messages


def tables_by_count(
    messages: list[Message], secret: bytes = SECRET, people: Table = PEOPLE
) -> list[dict[bytes, bytes]]:
    """The published table after 0, 1, 2... messages, from a run without faults and with batches of one."""
    return _tables_by_count(tuple(messages), secret, people)


@cache
def _tables_by_count(messages: tuple[Message, ...], secret: bytes, people: Table) -> list[dict[bytes, bytes]]:
    """Made once for the same messages: many runs with faults are held against one without."""
    world = World(people, messages, {})
    world.secret = secret
    world.run(batch=1)
    folded: dict[bytes, bytes] = {}
    tables = [dict(folded)]
    for records, _ in world.topic.transactions:
        fold(folded, records)
        tables.append(dict(folded))
    assert len(tables) == len(messages) + 1
    return tables


def faults(chance: random.Random, share: float, steps: int = 200, first: int = 0) -> dict[int, Fault]:
    """A plan in which something happens at a share of the steps."""
    return {first + step: chance.choice(list(Fault)) for step in range(steps) if chance.random() < share}


IN_SIXTHS = pytest.mark.parametrize("sixth", [0, *(pytest.param(i, marks=pytest.mark.night) for i in range(1, 6))])
"""A fault at every sixth step in the gate, at all steps at night; `test_simulator` has every step of a quiet shard."""


def sixth_of(steps: int, sixth: int, fault: Fault | None) -> list[int]:
    """The steps of one sixth, which are others for another fault: those of the gate meet every step.

    Of each six steps one, but not always the same: a batch takes six, and every fault is to meet every kind of them.
    """
    shift = sixth + [None, *Fault].index(fault)
    return [step for step in range(steps) if (step + step // 6 + shift) % 6 == 0]


def fold(folded: dict[bytes, bytes], records: Sequence[Outgoing]) -> None:
    for record in records:
        if record.topic in OUTPUTS:
            if record.value is None:
                del folded[record.key]
            else:
                folded[record.key] = record.value


def published_table(world: World, kinds: Sequence[str] = OUTPUTS) -> dict[bytes, bytes]:
    """What readers find in topics of published rows, folded from their beginnings."""
    folded: dict[bytes, bytes] = {}
    for records, _ in world.topic.in_topic(*kinds):
        fold(folded, records)
    return folded


def held_to_laws(world: World, since: int = 0, of: Table | None = None, outside: bool = False) -> ChangelogLaws:
    """The laws after every release in the topics obeyed them; outside: some may come from outside, and say so."""
    laws = ChangelogLaws(of or world.table)
    for records, position in world.topic.in_topic(*OUTPUTS):
        if position.commit >= since:
            rows = [(record.key, record.value) for record in records]
            from_outside = outside and any(OUTSIDE in record.headers for record in records)
            laws.check(FoldedRelease(world.shard, position.release, position.next, rows, from_outside))
    return laws


def table_before(tables: list[dict[bytes, bytes]], messages: list[Message], offset: int) -> dict[bytes, bytes]:
    """The table of exactly the messages before an offset. tables: those of `tables_by_count`."""
    return tables[bisect_left([message.offset for message in messages], offset)]


def assert_nothing_lost_or_doubled(world: World, messages: list[Message]) -> None:
    tables = tables_by_count(messages, people=world.table)
    folded: dict[bytes, bytes] = {}
    letters, commits = [], []
    for records, position in world.topic.transactions:
        fold(folded, records)
        assert folded == table_before(tables, messages, position.next)
        letters += [record.key for record in records if record.topic == "dead-letters"]
        commits.append(position.commit)
    assert commits == sorted(set(commits))
    assert len(letters) == len(set(letters))
    assert position.next == messages[-1].offset + 2
    meta = world.meta()
    assert meta.counts.messages == len(messages)
    assert meta.counts.dead_letters == len(letters)
    assert meta.skipped == position.skipped


MESSAGES = events(36)
HALF = len(MESSAGES) // 2


@lived_through_once
def half_read(people: Table = PEOPLE) -> World:
    """A shard at rest, which is to read the other half."""
    world = World(people, MESSAGES, {})
    world.written = HALF
    world.run(batch=5)
    world.written = None
    return world


@cache
def steps_of_a_quiet_run() -> int:
    world = World(PEOPLE, MESSAGES, {})
    world.run(batch=5)
    return world.steps


def records_of(sent: Sequence[Outgoing]) -> list[LiveRecord]:
    """The published rows of a transaction, as a reader has them."""
    found = []
    for record in sent:
        if record.topic in OUTPUTS:
            headers = dict(record.headers)
            release, through = int(headers["release"]), int(headers["through"])
            part = parse_part(headers["part"])
            found.append(LiveRecord(0, release, through, record.key, record.value, part, record.topic))
    return found


def assert_the_source_agrees(world: World, laws: ChangelogLaws) -> None:
    state = MemoryStore(world.server, world.table.name, 0).load()
    assert state is not None
    records = dict(state.kept.records)
    rows = {key: record.row for key, record in records.items()}
    lines = [(key, None if one.qi_group == PENDING else (0, one.qi_group)) for key, one in records.items()]
    SourceLaws(world.table, laws, index_table(rows, lines)).check_all("the end")
