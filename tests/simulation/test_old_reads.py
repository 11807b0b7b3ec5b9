"""Snapshots bring rows as they were before changes that have come already: no fault, loss or batch lets one in."""

from __future__ import annotations

import random

import msgspec
import pytest

from simulation.simulator import Fault, World
from simulation.story import IN_SIXTHS, PEOPLE, assert_nothing_lost_or_doubled, faults, held_to_laws, sixth_of
from simulation.truncating_source import rows_kept
from streamer.incremental.engine.last_changes import LastChanges
from streamer.incremental.shard.input import Message

Rows = dict[int, dict[str, object]]


def captured(chance: random.Random, n: int) -> tuple[list[Message], Rows, int]:
    """Changes of a source, with rows that snapshots read now, or read some changes ago.

    Also the source's rows in the end, and how many of those that were read had changed since.
    """
    rows, former, said = Rows(), [Rows()], list[dict[str, object]]()
    changed, n_old = dict[int, int](), 0
    while len(said) < n:
        key, lsn = chance.randrange(12), 10 * len(former)
        if chance.random() < 0.4:
            ago = chance.choice([0, 1, 1, 2, 5])
            table = former[max(0, len(former) - 1 - ago)]
            if key in table:
                read_at = max(0, lsn - 10 - 10 * ago)
                said.append({"op": "r", "after": table[key], "source": {"lsn": read_at}})
                n_old += changed[key] > read_at
            continue
        if key in rows and chance.random() < 0.4:
            said.append({"op": "d", "before": {"id": key}, "source": {"lsn": lsn}})
            rows = {one: row for one, row in rows.items() if one != key}
        else:
            row = {
                "id": key,
                "years": chance.randrange(10),
                "city": chance.choice(["a1", "a2", "b1", "c1"]),
                "problem": "flu",
            }
            said.append({"op": "u" if key in rows else "c", "after": row, "source": {"lsn": lsn}})
            rows = {**rows, key: row}
        former.append(rows)
        changed[key] = lsn
    return [Message(offset, None, msgspec.json.encode(one)) for offset, one in enumerate(said)], rows, n_old


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_as_the_source_has_them_whatever_happens(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    remembered = chance.choice([3, LastChanges.remembered_max])
    monkeypatch.setattr(LastChanges, "remembered_max", remembered)
    messages, rows, n_old = captured(chance, 60)
    world = World(PEOPLE, messages, faults(chance, 0.1))
    world.run_in_parts((20, 40), lambda: chance.choice([1, 4, 9]))
    if chance.random() < 0.5:
        world.lose_commits(chance.choice([None, *world.snapshots]))
    world.run(batch=chance.choice([1, 3, 50]))
    assert_nothing_lost_or_doubled(world, messages)
    held_to_laws(world)
    kept = rows_kept(world)
    assert kept.keys() <= {str(key) for key in rows}, "nobody who was deleted comes back, even if that is forgotten"
    if remembered > 3:
        assert {key: row.codes[0] for key, row in kept.items()} == {str(key): row["years"] for key, row in rows.items()}
        assert world.meta().counts.old_reads == n_old


@IN_SIXTHS
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_one_fault_at_every_step(fault: Fault, sixth: int) -> None:
    messages, _, _ = captured(random.Random(1), 24)
    quiet = World(PEOPLE, messages, {})
    quiet.run(batch=5)
    for step in sixth_of(quiet.steps, sixth, fault):
        world = World(PEOPLE, messages, {step: fault})
        world.run(batch=5)
        assert_nothing_lost_or_doubled(world, messages)
