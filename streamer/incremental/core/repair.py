"""What an event leaves behind is mended: boxes shrink, broken groups merge, groups of 2k and more are cut.

The rules of this file
----------------------
* Groups that lost rows get their box again from their members (by a deletion: unless `shrink` is off), empty ones
  dissolve.
* Then the lowest-numbered group that does not hold the model (k, and what `core.model` adds to it) merges with that of
  highest QGSSD (Song et al. 2009, algorithm DEL), until none is left; the group with more rows keeps its number (equal:
  the lower).
* With no group to merge with, rows are *pending*. As soon as pending rows hold the model together, they form a group.
* Where published rows have a price (`engine: {repair: ...}`), boxes shrink, groups adopt rows instead of merging, and
  what the event touched is improved in the end, as `streamer.incremental.core.local_repair` says.
* Then groups that an insertion or a merge brought to 2k are cut, lowest number first.
* A half that needs a number takes the lowest one that a merge for the same change has freed: nothing was published in
  between, so readers see that group's rows rewritten instead of all removed and as many added. Else it takes a new one.
* Every step looks for room before it begins. `repaired` can be called again: it goes on with the heaps as they are.
"""

from __future__ import annotations

from streamer.incremental.core.cut import cut
from streamer.incremental.core.heap import pop, push
from streamer.incremental.core.journal import take_up, tell_origin
from streamer.incremental.core.layout import Shard
from streamer.incremental.core.lists import partner
from streamer.incremental.core.local_repair import adopted, improved
from streamer.incremental.core.model import holds, pending_hold
from streamer.incremental.core.moves import (
    absorb,
    dissolve,
    finish,
    forget,
    gather,
    is_short,
    larger_first,
    new_group,
    set_box,
    shrink,
)
from streamer.incremental.core.record_types import (
    BROKEN,
    FORMED,
    FREED,
    HI,
    LO,
    MERGED,
    MOVED,
    NOTHING_TO_MERGE_WITH,
    PENDING,
    SPLIT,
    STOPPED,
    TO_CUT,
    TO_SETTLE,
)
from streamer.incremental.core.waiting import ALONE, MOVING, SHRINKING, cut_later, look_later, mend_later
from streamer.jit import part


@part
def repaired(s: Shard) -> bool:
    """Repairs to the end; False where room ran out."""
    state, going_on = s.state[0], True
    while going_on:
        if not (settled(s) and merged(s) and pending_formed(s) and all_cut(s)):
            return False
        outcome = improved(s)
        if outcome == STOPPED:
            return False
        going_on = outcome == MOVED
    s.work.heap_size[FREED] = 0
    state.event += 1
    state.spent = 0
    return True


@part
def settled(s: Shard) -> bool:
    """Boxes are those of the members again, empty groups are gone, broken groups are found."""
    state = s.state[0]
    while s.work.heap_size[TO_SETTLE] > 0:
        g = s.work.heap[TO_SETTLE, 0].named
        group = s.groups.group[g]
        if is_short(s, group.members, 1):
            return False
        pop(s.work, TO_SETTLE)
        why, group.to_settle = group.to_settle, ALONE
        if group.members == 0:
            forget(s, g)
            continue
        if why == MOVING or (why == SHRINKING and state.shrink != 0):
            shrink(s, g, False)
        if not holds(s, g):
            mend_later(s, g)
        look_later(s, g)
    return True


@part
def merged(s: Shard) -> bool:
    """Every group holds the model, or none is left."""
    state = s.state[0]
    while s.work.heap_size[BROKEN] > 0:
        g = int(s.work.heap[BROKEN, 0].named)
        group = s.groups.group[g]
        if group.broken == 0:
            pop(s.work, BROKEN)
        elif state.n_groups == 1:
            if is_short(s, group.members, 1):
                return False
            pop(s.work, BROKEN)
            dissolve(s, g)
        else:
            outcome = adopted(s, g)
            if outcome == STOPPED:
                return False
            if outcome == MOVED:
                pop(s.work, BROKEN)
                continue
            other = partner(s, g)
            if other < 0:
                state.fault, state.fault_at = NOTHING_TO_MERGE_WITH, group.number
                return False
            if is_short(s, group.members + s.groups.group[other].members, 2):
                return False
            pop(s.work, BROKEN)
            merge(s, g, other)
    return True


