"""The privacy model as the core counts it: kept up to date row by row, and asked whether a QI group holds it.

The rules of this file
----------------------
* A model is a conjunction (`streamer.privacy.models`). k, of individuals or rows, is `state.k` and `group.count`. All
  else are *demands*, one per subject: a minimum of distinct subjects, and none with more than a share of the rows.
  Subjects are individuals, or what a sensitive column publishes, or its ancestors at a level; Python numbers them.
* Counts follow every row that comes, goes or is rewritten (`moves.assign`, `step.write_row`), for QI groups and for the
  pending rows. Groups are counted from the start only at a drain, where the law is checked.
* The *tally* has counts by (group, who) (`streamer.kernels.counts`). Beside rows by (group, individual), it has rows by
  (group, -2 - number of a subject); for shares it has how many subjects have n rows, by (-3 - group, n * demands +
  demand). So the largest count falls by one exactly when the last subject that had it loses a row, and the next one
  need not be sought.
* Only deletions and rewrites lose distinct subjects; an insertion, too, can break a *share*. The remedy is that for a
  group below k: merges at the end of the event. (A cut would not help: if both halves hold, the whole does.) This ends:
  each merge leaves one group fewer, and a cut makes only groups that hold, which nothing breaks before the next event.
* So rows are pending exactly while all of them together break the model: models are closed under union. (Rows that an
  initial table leaves in no group are pending, too.)
* A group is cut if both halves hold. `may_be_cut` often rules that out from the counts alone: two halves with m
  distinct subjects each need 2m rows that differ within their half, one from a subject with one row, at most two from
  every other. So a large group whose values are all alike is not searched at every insertion.
"""

from __future__ import annotations

from typing import Any

from streamer.incremental.core.layout import (
    COUNTED_CODES,
    COUNTED_GROUP,
    COUNTED_ROWS,
    NO_GROUP_YET,
    NONE,
    ROW_LIST,
    TARGETS,
    CoreRows,
    Demands,
    Shard,
    Work,
)
from streamer.kernels import counts
from streamer.kernels.counts import CountTable
from streamer.kernels.distributions import settled, shortage
from streamer.kernels.shares import keeps_share, rows_for_share
from streamer.native import compiled, inlined
from streamer.table.arrays import Ints, Records


def key_of(group: int, who: int) -> int:
    """The key of an individual, or of a subject, in a group (or PENDING)."""
    return (int(group) << 32) + int(who)


def count_in(s: Shard, group: int, who: int) -> int:
    """Adds one row of an individual in a group (or PENDING); returns the new count."""
    n = counts.count_in(s.work.tally, key_of(group, who))
    if n == 1:
        s.state[0].tally_used += 1
    return n


def count_out(s: Shard, group: int, who: int) -> int:
    """Removes one row; returns the new count."""
    n = counts.count_out(s.work.tally, key_of(group, who))
    if n == 0:
        s.state[0].tally_used -= 1
    return n


@compiled
def fill_tally(tally: CountTable, keys: Ints, n: Ints) -> None:
    """Puts counts into an empty tally that is longer; each key once."""
    for i in range(keys.shape[0]):
        at = counts.entry_of(tally, keys[i])
        tally.key[at], tally.n[at] = keys[i], n[i]


# -- whether a group holds ---------------------------------------------------------------------------------------------


@inlined
def asks_more_than_k(demands: Demands) -> bool:
    return bool(demands.demand.shape[0] + demands.laws.kind.shape[0] > 0)


def holds(s: Shard, g: int) -> bool:
    group = s.groups.group[g]
    if group.count < s.state[0].k or not reached_by(s.demands, s.demands.reached[g + 1], int(group.members)):
        return False
    return laws_hold(s, g, NONE, NONE, 0)


def pending_hold(s: Shard) -> bool:
    state, demands = s.state[0], s.demands
    if state.pending_count < state.k or not reached_by(demands, demands.reached[0], int(state.n_pending)):
        return False
    forget_counted(demands)
    for law in range(demands.laws.kind.shape[0]):
        waiting, present, n = demands.waiting[law], demands.present[law], 0
        for code in range(waiting.shape[0]):
            if waiting[code] > 0:
                present[n] = code
                n += 1
        if shortage(demands.laws, law, waiting, present, n, int(state.n_pending)) > 0:
            return False
    return True


