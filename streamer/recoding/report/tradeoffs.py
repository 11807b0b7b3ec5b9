"""What more privacy would cost: the loss of the same table under other models, one demand changed at a time.

Every point is a run of the algorithm, so a large table is looked at through a sample of its rows. A sample is less
dense than the table and loses more at the same k: the curves show how fast the loss grows, not how large it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from streamer.errors import ConfigError, UsageError
from streamer.privacy.models import model_of
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import Algorithm, Options, Recoding
from streamer.recoding.metrics.utility import ncp
from streamer.table.microdata import Microdata
from streamer.table.schema import Table

ROWS_MAX = 5_000
TRADEOFF_KS = (2, 3, 5, 7, 10, 15, 20, 30, 50, 100)
LS = (2, 3, 4, 5, 6, 8, 10)
SHARES = tuple(Decimal(text) for text in ("0.9", "0.8", "0.7", "0.6", "0.5", "0.4", "0.3", "0.2", "0.1"))


@dataclass(frozen=True)
class Curve:
    """The NCP under one demand at several strengths; `now`: what table.yaml asks, None where it asks nothing."""

    demand: str
    strengths: tuple[float, ...]
    losses: tuple[float, ...]
    now: float | None


def sampled(microdata: Microdata, rows_max: int = ROWS_MAX) -> Microdata:
    """The table itself, or so many of its rows, drawn the same way every time."""
    if len(microdata) <= rows_max:
        return microdata
    drawn = np.random.default_rng(0).choice(len(microdata), rows_max, replace=False)
    return microdata.rows(np.sort(drawn))


def tradeoffs(microdata: Microdata, algorithm: Algorithm, options: Options) -> list[Curve]:
    """A curve for every demand that the table can be held to; strengths that it cannot hold are left out."""
    table, points = microdata.table, [*_points(microdata.table)]
    found: dict[str, list[tuple[float, float]]] = {demand: [] for demand, *_ in points}
    for demand, strength, changed in points:
        loss = _loss(replace(microdata, table=changed), algorithm, options)
        if loss is not None:
            found[demand].append((float(strength), loss))
    return [
        Curve(demand, tuple(x for x, _ in curve), tuple(y for _, y in curve), _now(table, demand))
        for demand, curve in found.items()
        if len(curve) > 1
    ]


def _loss(microdata: Microdata, algorithm: Algorithm, options: Options) -> float | None:
    try:
        recoding: Recoding = run(algorithm, microdata, model_of(microdata.table), options)
    except (ConfigError, UsageError):  # the data cannot hold so much, or the algorithm cannot do it
        return None
    return ncp(microdata, recoding)


def _points(table: Table) -> Iterator[tuple[str, Any, Table]]:
    demands: list[tuple[str, Sequence[Any], Callable[[Any], Table]]] = [
        ("k", TRADEOFF_KS, lambda k: replace(table, k=k))
    ]
    if table.sensitive:
        demands.append(("l", LS, _with(table, "l")))
        demands.append(("beta", SHARES, _with(table, "beta")))
    if table.individual is not None:
        demands.append(("alpha", SHARES, _with(table, "alpha")))
    for demand, strengths, changed in demands:
        asked = _now(table, demand)
        own = set() if asked is None else {asked if demand in ("k", "l") else Decimal(str(asked))}
        for strength in sorted({*strengths, *own}):
            yield demand, strength, changed(strength)


def _with(table: Table, demand: str) -> Callable[[Any], Table]:
    def changed(strength: Any) -> Table:
        asked: dict[str, Any] = {demand: strength}
        return replace(table, diversity=replace(table.diversity, **asked))

    return changed


def _now(table: Table, demand: str) -> float | None:
    asked = table.k if demand == "k" else getattr(table.diversity, demand)
    return None if asked is None else (asked if demand in ("k", "l") else float(asked))
