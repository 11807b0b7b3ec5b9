"""Runs of the catalog's algorithms, timed by one sort of the same table.

A time is a ratio to one `np.lexsort` over the codes of the same table, best of three, in the same process: it means
the same on a slow machine and on a fast one. Machine code is there before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from streamer.native import library
from streamer.privacy.models import Model
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import PLAIN, Algorithm, Options, Recoding
from streamer.table.microdata import Microdata

Say = Callable[[str], None]
"""Told what is being done."""

ONE_SORT = "one sort of the table"


def seconds_of_a_sort(microdata: Microdata) -> float:
    """Seconds of one np.lexsort over the codes; best of three."""
    return min(_seconds(lambda: np.lexsort(microdata.codes.T)) for _ in range(3))


def timed(algorithm: Algorithm, microdata: Microdata, model: Model, options: Options = PLAIN) -> tuple[Recoding, float]:
    """The answer, and the time it took in sorts of the table."""
    library.ready()
    begun = perf_counter()
    recoding = run(algorithm, microdata, model, options)
    return recoding, (perf_counter() - begun) / seconds_of_a_sort(microdata)


def _seconds(work: Callable[[], object]) -> float:
    begun = perf_counter()
    work()
    return perf_counter() - begun
