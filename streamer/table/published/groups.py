"""The records of `form: groups`, one per QI group, and the two kinds of records of `form: lossy-join`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from streamer.errors import LawViolated
from streamer.table.published.rows import (
    QI_GROUP,
    BoxReader,
    TextsReader,
    ValuesReader,
    all_box_columns,
    box_text,
    parse_qi_group,
    published_columns,
    read_text,
)
from streamer.table.row import Values
from streamer.table.schema import GROUPS, LOSSY_JOIN, Table

# A QI group as one message.
#
# * Its key is `{"qi_group":"0-17"}`. Its value has the columns of the box, then `size`, the number of its rows, and
#   `values`: each combination of kept values once, with its number of rows. So every message shows that the privacy
#   model holds.
# * Combinations are in the order of their texts, so nothing distinguishes rows with the same values.
# * A message has a limit (`limits.row_bytes_max`), so a row is limited such that 2k rows fit. A larger group (an
#   individual with very many rows, a model that prevents cuts) is checked when it is written.

SIZE, VALUES, COUNT = "size", "values", "count"
"""The columns after the box: number of rows, combinations of kept values, and number of rows of each."""

_KEY = re.compile(rb'\{"qi_group":"([0-9]+-[0-9]+)"\}')


def group_key(shard: int, qi_group: int) -> bytes:
    """The key of a QI group's message.

    >>> group_key(0, 17)
    b'{"qi_group":"0-17"}'
    """
    return b'{"qi_group":"%d-%d"}' % (shard, qi_group)


def parse_group_key(key: bytes) -> tuple[int, int]:
    """Shard and number. Raises LawViolated if the key is not exactly what `group_key` writes.

    >>> parse_group_key(b'{"qi_group":"0-17"}')
    (0, 17)
    """
    match = _KEY.fullmatch(key)
    if match is None:
        raise LawViolated('the key of a record is not of the form {"qi_group":"0-17"}')
    return parse_qi_group(match[1].decode())


def group_columns(table: Table) -> tuple[str, ...]:
    """Members of a message, in order."""
    return (QI_GROUP, *all_box_columns(table), SIZE, VALUES)


def value_columns(table: Table) -> tuple[str, ...]:
    """Members of the value of a record of `live`, in order."""
    return group_columns(table) if table.form == GROUPS else published_columns(table)


def values_template(table: Table) -> bytes:
    """A template of one combination of kept values, for their texts and the number of rows."""
    names = (msgspec.json.encode(column.name).replace(b"%", b"%%") for column in table.kept)
    return b"{" + b"".join(b"%b:%%b," % name for name in names) + b'"count":%d}'


def counted(slots: Iterable[Values]) -> dict[Values, int]:
    """The number of rows of each combination of kept values, in the order of their texts.

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
    """Reads messages back. Raises LawViolated for what `form: groups` never publishes."""

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
        try:
            listed = msgspec.json.decode(entries, type=list[msgspec.Raw])
        except msgspec.DecodeError:
            raise LawViolated(f"column {VALUES} does not hold a list") from None
        for entry in listed:
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


# A QI group as rows of two tables that only its number joins (Tong et al. 2010, section 3.2).
#
# * The quasi-identifier table (QIT) has each combination of cells of a QI group once, not generalized. A row is its own
#   key: `{"qi_group":"0-17","age_lo":21,"age_hi":25,"sex":"female"}`.
# * The sensitive table (STT) has each combination of kept values of a QI group, with its number of rows. The key is
#   `{"qi_group":"0-17","problem":"flu"}`, the value the same with a `count`.
# * How many rows of a group have which cells is not published, because repeated rows would then be recognizable. The
#   paper links the sensitive values of one individual by numbers; a stream does not publish these.

Cells = tuple[int, ...]
"""One cell per quasi-identifier."""


def qit_columns(table: Table) -> tuple[str, ...]:
    """Columns of the quasi-identifier table."""
    return (QI_GROUP, *all_box_columns(table))


def stt_columns(table: Table) -> tuple[str, ...]:
    """Columns of the sensitive table."""
    return (QI_GROUP, *(column.name for column in table.kept), COUNT)


def qit_row(table: Table, name: str, cells: Cells) -> bytes:
    """A row of the quasi-identifier table, which is also its key."""
    return b'{"qi_group":"%b"%b}' % (name.encode(), box_text(table, cells, cells))


def stt_key(table: Table, name: str, values: Values) -> bytes:
    """The key of a row of the sensitive table."""
    named = (msgspec.json.encode(column.name) for column in table.kept)
    members = b"".join(b",%b:%b" % pair for pair in zip(named, values, strict=True))
    return b'{"qi_group":"%b"%b}' % (name.encode(), members)


def stt_row(key: bytes, count: int) -> bytes:
    """The row of the sensitive table that has this key.

    >>> stt_row(b'{"qi_group":"0-17","problem":"flu"}', 2)
    b'{"qi_group":"0-17","problem":"flu","count":2}'
    """
    return b'%b,"count":%d}' % (key[:-1], count)


class JoinReader:
    """Reads rows of the two tables back. Raises LawViolated for what `form: lossy-join` never publishes."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._qit, self._stt = TextsReader(qit_columns(table)), TextsReader(stt_columns(table))
        self._stt_key = TextsReader(stt_columns(table)[:-1])
        self._box = BoxReader(table)
        self._values = ValuesReader(table)

    def read_qit(self, row: bytes) -> tuple[tuple[int, int], Cells]:
        """QI group (shard and number) and cells of a row, or a key, of the quasi-identifier table."""
        name, *box = self._qit.read(row)
        lo, hi = self._box.read(tuple(box))
        if lo != hi:
            raise LawViolated("the quasi-identifier table holds a row of more than one cell")
        return parse_qi_group(read_text(name, QI_GROUP)), lo

    def read_stt(self, row: bytes) -> tuple[tuple[int, int], Values, int]:
        """QI group, kept values and number of rows."""
        name, *texts, count = self._stt.read(row)
        return parse_qi_group(read_text(name, QI_GROUP)), self._values.read(texts), read_count(count, COUNT)

    def read_stt_key(self, key: bytes) -> tuple[tuple[int, int], Values]:
        """QI group and kept values of a key of the sensitive table."""
        name, *texts = self._stt_key.read(key)
        return parse_qi_group(read_text(name, QI_GROUP)), self._values.read(texts)

    def is_qit_key(self, key: bytes) -> bool:
        """True if a key is one of the quasi-identifier table. Raises LawViolated for a key of neither table."""
        for reader, answer in ((self._qit, True), (self._stt_key, False)):
            try:
                reader.read(key)
            except LawViolated:
                continue
            return answer
        raise LawViolated("the key of a record has the columns of neither of the two tables")


def distinct_cells(rows: Sequence[Cells]) -> tuple[Cells, ...]:
    """Each combination of cells once, in order."""
    return tuple(sorted(set(rows)))


def cells_by_group(table: Table, rows: Iterable[tuple[int, Sequence[int]]]) -> dict[int, list[Cells]]:
    """The cells of rows by QI group; empty unless the form publishes them. rows: number of a QI group, and codes."""
    found: dict[int, list[Cells]] = {}
    per_cell = table.space.codes_per_cell.tolist()
    for number, row in rows if table.form == LOSSY_JOIN else ():
        cells = tuple(code // codes for code, codes in zip(row, per_cell, strict=True))
        found.setdefault(number, []).append(cells)
    return found
