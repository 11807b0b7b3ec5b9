"""A whole table of people as columns of numbers, for algorithms that anonymize it at once, and for measures.

The rules of this file
----------------------
* Everything is a code: quasi-identifiers as in `streamer.table.encode`, individuals and sensitive values as numbers
  from 0 in the order of their texts.
* The order of rows, codes finer than a cell, and the names behind individuals' numbers must not decide what is
  published: algorithms see the table in canonical form only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import numpy as np

from streamer.errors import ConfigError
from streamer.table.arrays import Ints, inverse_of, numbers_of, ranks
from streamer.table.codes import NO_REFERENCE, KeptColumn, counted_rows, reference_of
from streamer.table.codes.same_text import CountedText, counted_value
from streamer.table.encode import EncodedColumns, EncodedRows
from streamer.table.schema import Table
from streamer.table.space import Space


@dataclass(frozen=True, order=True)
class Subject:
    """Individuals, or the values of a kept column, or their ancestors: a constraint counts them."""

    column: int  # -1: individuals
    level: int = 0  # of the ancestors; 0: the values; IN_REFERENCE: the values, by their codes in the reference
    null_counts: bool = True  # whether a null counts like a value


INDIVIDUAL = Subject(-1)

IN_REFERENCE = -1

NULL = 0
"""The number of a null among the values of a kept column, whether there is one or not."""


@dataclass(frozen=True)
class Microdata:
    """n rows of one table."""

    table: Table
    codes: Ints = field(repr=False)  # int64 (n, d)
    individuals: Ints | None = field(repr=False)  # int64 (n,); None: every row is one
    values: Ints = field(repr=False)  # int64 (n, kept): numbers of the texts
    texts: tuple[tuple[bytes, ...], ...] = field(repr=False)  # of kept columns, by column and number
    counted: dict[Subject, Ints] = field(default_factory=dict, repr=False, compare=False)  # of these texts, once made

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
        """The codes of a subject by row; int64 (n,): individuals from 0, values from 1, NULL for a null."""
        if subject == INDIVIDUAL:
            return np.arange(len(self), dtype=np.int64) if self.individuals is None else self.individuals
        values = replace(subject, null_counts=True)
        if values not in self.counted:
            self.counted[values] = self._ancestors(values)
        return self.counted[values][self.values[:, subject.column]]

    def subjects(self, wanted: Sequence[Subject]) -> Ints:
        """One column for each of `wanted`; int64 (n, s)."""
        columns = [self.subject(subject) for subject in wanted]
        return np.stack(columns, axis=1) if columns else np.empty((len(self), 0), dtype=np.int64)

    def _ancestors(self, subject: Subject) -> Ints:
        """By text of the subject's column, the number of what counts: the text or its ancestor; NULL for a null."""
        texts, column = self.texts[subject.column], self.table.kept[subject.column]
        some = np.array([text != b"null" for text in texts], dtype=bool)
        counted = self.table.counted_text
        if subject.level == IN_REFERENCE:
            code_of = codes_in_reference(column)
            return np.array([code_of(counted_value(text, counted)) for text in texts], dtype=np.int64)
        if subject.level:
            nodes = list(map(nodes_above(column, subject.level, counted), texts))
        else:
            first: dict[str | None, int] = {}
            nodes = [first.setdefault(counted_value(text, counted), i) for i, text in enumerate(texts)]
        numbers = np.full(len(texts), NULL, dtype=np.int64)
        numbers[some] = np.unique(np.array(nodes, dtype=np.int64)[some], return_inverse=True)[1] + 1
        return numbers

    def rows(self, numbers: Ints) -> Microdata:
        """The same table with only these rows, in this order."""
        who = None if self.individuals is None else self.individuals[numbers]
        codes, values = np.take(self.codes, numbers, axis=0), np.take(self.values, numbers, axis=0)
        return replace(self, codes=codes, individuals=who, values=values)


