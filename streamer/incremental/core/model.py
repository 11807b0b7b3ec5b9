"""The privacy model of a shard: what every QI group must reach beyond k, counted row by row, and whether it does.

The rules of this file
----------------------
* A model is a conjunction (`streamer.privacy.models`). k, of individuals or rows, is `state.k` and `group.count`. All
  else are *demands*, one for each subject: so many distinct ones, and none with more than a share of the rows. Subjects
  are individuals, or what a sensitive column publishes, or its ancestors at a level; Python numbers them.
* Counts follow every row that comes, goes or is rewritten (`moves.assign`, `step.write`), of QI groups and of the
  pending rows. No group is counted anew but at a drain, where the law is checked.
* In the tally, beside rows by (group, individual), stand rows by (group, -2 - number of a subject), and for shares how
  many subjects have n rows, by (-3 - group, n * demands + demand): so the largest count falls by one exactly when the
  last subject that had it loses a row, and nobody looks for the next.
* Distinct subjects are lost by deletions and rewrites alone. A *share* breaks by an insertion too: where the newcomer's
  value, or its individual, is too frequent in the group that it joins; and a rewrite of a sensitive value, which moves
  no row, may break either. Such a group counts as broken like one below k, and is mended likewise at the end of the
  event: the lowest-numbered broken group merges with its nearest until all hold. (To cut it would not help: where both
  halves hold, the whole does.) Where one group is left and does not hold, its rows are pending. As soon as all pending
  rows hold the model together, they form a group.
* That ends, though shares do not grow with a group: each merge leaves one group fewer, whatever it makes of the shares;
  and a cut makes only groups that hold, which nothing breaks before the next event.
* So rows are pending exactly while all of them together break the model: models are closed under union, so QI groups
  that hold, of all rows, would hold as one. (Rows that an initial table leaves in no group wait as well.)
* A group is cut where both halves hold. `may_be_cut` says without a look at the rows that it cannot be: two halves with
  m distinct subjects each need 2m rows that differ within their half: of a subject with one row one, of every other at
  most two. So a group whose values are all alike, however large, is not searched at every insertion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamer.incremental.core.layout import NONE, TALLY, CoreRows, Demands, Records, Shard, Work, records
from streamer.numba_support.jit import part
from streamer.table.arrays import Ints

# How many rows an individual has in a QI group, and among the pending ones: where k counts individuals.
#
# What a privacy model counts beside them stands here too, under numbers that no
# individual and no group has.
#
# A hash with open addressing by (group, individual); an entry that falls to 0 is taken out, and those behind it move
# up, so that the way to an entry stays short.

SPREAD, INT32_MAX = 0x1E3779B1, 0x7FFFFFFF  # their product fits into 63 bits: compiled and uncompiled agree


@part
def _home(group: Any, who: Any, length: int) -> Any:
    """Where an entry stands in a tally of this length if nothing is in its way; int64, or arrays of them."""
    mixed = (group + 2) * SPREAD & INT32_MAX
    mixed = ((mixed >> 13) ^ mixed ^ who) * SPREAD & INT32_MAX
    return ((mixed >> 15) ^ mixed) % length


@part
def find(tally: Any, group: int, who: int) -> int:
    """Where the entry stands, or the free index for it."""
    at = _home(int(group), int(who), tally.shape[0])
    while tally[at].n > 0 and (tally[at].group != group or tally[at].who != who):
        at += 1
        if at == tally.shape[0]:
            at = 0
    return at


@part
def count_in(s: Shard, group: int, who: int) -> int:
    """One row more of an individual in a group (or PENDING); returns how many there are now."""
    tally = s.work.tally
    at = find(tally, group, who)
    if tally[at].n > 0:
        tally[at].n += 1
        return int(tally[at].n)
    tally[at].group, tally[at].who, tally[at].n = group, who, 1
    s.state[0].tally_used += 1
    return 1


@part
def count_out(s: Shard, group: int, who: int) -> int:
    """One row less; returns how many are left."""
    tally = s.work.tally
    at = find(tally, group, who)
    tally[at].n -= 1
    if tally[at].n > 0:
        return int(tally[at].n)
    s.state[0].tally_used -= 1
    hole, at = at, at + 1
    while True:
        if at == tally.shape[0]:
            at = 0
        entry = tally[at]
        if entry.n == 0:
            return 0
        home = _home(int(entry.group), int(entry.who), tally.shape[0])
        if (at > hole and (home <= hole or home > at)) or (at < hole and at < home <= hole):
            tally[hole].group, tally[hole].who, tally[hole].n = entry.group, entry.who, entry.n
            entry.n = 0
            hole = at
        at += 1


def tally_of(group: Ints, who: Ints, n: Ints, length: int) -> Records:
    """A tally of this length with these entries: int64, no two of one individual in one group, fewer than `length`."""
    tally = records(length, TALLY)
    home = _home(group, who, length)
    order = np.argsort(home, kind="stable")
    at = standing(home[order], length)
    tally.group[at], tally.who[at], tally.n[at] = group[order], who[order], n[order]
    return tally


def standing(homes: Ints, length: int) -> Ints:
    """Where the entries of a hash with open addressing stand: homes (n,) int64, ascending, n < length.

    Each stands at its home, or behind the one before it. Those that come out beyond the end take the first places that
    are free: all behind their homes are taken.
    """
    order = np.arange(len(homes))
    at = order + np.maximum.accumulate(homes - order)
    beyond = at >= length
    if beyond.any():
        free = np.ones(length, bool)
        free[at[~beyond]] = False
        at[beyond] = np.flatnonzero(free)[: beyond.sum()]
    return at


# -- whether it is reached --------------------------------------------------------------------------------------------


@part
def holds(s: Shard, g: int) -> bool:
    """Whether a QI group holds the model."""
    group = s.groups.group[g]
    return bool(group.count >= s.state[0].k) and reached_by(s.demands, s.demands.reached[g + 1], int(group.members))


@part
def pending_hold(s: Shard) -> bool:
    """Whether all pending rows together hold the model."""
    state = s.state[0]
    return bool(state.pending_count >= state.k) and reached_by(s.demands, s.demands.reached[0], int(state.n_pending))


@part
def reached_by(demands: Demands, reached: Records, n: int) -> bool:
    """Whether n rows that have reached (c,) REACHED satisfy every demand."""
    for c in range(demands.demand.shape[0]):
        if not reaches(demands.demand[c], int(reached[c].distinct), int(reached[c].top), n):
            return False
    return True


@part
def reaches(demand: Records, distinct: int, most: int, n: int) -> bool:
    """Whether so many distinct subjects among n rows, of which one subject has most, satisfy a demand."""
    return bool(distinct >= demand.least) and bool(most * demand.denominator <= n * demand.numerator)


@part
def may_be_cut(s: Shard, g: int) -> bool:
    """Whether the counts of a group leave it open that there are two halves of it that hold."""
    group = s.groups.group[g]
    if group.count < 2 * s.state[0].k:
        return False
    for c in range(s.demands.demand.shape[0]):
        demand, reached = s.demands.demand[c], s.demands.reached[g + 1, c]
        if 2 * reached.distinct - reached.single < 2 * demand.least:
            return False
        least_rows = (demand.denominator + demand.numerator - 1) // demand.numerator
        if group.members < 2 * least_rows:
            return False
    return True


# -- counted row by row -----------------------------------------------------------------------------------------------


@part
def individual_in(s: Shard, group: int, who: int) -> int:
    """An individual has one more row in a group (or PENDING); returns 1 if it is the first there, else 0."""
    n = count_in(s, group, who)
    if s.demands.demand.shape[0] > 0 and s.demands.demand[0].of_individuals:
        rises(s, 0, group, n)
    return 1 if n == 1 else 0


@part
def individual_out(s: Shard, group: int, who: int) -> int:
    """An individual has one row less in a group; returns 1 if it was the last there, else 0."""
    n = count_out(s, group, who)
    if s.demands.demand.shape[0] > 0 and s.demands.demand[0].of_individuals:
        falls(s, 0, group, n)
    return 1 if n == 0 else 0


@part
def values_in(s: Shard, group: int, values: int) -> None:
    """A row with these values has come into a group (or PENDING)."""
    for c in range(s.demands.demand.shape[0]):
        code = s.demands.code[values, c]
        if code != NONE:
            rises(s, c, group, count_in(s, group, code))


@part
def values_out(s: Shard, group: int, values: int) -> None:
    """A row with these values has gone from a group."""
    for c in range(s.demands.demand.shape[0]):
        code = s.demands.code[values, c]
        if code != NONE:
            falls(s, c, group, count_out(s, group, code))


@part
def rises(s: Shard, c: int, group: int, n: int) -> None:
    """A subject has n rows in a group now, one more than before."""
    reached = s.demands.reached[group + 1, c]
    if n == 1:
        reached.distinct += 1
        reached.single += 1
    elif n == 2:
        reached.single -= 1
    if asks_share(s.demands.demand[c]):
        if n > 1:
            count_out(s, levels_of(group), level(s.demands, c, n - 1))
        count_in(s, levels_of(group), level(s.demands, c, n))
        reached.top = max(reached.top, n)


@part
def falls(s: Shard, c: int, group: int, n: int) -> None:
    """A subject has n rows in a group now, one less than before."""
    reached = s.demands.reached[group + 1, c]
    if n == 0:
        reached.distinct -= 1
        reached.single -= 1
    elif n == 1:
        reached.single += 1
    if asks_share(s.demands.demand[c]):
        if n > 0:
            count_in(s, levels_of(group), level(s.demands, c, n))
        left = count_out(s, levels_of(group), level(s.demands, c, n + 1))
        if left == 0 and reached.top == n + 1:
            reached.top = n


@part
def asks_share(demand: Records) -> bool:
    """Whether a demand limits shares."""
    return bool(demand.numerator < demand.denominator)


@part
def levels_of(group: int) -> int:
    """What stands in the tally for a group, or PENDING, where subjects are counted by their rows."""
    return -3 - int(group)


@part
def level(demands: Demands, c: int, n: int) -> int:
    """What stands in the tally for all subjects of a demand that have n rows."""
    return int(n) * demands.demand.shape[0] + c


# -- counted in one pass ----------------------------------------------------------------------------------------------


@part
def begin_pass(demands: Demands) -> None:
    """Nothing is counted yet."""
    for c in range(demands.demand.shape[0]):
        passed = demands.passed[c]
        passed.distinct = passed.single = passed.top = 0


@part
def pass_row(demands: Demands, rows: CoreRows, work: Work, stamp: int, index: int) -> None:
    """Counts one row more; who has been seen has more than `stamp`, by as many as its rows."""
    row = rows.row[index]
    for c in range(demands.demand.shape[0]):
        if demands.demand[c].of_individuals:
            if row.who == NONE:
                continue
            n = count_seen(work.last_seen, row.who, stamp)
        else:
            code = demands.code[row.values, c]
            if code == NONE:
                continue
            n = count_seen(demands.seen, -2 - code, stamp)
        passed = demands.passed[c]
        if n == 1:
            passed.distinct += 1
            passed.single += 1
        elif n == 2:
            passed.single -= 1
        if asks_share(demands.demand[c]):
            passed.top = max(passed.top, n)


@part
def count_seen(seen: Any, which: int, stamp: int) -> int:
    """How often something has been seen in this pass, with this time."""
    seen[which] = max(seen[which], stamp) + 1
    return int(seen[which]) - stamp


@part
def counts_are_right(s: Shard, g: int) -> bool:
    """Whether a group, counted anew from its members, has reached what it says."""
    demands, group, state = s.demands, s.groups.group[g], s.state[0]
    if demands.demand.shape[0] == 0:
        return True
    begin_pass(demands)
    for i in range(group.members):
        pass_row(demands, s.rows, s.work, int(state.stamp), s.groups.pool[0, group.block + i])
    state.stamp += group.members
    for c in range(demands.demand.shape[0]):
        reached, passed = demands.reached[g + 1, c], demands.passed[c]
        if reached.distinct != passed.distinct or reached.single != passed.single or reached.top != passed.top:
            return False
    return True


@part
def mark_fitting(
    state: Records, demands: Demands, rows: CoreRows, work: Work, along: Any, n: int, first: int, last: int
) -> tuple[int, int]:
    """Into fits[first..last] whether both halves of the n rows along, cut there, meet the demands; the ends of these.

    The first rows are counted forwards and the last ones backwards, once each. Where none fits the first end is n.
    """
    fits, stamp = demands.fits, int(state.stamp)
    begin_pass(demands)
    for at in range(1, last + 1):
        pass_row(demands, rows, work, stamp, along[at - 1])
        if at >= first:
            fits[at] = 1 if reached_by(demands, demands.passed, at) else 0
    stamp += n
    begin_pass(demands)
    lowest, highest = n, 0
    for at in range(n - 1, first - 1, -1):
        pass_row(demands, rows, work, stamp, along[at])
        if at <= last and fits[at] != 0:
            if reached_by(demands, demands.passed, n - at):
                lowest, highest = at, max(at, highest)
            else:
                fits[at] = 0
    state.stamp = stamp + n
    return lowest, highest


# Whether a QI group holds the model without one of its rows, or with one row more: query before local repair moves it.
#
# * The answers come from the counts of `streamer.incremental.core.model` and the tally: a group's rows are not looked
#   at.
# * A row that goes may take along a subject that has no other row there, and makes every share of the others larger. A
#   row that comes makes its own subjects' shares larger, and no others. What a demand does not count, a null, is a row
#   like any other in the shares of the rest.
# * The largest count falls by a row that goes where its subject alone has as many.
# * k is asked with it. Who has other records in a group stays with them, whatever k says: `can_lose`.


@part
def can_lose(s: Shard, index: int) -> bool:
    """Whether a row's QI group holds the model without it: who has other records there stays with them."""
    state, row = s.state[0], s.rows.row[index]
    if s.groups.group[row.group].count <= state.k:
        return False
    if state.individuals != 0 and tally_count(s, row.group, row.who) > 1:
        return False
    return demands_hold_without(s, index)


