"""A whole table of people as columns of numbers: what algorithms that anonymize at once take, and measures look at.

The rules of this file
----------------------
* Everything is a code: quasi-identifiers as in `streamer.table.encode`, individuals and sensitive values as numbers
  from 0 in the order of their texts.
* Rows stand as they came, codes are finer than what is published, and an individual's number follows the name. None of
  these may decide what is published: algorithms see the table in canonical form alone (`streamer.table.canonical`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np

from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import KeptColumn, Table
from streamer.table.space import Space


@dataclass(frozen=True, order=True)
class Subject:
    """What is counted: individuals (column -1), or a kept column's values (level 0) or their ancestors at a level.

    null_counts: whether a null is counted like a value, or nowhere.
    """

    column: int
    level: int = 0
    null_counts: bool = True


INDIVIDUAL = Subject(-1)

NULL = 0
"""The number of the null among what a kept column's subjects count, whether there is one or not."""


@dataclass(frozen=True)
class Microdata:
    """n rows of one table; codes int64 (n, d); individuals int64 (n,) or None: every row is its own.

    values: int64 (n, kept), numbers of the kept columns' texts; texts: those texts by column and number.
    """

    table: Table
    codes: Ints = field(repr=False)
    individuals: Ints | None = field(repr=False)
    values: Ints = field(repr=False)
    texts: tuple[tuple[bytes, ...], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def space(self) -> Space:
        return self.table.space

    @cached_property
    def cells(self) -> Ints:
        """int64 (n, d)."""
        return self.space.cells(self.codes)

    def subject(self, subject: Subject) -> Ints:
        """What `subject` counts, row by row; int64 (n,): individuals from 0, values from 1, with NULL for a null."""
        if subject == INDIVIDUAL:
            return np.arange(len(self), dtype=np.int64) if self.individuals is None else self.individuals
        return self._ancestors(subject)[self.values[:, subject.column]]

    def subjects(self, wanted: Sequence[Subject]) -> Ints:
        """One column for each of `wanted`; int64 (n, s)."""
        columns = [self.subject(subject) for subject in wanted]
        return np.stack(columns, axis=1) if columns else np.empty((len(self), 0), dtype=np.int64)

    def _ancestors(self, subject: Subject) -> Ints:
        """Number of the ancestor at the subject's level of every text of its column; NULL for a null."""
        texts, column = self.texts[subject.column], self.table.kept[subject.column]
        some = np.array([text != b"null" for text in texts], dtype=bool)
        nodes = [node_above(column, text, subject.level) if subject.level else i for i, text in enumerate(texts)]
        numbers = np.full(len(texts), NULL, dtype=np.int64)
        numbers[some] = np.unique(np.array(nodes, dtype=np.int64)[some], return_inverse=True)[1] + 1
        return numbers

    def rows(self, numbers: Ints) -> Microdata:
        """The same table with only these rows, in this order."""
        who = None if self.individuals is None else self.individuals[numbers]
        codes, values = np.take(self.codes, numbers, axis=0), np.take(self.values, numbers, axis=0)
        return Microdata(self.table, codes, who, values, self.texts)


def node_above(column: KeptColumn, text: bytes, level: int) -> int:
    """The hierarchy's node above a value, given as its JSON text; -1 for a null."""
    label = msgspec.json.decode(text)
    if label is None or column.hierarchy is None:
        return -1
    return int(column.hierarchy.levels[level, column.hierarchy.code_of[label]])


def microdata_of(table: Table, rows: EncodedRows) -> Microdata:
    """Encoded rows as columns of numbers."""
    n = len(rows.codes)
    values, texts = np.zeros((n, len(table.kept)), dtype=np.int64), []
    for i in range(len(table.kept)):
        values[:, i], column = _numbered([value[i] for value in rows.values])
        texts.append(column)
    who = None if table.individual is None else _numbered([(name or "").encode() for name in rows.individuals])[0]
    return Microdata(table, rows.codes, who, values, tuple(texts))


def _numbered(texts: Sequence[bytes]) -> tuple[Ints, tuple[bytes, ...]]:
    """Numbers of the texts in their sorted order, and that order."""
    distinct = sorted(set(texts))
    number = {text: i for i, text in enumerate(distinct)}
    return np.fromiter(map(number.__getitem__, texts), dtype=np.int64, count=len(texts)), tuple(distinct)
