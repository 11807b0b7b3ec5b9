"""The cost of more privacy: the loss of the same table under other models, one constraint changed at a time.

Every point is a run of the algorithm, so a table is looked at through a sample of its rows, small enough that all
curves together take no longer than the table itself. A sample is less
dense than the table and loses more at the same k: the curves show how fast the loss grows, not how large it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from streamer.errors import ConfigError, UsageError
from streamer.privacy.models import model_of
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import Algorithm, Options
from streamer.recoding.algorithms.lattice import DEGREE_FIRST, OLA
from streamer.recoding.algorithms.local_recoding import BOTTOM_UP
from streamer.recoding.metrics.utility import ncp
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata
from streamer.table.schema import Table

ROWS_MAX = 1_000
TRADEOFF_KS = (2, 3, 5, 10, 20, 50)
LS = (2, 3, 5, 8)
BY_LEVELS, KS_BY_LEVELS = (OLA, DEGREE_FIRST, BOTTOM_UP), (2, 5, 20)
"""Algorithms that take as long for few rows as for many: of these k alone is tried."""
Strength = int | Decimal
SHARES = tuple(Decimal(text) for text in ("0.8", "0.6", "0.4", "0.2"))


@dataclass(frozen=True)
class Curve:
    """The NCP under one constraint at several strengths."""

    constraint: str  # k, l, alpha or beta
    strengths: tuple[float, ...]
    losses: tuple[float, ...]
    now: float | None  # what table.yaml asks, if anything


def sampled(microdata: Microdata, rows_max: int = ROWS_MAX) -> Microdata:
    """The table itself, or rows_max of its rows, drawn the same way every time."""
    n = len(microdata)
    return microdata if n <= rows_max else microdata.rows(sample_numbers(n, rows_max))


def sample_numbers(rows: int, rows_max: int = ROWS_MAX) -> Ints:
    """The numbers of these rows, ascending."""
    if rows <= rows_max:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, rows_max, replace=False))


def tradeoffs(microdata: Microdata, algorithm: Algorithm, options: Options) -> list[Curve]:
    """A curve for every constraint that the table can be given, without the strengths that it cannot hold."""
    table, curves = microdata.table, []
    for constraint, strengths in _strengths(table, algorithm):
        now = _now(table, constraint)
        changed = [_with(table, constraint, strength) for strength in strengths]
        losses = [_loss(replace(microdata, table=other), algorithm, options) for other in changed]
        points = [(float(x), loss) for x, loss in zip(strengths, losses, strict=True) if loss is not None]
        if len(points) > 1:
            x, y = zip(*points, strict=True)
            curves.append(Curve(constraint, x, y, None if now is None else float(now)))
    return curves


def _strengths(table: Table, algorithm: Algorithm) -> Iterator[tuple[str, list[Strength]]]:
    """The constraints that may be changed, and the strengths that are tried: also the one that is asked now."""
    slow = algorithm in BY_LEVELS
    tried: dict[str, Sequence[Strength]] = {"k": KS_BY_LEVELS if slow else TRADEOFF_KS}
    if table.sensitive and not slow and not any(table.kept[i].diversity for i in table.sensitive):
        tried |= {"l": LS, "beta": SHARES}  # a weaker one says nothing if a column asks for more by itself
    if table.individual is not None and not slow:
        tried["alpha"] = SHARES
    for constraint, strengths in tried.items():
        now = _now(table, constraint)
        yield constraint, sorted({*strengths, *([] if now is None else [now])})


def _now(table: Table, constraint: str) -> Strength | None:
    asked: Strength | None = table.k if constraint == "k" else getattr(table.diversity, constraint)
    return asked


def _with(table: Table, constraint: str, strength: Strength) -> Table:
    asked: dict[str, Any] = {constraint: strength}
    if constraint == "k":
        return replace(table, **asked)
    return replace(table, diversity=replace(table.diversity, **asked))


def _loss(microdata: Microdata, algorithm: Algorithm, options: Options) -> float | None:
    try:
        recoding = run(algorithm, microdata, model_of(microdata.table), options)
    except (ConfigError, UsageError):  # the data cannot hold this, or the algorithm cannot do it
        return None
    return ncp(microdata, recoding)