def reached_by(demands: Demands, reached: Records, n: int) -> bool:
    """True if n rows with these counts, (c,) REACHED, meet every demand."""
    for c in range(demands.demand.shape[0]):
        if not reaches(demands.demand[c], int(reached[c].distinct), int(reached[c].top), n):
            return False
    return True


def reaches(demand: Records, distinct: int, most: int, n: int) -> bool:
    """True if n rows with `distinct` subjects, of which one has `most` rows, meet a demand."""
    return bool(distinct >= demand.least) and bool(keeps_share(most, n, demand.numerator, demand.denominator))


def may_be_cut(s: Shard, g: int) -> bool:
    """True if a group's counts leave it possible that both halves of a cut hold."""
    group = s.groups.group[g]
    if group.count < 2 * s.state[0].k:
        return False
    for c in range(s.demands.demand.shape[0]):
        demand, reached = s.demands.demand[c], s.demands.reached[g + 1, c]
        if 2 * reached.distinct - reached.single < 2 * demand.least:
            return False
        if group.members < 2 * rows_for_share(1, demand.numerator, demand.denominator):
            return False
    return True


# -- laws about distributions ------------------------------------------------------------------------------------------
#
# A law is asked of a group's rows themselves, which are counted for it: whatever is kept of every distribution would
# change with every row. The counts of one group are kept until one of its rows changes: local repair asks for each row.


def laws_hold(s: Shard, g: int, without: int, extra: int, n_coming: int) -> bool:
    """True if a group's rows, but for one, hold every law with another one and those of n_coming that come to it.

    without, extra: NONE: no row. The rows that may come are in ROW_LIST, where they go in TARGETS.
    """
    demands, rows = s.demands, s.rows.row
    coming, targets = s.work.ints[ROW_LIST], s.work.ints[TARGETS]
    if demands.laws.kind.shape[0] > 0 and demands.counted[COUNTED_GROUP] != g:
        count_group(s, g)
    for law in range(demands.laws.kind.shape[0]):
        size, n = int(demands.counted[COUNTED_ROWS]), int(demands.counted[COUNTED_CODES + law])
        if extra != NONE:
            n = count_code(demands, law, int(rows[extra].values), n)
            size += 1
        for i in range(n_coming):
            if targets[i] == g:
                n = count_code(demands, law, int(rows[coming[i]].values), n)
                size += 1
        if without != NONE:  # after the rows that come: else one of its code would be found twice
            uncount_code(demands, law, int(rows[without].values), 1)
            size -= 1
        short = shortage(demands.laws, law, demands.counts[law], demands.present[law], n, size)
        if without != NONE:
            uncount_code(demands, law, int(rows[without].values), -1)
        for i in range(n_coming):
            if targets[i] == g:
                uncount_code(demands, law, int(rows[coming[i]].values), 1)
        if extra != NONE:
            uncount_code(demands, law, int(rows[extra].values), 1)
        if short > 0:
            return False
    return True


def count_group(s: Shard, g: int) -> None:
    """Counts the rows of a group for every law."""
    demands, group = s.demands, s.groups.group[g]
    forget_counted(demands)
    demands.counted[COUNTED_GROUP], demands.counted[COUNTED_ROWS] = g, group.members
    for law in range(demands.laws.kind.shape[0]):
        n = 0
        for i in range(group.members):
            n = count_code(demands, law, int(s.rows.row[s.groups.pool[0, group.block + i]].values), n)
        demands.counted[COUNTED_CODES + law] = n


def forget_counted(demands: Demands) -> None:
    """Removes the counts of the group that was counted last."""
    if demands.counted[COUNTED_GROUP] != NONE:
        for law in range(demands.laws.kind.shape[0]):
            forget_codes(demands, law, int(demands.counted[COUNTED_CODES + law]))
        demands.counted[COUNTED_GROUP] = NONE


@inlined
def count_code(demands: Demands, law: int, values: int, n: int) -> int:
    """Counts a row's code for a law; returns how many codes are present, which were n."""
    code = int(demands.leaf[values, law])
    if code == NONE:
        return n
    if demands.counts[law, code] == 0:
        demands.present[law, n] = code
        n += 1
    demands.counts[law, code] += 1
    return n


