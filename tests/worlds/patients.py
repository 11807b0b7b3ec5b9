"""The example table under a name of its own, random changes to it, and what must come out of them.

The twin is the loop over a memory store, one shard after the other: what workers publish over Kafka, however they were
cut into batches, killed or replaced, must fold into the same rows under the same keys.
"""

from __future__ import annotations

import csv
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from streamer.incremental.events.key_form import shard_of
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import DeafOutlet, Position
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.schema import ROWS
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS
from worlds.shards import Driven

CANARY = "Canary-7316"
"""Stands in a column that table.yaml does not name, in values that are refused, and in primary keys."""

COLUMNS = ("id", "age", "zip", "bmi", "sex", "problem")
PROBLEMS = ("flu", "asthma", "ulcer", "burn", "sprain", "fracture")


def write_table(directory: Path, table_name: str, form: str = ROWS) -> Path:
    """The example in `directory`, with its rows and events, as a table of another name; returns its table.yaml."""
    shutil.copytree(PATIENTS, directory, dirs_exist_ok=True)
    text = (PATIENTS / "table.yaml").read_text().replace("table: patients", f"table: {table_name}")
    path = directory / "table.yaml"
    path.write_text(text.replace("form: rows", f"form: {form}"))
    return path


def write_csv(path: Path, rows: Iterable[Mapping[str, object]], columns: Sequence[str] = COLUMNS) -> Path:
    """Rows as a CSV file of these columns; what else a row has is left out."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def random_values(rng: random.Random) -> dict[str, object]:
    """What a row of the example's table says of someone, beside who it is."""
    return {
        "age": rng.randrange(120),
        "zip": rng.randrange(10000, 20000),
        "bmi": rng.randrange(150, 450) / 10,
        "sex": rng.choice(["Female", "Male"]),
        "problem": rng.choice(PROBLEMS),
    }


class Changes:
    """Random changes; per shard the messages written so far, in order."""

    def __init__(self, shards: int, seed: int = 1) -> None:
        self._rng = random.Random(seed)
        self._alive: list[list[str]] = [[] for _ in range(shards)]
        self._born = 0
        self.messages: list[list[Message]] = [[] for _ in range(shards)]

    def more(self, count: int) -> list[tuple[int, bytes | None, bytes | None]]:
        """`count` new messages as (shard, key, value)."""
        return [self._one() for _ in range(count)]

    def _one(self) -> tuple[int, bytes | None, bytes | None]:
        shard = self._rng.randrange(len(self.messages))
        record_key, value = self._change(shard, self._alive[shard])
        written = None if value is None else json.dumps(value).encode()
        self.messages[shard].append(Message(len(self.messages[shard]), record_key, written))
        return shard, record_key, written

    def _change(self, shard: int, alive: list[str]) -> tuple[bytes, dict[str, object] | None]:
        draw = self._rng.random()
        if draw < 0.55 or len(alive) < 5:
            alive.append(self._born_in(shard))
            return alive[-1].encode(), {"op": "insert", "row": self._row(alive[-1])}
        place = self._rng.randrange(len(alive))
        if draw < 0.70:
            source_key = alive.pop(place)
            return source_key.encode(), {"op": "delete", "key": source_key}
        if draw < 0.75:
            return alive.pop(place).encode(), None
        source_key = alive[place]
        if draw < 0.95:
            changed = {"age": self._rng.randrange(120), "problem": self._rng.choice(PROBLEMS)}
            return source_key.encode(), {"op": "modify", "key": source_key, "row": changed}
        return source_key.encode(), {"op": "modify", "key": source_key, "row": {"sex": CANARY}}  # refused

    def _born_in(self, shard: int) -> str:
        """A new source key that belongs to the shard."""
        while True:
            self._born += 1
            source_key = f"{CANARY}-{self._born}"
            if shard_of(source_key.encode(), len(self.messages)) == shard:
                return source_key

    def _row(self, source_key: str) -> dict[str, object]:
        name = f"{CANARY} {self._rng.random()}"
        return {"id": source_key, "name": name, **random_values(self._rng)}


class Collected(DeafOutlet):
    """An outlet that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        self.sent += records


def expected(
    table_path: Path, shard: int, messages: Sequence[Message], shards: int, secret: bytes
) -> tuple[dict[bytes, bytes], int]:
    """The published rows of a shard after `messages`, by key, and how many dead letters there are."""
    table = load_table(table_path)
    outlet = Collected()
    publisher = Driven(table, shard, MemoryStore(MemoryServer(), table.name, shard), outlet, secret=secret)
    publisher.take_over(InputState({}, shards, 0, len(messages)))
    publisher.step(messages)
    live = [(record.key, record.value) for record in outlet.sent if record.topic == "live"]
    return folded(live), len(outlet.sent) - len(live)


def folded(records: Sequence[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    """Upserts and tombstones as the rows they leave."""
    rows: dict[bytes, bytes] = {}
    for record_key, value in records:
        if value is None:
            del rows[record_key]
        else:
            rows[record_key] = value
    return rows


def smallest_group(rows: dict[bytes, bytes]) -> int:
    """Rows of the smallest QI group."""
    return min(Counter(json.loads(value)["qi_group"] for value in rows.values()).values())
