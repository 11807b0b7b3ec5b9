"""Tables of many kinds for the benchmark of information loss: two like public ones, and five made to be difficult.

All are drawn by a seed of their own, with numpy's generator, so that they are the same on every machine. None holds a
real person's row. `stroke` and `cmc` have the columns, the size and roughly the margins of two public tables (the
stroke prediction table; UCI's contraceptive method choice) whose rows are not part of this project; columns depend on
one another in a plausible way and no further. The others are named for what makes them difficult:

* `rare`: sensitive values of 5, 3, 1 and 1 % beside one of 90 %, and categories with many rare values;
* `flat`: a hierarchy of hundreds or thousands of leaves right under the root, so that two leaves cost as much as all;
* `correlated`: six columns that are noisy readings of two hidden numbers;
* `individuals`: people with one to nine rows each, all with the same quasi-identifiers; k counts people;
* `mixture`: clusters of very unequal size, and columns with a long tail.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streamer.table.arrays import Floats, Ints
from streamer.table.codes import Attribute, CategoricalAttribute, KeptColumn, NumericAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.schema import Table

Drawn = tuple[Attribute, Ints]
"""A quasi-identifier and its codes, one for each row."""

NODES_OF_DRAFTED_CMC = 331_776
"""Of the lattice of levels of `cmc(drafted=True)`."""


def number(name: str, values: Floats | Ints, low: int, high: int, step: str = "1", grid: int = 1) -> Drawn:
    """Numbers over [low, high]: what lies outside is moved to the edge."""
    domain, size = (Decimal(low), Decimal(high)), Decimal(step)
    attribute = NumericAttribute(name, domain, Decimal(grid), size, Decimal(high - low) / 5, size == 1)
    steps = np.rint((np.clip(values, low, high) - low) / float(size))
    return attribute, steps.astype(np.int64)


def category(name: str, tree: Hierarchy, leaves: Ints) -> Drawn:
    """Categories by the numbers of their leaves."""
    return CategoricalAttribute(name, tree, Decimal(tree.n_leaves) / 5), leaves.astype(np.int64)


def labelled(name: str, tree: Mapping[str, Sequence[str]], values: Ints) -> Drawn:
    """Categories of a tree of two heights, `values` counted in the order in which it lists them."""
    return category(
        name, Hierarchy.from_rows([leaf, branch, "*"] for branch, some in tree.items() for leaf in some), values
    )


def flat(name: str, n_leaves: int, leaves: Ints) -> Drawn:
    """Categories right under the root."""
    return category(name, Hierarchy.from_rows([f"{name} {leaf}", "*"] for leaf in range(n_leaves)), leaves)


def bushy(name: str, branches: int, leaves_each: int, leaves: Ints) -> Drawn:
    """Categories in branches of one size, under the root."""
    rows = ([f"{name} {b}.{i}", f"{name} {b}", "*"] for b in range(branches) for i in range(leaves_each))
    return category(name, Hierarchy.from_rows(rows), leaves)


def people(
    name: str,
    columns: Sequence[Drawn],
    sensitive: Mapping[str, Sequence[str]],
    values: Ints,
    individuals: Ints | None = None,
) -> Microdata:
    """A table with one sensitive column; sensitive: its tree of two heights; values: (n,), counted in its order."""
    leaves = [leaf for some in sensitive.values() for leaf in some]
    tree = Hierarchy.from_rows([leaf, branch, "*"] for branch, some in sensitive.items() for leaf in some)
    texts = sorted(json.dumps(leaf).encode() for leaf in leaves)
    number_of = np.array([texts.index(json.dumps(leaf).encode()) for leaf in leaves])
    kept = KeptColumn("value", sensitive=True, type="text", hierarchy=tree)
    attributes = tuple(attribute for attribute, _ in columns)
    table = Table(name, ("id",), attributes, (kept,), 5, None if individuals is None else "person")
    codes = np.stack([codes for _, codes in columns], axis=1)
    return Microdata(table, codes, individuals, number_of[values][:, None], (tuple(texts),))


def drawn(rng: np.random.Generator, shares: Sequence[float] | Floats, n: int) -> Ints:
    """n numbers from 0 with these shares, which need not sum to 1."""
    return rng.choice(len(shares), n, p=np.array(shares) / np.sum(shares)).astype(np.int64)


def zipf(n: int, exponent: float) -> Floats:
    """Shares that fall as a power of the rank."""
    return np.arange(1, n + 1, dtype=np.float64) ** -exponent


def likely(rng: np.random.Generator, chance: npt.NDArray[np.floating[Any]]) -> Ints:
    """1 with the chance of the row, else 0."""
    return (rng.random(len(chance)) < chance).astype(np.int64)


@cache
def stroke() -> Microdata:
    """5,110 rows, 10 quasi-identifiers, a sensitive value with 5 %."""
    n, rng = 5_110, np.random.default_rng(1)
    age = np.clip(rng.normal(43, 23, n), 0, 82)
    grown = age >= 17
    work = np.where(grown, drawn(rng, (57, 16, 13), n), np.where(likely(rng, np.full(n, 0.97)), 3, 4))
    smoking = np.where(grown, drawn(rng, (20, 18, 42, 20), n), drawn(rng, (1, 1, 18, 80), n))
    glucose = np.where(likely(rng, 0.04 + age / 400), rng.normal(205, 28, n), rng.normal(91, 19, n))
    body = np.where(grown, rng.gamma(20, 1.5, n), 17 + age / 4 + rng.normal(0, 4, n))
    columns = [
        flat("gender", 2, likely(rng, np.full(n, 0.41))),
        number("age", age, 0, 82),
        flat("hypertension", 2, likely(rng, age / 420)),
        flat("heart disease", 2, likely(rng, (age / 82) ** 3 / 5)),
        flat("ever married", 2, likely(rng, np.where(grown, np.minimum(0.93, (age - 15) / 25), 0))),
        labelled("work", {"paid": ["private", "own", "state"], "unpaid": ["child", "never worked"]}, work),
        flat("residence", 2, likely(rng, np.full(n, 0.51))),
        number("glucose", glucose, 55, 272, "0.1", 5),
        number("bmi", body, 10, 98, "0.1"),
        labelled("smoking", {"ever": ["formerly", "smokes"], "other": ["never", "unknown"]}, smoking),
    ]
    chance = np.minimum(0.9, 0.19 * (age / 82) ** 2.5)
    return people("stroke", columns, {"no": ["no"], "yes": ["stroke"]}, likely(rng, chance))


@cache
def cmc(drafted: bool = False) -> Microdata:
    """1,473 rows, 9 quasi-identifiers, three sensitive values.

    drafted: with the wider domains of a table.yaml that no one has looked over, and so NODES_OF_DRAFTED_CMC nodes in
    the lattice of its levels.
    """
    n, rng = 1_473, np.random.default_rng(2)
    age, standing = rng.gamma(12, 1.45, n) + 15.5, rng.normal(0, 1, n)
    children = rng.poisson(np.maximum(0.2, (age - 17) / 4.4 - standing / 2))

    def graded(shares: Sequence[float], loading: float) -> Ints:
        """1 to 4 with these shares, the more the higher the standing."""
        noisy = loading * standing + (1 - loading) * rng.normal(0, 1, n)
        edges = np.quantile(noisy, np.cumsum(shares)[:-1] / np.sum(shares))
        return 1 + np.searchsorted(edges, noisy).astype(np.int64)

    four, two = (5, 2) if drafted else (4, 1)
    columns = [
        number("wife's age", age, *((16, 80) if drafted else (16, 49))),
        number("wife's education", graded((152, 334, 410, 577), 0.8), 1, four),
        number("husband's education", graded((44, 178, 352, 899), 0.7), 1, four),
        number("children", children, 0, 16),
        number("religion", likely(rng, np.full(n, 0.85)), 0, two),
        number("working", likely(rng, np.full(n, 0.75)), 0, two),
        number("husband's occupation", 5 - graded((27, 585, 425, 436), 0.5), 1, four),
        number("standard of living", graded((129, 229, 431, 684), 0.6), 1, four),
        number("media exposure", likely(rng, 0.07 - np.clip(standing, -2, 2) / 30), 0, two),
    ]
    chosen = graded((629, 333, 511), 0.3) - 1
    return people("cmc", columns, {"none": ["no use"], "some": ["long-term", "short-term"]}, chosen)


RARE = {"usual": ["none"], "unusual": ["mild", "grave"], "very unusual": ["first kind", "second kind"]}


@cache
def rare() -> Microdata:
    """6,000 rows, 5 quasi-identifiers."""
    n, rng = 6_000, np.random.default_rng(3)
    value = drawn(rng, (90, 5, 3, 1, 1), n)
    columns = [
        number("age", rng.normal(40 + 6 * (value > 0), 15, n), 0, 99),
        number("visits", rng.geometric(0.25, n), 1, 60),
        bushy("region", 8, 5, drawn(rng, zipf(40, 1.4), n)),
        bushy("job", 6, 10, drawn(rng, zipf(60, 1.6), n)),
        flat("sex", 2, drawn(rng, (1, 1), n)),
    ]
    return people("rare", columns, RARE, value)


ILLS = {"lung": ["flu", "cough", "asthma"], "belly": ["ulcer", "gastritis"], "head": ["migraine", "insomnia"]}


@cache
def flat_codes(n_leaves: int, exponent: float) -> Microdata:
    """8,000 rows, 3 quasi-identifiers, one of them a code with n_leaves values under the root.

    exponent: of the shares of the values; 0: all are equally frequent.
    """
    n, rng = 8_000, np.random.default_rng(n_leaves)
    code = drawn(rng, zipf(n_leaves, exponent), n)
    columns = [
        flat("code", n_leaves, rng.permutation(n_leaves)[code]),  # the order of the file tells nothing
        number("age", rng.normal(45, 18, n), 0, 99),
        flat("sex", 2, drawn(rng, (1, 1), n)),
    ]
    return people(f"flat-{n_leaves}", columns, ILLS, drawn(rng, zipf(7, 0.5), n))


@cache
def correlated() -> Microdata:
    """8,000 rows, 6 quasi-identifiers that are readings of two hidden numbers."""
    n, rng = 8_000, np.random.default_rng(5)
    one, other = rng.normal(0, 1, (2, n))
    columns = [
        number("age", 45 + 14 * one + rng.normal(0, 3, n), 0, 99),
        number("years of work", 22 + 11 * one + rng.normal(0, 3, n), 0, 60),
        number("income", np.exp(3.5 + 0.4 * other + 0.1 * rng.normal(0, 1, n)), 0, 199),
        number("rent", np.exp(2.5 + 0.4 * other + 0.1 * rng.normal(0, 1, n)), 0, 99),
        bushy("job", 8, 6, np.clip(24 + 8 * other + 3 * one + rng.normal(0, 2, n), 0, 47)),
        flat("retired", 2, (one > 1.2).astype(np.int64)),
    ]
    ills = np.clip(np.rint(3 + 1.5 * one + rng.normal(0, 1, n)), 0, 6).astype(np.int64)
    return people("correlated", columns, ILLS, ills)


@cache
def individuals() -> Microdata:
    """About 6,500 rows of 2,500 people, 5 quasi-identifiers that are the same in all rows of one person."""
    n, rng = 2_500, np.random.default_rng(6)
    rows_each = np.minimum(9, rng.geometric(0.38, n))
    columns = [
        number("age", rng.normal(50, 20, n), 0, 99),
        number("zip", rng.choice([12, 17, 45, 46, 83], n) + rng.normal(0, 2.5, n), 0, 99),
        flat("sex", 2, drawn(rng, (1, 1), n)),
        bushy("job", 6, 4, drawn(rng, zipf(24, 0.9), n)),
        flat("status", 4, drawn(rng, (5, 4, 1, 1), n)),
    ]
    who = np.repeat(np.arange(n), rows_each)
    of_rows = [(attribute, codes[who]) for attribute, codes in columns]
    return people("individuals", of_rows, ILLS, drawn(rng, zipf(7, 0.8), len(who)), who)


@cache
def mixture() -> Microdata:
    """8,000 rows, 6 quasi-identifiers, 15 clusters of which the largest has a third of the rows."""
    n, n_clusters, rng = 8_000, 15, np.random.default_rng(7)
    cluster = drawn(rng, zipf(n_clusters, 1.2), n)
    at = rng.uniform(10, 90, (n_clusters, 3))[cluster]
    width = rng.uniform(1, 9, n_clusters)[cluster]
    home = rng.integers(0, 30, n_clusters)[cluster]
    columns = [
        number("age", at[:, 0] + width * rng.normal(0, 1, n), 0, 99),
        number("hours", at[:, 1] + width * rng.standard_t(3, n), 0, 99),
        number("gain", rng.lognormal(at[:, 2] / 30, 1, n), 0, 499),
        bushy("region", 6, 5, np.where(rng.random(n) < 0.7, home, rng.integers(0, 30, n))),
        bushy("job", 5, 8, (home + drawn(rng, zipf(40, 1.5), n)) % 40),
        flat("sex", 2, likely(rng, 0.2 + 0.6 * (cluster % 2))),
    ]
    return people("mixture", columns, ILLS, (cluster + drawn(rng, zipf(7, 1.5), n)) % 7)
