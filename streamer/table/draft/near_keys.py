"""The column that would name each row, were it not for a few rows.

One that is called like an id may have a tenth of its rows in the way; any other, whose cells are codes with digits, a
hundredth: incomes and birthdays repeat more. A column that names people by its own name is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from streamer.table.draft.columns import IDS, NAMING, usable, words_of
from streamer.table.draft.nulls import SURE

ONE_IN_AN_ID = 10
ONE_IN_A_CODE = 100
_CODE = re.compile(r"[\w/-]*\d[\w/-]*")


@dataclass(frozen=True)
class NearKey:
    """A column, and its rows in the way: empty ones, and those with a value that a row before them has."""

    name: str
    empty: int
    repeated: int


def near_key_of(columns: dict[str, list[str]]) -> NearKey | None:
    """The column that is nearly different in every row, where none is; None where none is nearly.

    >>> near_key_of({"id": [*map(str, range(40)), "7", ""], "age": ["31"] * 42})
    NearKey(name='id', empty=1, repeated=1)
    """
    for one_in, fits in ((ONE_IN_AN_ID, _is_id), (ONE_IN_A_CODE, _is_code)):
        found = [_counted(name, texts) for name, texts in columns.items() if usable(name) and fits(name, texts)]
        near = [one for one in found if one_in * (one.empty + one.repeated) <= len(columns[one.name])]
        if near:
            return min(near, key=lambda one: one.empty + one.repeated)
    return None


def _is_id(name: str, texts: Sequence[str]) -> bool:
    return bool(words_of(name) & IDS)


def _is_code(name: str, texts: Sequence[str]) -> bool:
    return not words_of(name) & NAMING and all(_CODE.fullmatch(text) for text in texts if not _is_empty(text))


def _counted(name: str, texts: Sequence[str]) -> NearKey:
    filled = [text for text in texts if not _is_empty(text)]
    return NearKey(name, len(texts) - len(filled), len(filled) - len(set(filled)))


def _is_empty(text: str) -> bool:
    return not text.strip() or text in SURE
