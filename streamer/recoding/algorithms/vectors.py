"""The table as full-domain recoding sees it: its distinct vectors of cells, each with its rows and whom it counts.

The rules of this file
----------------------
* Rows that agree in all cells are recoded alike at every node. So a table of any size is its vectors, how many rows
  each has, and for every subject of the model which of them a vector has, and in how many rows (`Pairs`).
* Counts of the parts of a table, `united`, are the counts of the whole, exactly, in any order of the parts. Codes must
  mean the same in all parts.
* A subject that only has to be *distinct* n times needs no more than n codes of a vector: a QI group with a vector that
  has n holds, and one without has all its codes. Which n are kept (the lowest) does not matter. So a billion rows of
  few vectors are few pairs. Shares and laws need all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamer.privacy.models import Model
from streamer.table.arrays import Ints, counted, row_numbers
from streamer.table.microdata import IN_REFERENCE, NULL, Microdata, Subject


class Pairs(NamedTuple):
    """Which codes of one subject a vector has, by vector, then by code; a null that does not count is left out."""

    vector: Ints  # (e,)
    code: Ints
    rows: Ints


class VectorCounts(NamedTuple):
    """The m distinct vectors of cells of a table, in order, and for each subject of a model whom they have."""

    cells: Ints  # (m, d)
    rows: Ints  # (m,)
    subjects: tuple[Pairs, ...]  # as in `model.subjects`

    @property
    def size(self) -> int:
        """The number of vectors and pairs, which are held in memory."""
        return len(self.rows) + sum(len(pairs.rows) for pairs in self.subjects)

    def codes(self, subjects: Sequence[Subject]) -> list[Ints]:
        """By subject, how many rows each code has; only those that are there, unless a reference gives the codes."""
        return [
            np.bincount(pairs.code, pairs.rows).astype(np.int64)
            if subject.level == IN_REFERENCE
            else counted(pairs.code[:, None], pairs.rows).rows
            for subject, pairs in zip(subjects, self.subjects, strict=True)
        ]


def vector_counts(microdata: Microdata, model: Model, individuals: Ints | None = None) -> tuple[VectorCounts, Ints]:
    """The counts of a table, and the vector of each of its rows, int64 (n,).

    individuals: codes that mean the same person in all parts of a table, if these are not the microdata's numbers.
    """
    _, first, which = np.unique(row_numbers(microdata.cells), return_index=True, return_inverse=True)
    ones, found = np.ones(len(which), dtype=np.int64), []
    for subject in model.subjects:
        code = individuals if subject.column < 0 and individuals is not None else microdata.subject(subject)
        found.append(_pairs(model, subject, which, code, ones))
    return VectorCounts(microdata.cells[first], np.bincount(which, minlength=len(first)), tuple(found)), which


def united(parts: Sequence[VectorCounts], model: Model) -> VectorCounts:
    """The counts of several parts of a table as those of the whole."""
    cells = np.concatenate([part.cells for part in parts])
    _, first, which = np.unique(row_numbers(cells), return_index=True, return_inverse=True)
    rows = np.bincount(which, np.concatenate([part.rows for part in parts]), len(first)).astype(np.int64)
    begins = np.cumsum([0, *(len(part.rows) for part in parts)])
    found = []
    for i, subject in enumerate(model.subjects):
        some = [part.subjects[i] for part in parts]
        vector = np.concatenate([pairs.vector + begin for pairs, begin in zip(some, begins[:-1], strict=True)])
        code, of_rows = (np.concatenate([pairs[column] for pairs in some]) for column in (1, 2))
        found.append(_pairs(model, subject, which[vector], code, of_rows))
    return VectorCounts(cells[first], rows, tuple(found))


def _pairs(model: Model, subject: Subject, vector: Ints, code: Ints, rows: Ints) -> Pairs:
    if not subject.null_counts:
        vector, code, rows = (column[code != NULL] for column in (vector, code, rows))
    found = counted(np.stack([vector, code], axis=1), rows)
    pairs = Pairs(found.numbers[:, 0], found.numbers[:, 1], found.rows)
    if subject in model.shares or any(law.subject == subject for law in model.laws):
        return pairs
    begins = np.flatnonzero(np.diff(pairs.vector, prepend=-1))
    lengths = np.diff(np.append(begins, len(pairs.vector)))
    few = np.arange(len(pairs.vector)) - np.repeat(begins, lengths) < model.distinct[subject]
    return Pairs(pairs.vector[few], pairs.code[few], pairs.rows[few])
