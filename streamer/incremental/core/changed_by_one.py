"""Whether a QI group holds the model without one of its rows, or with one row more: asked before local repair moves it.

The rules of this file
----------------------
* The answers come from the counts of `streamer.incremental.core.model` and the tally: a group's rows are not looked at.
* A row that goes may take along a subject that has no other row there, and makes every share of the others larger. A
  row that comes makes its own subjects' shares larger, and no others. What a demand does not count, a null, is a row
  like any other in the shares of the rest.
* The largest count falls by a row that goes where its subject alone has as many.
* k is asked with it. Who has other records in a group stays with them, whatever k says: `can_lose`.
"""

from __future__ import annotations

from streamer.incremental.core.layout import Shard
from streamer.incremental.core.model import asks_share, level, levels_of, reaches
from streamer.incremental.core.record_types import NONE
from streamer.incremental.core.tally import find
from streamer.jit import part


@part
def can_lose(s: Shard, place: int) -> bool:
    """Whether a row's QI group holds the model without it: who has other records there stays with them."""
    state, row = s.state[0], s.rows.row[place]
    if s.groups.group[row.group].count <= state.k:
        return False
    if state.individuals != 0 and tallied(s, row.group, row.who) > 1:
        return False
    return demands_hold_without(s, place)


@part
def can_take(s: Shard, place: int, g: int) -> bool:
    """Whether QI group g holds the model with a row of another one."""
    state, count = s.state[0], s.groups.group[g].count
    if state.individuals == 0 or tallied(s, g, s.rows.row[place].who) == 0:
        count += 1
    return bool(count >= state.k) and demands_hold_with(s, place, g)


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
def one_may_do(s: Shard, g: int) -> bool:
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
def demands_hold_without(s: Shard, place: int) -> bool:
    """Whether a row's QI group meets the demands without it."""
    g = int(s.rows.row[place].group)
    left = int(s.groups.group[g].members) - 1
    for c in range(s.demands.demand.shape[0]):
        demand, reached = s.demands.demand[c], s.demands.reached[g + 1, c]
        distinct, most, what = int(reached.distinct), int(reached.top), counted(s, c, place)
        if what != NONE:
            n = tallied(s, g, what)
            if n == 1:
                distinct -= 1
            if asks_share(demand) and n == most and tallied(s, levels_of(g), level(s.demands, c, n)) == 1:
                most -= 1
        if not reaches(demand, distinct, most, left):
            return False
    return True


@part
def demands_hold_with(s: Shard, place: int, g: int) -> bool:
    """Whether QI group g meets the demands with a row of another one."""
    members = int(s.groups.group[g].members) + 1
    for c in range(s.demands.demand.shape[0]):
        demand, reached = s.demands.demand[c], s.demands.reached[g + 1, c]
        distinct, most, what = int(reached.distinct), int(reached.top), counted(s, c, place)
        if what != NONE:
            n = tallied(s, g, what)
            if n == 0:
                distinct += 1
            most = max(most, n + 1)
        if not reaches(demand, distinct, most, members):
            return False
    return True


@part
def counted(s: Shard, c: int, place: int) -> int:
    """What a demand counts of a row, as it stands in the tally; NONE: nothing."""
    row = s.rows.row[place]
    if s.demands.demand[c].of_individuals:
        return int(row.who)
    return int(s.demands.code[row.values, c])


@part
def tallied(s: Shard, group: int, who: int) -> int:
    """How often something stands in the tally for a group."""
    return int(s.work.tally[find(s.work.tally, group, who)].n)
