"""The papers' tables, made from Adult.

Fewer quasi-identifiers are the first ones of a table, in its order. Tong et al. (section 4, tables 8 and 9) draw
40,000 of the 45,222 people; a share A of them has one record, B two and C three. A further record repeats identity and
quasi-identifiers and has a sensitive value that the person does not have yet, every one of them as likely. Table 9
prints A = 0.60 for 1.8 records per individual, but then the shares sum to 1.2; 0.40 is meant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from streamer.table.codes import CategoricalAttribute
from streamer.table.microdata import Microdata, Subject

INDIVIDUALS = 40_000
SHARES = {1.2: (0.85, 0.10, 0.05), 1.4: (0.70, 0.20, 0.10), 1.6: (0.55, 0.30, 0.15), 1.8: (0.40, 0.40, 0.20)}
"""Records per individual -> shares of A, B and C (table 9)."""


def with_attributes(microdata: Microdata, n: int) -> Microdata:
    """The same people with the first n quasi-identifiers alone."""
    table = replace(microdata.table, attributes=microdata.table.attributes[:n])
    codes = np.ascontiguousarray(microdata.codes[:, :n])
    return Microdata(table, codes, microdata.individuals, microdata.values, microdata.texts)


def several_records(source: Microdata, rpi: float, individuals: int = INDIVIDUALS, seed: int = 0) -> Microdata:
    """Tong's table of `rpi` records per individual; individuals numbered from 0 as they were drawn."""
    rng = np.random.default_rng(seed)
    people = source.rows(rng.permutation(len(source))[:individuals])
    a, b, _ = SHARES[rpi]
    two, three = round(a * individuals), round((a + b) * individuals)
    who = np.concatenate([np.arange(individuals), np.arange(two, individuals), np.arange(three, individuals)])
    values = people.values[who].copy()
    values[:, 0] = (values[:, 0] + _steps(rng, len(source.texts[0]), individuals, two, three)) % len(source.texts[0])
    table = replace(source.table, individual="id-number")
    return Microdata(table, people.codes[who], who.astype(np.int64), values, source.texts)


def _steps(rng: np.random.Generator, n_values: int, individuals: int, two: int, three: int) -> np.ndarray:
    """How far along the values every record is from the individual's first one: 0, and two different others."""
    first = rng.integers(1, n_values, individuals - two)
    second = rng.integers(1, n_values - 1, individuals - three)
    second += second >= first[three - two :]
    return np.concatenate([np.zeros(individuals, dtype=np.int64), first, second])


@dataclass(frozen=True)
class Height:
    """One attribute of Tong's table 8 beside ours: number of values, height of the hierarchy."""

    attribute: str
    values: int
    height: int
    our_values: int
    our_height: int


TABLE_8 = {
    "age": (74, 4), "sex": (2, 1), "race": (5, 1), "marital-status": (7, 2), "education": (16, 3),
    "native-country": (41, 2), "workclass": (7, 2), "income": (2, 1),
}  # fmt: skip
"""Attribute -> number of values and height of its hierarchy in the paper."""


def heights(microdata: Microdata) -> list[Height]:
    """How the hierarchies that we have compare to those of table 8."""
    found = []
    for attribute in microdata.table.attributes:
        leaves = attribute.hierarchy.n_leaves if isinstance(attribute, CategoricalAttribute) else attribute.n_cells
        values, height = TABLE_8[attribute.name]
        found.append(Height(attribute.name, values, height, leaves, attribute.levels.n_levels - 1))
    return found


def largest_share(microdata: Microdata, level: int) -> tuple[int, int]:
    """Rows of the most frequent ancestor of the sensitive values at a level, and all rows."""
    return int(np.bincount(microdata.subject(Subject(0, level))).max()), len(microdata)
