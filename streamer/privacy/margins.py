"""How far a QI group is from breaking its model: one figure for every constraint.

What a group has to spare are rows: so many can leave it, whichever they are, before the constraint may break.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor
from typing import NamedTuple

import numpy as np

from streamer.privacy.models import Model, subject_names
from streamer.table.arrays import Ints
from streamer.table.microdata import NULL
from streamer.table.schema import Table


class Margin(NamedTuple):
    """One constraint of a model on one QI group: what is counted, what it has, what it needs, and what it can spare.

    A share has at most what it needs, everything else at least.
    """

    what: str
    has: float
    needs: float
    spare: int


def margins(table: Table, model: Model, subjects: Ints) -> Iterator[Margin]:
    """The margins of the rows subjects (m, s), columns as in `model.subjects`, as one QI group."""
    n, names = len(subjects), subject_names(table, model)
    yield Margin("rows", n, model.rows, n - model.rows)
    for column, subject in enumerate(model.subjects):
        count = np.bincount(subjects[:, column])
        if not subject.null_counts:
            count[NULL] = 0
        distinct, top = int((count > 0).sum()), int(count.max(initial=0))
        if subject in model.distinct:
            needed = model.distinct[subject]
            yield Margin(f"distinct {names[subject]}", distinct, needed, distinct - needed)
        if subject in model.shares:
            share = model.shares[subject]
            spare = floor(n - top / share)
            yield Margin(f"largest share of {names[subject]}", top / n, float(share), spare)
