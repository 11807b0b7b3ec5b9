"""The net effect of a batch as one run of numbers, which Python reads from the front.

The numbers, in `Export.numbers`:

* how many rows changed and are there; of each place, number of its values, of its individual, of its QI group (0:
  pending);
* how many QI groups were touched; of each its number, whether readers see a difference, its rows before and now (0: it
  was not, or is not, there), how it was formed anew (0: it was not); where they see one and it was there, box (LO, then
  HI) and slots as they were; if it is there, box, slots and members as they are;
* how many similarity lists differ; of each the number of its QI group, its entries (NONE: there is no list any more)
  and the numbers of the groups that it names. Of a list that is there, `Export.scores` has the floor, then the scores.
"""

from __future__ import annotations

from typing import Any

from streamer.incremental.core.layout import Shard
from streamer.incremental.core.lists import differs
from streamer.incremental.core.record_types import EXPORT, FREE, HI, LINKS, LO, NONE, PENDING
from streamer.jit import part


@part
def exported(s: Shard) -> bool:
    """Writes the net effect; False where room ran out."""
    needed, scores = numbers_needed(s), (LINKS + 1) * s.state[0].n_lists_before
    if needed > s.export.numbers.shape[0] or scores > s.export.scores.shape[0]:
        s.state[0].short, s.state[0].short_by = EXPORT, max(needed, scores)
        return False
    at = put_rows(s, 0)
    at = put_groups(s, at)
    s.state[0].n_numbers = put_lists(s, at)
    return True


@part
def numbers_needed(s: Shard) -> int:
    """Of the numbers, at most."""
    state, d = s.state[0], s.groups.box.shape[2]
    needed = 3 + 4 * state.n_touched + (5 + 4 * d) * state.n_journal + (3 + LINKS) * state.n_lists_before
    for e in range(state.n_journal):
        entry = s.journal.entry[e]
        needed += entry.members
        if entry.group != NONE:
            needed += 2 * s.groups.group[entry.group].members
    return needed


@part
def put_rows(s: Shard, at: int) -> int:
    """The rows; returns where the numbers end."""
    numbers, begin = s.export.numbers, at
    at += 1
    for i in range(s.state[0].n_touched):
        place = s.journal.touched[i]
        row = s.rows.row[place]
        if row.group != FREE:
            numbers[at], numbers[at + 1], numbers[at + 2] = place, row.values, row.who
            numbers[at + 3] = 0 if row.group == PENDING else s.groups.group[row.group].number
            at += 4
    numbers[begin] = (at - begin - 1) // 4
    return at


@part
def put_groups(s: Shard, at: int) -> int:
    """The QI groups; returns where the numbers end."""
    numbers, journal, pool = s.export.numbers, s.journal, s.groups.pool
    numbers[at] = s.state[0].n_journal
    at += 1
    for e in range(s.state[0].n_journal):
        entry = journal.entry[e]
        g, before = entry.group, entry.members
        now = 0 if g == NONE else s.groups.group[g].members
        seen = is_seen(s, e)
        numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3] = entry.number, seen, before, now
        numbers[at + 4] = entry.origin
        at += 5
        if seen != 0 and before > 0:
            at = put_box(numbers, at, journal.box, e)
            at = put_run(numbers, at, journal.slots_before, entry.slots, before)
        if now > 0:
            at = put_box(numbers, at, s.groups.box, g)
            at = put_run(numbers, at, pool[1], s.groups.group[g].block, now)
            at = put_run(numbers, at, pool[0], s.groups.group[g].block, now)
    return at


@part
def put_box(numbers: Any, at: int, box: Any, which: int) -> int:
    """One box; returns where the numbers end."""
    for side in (LO, HI):
        for j in range(box.shape[2]):
            numbers[at] = box[which, side, j]
            at += 1
    return at


@part
def put_run(numbers: Any, at: int, entries: Any, first: int, n: int) -> int:
    """n entries; returns where the numbers end."""
    for i in range(n):
        numbers[at + i] = entries[first + i]
    return at + n


@part
def is_seen(s: Shard, e: int) -> int:
    """1 where readers see a QI group differently from before the batch."""
    entry, journal = s.journal.entry[e], s.journal
    g = entry.group
    if g == NONE:
        return 1 if entry.members > 0 else 0
    group = s.groups.group[g]
    if group.members != entry.members:
        return 1
    for i in range(group.members):
        if journal.slots_before[entry.slots + i] != s.groups.pool[1, group.block + i]:
            return 1
    for j in range(journal.box.shape[2]):
        if journal.box[e, LO, j] != s.groups.box[g, LO, j] or journal.box[e, HI, j] != s.groups.box[g, HI, j]:
            return 1
    return 0


@part
def put_lists(s: Shard, at: int) -> int:
    """The similarity lists that differ, with their scores; returns where the numbers end."""
    numbers, scores, begin, score = s.export.numbers, s.export.scores, at, 0
    numbers[begin] = 0
    at += 1
    for i in range(s.state[0].n_lists_before):
        if not differs(s, i):
            continue
        numbers[begin] += 1
        owner = s.groups.group[s.lists.before[i].owner]
        numbers[at], numbers[at + 1] = owner.number, NONE
        at += 2
        if owner.list == NONE:
            continue
        one = s.lists.one[owner.list]
        numbers[at - 1], scores[score] = one.n, one.floor
        score += 1
        for j in range(one.n):
            link = s.lists.link[owner.list * LINKS + j]
            numbers[at + j], scores[score + j] = s.groups.group[link.other].number, link.score
        at, score = at + one.n, score + one.n
    s.state[0].n_scores = score
    return at
