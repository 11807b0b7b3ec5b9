"""A QI group as readers know it, gathered record by record, in every form of publication.

* A form says by a record's key to which QI group the record belongs, and which item of it it is. An item is written or
  removed. The laws ask what follows from all items: how many rows, which values, where the rows may be.
* `faults` are the laws of one form alone, by name and sentence; a sentence never holds a value.
* The keys tell the topics of a lossy join apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import msgspec

from streamer.errors import LawViolated
from streamer.incremental.topics import LIVE, QIT, STT
from streamer.table.arrays import Ints
from streamer.table.published import groups
from streamer.table.published import rows as published_rows
from streamer.table.published.rows import read_text
from streamer.table.row import Values
from streamer.table.schema import GROUPS, LOSSY_JOIN, ROWS, Table

QIGroupId = tuple[int, int]
"""Shard and number."""

Boxed = published_rows.PublishedRow | groups.PublishedMessage


class Item(NamedTuple):
    """A part of what is published of a QI group, as one record: a slot, the whole group, a row of a lossy join."""

    qi_group: QIGroupId
    key: Hashable  # within the QI group
    name: str = ""  # in a sentence


Fault = tuple[str, str]
"""A law and what is wrong."""


class GroupSeen(Protocol):
    """One QI group by its records."""

    @property
    def is_empty(self) -> bool:
        """True if nothing of it is published."""

    @property
    def values(self) -> Sequence[Values]:
        """The kept values of its rows, one for each row."""

    def put(self, key: Hashable, value: bytes, name: str) -> None:
        """Writes an item of the QI group called `name`. Raises LawViolated if it is not of the published form."""

    def remove(self, key: Hashable) -> bool:
        """Removes an item; False if it is not there."""

    def faults(self) -> Iterator[Fault]:
        """The broken laws of the form; most forms have none of their own."""
        return iter(())

    @property
    def box(self) -> tuple[Sequence[int], Sequence[int]] | None:
        """Its first and last cells, (d,) each; None for a form that publishes no box."""
        return None

    def misplaced(self, cells: Ints) -> int | None:
        """The number of an attribute in which the group's rows, with cells (n, d), cannot be; None: they can."""

    def wider(self, lo: Ints, hi: Ints) -> int | None:
        """The number of an attribute in which the group's box is not the one from lo to hi, (d,); None: it is.

        None, too, for a form that publishes cells and no box.
        """
        return None


class Form(Protocol):
    """Reads one form of publication."""

    def __init__(self, table: Table) -> None: ...

    def item_of(self, key: bytes) -> Item:
        """The item of a record. Raises LawViolated for a key of another form."""

    def rewritten(self, key: bytes) -> bytes:
        """The published bytes of a key that any tool may have written. Raises LawViolated."""

    def topic(self, key: bytes) -> str:
        """The kind of topic that holds a record."""
        return LIVE

    def new(self) -> GroupSeen:
        """An empty QI group."""


class OtherGroupNamed(Exception):
    """A record's value names another QI group than its key."""


def group_name(qi_group: QIGroupId) -> str:
    return published_rows.qi_group_name(*qi_group)


# -- rows -------------------------------------------------------------------------------------------------------------


class RowsForm(Form):
    def __init__(self, table: Table) -> None:
        self.table = table
        self.reader = published_rows.RowReader(table)
        self._key = published_rows.TextsReader([published_rows.QI_GROUP, "slot"])

    def item_of(self, key: bytes) -> Item:
        parsed = published_rows.parse_key(key)
        return Item((parsed.shard, parsed.qi_group), parsed.slot, f", slot {parsed.slot}")

    def rewritten(self, key: bytes) -> bytes:
        name, slot = self._key.read(key)
        return b'{"qi_group":%b,"slot":%b}' % (_canonical_name(name), slot)

    def new(self) -> RowsSeen:
        return RowsSeen(self)


class RowsSeen(GroupSeen):
    """The rows of a QI group by slot."""

    def __init__(self, form: RowsForm) -> None:
        self._form = form
        self.slots: dict[Hashable, published_rows.PublishedRow] = {}

    @property
    def is_empty(self) -> bool:
        return not self.slots

    @property
    def values(self) -> Sequence[Values]:
        return [row.values for row in self.slots.values()]

    def put(self, key: Hashable, value: bytes, name: str) -> None:
        row = self._form.reader.read(value)
        if row.qi_group != name:
            raise OtherGroupNamed
        self.slots[key] = row

    def remove(self, key: Hashable) -> bool:
        return self.slots.pop(key, None) is not None

    def faults(self) -> Iterator[Fault]:
        missing = next((slot for slot in range(len(self.slots)) if slot not in self.slots), None)
        if missing is not None:
            yield "slots", f"slot {missing} of {len(self.slots)} is missing"
        first = next(iter(self.slots.values()))
        for row in self.slots.values():
            if row.lo != first.lo or row.hi != first.hi:
                names = [attribute.name for attribute in self._form.table.attributes]
                differ = (j for j in range(len(names)) if (row.lo[j], row.hi[j]) != (first.lo[j], first.hi[j]))
                yield "one box", f"its rows differ in column {names[next(differ)]}"

    @property
    def box(self) -> tuple[Sequence[int], Sequence[int]]:
        first = next(iter(self.slots.values()))
        return first.lo, first.hi

    def misplaced(self, cells: Ints) -> int | None:
        return _outside_box(next(iter(self.slots.values())), cells)

    def wider(self, lo: Ints, hi: Ints) -> int | None:
        return _another_box(next(iter(self.slots.values())), lo, hi)


