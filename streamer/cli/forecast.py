"""How long something will take: said before it starts, and a forecast, no promise.

An algorithm whose time grows with the square of the rows runs on some of the table's own rows first, and its time is
taken times the square of how many times the rows are more: on few rows what is not quadratic weighs more, and on very
many the memory is slower. What trying other k and grids takes is told by a clock of the machine's own: one sort of the
same rows, times how many sorts a run of the algorithm takes. That differs from table to table by a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from streamer.cli.progress import Stages
from streamer.cli.tables import figure
from streamer.privacy.models import Model, model_of
from streamer.recoding.algorithms.catalog import DEFAULT, require_possible, run
from streamer.recoding.algorithms.contract import Algorithm, Options
from streamer.recoding.algorithms.lattice import lattice_nodes
from streamer.recoding.costs import runs_of
from streamer.table.microdata import Microdata

FEW = 200
"""Rows of the first run, so that what an algorithm compiles once per machine is not counted as its time."""

TRIED_MAX = 4_000

SORTS = 300
"""Sorts of a table that one run of the default algorithm takes: at 100,000 rows, by `benchmarks/batch.py`."""
SORTS_OF_VALUES = 2
"""How many times as long it takes where the model counts values or individuals, too."""
NODES_PER_SECOND = 400_000
"""Nodes of a lattice that are searched in a second."""


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


# -- what k and grids cost ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CostsForecast:
    """What trying other k and grids takes: runs by algorithm, over so many rows, and about how many seconds."""

    runs: dict[str, int]
    rows: int
    seconds: float

    def __str__(self) -> str:
        runs = " and ".join(f"{n} runs of {name}" for name, n in self.runs.items())
        return f"{runs} over {self.rows:,} rows, about {_rounded(self.seconds)} s, or half or twice as long"


def costs_expected(microdata: Microdata) -> CostsForecast:
    """What `costs` of these rows will take on this machine, as busy as it is now."""
    table, runs = microdata.table, runs_of(microdata.table)
    each = SORTS * (SORTS_OF_VALUES if model_of(table).subjects else 1) * _seconds_of_a_sort(microdata)
    searched = lattice_nodes(table) / NODES_PER_SECOND
    seconds = sum(n * (each if name == DEFAULT else searched) for name, n in runs.items())
    return CostsForecast(runs, len(microdata), round(seconds, 1))


def _seconds_of_a_sort(microdata: Microdata) -> float:
    """The least of three: the others waited for something else."""
    found = []
    for _ in range(3):
        started = perf_counter()
        np.lexsort(microdata.codes.T)
        found.append(perf_counter() - started)
    return min(found)
