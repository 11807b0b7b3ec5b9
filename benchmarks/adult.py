"""The Adult table as a workload: schema, encoded rows, and seeded streams of changes over them.

The data (30,162 rows; 8 quasi-identifiers with generalization hierarchies) is read from the folder `adult` in the
folder that STREAMER_DATA names, else in `../shared/data` beside the checkout.
"""

from __future__ import annotations

import csv
import os
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.events.changes import Change, Delete, Insert, Modify, Row
from streamer.table.hierarchy import Hierarchy
from streamer.table.schema import CategoricalAttribute, KeptColumn, NumericAttribute, Table

SENSITIVE = "salary-class"


def folder() -> Path:
    """Where the data is; exits with a sentence where it is not."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    found = Path(os.environ.get("STREAMER_DATA") or default) / "adult"
    if not (found / "adult.csv").exists():
        raise SystemExit(f"there is no adult.csv in {found}: let STREAMER_DATA name the folder above it")
    return found


def rows() -> list[dict[str, str]]:
    """Adult's rows as text by column."""
    with open(folder() / "adult.csv", newline="") as file:
        return list(csv.DictReader(file, delimiter=";"))


def table(k: int, grid: int = 1, name: str = "adult") -> Table:
    """Adult with age on a grid over [17, 90] and every other column but salary-class as a category."""
    attributes: list[NumericAttribute | CategoricalAttribute] = []
    for column in rows()[0]:
        if column == "age":
            width = Decimal(90 - 17)
            attributes.append(NumericAttribute("age", (Decimal(17), Decimal(90)), Decimal(grid), Decimal(1), width / 5))
        elif column != SENSITIVE:
            with open(folder() / "hierarchies" / f"{column}.csv", newline="") as file:
                hierarchy = Hierarchy.from_rows(csv.reader(file, delimiter=";"))
            attributes.append(CategoricalAttribute(column, hierarchy, Decimal(hierarchy.n_leaves) / 5))
    return Table(name, ("id",), tuple(attributes), (KeptColumn(SENSITIVE, sensitive=True),), k)


def encoded(table: Table) -> list[Row]:
    """Adult's rows as the engine takes them."""
    out = []
    for row in rows():
        codes = tuple(
            int(row[a.name]) - 17 if isinstance(a, NumericAttribute) else a.hierarchy.code_of[row[a.name]]
            for a in table.attributes
        )
        out.append(Row(codes, (b'"%b"' % row[SENSITIVE].encode(),)))
    return out


def codes_of(rows: list[Row]) -> npt.NDArray[np.int64]:
    return np.array([row.codes for row in rows], dtype=np.int64)


def mixed_changes(pool: list[Row], start: list[str], n: int, seed: int) -> Iterator[Change]:
    """40 % inserts, 30 % deletes, 30 % modifies of one random attribute; people come and go at random.

    pool: rows to draw newcomers and new values from. start: the source keys that exist.
    """
    rng = random.Random(seed)
    alive, fresh = list(start), 0
    d = len(pool[0].codes)
    for _ in range(n):
        dice = rng.random()
        if dice < 0.4 or not alive:
            source_key, fresh = f"new-{fresh}", fresh + 1
            alive.append(source_key)
            yield Insert(source_key, rng.choice(pool))
            continue
        i = rng.randrange(len(alive))
        if dice < 0.7:
            alive[i], alive[-1] = alive[-1], alive[i]
            yield Delete(alive.pop())
        else:
            j = rng.randrange(d)
            yield Modify(alive[i], codes={j: rng.choice(pool).codes[j]})
