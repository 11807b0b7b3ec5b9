"""What an algorithm is: one signature, and a word beforehand about what it cannot do.

The rules of this file
----------------------
* `run(microdata, model, options, tick) -> Recoding`. The table comes in canonical order and holds the model as a
  whole; chance comes from `options.seed` alone. So the same people give the same table, whatever order they come in.
* `objections` says from table.yaml, the model and the options what the algorithm cannot do: at `check`, not in the
  middle of a run.
* `tick` is told how much of the work is done, from 0 to 1, at the algorithm's convenience.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamer.privacy.models import Model
from streamer.recoding.algorithms.recoding import Recoding
from streamer.table.microdata import Microdata
from streamer.table.schema import Table

Tick = Callable[[float], None]


@dataclass(frozen=True)
class Options:
    """What a caller may choose. suppression: largest share of the rows to leave out; refine: sweeps over the answer."""

    seed: int = 0
    suppression: float = 0.0
    refine: int = 0


PLAIN = Options()


@dataclass(frozen=True)
class Algorithm:
    """One way to anonymize a whole table; what: one line; source: where it comes from."""

    name: str
    what: str
    source: str
    run: Callable[[Microdata, Model, Options, Tick], Recoding]
    objections: Callable[[Table, Model, Options], Sequence[str]]
    suppresses: bool = False
    refines: bool = False
    quadratic: bool = False  # its time grows with the square of the rows


def no_objections(table: Table, model: Model, options: Options) -> Sequence[str]:
    return ()


def silent(done: float) -> None:
    """A tick that nobody listens to."""
