"""Similarity lists: the nearest QI groups of those whose next loss would merge them, kept drain by drain.

The rules of this file
----------------------
* A QI group is *tracked* while its next loss would merge it: it is alive and counts k or less. Each tracked one has a
  list of some others with their QGSSD (Song et al. 2009, definition 7) and a *floor*: every group that is not listed
  has QGSSD <= floor <= every entry. So a list is an exact prefix of the true order.
* A list is made anew, with its LENGTH best, when its group's own box is new or changed or the group becomes tracked,
  and when nothing is left in it. A listed box that changes moves, or falls to the floor and out; any other that comes
  above the floor enters; one that goes leaves. A list that ends with more than LINKS entries is cut to its LENGTH best,
  and its floor becomes the score of the next.
* What a list holds after a refresh does not depend on the order of the changes. So all that changed or went leaves
  first, and all that changed enters afterwards: a list only grows then, and of more than LINKS entries the best LINKS
  and their true number are enough.
* A list is remembered as it was before its first change. Outside a refresh it stands best first, equal scores by
  number; within one it has holes, links that name nobody and score -inf.
* Which lists name a group is a chain through their links; which lists a box enters is asked of the tree, by its nodes'
  lowest floors. No list is visited that does not change.
* Numbers of QI groups that went may be given again within a batch. What was stored under such a number is compared
  with the list of the group that has it now: the one its entry in the journal names.
"""

from __future__ import annotations

from math import inf
from typing import Any

from streamer.incremental.core.layout import Shard
from streamer.incremental.core.links import is_before, name, unname
from streamer.incremental.core.list_images import NO_LIST, remember_before, remember_none_before, settle, suspect
from streamer.incremental.core.nodes import floor_changed
from streamer.incremental.core.record_types import LINKS, NONE
from streamer.incremental.core.search import begin_entered, nearest, next_entered
from streamer.jit import part


@part
def lists_needed(s: Shard) -> int:
    """Lists, and images of lists, that a refresh may need room for at most; LINKS times as many links of each."""
    return int(s.state[0].lists_used + s.state[0].n_changed)


@part
def refresh(s: Shard) -> None:
    """Brings all lists to the present: the groups of `journal.changed` and `journal.gone` are done with.

    Afterwards there are lists for the tracked groups alone, and an image of each that may have changed. Needs room
    for `lists_needed`; leaves the journal and the groups' marks as they are.
    """
    state, journal, groups = s.state[0], s.journal, s.groups
    for i in range(state.n_gone):
        _pass_on(s, journal.gone[i])
    for i in range(state.n_changed):
        _follow(s, journal.changed[i])
    for i in range(state.n_gone):
        _leave(s, journal.gone[i])
    for i in range(state.n_changed):
        g = journal.changed[i]
        if groups.group[g].alive and groups.group[g].moved:
            _leave(s, g)
    for i in range(state.n_changed):
        g = journal.changed[i]
        if groups.group[g].alive and groups.group[g].moved:
            _enter(s, g)
    for i in range(state.n_lists_before):
        settle(s, i)


@part
def clear_marks(s: Shard) -> None:
    """Takes the marks `moved` and `changed` off the groups of `journal.changed`; its length stays."""
    for i in range(s.state[0].n_changed):
        group = s.groups.group[s.journal.changed[i]]
        group.moved = group.changed = 0


@part
def partner(s: Shard, g: int) -> int:
    """The QI group to merge with: the nearest of all, sought from those that the list of g names; NONE without any."""
    kept = s.groups.group[g].list
    s.state[0].n_found = 0
    if kept != NONE:
        for j in range(s.lists.one[kept].n):
            suspect(s, g, s.lists.link[kept * LINKS + j].other)
    return nearest(s, g)


@part
def differs(s: Shard, i: int) -> bool:
    """Whether the list of an image's owner is another one than the image; no list differs from any."""
    before = s.lists.before[i]
    kept = s.groups.group[before.owner].list
    if kept == NONE:
        return bool(before.n != NO_LIST)
    one = s.lists.one[kept]
    if before.n != one.n or before.floor != one.floor:
        return True
    for j in range(one.n):
        was, now = s.lists.links_before[i * LINKS + j], s.lists.link[kept * LINKS + j]
        if was.score != now.score or s.groups.group[was.other].number != s.groups.group[now.other].number:
            return True
    return False


