"""Categories of a data file that table.yaml does not list: how many rows have one, by column, and what is said of them.

A node named by `other` takes them without a word, so a vocabulary that drifts would go unnoticed. The categories
themselves are never shown: one that is rare may be a person's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from streamer.errors import EventRefused
from streamer.table.attributes import CategoricalAttribute
from streamer.table.encode import Encoder
from streamer.table.schema import Table
from streamer.table.yaml_categories import OTHER_LABEL


def unlisted_rows(table: Table, frame: pd.DataFrame) -> dict[str, int]:
    """By column, the rows that have a category which only `other` takes; columns without such rows are left out.

    frame: rows as `Encoder.frame` takes them; each distinct category is looked at once, and one that is refused for
    itself is not counted.
    """
    encoder, found = Encoder(table), {}
    for name, encode in _takers(table, encoder):
        if name not in frame.columns:
            continue
        rows = sum(
            int(count)
            for cell, count in frame[name].value_counts().items()
            if _is_unlisted(encoder, name, encode, cell)
        )
        if rows:
            found[name] = rows
    return found


def _is_unlisted(encoder: Encoder, name: str, encode: Callable[[object], object], cell: Any) -> bool:
    encoder.unlisted.clear()
    try:
        encode(encoder.fields({name: cell})[name])
    except EventRefused:
        return False
    return name in encoder.unlisted


def unlisted_sentences(table: Table, unlisted: Mapping[str, int], of: int, what: str) -> Iterator[str]:
    """What there is to say of them, a sentence for each column; of: how many rows or messages there are in all."""
    leaves = leaves_of_others(table)
    for name, count in unlisted.items():
        yield (
            f"{count:,} of {of:,} {what} have a {name} that its hierarchy does not list: `other` takes it as"
            f" {leaves.get(name, OTHER_LABEL)!r}; where these are no strays, add them to the hierarchy"
        )


def leaves_of_others(table: Table) -> dict[str, str]:
    """By column, the leaf that such categories count as; of the columns that have one."""
    of_codes = {
        a.name: a.hierarchy.leaves[a.other_code]
        for a in table.attributes
        if isinstance(a, CategoricalAttribute) and a.other_code is not None
    }
    return of_codes | {column.name: column.other for column in table.kept if column.other is not None}


def _takers(table: Table, encoder: Encoder) -> Iterator[tuple[str, Callable[[object], object]]]:
    """The columns that have such a leaf, and what encodes their values."""
    names = leaves_of_others(table)
    for j, attribute in enumerate(table.attributes):
        if attribute.name in names:
            yield attribute.name, partial(encoder.code, j)
    for i, column in enumerate(table.kept):
        if column.name in names:
            yield column.name, partial(encoder.kept, i)
