"""What a model counts of rows that come one by one, as published values, and not as columns of a whole table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache

import numpy as np

from streamer.privacy.models import Model
from streamer.table.arrays import Ints
from streamer.table.microdata import INDIVIDUAL, NULL, Subject, node_above
from streamer.table.row import Values
from streamer.table.schema import Table

NODES_MAX = 1 << 16
"""Texts whose ancestors are remembered."""


def subject_of(table: Table, subject: Subject) -> Callable[[Values], Hashable | None]:
    """What a subject, other than individuals, counts of a row's values: a text or the node above; None for a null."""
    i, level, column = subject.column, subject.level, table.kept[subject.column]

    @lru_cache(NODES_MAX)
    def node_of(text: bytes) -> int:
        return node_above(column, text, level)

    def counted(values: Values) -> Hashable | None:
        text = values[i]
        if text == b"null":
            return None
        return node_of(text) if level else text

    return counted


class SubjectCodes:
    """Codes of rows as the methods of a `Model` take them: what is alike in one call has one code there."""

    def __init__(self, table: Table, model: Model) -> None:
        self._readers = [None if s == INDIVIDUAL else subject_of(table, s) for s in model.subjects]

    def of(self, values: Sequence[Values], individuals: Sequence[str | None] = ()) -> Ints:
        """Codes of n rows, int64 (n, s), columns as in `model.subjects`; NULL for a null.

        individuals: of each row, where the model counts them.
        """
        codes = np.empty((len(values), len(self._readers)), dtype=np.int64)
        for column, reader in enumerate(self._readers):
            number: dict[Hashable | None, int] = {None: NULL}
            counted = individuals if reader is None else map(reader, values)
            codes[:, column] = [number.setdefault(one, len(number)) for one in counted]
        return codes