@part
def restore(s: Shard, owners: Any, floors: Any, ends: Any, others: Any, scores: Any) -> None:
    """Lists as they were stored, of groups that have none yet and stand in the tree.

    owners (n,) and others (entries,): groups; floors (n,); scores (entries,); ends (n,): where a list ends in others
    and scores, best first as they were stored, at most LINKS each. Needs room for n more lists.
    """
    at = 0
    for i in range(owners.shape[0]):
        kept = _take_list(s, owners[i])
        n = ends[i] - at
        for j in range(n):
            name(s, kept * LINKS + j, others[at + j], scores[at + j])
        one = s.lists.one[kept]
        one.n = one.entered = n
        one.floor = floors[i]
        floor_changed(s, owners[i])
        at = ends[i]


# -- whose list there is ----------------------------------------------------------------------------------------------


@part
def _pass_on(s: Shard, g: int) -> None:
    """The list of a group that is gone goes; what was stored there, the group that has its number now is held to."""
    kept = s.groups.group[g].list
    if kept == NONE:
        return
    remember_before(s, kept)
    i = s.lists.one[kept].before
    _empty(s, kept)
    _give_back(s, g)
    entry = s.groups.group[g].entry
    heir = NONE if entry == NONE else s.journal.entry[entry].group
    if heir != NONE:
        s.lists.before[i].owner = heir
        if s.groups.group[heir].count <= s.state[0].k:
            s.lists.one[_take_list(s, heir)].before = i


@part
def _follow(s: Shard, g: int) -> None:
    """A changed group has a list if it is tracked, and a list to be made anew, without a floor, if its box moved."""
    group = s.groups.group[g]
    if not group.alive:
        return
    kept = group.list
    if kept == NONE:
        if group.count <= s.state[0].k:
            remember_none_before(s, _take_list(s, g))
    elif group.moved or group.count > s.state[0].k:
        remember_before(s, kept)
        _empty(s, kept)
        s.lists.one[kept].floor = inf
        if group.count > s.state[0].k:
            _give_back(s, g)
        floor_changed(s, g)


@part
def _take_list(s: Shard, g: int) -> int:
    """A list of holes for g, to be made anew."""
    state, lists = s.state[0], s.lists
    kept = state.list_free
    if kept == NONE:
        kept = state.lists_used
        state.lists_used += 1
    else:
        state.list_free = lists.one[kept].next_free
    for at in range(kept * LINKS, (kept + 1) * LINKS):
        lists.link[at].other, lists.link[at].score = NONE, -inf
    one = lists.one[kept]
    one.owner, one.floor, one.n, one.entered, one.before = g, inf, 0, 0, NONE
    s.groups.group[g].list = kept
    return int(kept)


@part
def _give_back(s: Shard, g: int) -> None:
    """g has no list any more; its list, of holes, may be taken by another."""
    kept = s.groups.group[g].list
    s.groups.group[g].list = NONE
    s.lists.one[kept].next_free, s.lists.one[kept].owner = s.state[0].list_free, NONE
    s.state[0].list_free = kept


# -- who is named -----------------------------------------------------------------------------------------------------


@part
def _leave(s: Shard, g: int) -> None:
    """All lists that name g have a hole in its place."""
    at = s.groups.group[g].listed
    s.groups.group[g].listed = NONE
    while at != NONE:
        link = s.lists.link[at]
        kept = at // LINKS
        remember_before(s, kept)
        s.lists.one[kept].entered -= 1
        at = link.next
        link.other, link.score = NONE, -inf


@part
def _enter(s: Shard, g: int) -> None:
    """g enters every list whose floor it exceeds."""
    begin_entered(s, g)
    h = next_entered(s, g)
    while h != NONE:
        kept = s.groups.group[h].list
        remember_before(s, kept)
        s.lists.one[kept].entered += 1
        _place(s, kept, g, s.state[0].entered_score)
        h = next_entered(s, g)


@part
def _place(s: Shard, kept: int, g: int, score: float) -> None:
    """g in a hole of a list; where there is none, in place of the last in order, if it comes before that."""
    links = s.lists.link
    last = kept * LINKS
    for at in range(kept * LINKS, (kept + 1) * LINKS):
        if links[at].other == NONE:
            name(s, at, g, score)
            return
        if is_before(s, last, at):
            last = at
    number = s.groups.group[g].number
    least, holder = links[last].score, s.groups.group[links[last].other].number
    if score > least or (score == least and number < holder):
        unname(s, last)
        name(s, last, g, score)


@part
def _empty(s: Shard, kept: int) -> None:
    """A list of holes."""
    one = s.lists.one[kept]
    for at in range(kept * LINKS, kept * LINKS + one.n):
        if s.lists.link[at].other != NONE:
            unname(s, at)
    one.n = one.entered = 0