@inlined
def uncount_code(demands: Demands, law: int, values: int, rows: int) -> None:
    code = int(demands.leaf[values, law])
    if code != NONE:
        demands.counts[law, code] -= rows


def forget_codes(demands: Demands, law: int, n: int) -> None:
    for at in range(n):
        demands.counts[law, demands.present[law, at]] = 0


def mark_lawful(s: Shard, law: int, along: Any, n: int, first: int, last: int) -> None:
    """Leaves in fits[first..last] only cuts of the n rows along whose halves hold a law."""
    demands, rows, n_codes = s.demands, s.rows.row, 0
    counts, present = demands.counts[law], demands.present[law]
    until = more = 0  # the rows from which on the law has to be asked again; positive if it held
    forget_counted(demands)
    for at in range(1, last + 1):
        n_codes = count_code(demands, law, int(rows[along[at - 1]].values), n_codes)
        if at >= first and demands.fits[at] != 0:
            if at >= until:
                more = settled(demands.laws, law, counts, present, n_codes, at)
                until = at + abs(more)
            demands.fits[at] = 1 if more > 0 else 0
    forget_codes(demands, law, n_codes)
    n_codes, until = 0, 0
    for at in range(n - 1, first - 1, -1):
        n_codes = count_code(demands, law, int(rows[along[at]].values), n_codes)
        if at <= last and demands.fits[at] != 0:
            if n - at >= until:
                more = settled(demands.laws, law, counts, present, n_codes, n - at)
                until = n - at + abs(more)
            demands.fits[at] = 1 if more > 0 else 0
    forget_codes(demands, law, n_codes)


# -- counted row by row ------------------------------------------------------------------------------------------------


def individual_in(s: Shard, group: int, who: int) -> int:
    """Counts one more row of an individual in a group (or PENDING); returns 1 if it is its first there, else 0."""
    n = count_in(s, group, who)
    if s.demands.demand.shape[0] > 0 and s.demands.demand[0].of_individuals:
        rises(s, 0, group, n)
    return 1 if n == 1 else 0


def individual_out(s: Shard, group: int, who: int) -> int:
    """Counts one row less of an individual in a group; returns 1 if it was its last there, else 0."""
    n = count_out(s, group, who)
    if s.demands.demand.shape[0] > 0 and s.demands.demand[0].of_individuals:
        falls(s, 0, group, n)
    return 1 if n == 0 else 0


def values_in(s: Shard, group: int, values: int) -> None:
    """Counts the values of a row that has come into a group (or PENDING)."""
    for c in range(s.demands.demand.shape[0]):
        code = s.demands.code[values, c]
        if code != NONE:
            rises(s, c, group, count_in(s, group, code))
    if group == s.demands.counted[COUNTED_GROUP]:
        forget_counted(s.demands)
    if group == NO_GROUP_YET:
        count_waiting(s.demands, values, 1)


def count_waiting(demands: Demands, values: int, rows: int) -> None:
    """Counts pending rows more, or less, for the laws."""
    for law in range(demands.laws.kind.shape[0]):
        code = demands.leaf[values, law]
        if code != NONE:
            demands.waiting[law, code] += rows


def values_out(s: Shard, group: int, values: int) -> None:
    """Counts the values of a row that has left a group."""
    for c in range(s.demands.demand.shape[0]):
        code = s.demands.code[values, c]
        if code != NONE:
            falls(s, c, group, count_out(s, group, code))
    if group == s.demands.counted[COUNTED_GROUP]:
        forget_counted(s.demands)
    if group == NO_GROUP_YET:
        count_waiting(s.demands, values, -1)


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


def asks_share(demand: Records) -> bool:
    return bool(demand.numerator < demand.denominator)


def levels_of(group: int) -> int:
    """The `group` under which the tally counts a group's subjects (or those of PENDING) by their rows."""
    return -3 - int(group)


def level(demands: Demands, c: int, n: int) -> int:
    """The `who` under which the tally counts the subjects of a demand that have n rows."""
    return int(n) * demands.demand.shape[0] + c


# -- counted in one pass -----------------------------------------------------------------------------------------------


def begin_pass(demands: Demands) -> None:
    for c in range(demands.demand.shape[0]):
        passed = demands.passed[c]
        passed.distinct = passed.single = passed.top = 0


