"""Rows of the example table in files and in messages, for a table that workers serve."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from streamer.incremental.events.key_form import shard_of
from worlds.patients import COLUMNS, write_csv
from worlds.workers import WorkedTable


def rows(n: int, first: int = 0) -> dict[str, dict[str, object]]:
    """Rows of the example table by source key."""
    return {
        str(i): {
            "id": str(i),
            "age": i * 7 % 100,
            "zip": 10_000 + i * 37 % 90 * 100,
            "bmi": 15 + i % 40 / 2,
            "sex": ("Female", "Male")[i % 2],
            "problem": ("flu", "asthma", "ulcer", "burn")[i % 4],
        }
        for i in range(first, first + n)
    }


def as_csv(path: Path, people: Mapping[str, Mapping[str, object]], but: str = "") -> Path:
    return write_csv(path, people.values(), [name for name in COLUMNS if name != but])


def send(world: WorkedTable, *messages: tuple[str, dict[str, object] | None]) -> None:
    world.send(
        (shard_of(key.encode(), world.shards), key.encode(), None if value is None else json.dumps(value).encode())
        for key, value in messages
    )


def inserted(people: Mapping[str, dict[str, object]]) -> list[tuple[str, dict[str, object] | None]]:
    return [(key, {"op": "insert", "row": row}) for key, row in people.items()]


def wait_until_read(world: WorkedTable) -> None:
    world.wait_until_published(to=world.ends())
