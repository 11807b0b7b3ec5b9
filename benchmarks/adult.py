"""The Adult table as a workload: schema, encoded rows, and seeded streams of changes over them.

The data (30,162 rows; 8 quasi-identifiers with generalization hierarchies; and 45,222 rows of the same census with
occupation as the sensitive column) is read from the folder `adult` in the folder that STREAMER_DATA names, else in
`../shared/data` beside the checkout.
"""

from __future__ import annotations

import csv
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np

from streamer.incremental.events.changes import Change, Delete, Insert, Modify
from streamer.table.arrays import Ints
from streamer.table.codes import (
    Attribute,
    CategoricalAttribute,
    DistributionDemands,
    Diversity,
    KeptColumn,
    NumericAttribute,
)
from streamer.table.encode import EncodedRows
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata, microdata_of, with_references
from streamer.table.row import Row, Values
from streamer.table.schema import Table

SENSITIVE = "salary-class"

SHARE = Decimal("0.4")
ROWS_AT_FIRST = 15_000
"""Of Adult's rows, where a benchmark begins with fewer than all."""

MODELS_ASKED: dict[str, dict[str, Diversity | DistributionDemands]] = {
    "rows": {
        "k_of_rows": Diversity(),
        "distinct_l": Diversity(l=3),
        "r_k": Diversity(r=Decimal("0.7"), level=1),
        "beta": Diversity(beta=SHARE),
        "entropy_l": DistributionDemands(entropy_l=Decimal(3)),
        "recursive": DistributionDemands(recursive=(Decimal(2), 3)),
        "t": DistributionDemands(t=Decimal("0.3")),
    },
    "individuals": {
        "k_of_individuals": Diversity(),
        "k_l": Diversity(l=3),
        "alpha_beta": Diversity(alpha=SHARE, beta=SHARE),
        "all_at_once": Diversity(l=3, alpha=SHARE, beta=SHARE, r=Decimal("0.7"), level=1),
    },
}
"""Models of the census tables, if k counts rows, or individuals with 1.25 rows each."""


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


def hierarchy(column: str) -> Hierarchy:
    """ARX's generalization hierarchy of a column."""
    with open(folder() / "hierarchies" / f"{column}.csv", newline="") as file:
        return Hierarchy.from_rows(csv.reader(file, delimiter=";"))


def rows_45222() -> list[dict[str, str]]:
    """The 45,222 rows of both of the census's files as text by column; income written as in its hierarchy's file."""
    with open(folder() / "adult-45222.csv", newline="") as file:
        return [{**row, "income": row["income"].upper()} for row in csv.DictReader(file)]


def attribute(column: str, grid: int = 1) -> NumericAttribute | CategoricalAttribute:
    """A quasi-identifier: age as a number over [17, 90] (with its hierarchy on a grid of 1), or a category."""
    tree = hierarchy(SENSITIVE if column == "income" else column)
    if column != "age":
        return CategoricalAttribute(column, tree, Decimal(tree.n_leaves) / 5)
    domain, unit = (Decimal(17), Decimal(90)), Decimal(90 - 17) / 5
    return NumericAttribute("age", domain, Decimal(grid), Decimal(1), unit, hierarchy=tree if grid == 1 else None)


def table(k: int, grid: int = 1, name: str = "adult") -> Table:
    """Adult with age on a grid over [17, 90] and every other column but salary-class as a category."""
    attributes = tuple(attribute(column, grid) for column in rows()[0] if column != SENSITIVE)
    return Table(name, ("id",), attributes, (KeptColumn(SENSITIVE, sensitive=True),), k)


def microdata(k: int, grid: int = 1) -> Microdata:
    """Adult's 30,162 rows as batch algorithms take them."""
    schema = table(k, grid)
    people = encoded(schema)
    n = len(people)
    keys, values = [str(i) for i in range(n)], [person.values for person in people]
    return microdata_of(schema, EncodedRows(keys, codes_of(people), values, [()] * n, [None] * n))