def pass_row(demands: Demands, rows: CoreRows, work: Work, stamp: int, index: int) -> None:
    """Counts one more row. In `last_seen`, a subject of this pass has `stamp` plus its rows so far."""
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


def count_seen(seen: Any, which: int, stamp: int) -> int:
    """Counts one more sighting of something in this pass; returns how many there are."""
    seen[which] = max(seen[which], stamp) + 1
    return int(seen[which]) - stamp


def counts_are_right(s: Shard, g: int) -> bool:
    """True if a group's counts are those of its members, counted from the start."""
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


def mark_fitting(s: Shard, along: Any, n: int, first: int, last: int) -> tuple[int, int]:
    """Marks in fits[first..last] where a cut of the n rows along leaves two halves that meet the demands.

    Returns the lowest and the highest such position; if there is none, the lowest is n. Counts forwards, then
    backwards.
    """
    demands, rows, work = s.demands, s.rows, s.work
    fits, stamp = demands.fits, int(s.state[0].stamp)
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
    s.state[0].stamp = stamp + n
    if demands.laws.kind.shape[0] == 0 or highest == 0:
        return lowest, highest
    for law in range(demands.laws.kind.shape[0]):
        mark_lawful(s, law, along, n, lowest, highest)
    first, last, lowest, highest = lowest, highest, n, 0
    for at in range(first, last + 1):
        if fits[at] != 0:
            lowest, highest = min(at, lowest), at
    return lowest, highest


# -- with one row less or more -----------------------------------------------------------------------------------------
#
# Local repair asks this before it moves a row. Counts answer; the group's rows are not looked at. Removing a row can
# remove a subject, and raises all other subjects' shares. Adding a row raises only the shares of its own subjects.
# Nulls that a demand does not count still are rows in the shares of the rest.


def can_lose(s: Shard, index: int) -> bool:
    """True if a row's QI group holds the model without it; false if its individual has other rows there."""
    state, row = s.state[0], s.rows.row[index]
    if s.groups.group[row.group].count <= state.k:
        return False
    if state.individuals != 0 and tally_count(s, row.group, row.who) > 1:
        return False
    return demands_hold_without(s, index) and laws_hold(s, int(row.group), index, NONE, 0)


def can_take(s: Shard, index: int, g: int) -> bool:
    """True if QI group g holds the model with a row of another group."""
    state, count = s.state[0], s.groups.group[g].count
    if state.individuals == 0 or tally_count(s, g, s.rows.row[index].who) == 0:
        count += 1
    return bool(count >= state.k) and demands_hold_with(s, index, g) and laws_hold(s, g, NONE, index, 0)


def can_spare_one(s: Shard, g: int) -> bool:
    """True if a QI group has a row that it does not need to hold the model."""
    group = s.groups.group[g]
    if group.count <= s.state[0].k:
        return False
    for i in range(group.members):
        index = int(s.groups.pool[0, group.block + i])
        if demands_hold_without(s, index) and laws_hold(s, g, index, NONE, 0):
            return True
    return False


def one_row_may_suffice(s: Shard, g: int) -> bool:
    """True if one more row may make a QI group hold the model, as far as its counts say."""
    group = s.groups.group[g]
    if group.count < s.state[0].k - 1:
        return False
    for c in range(s.demands.demand.shape[0]):
        reached = s.demands.reached[g + 1, c]
        if not reaches(s.demands.demand[c], int(reached.distinct) + 1, int(reached.top), int(group.members) + 1):
            return False
    return True


def demands_hold_without(s: Shard, index: int) -> bool:
    """True if a row's QI group meets the demands without it."""
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


def demands_hold_with(s: Shard, index: int, g: int) -> bool:
    """True if QI group g meets the demands with a row of another group."""
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


def subject_number(s: Shard, c: int, index: int) -> int:
    """The subject of a row that a demand counts, as a `who` of the tally; NONE: none."""
    row = s.rows.row[index]
    if s.demands.demand[c].of_individuals:
        return int(row.who)
    return int(s.demands.code[row.values, c])


def tally_count(s: Shard, group: int, who: int) -> int:
    return counts.count_of(s.work.tally, key_of(group, who))