@part
def can_take(s: Shard, index: int, g: int) -> bool:
    """Whether QI group g holds the model with a row of another one."""
    state, count = s.state[0], s.groups.group[g].count
    if state.individuals == 0 or tally_count(s, g, s.rows.row[index].who) == 0:
        count += 1
    return bool(count >= state.k) and demands_hold_with(s, index, g)


@part
def can_spare_one(s: Shard, g: int) -> bool:
    """Whether there is a row that a QI group does not need to hold the model."""
    group = s.groups.group[g]
    if group.count <= s.state[0].k:
        return False
    for i in range(group.members):
        if demands_hold_without(s, int(s.groups.pool[0, group.block + i])):
            return True
    return False


@part
def one_row_may_suffice(s: Shard, g: int) -> bool:
    """Whether the counts of a QI group that does not hold the model leave it open that it does with one row more."""
    group = s.groups.group[g]
    if group.count < s.state[0].k - 1:
        return False
    for c in range(s.demands.demand.shape[0]):
        reached = s.demands.reached[g + 1, c]
        if not reaches(s.demands.demand[c], int(reached.distinct) + 1, int(reached.top), int(group.members) + 1):
            return False
    return True


@part
def demands_hold_without(s: Shard, index: int) -> bool:
    """Whether a row's QI group meets the demands without it."""
    g = int(s.rows.row[index].group)
    left = int(s.groups.group[g].members) - 1
    for c in range(s.demands.demand.shape[0]):
        demand, reached = s.demands.demand[c], s.demands.reached[g + 1, c]
        distinct, most, what = int(reached.distinct), int(reached.top), subject_number(s, c, index)
        if what != NONE:
            n = tally_count(s, g, what)
            if n == 1:
                distinct -= 1
            if asks_share(demand) and n == most and tally_count(s, levels_of(g), level(s.demands, c, n)) == 1:
                most -= 1
        if not reaches(demand, distinct, most, left):
            return False
    return True


@part
def demands_hold_with(s: Shard, index: int, g: int) -> bool:
    """Whether QI group g meets the demands with a row of another one."""
    members = int(s.groups.group[g].members) + 1
    for c in range(s.demands.demand.shape[0]):
        demand, reached = s.demands.demand[c], s.demands.reached[g + 1, c]
        distinct, most, what = int(reached.distinct), int(reached.top), subject_number(s, c, index)
        if what != NONE:
            n = tally_count(s, g, what)
            if n == 0:
                distinct += 1
            most = max(most, n + 1)
        if not reaches(demand, distinct, most, members):
            return False
    return True


@part
def subject_number(s: Shard, c: int, index: int) -> int:
    """What a demand counts of a row, as it stands in the tally; NONE: nothing."""
    row = s.rows.row[index]
    if s.demands.demand[c].of_individuals:
        return int(row.who)
    return int(s.demands.code[row.values, c])


@part
def tally_count(s: Shard, group: int, who: int) -> int:
    """How often something stands in the tally for a group."""
    return int(s.work.tally[find(s.work.tally, group, who)].n)