def codes_in_reference(column: KeptColumn) -> Callable[[str | None], int]:
    """A function of a counted text: its code in the reference of the column's t-closeness."""
    if column.distribution is None or column.distribution.reference is None:
        raise ConfigError(f"columns.{column.name}.t: {NO_REFERENCE}")
    return column.distribution.reference.code_of


def nodes_above(column: KeptColumn, level: int, counted: CountedText) -> Callable[[bytes], int]:
    """A function of a value, given as its JSON text: its node at a level of the hierarchy; -1 for a null.

    Of nodes whose labels are the same text it is the first.
    """
    tree, first = column.hierarchy, dict[str, int]()
    if tree is None:
        return lambda _: -1
    for node in np.unique(tree.levels[level]).tolist():
        first.setdefault(counted(tree.labels[node]), node)
    nodes = [first[counted(tree.labels[node])] for node in tree.levels[level].tolist()]  # by leaf

    def node_above(text: bytes) -> int:
        label = msgspec.json.decode(text)
        return -1 if label is None else nodes[tree.code_of[label]]

    return node_above


def microdata_of(table: Table, rows: EncodedRows) -> Microdata:
    """Encoded rows as columns of numbers."""
    n = len(rows.codes)
    values, texts = np.zeros((n, len(table.kept)), dtype=np.int64), []
    for i in range(len(table.kept)):
        values[:, i], column = _numbered([value[i] for value in rows.values])
        texts.append(column)
    who = None if table.individual is None else _numbered([(name or "").encode() for name in rows.individuals])[0]
    return Microdata(table, rows.codes, who, values, tuple(texts))


def microdata_of_columns(table: Table, rows: EncodedColumns) -> Microdata:
    """The same of rows that are encoded column by column; they are the references that table.yaml leaves open."""
    values, texts = np.zeros((len(rows), len(table.kept)), dtype=np.int64), []
    for i, column in enumerate(rows.kept):
        numbers, different = _numbered(column.different)
        values[:, i] = numbers[column.numbers]
        texts.append(different)
    who = None
    if rows.individuals is not None:
        who = _numbered([name.encode() for name in rows.individuals.different])[0][rows.individuals.numbers]
    return with_references(Microdata(table, rows.codes, who, values, tuple(texts)))


def _numbered(texts: Sequence[bytes]) -> tuple[Ints, tuple[bytes, ...]]:
    """The texts as numbers in sorted order, and the distinct texts in that order."""
    distinct = sorted(set(texts))
    number = {text: i for i, text in enumerate(distinct)}
    return np.fromiter(map(number.__getitem__, texts), dtype=np.int64, count=len(texts)), tuple(distinct)


def with_references(microdata: Microdata) -> Microdata:
    """The table with its own distributions as the references that table.yaml leaves open."""
    if not _is_open(microdata.table):
        return microdata
    table = compared_with(microdata.table, [rows_by_text(microdata, i) for i in range(len(microdata.texts))])
    return replace(microdata, table=table, counted={})


def rows_by_text(microdata: Microdata, i: int) -> dict[bytes, int]:
    """The rows of each JSON text of a kept column that is there."""
    n = np.bincount(microdata.values[:, i], minlength=len(microdata.texts[i])).tolist()
    return {text: there for text, there in zip(microdata.texts[i], n, strict=True) if there}


def _is_open(table: Table) -> bool:
    """True if table.yaml leaves a reference open."""
    asked = [column.distribution for column in table.kept if column.distribution is not None]
    return any(one.t is not None and one.reference is None for one in asked)


def compared_with(table: Table, rows: Sequence[Mapping[bytes, int]]) -> Table:
    """The table with these rows, by JSON text, for each kept column as the references that table.yaml leaves open."""
    kept = list(table.kept)
    for i, (column, asked) in enumerate((one, one.distribution) for one in table.kept):
        if asked is not None and asked.t is not None and asked.reference is None:
            counts, tree = counted_rows(rows[i], table.counted_text), column.hierarchy
            reference = reference_of(column.name, asked.distance, counts, tree, table.counted_text)
            kept[i] = replace(column, distribution=replace(asked, reference=reference))
    return replace(table, kept=tuple(kept))


