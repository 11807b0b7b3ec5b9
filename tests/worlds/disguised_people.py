"""Patients whose illness, dates and names are published as something else: a folder of table.yaml, key and rows."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path

from streamer.table.key_files import make_key
from worlds.patients import write_csv

KEY = "readers.key"

PROBLEMS = {"flu": "lung", "cough": "lung", "ulcer": "belly", "gastritis": "belly", "burn": "skin"}

TABLE = """\
table: visits
key: id
individual: person
na: ["?"]
columns:
  age: {role: quasi-identifier, type: integer, domain: [0, 119], grid: 10}
  problem: {role: sensitive, hierarchy: problem.csv, publish: {level: 1}}
  came: {role: keep, type: date, acknowledge_linkable: true, publish: {shift_days: 30, key: readers.key}}
  seen: {role: sensitive, type: timestamp, publish: {shift_days: 30, key: readers.key}}
  id: {role: keep, publish: {pseudonym: readers.key}}
  person: {role: keep, publish: {pseudonym: readers.key}}
privacy: {k: 3}
publish: {live: {form: rows}}
"""

COLUMNS = ("id", "person", "age", "problem", "came", "seen")

Visit = dict[str, object]


def write_table(folder: Path, *changes: tuple[str, str], **columns: str | None) -> Path:
    """The folder, with table.yaml after these replacements, its hierarchy and a new key.

    columns: other settings of some columns, or none.
    """
    text = TABLE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    for name, settings in columns.items():
        line = "" if settings is None else f"  {name}: {{{settings}}}\n"
        text, n = re.subn(rf"  {name}: .*\n", line, text)
        assert n == 1
    folder.mkdir(exist_ok=True)
    (folder / "table.yaml").write_text(text)
    (folder / "problem.csv").write_text("".join(f"{leaf};{node};*\n" for leaf, node in PROBLEMS.items()))
    make_key(folder / KEY)
    return folder


def visits(n: int, seed: int = 0, first: int = 1) -> list[Visit]:
    """Rows of a third as many people, who are not always written alike."""
    rng = random.Random(seed)
    return [
        {
            "id": number,
            "person": rng.choice(["Ann {}", "ann  {}", "ANN {}"]).format(rng.randrange(n // 3)),
            "age": rng.randrange(120),
            "problem": rng.choice([*PROBLEMS]),
            "came": (date(2020, 1, 1) + timedelta(rng.randrange(900))).isoformat(),
            "seen": f"2024-03-{rng.randrange(1, 32):02}T0{rng.randrange(10)}:30:00+0{rng.randrange(3)}:00",
        }
        for number in range(first, first + n)
    ]


def write_visits(folder: Path, rows: list[Visit]) -> Path:
    return write_csv(folder / "rows.csv", rows, COLUMNS)


def write_events(folder: Path, events: Iterator[Mapping[str, object]]) -> Path:
    path = folder / "events.jsonl"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return path


def changes(rows: list[Visit]) -> Iterator[Mapping[str, object]]:
    """New rows, a change of each third one, and the deletion of each fifth one."""
    for row in rows:
        yield {"op": "insert", "row": row}
        if int(str(row["id"])) % 3 == 0:
            new = {"person": row["person"], "problem": "burn", "came": "2022-05-05"}
            yield {"op": "modify", "key": row["id"], "row": new}
        if int(str(row["id"])) % 5 == 0:
            yield {"op": "delete", "key": row["id"]}
