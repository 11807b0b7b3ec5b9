"""A QI group as one message: its columns, its key, its bytes, and the way back (`form: groups`).

The rules of this file
----------------------
* A QI group stands under the key `{"qi_group":"0-17"}`. Its value is flat JSON as far as the box goes, in the columns
  of a published row; then `size`, the number of its rows, and `values`: every combination of kept values that occurs,
  once, with the number of rows that have it. So a message holds the model by itself, whatever others a reader has seen.
* Combinations stand in the order of their texts: nothing tells one row from another that says the same.
* A group is one message, and a message has its limit (`limits.row_bytes_max`). What a row may bring is bounded so that
  2k rows fit: a group of more (an individual with very many rows, a model that lets nothing be cut) is looked at when
  it is written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from streamer.errors import LawViolated
from streamer.table.published import QI_GROUP, all_box_columns, parse_qi_group, published_columns
from streamer.table.published_reading import BoxReader, TextsReader, ValuesReader, read_text
from streamer.table.row import Values
from streamer.table.schema import GROUPS, Table

SIZE, VALUES, COUNT = "size", "values", "count"
"""What a message says beside the box: rows, combinations of kept values, and rows of each."""

_KEY = re.compile(rb'\{"qi_group":"([0-9]+-[0-9]+)"\}')


def group_key(shard: int, qi_group: int) -> bytes:
    """The key of a QI group's message.

    >>> group_key(0, 17)
    b'{"qi_group":"0-17"}'
    """
    return b'{"qi_group":"%d-%d"}' % (shard, qi_group)


def parse_group_key(key: bytes) -> tuple[int, int]:
    """Shard and number. Raises LawViolated where the key is not exactly the bytes that `group_key` writes.

    >>> parse_group_key(b'{"qi_group":"0-17"}')
    (0, 17)
    """
    match = _KEY.fullmatch(key)
    if match is None:
        raise LawViolated('the key of a record is not of the form {"qi_group":"0-17"}')
    return parse_qi_group(match[1].decode())


def group_columns(table: Table) -> tuple[str, ...]:
    """Members of a message, in their order."""
    return (QI_GROUP, *all_box_columns(table), SIZE, VALUES)


def value_columns(table: Table) -> tuple[str, ...]:
    """Members of the value of a record of `live`, in their order."""
    return group_columns(table) if table.form == GROUPS else published_columns(table)


def values_template(table: Table) -> bytes:
    """One combination of kept values, to be formatted with their texts and the number of rows."""
    names = (msgspec.json.encode(column.name).replace(b"%", b"%%") for column in table.kept)
    return b"{" + b"".join(b"%b:%%b," % name for name in names) + b'"count":%d}'


def counted(slots: Iterable[Values]) -> dict[Values, int]:
    """Combinations of kept values with the number of rows that have each, in the order of their texts.

    >>> counted([(b'"flu"',), (b'"cough"',), (b'"flu"',)])
    {(b'"cough"',): 1, (b'"flu"',): 2}
    """
    return dict(sorted(Counter(slots).items()))


class PublishedMessage(NamedTuple):
    """A QI group read back: its name, its box in cells, and its combinations of kept values with their rows."""

    qi_group: str
    lo: tuple[int, ...]
    hi: tuple[int, ...]
    counts: Mapping[Values, int]


class GroupReader:
    """Reads messages back. Raises LawViolated for whatever `form: groups` does not publish."""

    def __init__(self, table: Table) -> None:
        self._texts = TextsReader(group_columns(table))
        self._entry = TextsReader([*(column.name for column in table.kept), COUNT])
        self._box = BoxReader(table)
        self._values = ValuesReader(table)

    def read(self, message: bytes) -> PublishedMessage:
        """One QI group from its JSON."""
        name, *box, size, entries = self._texts.read(message)
        lo, hi = self._box.read(tuple(box))
        counts: dict[Values, int] = {}
        for entry in _list_of(entries):
            *texts, rows = self._entry.read(bytes(entry))
            values = self._values.read(texts)
            if values in counts:
                raise LawViolated("a QI group lists the same values twice")
            counts[values] = read_count(rows, COUNT)
        if read_count(size, SIZE) != sum(counts.values()):
            raise LawViolated("the size of a QI group is not the sum of its counts")
        return PublishedMessage(read_text(name, QI_GROUP), lo, hi, counts)


def read_count(text: bytes, column: str) -> int:
    """A number of rows, at least 1. Raises LawViolated."""
    if not (text.isdigit() and len(text) <= 18 and int(text) >= 1):
        raise LawViolated(f"column {column} does not hold a number of rows")
    return int(text)


def _list_of(text: bytes) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(text, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        raise LawViolated(f"column {VALUES} does not hold a list") from None