# The canonical form of a table: all that may decide what is published.
#
# * A row's *kind* is its cells and its published values. An individual is the kinds of all its rows, without a name.
#   The canonical form depends only on kinds and on how they are spread over individuals: rows are sorted by kind, then
#   by individual; individuals are numbered by how many rows they have, then by these rows' kinds.
# * Codes become the first code of their cell, so nothing finer than a cell is left.
# * Individuals with the same kinds are interchangeable, and so are rows of one kind and individual: the canonical form
#   is the same whichever comes first. Chance decides that, never order, name or code.


@dataclass(frozen=True)
class Canonical:
    """A table in canonical form."""

    microdata: Microdata
    rows: Ints = field(repr=False)  # int64 (n,): the source's number of each row


def canonical(microdata: Microdata, chance: np.random.Generator) -> Canonical:
    """The table in canonical form; chance orders what is interchangeable."""
    table, cells, values = microdata.table, microdata.cells, microdata.values
    rows = chance.permutation(len(microdata))
    kind = numbers_of((*cells.T, *values.T), len(microdata))[rows]
    if microdata.individuals is None:
        order, who = np.argsort(kind, kind="stable"), None
    else:
        by_name = np.unique(microdata.individuals[rows], return_index=True, return_inverse=True)
        number = numbered_by_rank(multiset_ranks(by_name[2], kind), by_name[1])[by_name[2]]
        order = np.lexsort((number, kind))
        who = number[order]
    del kind
    rows = rows[order]
    codes = np.take(cells, rows, axis=0)
    if not table.space.is_cell_by_cell:
        codes *= table.space.codes_per_cell
    return Canonical(replace(microdata, codes=codes, individuals=who, values=np.take(values, rows, axis=0)), rows)


def numbered_by_rank(rank: Ints, first: Ints) -> Ints:
    """Numbers from 0 in the order of the ranks, equal ranks by their first rows; int64, as long as rank."""
    return inverse_of(np.lexsort((first, rank)))


def multiset_ranks(who: Ints, kind: Ints) -> Ints:
    """Ranks from 0 of individuals by the kinds of their rows; equal for those who have each kind equally often.

    who: int64 (n,), from 0 without gaps; kind: int64 (n,), from 0. Ranked by the number of rows, then by their sorted
    kinds. In each round two neighbouring kinds become one number, until every individual has one: 17 rounds for an
    individual of 100,000 rows, each half the work of the one before.

    >>> multiset_ranks(np.array([0, 0, 1, 2, 2]), np.array([7, 5, 9, 5, 7])).tolist()
    [1, 0, 1]
    """
    n_rows = np.bincount(who)
    left, length = kind[np.lexsort((kind, who))], n_rows.copy()
    number = np.zeros(len(n_rows), dtype=np.int64)
    going = np.arange(len(n_rows))
    while len(going):
        done = length == 1
        begins = np.cumsum(length) - length
        number[going[done]] = left[begins[done]]
        left, length = left[np.repeat(~done, length)], length[~done]
        going = going[~done]
        left, length = _paired(left, length)
    return ranks(np.column_stack([n_rows, number]))


def _paired(left: Ints, length: Ints) -> tuple[Ints, Ints]:
    """Runs of numbers from 0 in which each pair has become one number, in their order; and the runs' lengths.

    left: int64 (n,), the runs one after the other; length: int64 (runs,). A number without a partner ranks before all
    pairs that begin with it.
    """
    begins = np.cumsum(length) - length
    one = (np.arange(len(left)) - np.repeat(begins, length)) % 2 == 0
    second = np.zeros(len(left), dtype=np.int64)
    second[:-1] = left[1:] + 1
    second[begins + length - 1] = 0
    return ranks(np.column_stack([left[one], second[one]])), (length + 1) // 2
