"""The moves that keep a shard's QI groups at k: join, leave, merge below k, split at 2k (Song et al. 2009).

The rules of this file
----------------------
* A row joins the QI group of highest T-QGSSD (algorithm INS); outside the box, the box grows to hold it.
* Repairs: the lowest-numbered group below k merges with the group of highest QGSSD (algorithm DEL), until none is left;
  the group with more rows keeps its number (equal: the lower). Then groups that an insertion or a merge brought to 2k
  are cut, lowest number first; the larger half keeps the number (equal: the half with the smallest lot).
* With no group to merge with, rows are *pending*: accepted, not published. So rows are pending only while the shard has
  no QI group at all; as soon as they hold k together, they form one.
* Numbers of QI groups start at 1 and grow for ever; one whose published rows have gone never comes back. A half that
  needs a number takes the lowest one that a merge for the same change has freed: nothing was published in between, so
  readers see that group's rows rewritten instead of all removed and as many added. Else it takes a new one.
* k counts individuals where the table declares them, else rows.
* What is published says nothing but values: every order that decides something is one of these.
  - By cells, boxes, published values and counts: which QI group a row joins, which ones merge, where a group is cut,
    slots when a group is formed, which slot a removed or changed value frees.
  - By numbers of QI groups, which are public: ties of the similarities, which broken group is repaired and which large
    one is cut first, which freed number is used again, in which order records are published.
  - By lot: which of the rows in the same cells fall on which side of a cut, which of two equal halves keeps the number,
    in which order the rows of a statement leave and move. The order of `members`, of pending rows and of rows as a
    store hands them out decides nothing.
  - By the sequence of messages: which number is given next, which slot an insertion takes.
  - By the operator: the order of the groups that an initial table names.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from streamer.errors import LawViolated
from streamer.incremental.groups.cut import best_cut
from streamer.incremental.groups.index import GroupIndex
from streamer.incremental.groups.journal import Journal
from streamer.incremental.groups.kept import PENDING
from streamer.incremental.groups.lots import lots, shuffled
from streamer.incremental.groups.neighbours import SimilarityLists
from streamer.incremental.groups.qi_group import QIGroup
from streamer.incremental.groups.rows import Rows
from streamer.table.arrays import Ints
from streamer.table.row import Values
from streamer.table.schema import Table


class Upkeep:
    """The index table and the QI groups of one shard, with the moves between them; secret: what lots are drawn by."""

    def __init__(self, table: Table, secret: bytes = b"") -> None:
        self.table = table
        self._secret = secret
        self.space = table.space
        self.rows = Rows(table.space)
        self.groups: dict[int, QIGroup] = {}
        self.index = GroupIndex(table.space)
        self.lists = SimilarityLists(table.space, self.index)
        self.journal = Journal()
        self.qi_group_next = 1

    def take_journal(self) -> Journal:
        """What was touched since the last time; a new journal begins."""
        taken, self.journal = self.journal, Journal()
        return taken

    # -- rows in and out ------------------------------------------------------------------------------------------

    def join(self, place: int) -> QIGroup:
        """Puts a row without a QI group into the one of highest T-QGSSD."""
        rows = self.rows
        group = self.groups[self.index.locate(rows.cells[place])]
        self.journal.group(group)
        group.add(place, rows.rows[place])
        rows.assign(place, group.number)
        cells = rows.cells[place]
        if group.contains(cells):
            self._resize(group)
        else:
            lo, hi = np.minimum(group.lo, cells), np.maximum(group.hi, cells)
            self._set_box(group, *self.space.generalize(lo, hi))
        return group

    def leave(self, place: int) -> QIGroup | None:
        """Takes a row out of its QI group; the box stays as it is for now. None: the row was pending."""
        rows = self.rows
        number = rows.qi_group[place]
        if number == PENDING:
            return None
        group = self.groups[number]
        self.journal.group(group)
        group.remove(place, rows.rows[place])
        rows.assign(place, PENDING)
        self._resize(group)
        return group

    def recompute(self, groups: Iterable[QIGroup]) -> None:
        """Boxes again from the members."""
        for group in groups:
            if group.members:
                lo, hi = self._box(group.members)
                if (lo != group.lo).any() or (hi != group.hi).any():
                    self._set_box(group, lo, hi)

    def restore(self, number: int, lo: Ints, hi: Ints, members: list[int], slots: list[Values]) -> None:
        """A QI group as it was kept."""
        group = self.groups[number] = QIGroup(number, lo, hi, members, slots)
        group.count_rows(map(self.rows.rows.__getitem__, members))
        self.index.put(number, lo, hi, len(members))

    def recount(self, group: QIGroup) -> int:
        """What k counts of a group, from its members: what `group.count` has to be."""
        if self.table.individual is None:
            return len(group.members)
        return len({self.rows.rows[place].individual for place in group.members})

    # -- repairs --------------------------------------------------------------------------------------------------

    def repair(self, gained: Iterable[QIGroup] = (), lost: Iterable[QIGroup] = ()) -> None:
        """Merges what is below k, then cuts what reached 2k by an insertion or a merge."""
        to_cut = {group.number for group in gained}
        broken: set[int] = set()
        freed: list[int] = []
        for group in lost:
            if not group.members:
                self.dissolve(group)
            elif group.count < self.table.k:
                broken.add(group.number)
        while broken:
            number = min(broken)
            if len(self.groups) == 1:
                self.dissolve(self.groups[number])
                break
            survivor, absorbed = self._merge(number)
            freed.append(absorbed)
            broken -= {survivor, absorbed}
            to_cut -= {survivor, absorbed}
            if self.groups[survivor].count < self.table.k:
                broken.add(survivor)
            elif self.table.recut:
                to_cut.add(survivor)
        self.form_pending()
        self._cut(to_cut, sorted(freed, reverse=True))

    def form_pending(self) -> None:
        """Rows that wait form a QI group as soon as they hold the model together."""
        if not self.groups and self.rows.pending_count >= self.table.k:
            number = self.new_number()
            self.form(number, self.rows.pending())
            self._cut({number}, [])

    def _merge(self, number: int) -> tuple[int, int]:
        """Merges a group with the one of highest QGSSD; returns the number that stays and the one that goes."""
        partner = self.lists.partner(number, self.journal.boxes_changed, self.journal.boxes_gone)
        if partner is None:
            raise LawViolated(f"QI group {number} has nothing to merge with among {len(self.groups)}")
        pair = (self.groups[number], self.groups[partner])
        absorbed, survivor = sorted(pair, key=lambda group: (len(group.members), -group.number))
        self._forget(absorbed)
        self.form(survivor.number, survivor.members + absorbed.members)
        self.journal.merges += 1
        return survivor.number, absorbed.number

    def _cut(self, numbers: set[int], freed: list[int]) -> None:
        """Cuts groups of 2k and more; `freed`: numbers to use again, the lowest last."""
        while numbers:
            number = min(numbers)
            numbers.discard(number)
            halves = self._halves(self.groups[number]) if number in self.groups else None
            if halves is None:
                continue
            kept, given = halves
            fresh = freed.pop() if freed else self.new_number()
            self.form(number, kept)
            self.form(fresh, given)
            self.journal.splits += 1
            numbers |= {number, fresh}

    def _halves(self, group: QIGroup) -> tuple[list[int], list[int]] | None:
        """The members of both halves of a cut, first of the one that keeps the number; None: there is no cut."""
        if group.count < 2 * self.table.k:
            return None
        members, rows = group.members, self.rows.rows
        drawn = shuffled(self.lots(members), group.number, self.qi_group_next)
        individuals = None if self.table.individual is None else [rows[place].individual or "" for place in members]
        cut = best_cut(self.space, self.rows.cells[members], drawn, individuals, self.table.k)
        if cut is None:
            return None
        kept, given = sorted(cut, key=lambda half: (-len(half), int(drawn[half].min())))
        return [members[i] for i in kept.tolist()], [members[i] for i in given.tolist()]

    def lots(self, places: Iterable[int]) -> Ints:
        """The lots of rows, (n,) int64."""
        return lots(self._secret, map(self.rows.source_keys.__getitem__, places))

    # -- QI groups come and go ------------------------------------------------------------------------------------

    def form(self, number: int, members: list[int]) -> None:
        """A QI group anew from its members: smallest box, slots by sorted values."""
        rows = self.rows
        group = self.groups.get(number)
        if group is None:
            nowhere = np.full(self.space.d, -1, dtype=np.int64)
            group = self.groups[number] = QIGroup(number, nowhere, nowhere, [], [])
        self.journal.group(group, rows=len(members))
        group.replace(members, map(rows.rows.__getitem__, members))
        for place in members:
            if rows.qi_group[place] != number:
                rows.assign(place, number)
                self.journal.source_keys.add(rows.source_keys[place])
        self._set_box(group, *self._box(members))

    def dissolve(self, group: QIGroup) -> None:
        """Removes a QI group; its rows, if any, are pending."""
        for place in group.members:
            self.rows.assign(place, PENDING)
            self.journal.source_keys.add(self.rows.source_keys[place])
        self._forget(group)

    def new_number(self) -> int:
        self.qi_group_next += 1
        return self.qi_group_next - 1

    def _forget(self, group: QIGroup) -> None:
        self.journal.group(group)
        self.journal.gone(group)
        del self.groups[group.number]
        self.index.remove(group.number)

    def _set_box(self, group: QIGroup, lo: Ints, hi: Ints) -> None:
        group.lo, group.hi = lo, hi
        self.index.put(group.number, lo, hi, len(group.members))
        self.journal.box(group)

    def _resize(self, group: QIGroup) -> None:
        self.index.resize(group.number, len(group.members))
        self.journal.size(group)

    def _box(self, members: list[int]) -> tuple[Ints, Ints]:
        return self.space.box_of_cells(self.rows.cells[members])
