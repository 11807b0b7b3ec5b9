"""The journal: what a batch has touched so far. The net effect is made of it; nothing here decides anything.

A QI group is remembered as it was published before its first change in the batch. At the end it is compared with what
it is then. So a batch that changes a group ten times publishes it once, and one that undoes its change publishes
nothing.
"""

from __future__ import annotations

from streamer.incremental.core.layout import ENTRIES, GONE, HI, LO, NONE, SLOTS_BEFORE, TOUCHED, Shard


def remember(s: Shard, g: int, rows: int) -> None:
    """Remembers a group that is about to change; up to `rows` more of its rows may be published for it."""
    group, state, journal = s.groups.group[g], s.state[0], s.journal
    if group.entry == NONE:
        entry = journal.entry[state.n_journal]
        group.entry = state.n_journal
        state.n_journal += 1
        entry.number, entry.group, entry.members, entry.slots = group.number, g, group.members, state.n_slots_before
        entry.origin = 0
        for i in range(group.members):
            journal.slots_before[state.n_slots_before + i] = s.groups.pool[1, group.block + i]
        state.n_slots_before += group.members
        if group.members > 0:
            for j in range(s.groups.box.shape[2]):
                journal.box[group.entry, LO, j] = s.groups.box[g, LO, j]
                journal.box[group.entry, HI, j] = s.groups.box[g, HI, j]
        state.rows_published_max += group.members
    state.rows_published_max += rows


def note_origin(s: Shard, g: int, origin: int) -> None:
    """Notes how a remembered group was formed; the last origin of the batch counts."""
    s.journal.entry[s.groups.group[g].entry].origin = origin


def mark_touched(s: Shard, index: int) -> None:
    """Notes that a row or its QI group has changed."""
    row, state = s.rows.row[index], s.state[0]
    if row.touched == 0:
        row.touched = 1
        s.journal.touched[state.n_touched] = index
        state.n_touched += 1


def mark_gone(s: Shard, g: int) -> None:
    group, state = s.groups.group[g], s.state[0]
    s.journal.entry[group.entry].group = NONE
    s.journal.gone[state.n_gone] = g
    state.n_gone += 1


def journal_is_short(s: Shard, rows: int, groups: int) -> bool:
    """True if the journal lacks capacity for `rows` and `groups` more; the state then says of what."""
    state, journal = s.state[0], s.journal
    if state.n_journal + groups > journal.entry.shape[0]:
        state.short, state.short_by = ENTRIES, state.n_journal + groups
    elif state.n_slots_before + rows > journal.slots_before.shape[0]:
        state.short, state.short_by = SLOTS_BEFORE, state.n_slots_before + rows
    elif state.n_touched + rows > journal.touched.shape[0]:
        state.short, state.short_by = TOUCHED, state.n_touched + rows
    elif state.n_gone + groups > journal.gone.shape[0]:
        state.short, state.short_by = GONE, state.n_gone + groups
    else:
        return False
    return True
