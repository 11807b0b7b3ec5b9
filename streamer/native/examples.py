"""Calls of every function that Python calls: the types of their arguments are those that it is compiled for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import numpy as np

from streamer.incremental.core import layout, step
from streamer.incremental.core.model import fill_tally
from streamer.privacy.models import model_of
from streamer.recoding.algorithms.catalog import ALGORITHMS, objections, run
from streamer.recoding.algorithms.contract import Options
from streamer.recoding.algorithms.local_recoding import settled
from streamer.table.arrays import records
from streamer.table.codes import CategoricalAttribute, DistributionDemands, Diversity, KeptColumn, NumericAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata, with_references
from streamer.table.schema import Table
from streamer.table.space import Axis, Space

EXAMPLE_ROWS, EXAMPLE_CELLS, EXAMPLE_VALUES, K, RARE = 40, 10, 5, 2, 7
"""One in RARE rows has a leaf of its own: rare leaves have an order of their own."""

FAR_CELLS = 10_000_000_000
"""A domain whose cells need 64 bits."""


def call_all() -> None:
    """Calls all of them."""
    call_core()
    call_for_orphans()
    for microdata in _tables():
        for algorithm in ALGORITHMS.values():
            model = model_of(microdata.table)
            options = Options(refine=int(algorithm.refines), rows_per_call=EXAMPLE_ROWS)
            for asked in (options, replace(options, suppression=0.1)):
                if not objections(algorithm, microdata.table, model, asked):
                    run(algorithm, microdata, model, asked)


def call_for_orphans() -> None:
    """Rows that fit nowhere, in `bottom-up`: two values, each half of the QI group and of the orphans."""
    *_, table = (one.table for one in _tables() if one.table.diversity.beta)
    table = replace(table, diversity=Diversity(beta=Decimal("0.5")), kept=(replace(table.kept[0], distribution=None),))
    codes, values = np.zeros((6, 2), np.int64), np.array([0, 1, 0, 0, 1, 1])[:, None]
    orphans = Microdata(table, codes, None, values, ((b'"leaf 0"', b'"leaf 1"'),))
    box = np.zeros((1, 2), np.int64)
    settled(orphans, model_of(table), np.array([0, 0, -1, -1, -1, -1]), box, box.copy())


def call_core() -> None:
    """The entries of the incremental wing, on a shard without rows."""
    shard = layout.empty_shard(Space([Axis(1, 2, True, 1.0, 1.0, None)]), K, True, True, False)
    numbers = np.zeros(1, np.int64)
    step.advance(shard, records(0, layout.OPERATION), np.zeros((0, 1), np.int32), 0, False)
    fill_tally(shard.work.tally, numbers, numbers)
    step.restore(shard, 0)


def _tables() -> Iterator[Microdata]:
    """Small tables: plain, with sensitive values, of individuals; and one of more columns, some cells far apart."""
    one, rows = Decimal(1), np.arange(EXAMPLE_ROWS)
    leaves = Hierarchy.from_rows(sorted((f"leaf {leaf}", f"node {leaf % 3}", "*") for leaf in range(EXAMPLE_ROWS)))
    number = NumericAttribute("number", (Decimal(0), Decimal(EXAMPLE_CELLS - 1)), one, one, one)
    far = NumericAttribute("far", (Decimal(0), Decimal(FAR_CELLS)), one, one, one)
    category = CategoricalAttribute("category", leaves, one)
    codes = np.column_stack([rows * 7 % EXAMPLE_CELLS, np.where(rows % RARE, rows % K, rows)])
    plain = Table("example", ("id",), (number, category), (KeptColumn("value", sensitive=True, hierarchy=leaves),), K)
    texts = (tuple(b'"leaf %d"' % value for value in range(EXAMPLE_VALUES)),)
    near = DistributionDemands(Decimal("1.5"), (Decimal(9), K), Decimal("0.9"))
    for diversity, individual, distribution in (
        (Diversity(), None, None),
        (Diversity(l=K, beta=Decimal("0.9")), None, None),
        (Diversity(), None, near),
        (Diversity(), "who", None),
    ):
        kept = replace(plain.kept[0], distribution=distribution)
        table = replace(plain, diversity=diversity, individual=individual, kept=(kept,))
        yield with_references(
            Microdata(table, codes, rows // 2 if individual else None, rows[:, None] % EXAMPLE_VALUES, texts)
        )
    wide = replace(plain, attributes=(far, number, category, replace(category, name="other")))
    codes = codes[:, [0, 0, 1, 1]] * [FAR_CELLS // EXAMPLE_CELLS, 1, 1, 1]
    yield Microdata(wide, codes, None, rows[:, None] % EXAMPLE_VALUES, texts)
