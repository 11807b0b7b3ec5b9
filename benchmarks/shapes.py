"""Tables of many shapes for the benchmark of drift, and the streams of changes that a table sees.

A shape draws rows of a population whose place in 0..1 says how far it has moved: means move, categories go out of use.
The first eight are synthetic, by a seed of their own, and hold no real person's row; the others are public tables,
read from where they are installed. None was looked at when the defaults of local repair were chosen but those in
LOOKED_AT.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import adult
from benchmarks.kinds import ILLS, Drawn, bushy, drawn, flat, number, people, zipf
from streamer.incremental.events.changes import Change, Delete, Insert, Modify
from streamer.table.arrays import Floats
from streamer.table.microdata import Microdata
from streamer.table.row import Row

Columns = Callable[[np.random.Generator, Floats], list[Drawn]]
"""The quasi-identifiers of rows by the place (n,) of each one's population."""


def three_numbers(rng: np.random.Generator, at: Floats) -> list[Drawn]:
    """Age, zip code and income, hardly any two rows alike."""
    n, town = len(at), drawn(rng, zipf(40, 1.0), len(at))
    age = rng.normal(45 + 15 * at, 18, n)
    return [
        number("age", age, 0, 99),
        number("zip", 2_400 * town + rng.normal(1_200, 500, n), 0, 99_999),
        number("income", np.exp(rng.normal(10.2 + 0.3 * at, 0.5, n)) / 100, 0, 2_500),
    ]


def places(rng: np.random.Generator, at: Floats) -> list[Drawn]:
    """Two coordinates in towns, and an age."""
    n, town = len(at), drawn(rng, zipf(200, 0.9), len(at))
    x, y = rng.uniform(0, 10_000, (2, 200))
    size = rng.uniform(20, 400, 200)[town]
    return [
        number("east", x[town] + size * rng.normal(0, 1, n) + 800 * at, 0, 9_999),
        number("north", y[town] + size * rng.normal(0, 1, n), 0, 9_999),
        number("age", rng.gamma(4, 11, n), 0, 99),
    ]


def categories(rng: np.random.Generator, at: Floats) -> list[Drawn]:
    """Five categories with hierarchies; jobs of the first branch go out of use."""
    n = len(at)
    job = drawn(rng, zipf(48, 0.8), n)
    job = np.where((job < 6) & (rng.random(n) < at), 6 + job * 7, job)
    return [
        bushy("job", 8, 6, job),
        bushy("region", 6, 12, drawn(rng, zipf(72, 0.7), n)),
        bushy("nation", 5, 8, drawn(rng, zipf(40, 1.6), n)),
        flat("status", 5, drawn(rng, (40, 35, 12, 8, 5), n)),
        flat("sex", 2, drawn(rng, (1, 1), n)),
    ]


def skewed(rng: np.random.Generator, at: Floats) -> list[Drawn]:
    """Long tails: most rows lie in a corner of each domain."""
    n = len(at)
    return [
        number("income", np.exp(rng.normal(6 + 0.5 * at, 1.1, n)), 0, 99_999),
        number("visits", rng.pareto(1.3, n) * 3, 0, 5_000),
        number("age", rng.gamma(5, 9, n), 0, 99),
        bushy("code", 10, 10, drawn(rng, zipf(100, 1.5), n)),
    ]


def one_dominant(rng: np.random.Generator, at: Floats) -> list[Drawn]:
    """One column with many values beside four with two or three: nearly all loss is in one column."""
    n = len(at)
    return [
        number("balance", rng.normal(50_000 + 10_000 * at, 15_000, n), 0, 99_999),
        flat("sex", 2, drawn(rng, (1, 1), n)),
        flat("smokes", 2, drawn(rng, (4, 1), n)),
        flat("married", 3, drawn(rng, (5, 4, 1), n)),
        flat("abroad", 2, drawn(rng, (19, 1), n)),
    ]


def dense(rng: np.random.Generator, at: Floats) -> list[Drawn]:
    """Few distinct rows, most of them many times: a fresh table loses hardly anything."""
    n = len(at)
    return [
        number("decade", rng.normal(4 + at, 1.8, n), 0, 9),
        flat("sex", 2, drawn(rng, (1, 1), n)),
        bushy("region", 4, 4, drawn(rng, zipf(16, 0.6), n)),
        number("class", drawn(rng, (5, 3, 2), n), 0, 2),
    ]


def sparse(rng: np.random.Generator, at: Floats) -> list[Drawn]:
    """Ten numbers that do not depend on one another: every group is wide."""
    spread = rng.uniform(0, 1, (10, len(at))) ** np.linspace(1, 2, 10)[:, None]
    return [number(f"x{j}", 999 * np.minimum(1, one + 0.1 * at), 0, 999) for j, one in enumerate(spread)]


