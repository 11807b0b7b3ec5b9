"""The costs of k and of the grids of a table, found by trying.

Every answer is a run of the default algorithm over the same rows with one thing changed: k, or one column's grid.
Losses compare across grids: an interval counts by its width over the domain's, into whatever cells it was cut. Beside
every k is that of the other rows if some are left out."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import log
from typing import Any

import numpy as np

from streamer.privacy.models import model_of, subject_names
from streamer.progress import OnProgress
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM, run
from streamer.recoding.algorithms.contract import LEFT_OUT, Options, Recoding
from streamer.recoding.metrics.utility import gcp, ncp, ncp_by_attribute
from streamer.table.arrays import Ints
from streamer.table.codes import (
    Attribute,
    CategoricalAttribute,
    NumericAttribute,
    Span,
    TemporalAttribute,
    decimal_text,
)
from streamer.table.microdata import Microdata

KS = (3, 5, 10, 20)
SUPPRESSION = 0.05

GRID_FACTORS = (Decimal("0.5"), Decimal(2))


def costs(microdata: Microdata, on_progress: OnProgress) -> dict[str, Any]:
    """The costs of each k, each attribute and each other grid; plain values, counts and shares.

    `k` has an entry for table.yaml's k and for each of `KS`; `attributes` has the loss of each attribute at
    table.yaml's k, and if it is published in intervals, the loss of the whole table with half and double the grid. If
    the privacy model cannot hold on these rows, an entry says why instead. `suppressing` is a run that leaves out a
    share of SUPPRESSION, and its loss that of the published rows.
    """
    ks = sorted({*KS, microdata.table.k})
    grids = [(j, grid) for j, attribute in enumerate(microdata.table.attributes) for grid in other_grids(attribute)]
    work = len(ks) + len(grids)
    by_k, shares = [], list[dict[str, Any]]()
    for done, k in enumerate(ks, start=1):
        facts, recoding = _cost_of_k(microdata, k)
        by_k.append(facts if recoding is None else facts | {"suppressing": _without_some(microdata, k)})
        if recoding is not None and k == microdata.table.k:
            losses = ncp_by_attribute(microdata, recoding)
            names = [attribute.name for attribute in microdata.table.attributes]
            if losses is not None:
                shares = [{"name": name, "ncp": loss} for name, loss in zip(names, losses.tolist(), strict=True)]
        on_progress(done / work)
    found = {"algorithm": DEFAULT_ALGORITHM, "rows": len(microdata), "k": by_k}
    if not shares:
        return found | {"attributes": []}
    by_grid: dict[int, list[dict[str, Any]]] = {}
    for done, (j, grid) in enumerate(grids, start=len(ks) + 1):
        data = with_grid(microdata, j, grid)
        answer = run(
            ALGORITHMS[DEFAULT_ALGORITHM],
            data,
            model_of(data.table),
            Options(merge_equal_boxes=True, too_wide=LEFT_OUT),
        )
        facts = _facts(data, answer)
        by_grid.setdefault(j, []).append({"grid": grid.text if isinstance(grid, Span) else grid, **facts})
        on_progress(done / work)
    return found | {"attributes": [facts | {"grids": by_grid.get(j, [])} for j, facts in enumerate(shares)]}


def cost_of_shards(
    microdata: Microdata, shard: Ints, shards: int, on_progress: OnProgress, rows_max: int
) -> dict[str, Any]:
    """The cost of anonymizing each shard by itself; plain values. shard: int64 (n,), 0..shards-1, of each row.

    `ncp` is over the rows of the `tried` shards that hold the model by themselves, None if there is none; the rows of
    the others would wait. Shards are tried in their order until they have rows_max rows; a larger one is tried by two
    samples of its rows, and its loss is `foreseen`.
    """
    sizes, model = np.bincount(shard, minlength=shards), model_of(microdata.table)
    tried, loss, waiting, foreseen = list[int](), 0.0, list[int](), False
    for number, members in enumerate(np.split(np.argsort(shard, kind="stable"), np.cumsum(sizes)[:-1])):
        part = microdata.rows(members)
        if not model.holds(part.subjects(model.subjects)):
            waiting.append(len(members))
        elif not tried or sum(tried) + len(members) <= rows_max:
            own, left_out, is_foreseen = _loss_foreseen(part, rows_max)
            published = len(members) - left_out
            loss, foreseen = loss + own * published, foreseen or is_foreseen
            tried.append(published)
            if left_out:
                waiting.append(left_out)
        on_progress((number + 1) / shards)
    return {
        "shards": shards,
        "rows": {"min": int(sizes.min()), "max": int(sizes.max())},
        "ncp": loss / sum(tried) if sum(tried) else None,
        "foreseen": foreseen,
        "tried": len(tried),
        "waiting": {"shards": len(waiting), "rows": sum(waiting)},
    }


SAMPLES_APART = 4
"""The larger sample has this many times the rows of the smaller one."""


def _loss_foreseen(microdata: Microdata, rows_max: int) -> tuple[float, int, bool]:
    """The mean loss of these rows, which hold the model; how many `coarsest` leaves out; if both are foreseen.

    Loss falls as a power of the rows, or faster if more and more of them are alike: the exponent is that between two
    samples, the larger one of rows_max rows.
    """
    n, k, order = len(microdata), microdata.table.k, np.random.default_rng(0).permutation(len(microdata))
    if n <= rows_max:
        return *_loss_and_left_out(microdata, k), False
    few, many = (microdata.rows(order[:size]) for size in (rows_max // SAMPLES_APART, rows_max))
    (of_few, _), (of_many, left_out) = _loss_and_left_out(few, k), _loss_and_left_out(many, k)
    left_out = left_out * n // rows_max
    if not of_few or not of_many:
        return of_many, left_out, True
    return of_many * (of_many / of_few) ** (log(n / rows_max) / log(SAMPLES_APART)), left_out, True


def _loss_and_left_out(microdata: Microdata, k: int) -> tuple[float, int]:
    """The mean loss of the rows that are published, and how many are not."""
    facts, recoding = _cost_of_k(microdata, k)
    if recoding is None:
        return 0.0, len(microdata)
    left_out = facts["suppressed"]
    return (gcp(microdata, recoding) if left_out else facts["ncp"]) or 0.0, left_out


def other_grids(attribute: Attribute) -> list[Decimal] | list[Span]:
    """Half and double the grid of an attribute with intervals, as far as the step and the domain have room for them.

    >>> age = NumericAttribute("age", (Decimal(0), Decimal(99)), Decimal(5), Decimal(1), Decimal(20))
    >>> other_grids(age)
    [Decimal('10')]
    """
    if isinstance(attribute, CategoricalAttribute):
        return []
    if isinstance(attribute, TemporalAttribute):
        grid, half = attribute.calendar.grid, not attribute.calendar.grid.n % 2
        spans = [replace(grid, n=n) for n in ([grid.n // 2] * half + [2 * grid.n])]
        regridded = {span: _regridded(attribute, span) for span in spans}
        return [span for span, one in regridded.items() if one.n_cells > 1 and one.cells_max >= 1]
    grids = [Decimal(decimal_text(attribute.grid * factor)) for factor in GRID_FACTORS]
    width = attribute.domain[1] - attribute.domain[0]
    grids = [grid for grid in grids if grid <= width and (attribute.step is None or grid % attribute.step == 0)]
    return [grid for grid in grids if replace(attribute, grid=grid).cells_max >= 1]


def _regridded(attribute: TemporalAttribute, grid: Span) -> TemporalAttribute:
    """The attribute in other cells of the same unit, without its own levels, which may not fit them."""
    calendar = replace(attribute.calendar, grid=grid)
    cells = Decimal(attribute.calendar.grid.n) / grid.n
    coarsest = None if attribute.coarsest is None else attribute.coarsest * cells
    unit = attribute.unit * cells
    return TemporalAttribute(attribute.name, calendar, unit, weight=attribute.weight, coarsest=coarsest)


def with_grid(microdata: Microdata, j: int, grid: Decimal | Span) -> Microdata:
    """The same rows with another grid in attribute j, and without its hierarchy, which may not fit that grid."""
    table = microdata.table
    attribute = table.attributes[j]
    codes = microdata.codes.copy()
    finer: Attribute
    if isinstance(attribute, TemporalAttribute) and isinstance(grid, Span):
        finer = _regridded(attribute, grid)
        codes[:, j] = finer.calendar.code_of(attribute.calendar.moment_of(codes[:, j]))
    elif isinstance(attribute, NumericAttribute) and isinstance(grid, Decimal):
        finer = replace(attribute, grid=grid, hierarchy=None)
        if attribute.step is None:  # codes count within cells, and the cells have changed
            last = finer.n_cells * finer.codes_per_cell - 1
            codes[:, j] = np.minimum(codes[:, j] * float(attribute.grid / grid), last).astype(np.int64)
    else:
        raise ValueError("only numbers, dates and timestamps have a grid")
    attributes = (*table.attributes[:j], finer, *table.attributes[j + 1 :])
    return replace(microdata, table=replace(table, attributes=attributes), codes=codes)


def _cost_of_k(microdata: Microdata, k: int) -> tuple[dict[str, Any], Recoding | None]:
    """The cost of k, and the recoding; or why the model cannot hold, and None."""
    data = replace(microdata, table=replace(microdata.table, k=k))
    model = model_of(data.table)
    if reason := model.shortfall(data.subjects(model.subjects), subject_names(data.table, model)):
        return {"k": k, "cannot": reason}, None
    recoding = run(ALGORITHMS[DEFAULT_ALGORITHM], data, model, Options(merge_equal_boxes=True, too_wide=LEFT_OUT))
    return {"k": k, **_facts(data, recoding)}, recoding


def _without_some(microdata: Microdata, k: int) -> dict[str, Any]:
    """The loss of the other rows if a share of SUPPRESSION is left out, and how many rows that is."""
    data, fewer = (
        replace(microdata, table=replace(microdata.table, k=k)),
        Options(suppression=SUPPRESSION, too_wide=LEFT_OUT),
    )
    recoding = run(ALGORITHMS[DEFAULT_ALGORITHM], data, model_of(data.table), fewer)
    return {"gcp": gcp(data, recoding), "suppressed": recoding.n_suppressed}


def _facts(microdata: Microdata, recoding: Recoding) -> dict[str, Any]:
    return {"groups": recoding.n_groups, "ncp": ncp(microdata, recoding), "suppressed": recoding.n_suppressed}
