"""How long an algorithm will take whose time grows with the square of the rows: measured, and said before it starts.

The algorithm runs on some of the table's own rows first, and its time is taken times the square of how many times the
rows are more. That is a forecast and no promise: on few rows what is not quadratic weighs more, and on very many the
memory is slower.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from streamer.cli.progress import Stages
from streamer.cli.tables import figure
from streamer.privacy.models import Model
from streamer.recoding.algorithms.catalog import require_possible, run
from streamer.recoding.algorithms.contract import Algorithm, Options
from streamer.table.microdata import Microdata

FEW = 200
"""Rows of the first run, so that what an algorithm compiles once per machine is not counted as its time."""

TRIED_MAX = 4_000


def announce(algorithm: Algorithm, microdata: Microdata, model: Model, options: Options, progress: Stages) -> None:
    """Says rows and seconds of an algorithm whose time grows with the square of the rows; of others nothing.

    Raises ConfigError where the rows cannot hold the model: nobody waits for a forecast of that.
    """
    if algorithm.quadratic:
        require_possible(microdata, model)
        with progress.stage("forecast"):
            seconds = seconds_expected(algorithm, microdata, model, options)
        progress.say(sentence(algorithm.name, len(microdata), seconds))


def sentence(name: str, rows: int, seconds: float | None) -> str:
    """The forecast in words.

    >>> sentence("gdppr", 30162, 14.2)
    'gdppr: 30,162 rows, about 14 s; its time grows with the square of the rows'
    """
    expected = "for how long a part of them cannot tell" if seconds is None else f"about {_rounded(seconds)} s"
    return f"{name}: {rows:,} rows, {expected}; its time grows with the square of the rows"


def _rounded(seconds: float) -> str:
    return figure(round(seconds, 1)) if seconds < 10 else f"{round(seconds):,}"


def seconds_expected(algorithm: Algorithm, microdata: Microdata, model: Model, options: Options) -> float | None:
    """Seconds that the whole table will take; None where some of its rows do not hold the model by themselves."""
    run_on_few(algorithm, microdata, model, options)
    some = spread(microdata, min(len(microdata) // 2, TRIED_MAX))
    if not len(some) or not model.holds(some.subjects(model.subjects)):
        return None
    started = perf_counter()
    run(algorithm, some, model, options)
    return float((perf_counter() - started) * (len(microdata) / len(some)) ** 2)


def run_on_few(algorithm: Algorithm, microdata: Microdata, model: Model, options: Options) -> None:
    """Runs on a few rows, if these hold the model, so that everything is compiled."""
    few = spread(microdata, FEW)
    if model.holds(few.subjects(model.subjects)):
        run(algorithm, few, model, options)


def spread(microdata: Microdata, n: int) -> Microdata:
    """n rows from the first to the last, all if there are not more."""
    return microdata.rows(np.linspace(0, len(microdata) - 1, min(len(microdata), n), dtype=np.int64))