def wide(rng: np.random.Generator, at: Floats) -> list[Drawn]:
    """Thirty columns of all kinds, readings of four hidden numbers."""
    n, hidden = len(at), rng.normal(0, 1, (4, len(at)))
    columns = []
    for j in range(30):
        noisy = hidden[j % 4] + 0.4 * at + rng.normal(0, 0.3 + 0.05 * j, n)
        if j % 3 == 0:
            columns.append(number(f"x{j}", 50 + 14 * noisy, 0, 99))
        elif j % 3 == 1:
            columns.append(bushy(f"c{j}", 4, 5, np.clip(np.rint(10 + 4 * noisy), 0, 19)))
        else:
            columns.append(flat(f"f{j}", 3, np.clip(np.rint(1 + 0.7 * noisy), 0, 2)))
    return columns


class Shape(NamedTuple):
    rows: int  # at first
    columns: Columns


SYNTHETIC = {
    "three numbers": Shape(8_000, three_numbers),
    "places": Shape(30_000, places),
    "categories": Shape(10_000, categories),
    "skewed": Shape(12_000, skewed),
    "one dominant": Shape(8_000, one_dominant),
    "dense": Shape(10_000, dense),
    "sparse": Shape(6_000, sparse),
    "wide": Shape(5_000, wide),
}

PUBLIC = {"fair": "affairs", "randhie": "mdvis"}
"""Tables that statsmodels carries, and the sensitive column of each."""

ADULT = "adult"

LOOKED_AT = ("three numbers", "categories", "one dominant", "dense", "sparse")
"""The tables by which the price and the moves of local repair were chosen."""


def pool(name: str, n: int | None, moved: Floats | None = None) -> tuple[Microdata, int]:
    """Rows of a table, and how many of them are there at first: the others come later.

    n: rows at first; None: as the shape has them. moved: the place of the population from which each later row comes,
    as many as are wanted; None: as many as there are at first, of the same population.
    """
    if name in SYNTHETIC:
        first = n or SYNTHETIC[name].rows
        at = np.concatenate([np.zeros(first), np.zeros(first) if moved is None else moved])
        rng = np.random.default_rng(sorted(SYNTHETIC).index(name))
        columns = SYNTHETIC[name].columns(rng, at)
        return people(name, columns, ILLS, drawn(rng, zipf(7, 0.7), len(at))), first
    source = adult.microdata(5) if name == ADULT else public(name)
    first = min(n or len(source) // 2, len(source))
    return source, first


def is_there(name: str) -> bool:
    """True if a table can be made: a public one may not be installed."""
    return name not in PUBLIC or find_spec("statsmodels") is not None


def public(name: str) -> Microdata:
    """A table of statsmodels, its rows in an order by chance: every column but one is a number."""
    found = find_spec("statsmodels")
    if found is None:
        raise SystemExit(f"{name} is a table of statsmodels: pip install --no-deps statsmodels")
    folder = Path(next(iter(found.submodule_search_locations or ())))
    with open(folder / "datasets" / name / f"{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    rng = np.random.default_rng(0)
    rng.shuffle(rows)
    columns = []
    for column in rows[0]:
        if column not in ("", PUBLIC[name]):
            values = np.array([float(row[column]) for row in rows])
            low, high = float(np.floor(values.min())), float(np.ceil(values.max()))
            step = "1" if (values == np.rint(values)).all() else "0.01"
            columns.append(number(column, values, int(low), int(high), step))
    values = np.array([float(row[PUBLIC[name]]) for row in rows])
    ranks = np.searchsorted(np.quantile(values, np.linspace(0, 1, 7)[1:]), values)
    return people(name, columns, ILLS, np.minimum(ranks, 6).astype(np.int64))


class Stream(NamedTuple):
    """Shares of inserts and deletes among the changes; the rest are modifies of one attribute."""

    inserts: float
    deletes: float
    moves: bool = False  # the population of newcomers moves, and the oldest rows go first


STREAMS = {
    "mixed": Stream(0.4, 0.3),
    "growing": Stream(0.75, 0.05),
    "shrinking": Stream(0.1, 0.7),
    "changing": Stream(0.0, 0.0),
    "drifting": Stream(0.45, 0.45, moves=True),
}


def key_of_first(i: int) -> str:
    """The source key of the i-th of the rows that are there at first."""
    return f"old-{i}"


def stream(name: str, rows: list[Row], first: int, events: int, seed: int = 1) -> Iterator[Change]:
    """Changes of a table; newcomers are the rows after the first ones, in turn, and so are new values of a modify."""
    kind, rng, alive, fresh = STREAMS[name], random.Random(seed), list(range(first)), first
    d, newest, oldest = len(rows[0].codes), first, 0

    def key(i: int) -> str:
        return key_of_first(i) if i < first else f"new-{i}"

    for _ in range(events):
        dice, coming = rng.random(), rows[fresh % len(rows)]
        if dice < kind.inserts:
            alive.append(newest)
            yield Insert(key(newest), coming)
            newest, fresh = newest + 1, fresh + 1
        elif dice < kind.inserts + kind.deletes:
            if kind.moves:
                yield Delete(key(oldest))
                oldest += 1
                continue
            i = rng.randrange(len(alive))
            alive[i], alive[-1] = alive[-1], alive[i]
            yield Delete(key(alive.pop()))
        else:
            which = rng.randrange(oldest, newest) if kind.moves else rng.choice(alive)
            j, fresh = rng.randrange(d), fresh + 1
            yield Modify(key(which), codes={j: coming.codes[j]})
