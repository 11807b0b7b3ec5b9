"""What k and the grids cost a table: the questions of the first day, answered by trying.

Every answer is a run of the default algorithm over the same rows with one thing changed: k, or one column's grid.
Losses compare across grids: an interval counts by its width over the domain's, however it was cut into cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from streamer.privacy.models import Model, model_of, subject_names
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT, objections, run
from streamer.recoding.algorithms.contract import Algorithm, Options, Tick
from streamer.recoding.algorithms.recoding import Recoding
from streamer.recoding.metrics.utility import ncp, ncp_by_attribute
from streamer.table.microdata import Microdata
from streamer.table.scalars import decimal_text
from streamer.table.schema import NumericAttribute

KS = (3, 5, 10, 20)
SUPPRESSION = 0.05
GRID_FACTORS = (Decimal("0.5"), Decimal(2))


def costs(microdata: Microdata, tick: Tick) -> dict[str, Any]:
    """What each k, each attribute and each other grid costs; plain values, counts and shares.

    `k` has an entry for table.yaml's k and for each of `KS`; `attributes` the loss of each attribute at table.yaml's k,
    and for numbers that of the whole table with half and double the grid. Where the privacy model cannot hold on these
    rows, an entry says why instead.
    """
    ks = sorted({*KS, microdata.table.k})
    grids = [(j, grid) for j, a in enumerate(microdata.table.attributes) for grid in other_grids(a)]
    work = len(ks) + len(grids)
    by_k, shares = [], list[dict[str, Any]]()
    for done, k in enumerate(ks):
        facts, recoding = _cost_of_k(microdata, k)
        by_k.append(facts)
        if recoding is not None and k == microdata.table.k:
            shares = list(_shares(microdata, recoding))
        tick((done + 1) / work)
    if not shares:
        return {"algorithm": DEFAULT, "rows": len(microdata), "k": by_k, "attributes": []}
    by_grid: dict[int, list[dict[str, Any]]] = {}
    for done, (j, grid) in enumerate(grids, start=len(ks)):
        by_grid.setdefault(j, []).append(_cost_of_grid(microdata, j, grid))
        tick((done + 1) / work)
    return {
        "algorithm": DEFAULT,
        "rows": len(microdata),
        "k": by_k,
        "attributes": [facts | {"grids": by_grid.get(j, [])} for j, facts in enumerate(shares)],
    }


def other_grids(attribute: object) -> list[Decimal]:
    """Half and double the grid of a numeric attribute, where the step and the domain have room for them.

    >>> age = NumericAttribute("age", (Decimal(0), Decimal(99)), Decimal(5), Decimal(1), Decimal(20))
    >>> other_grids(age)
    [Decimal('10')]
    """
    if not isinstance(attribute, NumericAttribute):
        return []
    grids = [Decimal(decimal_text(attribute.grid * factor)) for factor in GRID_FACTORS]
    width = attribute.domain[1] - attribute.domain[0]
    return [grid for grid in grids if grid <= width and (attribute.step is None or grid % attribute.step == 0)]


def with_grid(microdata: Microdata, j: int, grid: Decimal) -> Microdata:
    """The same rows with another grid in attribute j; its hierarchy, which may not fit that grid, is left out."""
    table = microdata.table
    attribute = table.attributes[j]
    if not isinstance(attribute, NumericAttribute):
        raise ValueError("only numbers have a grid")
    codes = microdata.codes.copy()
    finer = replace(attribute, grid=grid, hierarchy=None)
    if attribute.step is None:  # codes count within cells, and the cells have changed
        codes[:, j] = np.minimum(codes[:, j] * float(attribute.grid / grid), finer.n_cells * finer.codes_per_cell - 1)
    attributes = (*table.attributes[:j], finer, *table.attributes[j + 1 :])
    schema = replace(table, attributes=attributes)
    return Microdata(schema, codes, microdata.individuals, microdata.values, microdata.texts)


def _cost_of_k(microdata: Microdata, k: int) -> tuple[dict[str, Any], Recoding | None]:
    """What k costs, and the table that says so; none, and the reason, where the model cannot hold."""
    data = Microdata(
        replace(microdata.table, k=k), microdata.codes, microdata.individuals, microdata.values, microdata.texts
    )
    model = model_of(data.table)
    if reason := model.shortfall(data.subjects(model.subjects), subject_names(data.table, model)):
        return {"k": k, "cannot": reason}, None
    recoding = run(ALGORITHMS[DEFAULT], data, model)
    facts = {"k": k, **_facts(data, recoding)}
    other = suppressing(data, model)
    if other is not None:
        options = Options(suppression=SUPPRESSION)
        facts["suppressing"] = {"algorithm": other.name, **_facts(data, run(other, data, model, options))}
    return facts, recoding


def suppressing(microdata: Microdata, model: Model) -> Algorithm | None:
    """The first algorithm of the catalog that may leave rows out, and can hold the model."""
    options = Options(suppression=SUPPRESSION)
    able = (a for a in ALGORITHMS.values() if a.suppresses and not objections(a, microdata.table, model, options))
    return next(able, None)


def _facts(microdata: Microdata, recoding: Recoding) -> dict[str, Any]:
    return {"groups": recoding.n_groups, "ncp": ncp(microdata, recoding), "suppressed": recoding.n_suppressed}


def _cost_of_grid(microdata: Microdata, j: int, grid: Decimal) -> dict[str, Any]:
    data = with_grid(microdata, j, grid)
    return {"grid": grid, **_facts(data, run(ALGORITHMS[DEFAULT], data, model_of(data.table)))}


def _shares(microdata: Microdata, recoding: Recoding) -> Iterator[dict[str, Any]]:
    """What every attribute lost."""
    losses = ncp_by_attribute(microdata, recoding)
    for attribute, loss in zip(microdata.table.attributes, [] if losses is None else losses.tolist(), strict=True):
        yield {"name": attribute.name, "ncp": loss}