QI_45222 = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass", "income")
"""The quasi-identifiers of Gui et al. 2020, section 4."""


def table_45222(k: int) -> Table:
    """Adult with occupation, and its hierarchy, as the sensitive column."""
    occupation = KeptColumn("occupation", sensitive=True, type="text", hierarchy=hierarchy("occupation"))
    return Table("adult-45222", ("id",), tuple(attribute(column) for column in QI_45222), (occupation,), k)


def microdata_45222(k: int) -> Microdata:
    """The 45,222 rows of `table_45222` as batch algorithms take them."""
    schema, people = table_45222(k), rows_45222()
    n = len(people)
    codes = np.array([[code_of(a, row[a.name]) for a in schema.attributes] for row in people], dtype=np.int64)
    values: list[Values] = [(json_text(row["occupation"]),) for row in people]
    return microdata_of(schema, EncodedRows([str(i) for i in range(n)], codes, values, [()] * n, [None] * n))


def with_demands(those: Microdata, asked: Diversity | DistributionDemands) -> Microdata:
    """People whose table asks for this; what `t` compares with are they themselves."""
    if isinstance(asked, Diversity):
        return replace(those, table=replace(those.table, diversity=asked))
    kept = (replace(those.table.kept[0], distribution=asked), *those.table.kept[1:])
    return with_references(replace(those, table=replace(those.table, kept=kept), counted={}))


def asking(k: int, n: int, name: str) -> Microdata:
    """n people of the census whose table asks for one of MODELS_ASKED; individuals, where counted, by chance."""
    counted = next(counted for counted, asked in MODELS_ASKED.items() if name in asked)
    those = many(microdata_45222(k), n)
    owner = np.random.default_rng(0).integers(0, n * 4 // 5, n) if counted == "individuals" else None
    those = with_demands(those, MODELS_ASKED[counted][name])
    table = replace(those.table, individual=None if owner is None else "name")
    return replace(those, table=table, individuals=owner)


def rows_of(those: Microdata) -> list[Row]:
    """People as the engine takes them."""
    texts = those.texts[0]
    values = [(texts[number],) for number in those.values[:, 0].tolist()]
    owners = [None] * len(those) if those.individuals is None else [f"person {who}" for who in those.individuals]
    rows = zip(map(tuple, those.codes.tolist()), values, owners, strict=True)
    return [Row(codes, value, individual=owner) for codes, value, owner in rows]


def many(source: Microdata, n: int, seed: int = 0) -> Microdata:
    """n people like those of `source`: the first ones are they, every other one has each attribute from one of two.

    So attributes stay related as they are, and the people hardly repeat.
    """
    rng = np.random.default_rng(seed)
    if n <= len(source):
        return source.rows(np.arange(n))
    fresh = n - len(source)
    one, other = rng.integers(0, len(source), (2, fresh))
    codes = np.where(rng.random((fresh, source.space.d)) < 0.5, source.codes[one], source.codes[other])
    return Microdata(
        source.table,
        np.concatenate([source.codes, codes]),
        None,
        np.concatenate([source.values, source.values[one]]),
        source.texts,
    )


def encoded(table: Table) -> list[Row]:
    """Adult's rows as the engine takes them."""
    out = []
    for row in rows():
        codes = tuple(code_of(a, row[a.name]) for a in table.attributes)
        out.append(Row(codes, (json_text(row[SENSITIVE]),)))
    return out


def code_of(attribute: Attribute, text: str) -> int:
    """Age counts from 17; a category is its leaf."""
    return attribute.hierarchy.code_of[text] if isinstance(attribute, CategoricalAttribute) else int(text) - 17


def json_text(value: str) -> bytes:
    return b'"%b"' % value.encode()


def codes_of(rows: list[Row]) -> Ints:
    return np.array([row.codes for row in rows], dtype=np.int64)


def first_changes(pool: list[Row], n: int) -> Iterator[Change]:
    """Mixed changes to a table of the first rows."""
    return mixed_changes(pool, [f"old-{i}" for i in range(ROWS_AT_FIRST)], n, seed=1)


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
