"""What an algorithm is: one signature, and a word beforehand about what it cannot do.

The rules of this file
----------------------
* `run(microdata, model, options) -> Recoding`. The table comes in canonical form (`streamer.table.canonical`) and
  holds the model as a whole; an algorithm that draws does so by `options.seed`. So the same people give the same QI
  groups, up to who of the interchangeable is where, whatever order they come in and whatever they are called.
* What is left to decide among rows, individuals or QI groups that are alike is decided by `options.chance`, outside of
  all algorithms (`algorithms.catalog`). Who publishes draws it from the operating system and keeps it to himself: by it
  the numbers of QI groups that share a box could be undone.
* `objections` says from table.yaml, the model and the options what the algorithm cannot do: at `check`, not in the
  middle of a run.
* What takes minutes calls `options.on_progress`. Its compiled loops are called for some of the work at a time
  (`SOME_ROWS`), so that it can report in between and Ctrl-C is heard; the answer does not depend on how work is cut up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from streamer.privacy.models import Model
from streamer.progress import OnProgress, unheard
from streamer.recoding.algorithms.recoding import Recoding
from streamer.table.microdata import Microdata
from streamer.table.schema import Table

SOME_ROWS = 1 << 18
"""Rows that one call of a compiled loop looks at, about: some hundredths of a second."""


@dataclass(frozen=True)
class Options:
    """What a caller may choose; seed, chance: see above."""

    seed: int = 0
    suppression: float = 0.0  # largest share of the rows to leave out
    refine: int = 0  # sweeps beyond its own
    merge_equal_boxes: bool = False  # QI groups that publish one box become one
    chance: int = 0
    on_progress: OnProgress = field(default=unheard, repr=False, compare=False)

    def suppressed_max(self, n: int) -> int:
        """How many of n rows may be left out at most; the share is the decimal that it was written as.

        >>> Options(suppression=0.29).suppressed_max(100)
        29
        """
        return floor(Fraction(str(self.suppression)) * n)


PLAIN = Options()


@dataclass(frozen=True)
class Algorithm:
    """One way to anonymize a whole table; what: one line; source: where it comes from."""

    name: str
    what: str
    source: str
    run: Callable[[Microdata, Model, Options], Recoding]
    objections: Callable[[Table, Model, Options], Sequence[str]]
    suppresses: bool = False
    refines: bool = False
    full_domain: bool = False  # recodes all rows alike: what is true of a part of the table is not of the whole


def no_objections(table: Table, model: Model, options: Options) -> Sequence[str]:
    return ()
