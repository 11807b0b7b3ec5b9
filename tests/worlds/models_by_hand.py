"""What a privacy model demands, counted by hand; and rows of subjects to ask about."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np
from hypothesis import strategies as st

from streamer.privacy.models import Model
from streamer.table.microdata import NULL
from worlds.microdata import assert_holds


def obeys(model: Model, subjects: np.ndarray) -> bool:
    """The model counted by hand."""
    try:
        assert_holds(model, subjects.tolist())
    except AssertionError:
        return False
    return True


def fits(model: Model, subjects: np.ndarray) -> bool:
    """Whether no subject has more than its share, of as many rows as the smallest QI group has at least."""
    n = max(len(subjects), model.rows_min)
    columns = dict(zip(model.subjects, subjects.T.tolist(), strict=True))
    return all(max(map(columns[of].count, columns[of])) <= share * n for of, share in model.shares.items())


def lacking(model: Model, subjects: np.ndarray) -> int:
    """How many rows a group lacks at least until it holds."""
    n, columns = len(subjects), dict(zip(model.subjects, subjects.T.tolist(), strict=True))
    wanted = [model.rows - n, 0]
    for of, least in model.distinct.items():
        wanted.append(least - len({code for code in columns[of] if of.null_counts or code != NULL}))
    wanted += [ceil(max(map(columns[of].count, columns[of])) / share) - n for of, share in model.shares.items()]
    return max(wanted)


def rows_of(draw: Callable[..., Any], model: Model, max_rows: int = 12) -> np.ndarray:
    row = st.lists(st.integers(0, 3), min_size=len(model.subjects), max_size=len(model.subjects))
    rows = draw(st.lists(row, min_size=1, max_size=max_rows))
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(model.subjects))