@part
def merge(s: Shard, g: int, other: int) -> None:
    """Two groups become one, around the boxes of both where these are tight, else around their members."""
    state, group = s.state[0], s.groups.group
    stays, goes = larger_first(s, g, other)
    group[stays].broken = group[stays].to_cut = 0
    tight = state.shrink != 0 and state.price == 0.0
    hull = s.work.hull[0]
    for j in range(hull.shape[1]):
        hull[LO, j] = min(s.groups.box[stays, LO, j], s.groups.box[goes, LO, j])
        hull[HI, j] = max(s.groups.box[stays, HI, j], s.groups.box[goes, HI, j])
    absorb(s, stays, goes)
    tell_origin(s, stays, MERGED)
    if tight:
        for j in range(hull.shape[1]):
            s.groups.box[stays, LO, j], s.groups.box[stays, HI, j] = hull[LO, j], hull[HI, j]
        set_box(s, stays)
    else:
        finish(s, stays)
    push(s.work, FREED, group[goes].number, group[goes].entry)
    state.merges += 1
    if not holds(s, stays):
        mend_later(s, stays)
    elif state.recut != 0:
        cut_later(s, stays)
    else:
        if group[stays].raw != 0:
            finish(s, stays)
        look_later(s, stays)


@part
def pending_formed(s: Shard) -> bool:
    """Rows that wait form a QI group as soon as they hold the model together."""
    state = s.state[0]
    if state.n_groups > 0 or not pending_hold(s):
        return True
    if is_short(s, state.n_pending, 1):
        return False
    n = 0
    for place in range(state.n_places):
        if s.rows.row[place].group == PENDING:
            s.work.ints[0, n] = place
            n += 1
    g = new_group(s, state.qi_group_next)
    state.qi_group_next += 1
    gather(s, g, 0, n)
    tell_origin(s, g, FORMED)
    cut_later(s, g)
    return True


@part
def all_cut(s: Shard) -> bool:
    """No group that gained rows can be cut."""
    state = s.state[0]
    while s.work.heap_size[TO_CUT] > 0:
        g = int(s.work.heap[TO_CUT, 0].named)
        group = s.groups.group[g]
        if is_short(s, group.members, 2):
            return False
        pop(s.work, TO_CUT)
        if group.to_cut == 0:
            continue
        group.to_cut = 0
        position, lower_stays = 0, True
        if group.count >= 2 * state.k:
            position, lower_stays = cut(s, g)
        if position > 0:
            split(s, g, position, lower_stays)
        else:
            if group.raw != 0:
                finish(s, g)
            look_later(s, g)
    return True


@part
def split(s: Shard, g: int, position: int, lower_stays: bool) -> None:
    """The halves of a cut, as `cut` left them, become two groups; both may be cut again."""
    state, n = s.state[0], s.groups.group[g].members
    if s.work.heap_size[FREED] > 0:
        number, entry = pop(s.work, FREED)
        fresh = new_group(s, number)
        take_up(s, fresh, entry)
    else:
        fresh = new_group(s, state.qi_group_next)
        state.qi_group_next += 1
    stays, goes = (0, position) if lower_stays else (position, 0)
    n_stays = position if lower_stays else n - position
    gather(s, g, stays, n_stays)
    gather(s, fresh, goes, n - n_stays)
    tell_origin(s, g, SPLIT)
    tell_origin(s, fresh, SPLIT)
    state.splits += 1
    cut_later(s, g)
    cut_later(s, fresh)
