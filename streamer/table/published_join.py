"""A QI group as rows of two tables that only its number joins: their columns, keys, bytes, and the way back.

The rules of this file
----------------------
* The quasi-identifier table (QIT) says which cells occur in which QI group, ungeneralized and each once. A row of it is
  its own key: `{"qi_group":"0-17","age_lo":21,"age_hi":25,"sex":"female"}`, the smallest cells that table.yaml knows.
* The sensitive table (STT) says which combinations of kept values occur in which QI group, and in how many rows. The
  key is `{"qi_group":"0-17","problem":"flu"}`, the value the same with a `count`.
* Nothing but the QI group joins the two; none says how many rows of a group have which cells, else repeated rows would
  tell whose they are (Tong et al. 2010, section 3.2). What is left of an individual is one row among those of a group:
  numbers of individuals, by which the paper links the sensitive values of one, are not published change by change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from streamer.errors import LawViolated
from streamer.table.published import QI_GROUP, all_box_columns, box_text, parse_qi_group
from streamer.table.published_group import COUNT, read_count
from streamer.table.published_reading import BoxReader, TextsReader, ValuesReader, read_text
from streamer.table.row import Values
from streamer.table.schema import LOSSY_JOIN, Table

Cells = tuple[int, ...]
"""One cell per quasi-identifier."""


def qit_columns(table: Table) -> tuple[str, ...]:
    """Columns of the quasi-identifier table."""
    return (QI_GROUP, *all_box_columns(table))


def stt_columns(table: Table) -> tuple[str, ...]:
    """Columns of the sensitive table."""
    return (QI_GROUP, *(column.name for column in table.kept), COUNT)


def qit_row(table: Table, name: str, cells: Cells) -> bytes:
    """A row of the quasi-identifier table, which is its key, too."""
    return b'{"qi_group":"%b"%b}' % (name.encode(), box_text(table, cells, cells))


def stt_key(table: Table, name: str, values: Values) -> bytes:
    """The key of a row of the sensitive table."""
    named = (msgspec.json.encode(column.name) for column in table.kept)
    members = b"".join(b",%b:%b" % pair for pair in zip(named, values, strict=True))
    return b'{"qi_group":"%b"%b}' % (name.encode(), members)


def stt_row(key: bytes, count: int) -> bytes:
    """The row of the sensitive table that stands under a key.

    >>> stt_row(b'{"qi_group":"0-17","problem":"flu"}', 2)
    b'{"qi_group":"0-17","problem":"flu","count":2}'
    """
    return b'%b,"count":%d}' % (key[:-1], count)


class JoinReader:
    """Reads rows of the two tables back. Raises LawViolated for whatever `form: lossy-join` does not publish."""

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
        """Whether a key has the columns of the quasi-identifier table; raises LawViolated where it has neither's."""
        for reader, answer in ((self._qit, True), (self._stt_key, False)):
            try:
                reader.read(key)
            except LawViolated:
                continue
            return answer
        raise LawViolated("the key of a record has the columns of neither of the two tables")


def distinct_cells(rows: Sequence[Cells]) -> tuple[Cells, ...]:
    """The cells that occur, each once, in order."""
    return tuple(sorted(set(rows)))


def cells_by_group(table: Table, rows: Iterable[tuple[int, Sequence[int]]]) -> dict[int, list[Cells]]:
    """The cells of rows by QI group, where the form publishes them; rows: number of a QI group, and codes."""
    found: dict[int, list[Cells]] = {}
    per_cell = table.space.codes_per_cell.tolist()
    for number, row in rows if table.form == LOSSY_JOIN else ():
        cells = tuple(code // codes for code, codes in zip(row, per_cell, strict=True))
        found.setdefault(number, []).append(cells)
    return found