# -- whole QI groups --------------------------------------------------------------------------------------------------


class GroupsForm(Form):
    def __init__(self, table: Table) -> None:
        self.reader = groups.GroupReader(table)
        self._key = published_rows.TextsReader([published_rows.QI_GROUP])

    def item_of(self, key: bytes) -> Item:
        return Item(groups.parse_group_key(key), None)

    def rewritten(self, key: bytes) -> bytes:
        (name,) = self._key.read(key)
        return b'{"qi_group":%b}' % _canonical_name(name)

    def new(self) -> MessageSeen:
        return MessageSeen(self)


class MessageSeen(GroupSeen):
    """The last message of a QI group."""

    def __init__(self, form: GroupsForm) -> None:
        self._form = form
        self._message: groups.PublishedMessage | None = None

    @property
    def is_empty(self) -> bool:
        return self._message is None

    @property
    def values(self) -> Sequence[Values]:
        return _values(self._message.counts) if self._message else []

    def put(self, key: Hashable, value: bytes, name: str) -> None:
        message = self._form.reader.read(value)
        if message.qi_group != name:
            raise OtherGroupNamed
        self._message = message

    def remove(self, key: Hashable) -> bool:
        found, self._message = self._message is not None, None
        return found

    @property
    def box(self) -> tuple[Sequence[int], Sequence[int]] | None:
        return (self._message.lo, self._message.hi) if self._message else None

    def misplaced(self, cells: Ints) -> int | None:
        return _outside_box(self._message, cells) if self._message else 0

    def wider(self, lo: Ints, hi: Ints) -> int | None:
        return _another_box(self._message, lo, hi) if self._message else 0


def _values(counts: Mapping[Values, int]) -> list[Values]:
    return [values for values, rows in counts.items() for _ in range(rows)]


def _canonical_name(text: bytes) -> bytes:
    return msgspec.json.encode(read_text(text, published_rows.QI_GROUP))


def _outside_box(seen: Boxed, cells: Ints) -> int | None:
    outside = ((cells < list(seen.lo)) | (cells > list(seen.hi))).any(axis=0)
    return int(outside.argmax()) if outside.any() else None


def _another_box(seen: Boxed, lo: Ints, hi: Ints) -> int | None:
    edges = zip(seen.lo, seen.hi, lo.tolist(), hi.tolist(), strict=True)
    return next((j for j, (low, high, least, most) in enumerate(edges) if (low, high) != (least, most)), None)


# -- the two tables of a lossy join -----------------------------------------------------------------------------------


class JoinForm(Form):
    """Cells in one table, values in the other."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.reader = groups.JoinReader(table)

    def item_of(self, key: bytes) -> Item:
        if self.rewritten(key) != key:
            raise LawViolated("the key of a record is not written as it is published")
        if self.reader.is_qit_key(key):
            qi_group, cells = self.reader.read_qit(key)
            return Item(qi_group, (QIT, cells), ", a row of cells")
        qi_group, values = self.reader.read_stt_key(key)
        return Item(qi_group, (STT, values), ", a row of values")

    def rewritten(self, key: bytes) -> bytes:
        if self.reader.is_qit_key(key):
            qi_group, cells = self.reader.read_qit(key)
            return groups.qit_row(self.table, group_name(qi_group), cells)
        qi_group, values = self.reader.read_stt_key(key)
        return groups.stt_key(self.table, group_name(qi_group), values)

    def topic(self, key: bytes) -> str:
        return QIT if self.reader.is_qit_key(key) else STT

    def new(self) -> JoinSeen:
        return JoinSeen(self)


class JoinSeen(GroupSeen):
    """The rows of a QI group in either table."""

    def __init__(self, form: JoinForm) -> None:
        self._form = form
        self.cells: set[groups.Cells] = set()
        self.counts: dict[Values, int] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.cells or self.counts)

    @property
    def values(self) -> Sequence[Values]:
        return _values(self.counts)

    def put(self, key: Any, value: bytes, name: str) -> None:
        table, what = key
        found: groups.Cells | Values
        if table == QIT:
            qi_group, found = self._form.reader.read_qit(value)
            self.cells.add(what)
        else:
            qi_group, found, self.counts[what] = self._form.reader.read_stt(value)
        if group_name(qi_group) != name:
            raise OtherGroupNamed
        if found != what:
            raise LawViolated("a row does not say what its key says")

    def remove(self, key: Any) -> bool:
        table, what = key
        if table == STT:
            return self.counts.pop(what, None) is not None
        found = what in self.cells
        self.cells.discard(what)
        return found

    def faults(self) -> Iterator[Fault]:
        if not self.cells:
            yield "two tables", "it has values, but no cells"
        if len(self.cells) > len(self.values):
            yield "two tables", f"it has {len(self.cells)} different cells, but {len(self.values)} rows"

    def misplaced(self, cells: Ints) -> int | None:
        rows = set(map(tuple, cells.tolist()))
        if rows == self.cells:
            return None
        d = cells.shape[1]
        return next((j for j in range(d) if {row[j] for row in rows} != {row[j] for row in self.cells}), 0)


FORMS: Mapping[str, type[Form]] = MappingProxyType({ROWS: RowsForm, GROUPS: GroupsForm, LOSSY_JOIN: JoinForm})
