"""A QI group and one of its neighbours are cut afresh: their rows are taken together and cut in two.

No single row may gain by a move where two that change places would, and no group dissolves where it and its neighbour
lie across each other. A cut of both together finds such things.

The rules of this file
----------------------
* Neighbours are the NEIGHBOURS groups of highest QGSSD; equal: the lower number. Together they have no more than
  ROWS_TOGETHER rows.
* The cut is that of a group (`streamer.incremental.core.cut`), with lots shuffled for the group that is looked at. What
  it saves: the loss of both groups, without the halves' and without the price of all rows of both. The neighbour with
  which most is saved is taken, if anything is; equal: the first.
* The larger half goes by the number of the group with more rows (equal: the lower number); of equal halves the one with
  the smallest shuffled lot. A half of 2k is cut again.
"""

from __future__ import annotations

from streamer.incremental.core.cut import cut_together
from streamer.incremental.core.expense import ROUNDING, rows_again
from streamer.incremental.core.journal import tell_origin
from streamer.incremental.core.layout import Shard
from streamer.incremental.core.moves import gather, is_short, larger_first
from streamer.incremental.core.record_types import CUT_AFRESH, DONE, MOVED, NONE, STOPPED
from streamer.incremental.core.search import top
from streamer.incremental.core.waiting import cut_later
from streamer.jit import part

NEIGHBOURS = 4

ROWS_TOGETHER = 256


@part
def cut_with_neighbour(s: Shard, g: int) -> int:
    """Cuts a group afresh together with the neighbour with which that gains most, if it gains."""
    state, group = s.state[0], s.groups.group
    state.n_found = 0
    top(s, g, NEIGHBOURS)
    best, most = NONE, 0.0
    for at in range(state.n_found):
        h = int(s.work.found[at].group)
        rows, most_saved = int(group[g].members + group[h].members), saved_at_most(s, g, h)
        if rows > ROWS_TOGETHER or most_saved <= most:
            continue
        if is_short(s, rows, 2):
            return STOPPED
        position, _, loss = cut_together(s, g, h, most_saved - most + ROUNDING)
        if position > 0 and most_saved - loss > most:
            best, most = h, most_saved - loss
    if best == NONE:
        return DONE
    state.spent += 1 + rows_of_both(s, g, best)
    position, lower_is_larger, _ = cut_together(s, g, best, saved_at_most(s, g, best) + ROUNDING)
    take_halves(s, g, best, position, lower_is_larger)
    return MOVED


@part
def rows_of_both(s: Shard, g: int, h: int) -> int:
    """How many rows are published again where both boxes change."""
    return rows_again(s, g, int(s.groups.group[g].members)) + rows_again(s, h, int(s.groups.group[h].members))


@part
def saved_at_most(s: Shard, g: int, h: int) -> float:
    """What a cut of both would save if its halves lost nothing."""
    one, other = s.groups.group[g], s.groups.group[h]
    return one.members * one.ncp + other.members * other.ncp - s.state[0].price * rows_of_both(s, g, h)


@part
def take_halves(s: Shard, g: int, h: int, position: int, lower_is_larger: bool) -> None:
    """The halves of a cut of both, as `cut_together` left them, become their members."""
    n = int(s.groups.group[g].members + s.groups.group[h].members)
    larger, smaller = larger_first(s, g, h)
    if lower_is_larger:
        gather(s, larger, 0, position)
        gather(s, smaller, position, n - position)
    else:
        gather(s, larger, position, n - position)
        gather(s, smaller, 0, position)
    tell_origin(s, g, CUT_AFRESH)
    tell_origin(s, h, CUT_AFRESH)
    cut_later(s, g)
    cut_later(s, h)
