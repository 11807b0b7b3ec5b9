"""Sealed changelogs from a small publisher that is written from the rules, with who is in which cohort.

It cuts the pool at the median of its one quasi-identifier. Ids are drawn by a seed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import numpy as np

from streamer.audit.sealed_log import SealedLine
from streamer.audit.source import EpochMembers
from streamer.incremental.shard.input import Message
from streamer.table.published.rows import box_text
from streamer.table.schema import EpochLength, SealedRules, Table
from worlds.small_tables import YEARS, table

SEALED_PEOPLE: Table = replace(table(YEARS, k=2), sealed=SealedRules(EpochLength(events=10)))
BEGIN = 1_795_687_200  # seconds since 1970
Event = tuple[str, str, int | None, str | None]  # op, key, years, problem


@dataclass
class SmallPublisher:
    """Publishes the events of SEALED_PEOPLE; `lines`, `members`, `messages`: what an audit reads."""

    seed: int = 0
    alpha: float = 0.5
    theta: float = 0.0
    lines: list[SealedLine] = field(default_factory=list)
    members: list[EpochMembers] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)
        self._rows: dict[str, tuple[int, str]] = {}
        self.pool: dict[str, None] = {}
        self._where: dict[str, str] = {}
        self._n: dict[str, int] = {}
        self._left: dict[str, int] = {}
        self._touched: set[str] = set()
        self._changes = 0

    def epoch(self, *events: Event) -> None:
        """One epoch with these events."""
        for op, key, years, problem in events:
            self._apply(op, key, years, problem)
        records = [*self._departures()]
        cohorts: dict[str, list[str]] = {}
        if len(self.pool) >= SEALED_PEOPLE.k:
            for keys in self._cut(sorted(self.pool, key=lambda key: (self._rows[key][0], key))):
                name = f"{self._chance.getrandbits(128):032x}"
                cohorts[name] = keys
                records.append(self._added(name, keys))
        self._emit(records)
        self.members.append(EpochMembers(len(self.members) + 1, self._changes, cohorts))

    def _apply(self, op: str, key: str, years: int | None, problem: str | None) -> None:
        columns: dict[str, Any] = {name: v for name, v in (("years", years), ("problem", problem)) if v is not None}
        message = (
            {"op": op, "row": {"id": key, **columns}} if op == "insert" else {"op": op, "key": key, "row": columns}
        )
        self.messages.append(Message(len(self.messages), None, json.dumps(message).encode()))
        before = self._rows.get(key)
        kept = None if before is None else (before[0] if years is None else years, problem or before[1])
        self._changes += op == "delete" or kept != before or before is None
        if op == "delete" or (before and problem not in (None, before[1])):
            self._depart(key)
        if op == "delete":
            del self._rows[key]
            return
        old_years, old_problem = before or (0, "")
        self._rows[key] = (old_years if years is None else years, problem or old_problem)
        if key not in self._where:
            self.pool[key] = None

    def _depart(self, key: str) -> None:
        self.pool.pop(key, None)
        name = self._where.pop(key, None)
        if name in self._left:
            self._left[name] -= 1
            self._touched.add(name)

    def _departures(self) -> Iterable[dict[str, Any]]:
        for name in self._touched:
            left = self._left[name]
            if left <= self.theta * self._n[name]:
                del self._left[name]
                yield {"record": "RETIRE", "cohort": name}
            else:
                yield {"record": "LIVE", "cohort": name, "live": left}
        self._touched = set()

    def _cut(self, keys: list[str]) -> Iterable[list[str]]:
        years = [self._rows[key][0] for key in keys]
        middle = sum(year <= years[(len(years) - 1) // 2] for year in years)
        if min(middle, len(keys) - middle) < SEALED_PEOPLE.k:
            yield keys
        else:
            yield from self._cut(keys[:middle])
            yield from self._cut(keys[middle:])

    def _added(self, name: str, keys: Sequence[str]) -> dict[str, Any]:
        cells = SEALED_PEOPLE.space.cells(np.array([[self._rows[key][0]] for key in keys], np.int64))
        lo, hi = SEALED_PEOPLE.space.box_of_cells(cells)
        box = json.loads(b"{%b}" % box_text(SEALED_PEOPLE, lo.tolist(), hi.tolist())[1:])
        values = sorted([self._rows[key][1]] for key in keys)
        safe = max(Counter(map(tuple, values)).values()) <= self.alpha * len(keys)
        for key in keys:
            self._where[key] = name
            del self.pool[key]
        self._n[name] = self._left[name] = len(keys)
        return {"record": "ADD", "cohort": name, "n": len(keys), "box": box, "sensitive": values if safe else None}

    def _emit(self, records: Iterable[dict[str, Any]]) -> None:
        epoch = len(self.members) + 1
        time = datetime.fromtimestamp(BEGIN + 600 * epoch, UTC)
        kinds = Counter(record["record"] for record in records)
        end = {
            "record": "EPOCH", "epoch": epoch, "shard": 0, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "adds": kinds["ADD"], "retires": kinds["RETIRE"], "lives": kinds["LIVE"], "k": SEALED_PEOPLE.k,
            "alpha": str(self.alpha), "l": 1,
        }  # fmt: skip
        for record in [*sorted(records, key=lambda record: record["cohort"]), end]:
            key = record.get("cohort", "epoch-0")
            members = (
                {"record": record["record"], "cohort": key, "epoch": epoch, **record} if key != "epoch-0" else record
            )
            value = json.dumps(members, separators=(",", ":")).encode()
            self.lines.append(SealedLine(0, key, value, int(time.timestamp()) * 1000))


def busy_publisher(seed: int, epochs: int = 12) -> SmallPublisher:
    """Random inserts, deletes and both kinds of modifies."""
    publisher, chance, there, n = SmallPublisher(seed), Random(seed), list[str](), 0
    problems: dict[str, str] = {}
    for _ in range(epochs):
        events: list[Event] = []
        for _ in range(chance.randrange(12)):
            dice = chance.random()
            if dice < 0.55 or not there:
                n += 1
                there.append(f"p{n}")
                problems[there[-1]] = chance.choice("abcde")
                events.append(("insert", there[-1], chance.randrange(10), problems[there[-1]]))
                continue
            key = chance.choice(there)
            if dice < 0.7:
                there.remove(key)
                events.append(("delete", key, None, None))
            elif dice < 0.85:
                problems[key] = chance.choice([problem for problem in "abcde" if problem != problems[key]])
                events.append(("modify", key, None, problems[key]))
            else:
                events.append(("modify", key, chance.randrange(10), None))
        publisher.epoch(*events)
    return publisher


def as_file(lines: Iterable[SealedLine]) -> bytes:
    """A log as `replay` writes it."""
    return b"".join(
        b'{"partition":%d,"key":"%b","value":%b,"timestamp":%d}\n'
        % (line.partition, line.key.encode(), line.value or b"null", line.timestamp)
        for line in lines
    )
