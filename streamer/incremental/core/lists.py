"""Similarity lists: the nearest QI groups of those whose next loss would merge them, brought up to date at each drain.

The rules of this file
----------------------
* A QI group is *tracked* while its next loss would merge it: it is alive and counts k or less. Each tracked one has a
  list of some others with their QGSSD (Song et al. 2009, definition 7) and a *floor*: every group that is not listed
  has QGSSD <= floor <= every entry. So a list is an exact prefix of the true order.
* A list is made from the start, with its LENGTH best, if its group's own box is new or changed, if the group becomes
  tracked, or if nothing is left in it. If a listed box changes, it moves, or falls to the floor and out. Any other box
  that rises above the floor enters; a group that is gone leaves. A list that ends with more than LINKS entries is
  cut to its LENGTH best, and its floor becomes the score of the next.
* First everything that changed or is gone is removed, then everything that changed enters: the result does not depend
  on the order of the changes. In the second step lists only grow, so the best LINKS entries and their number suffice.
* A list is saved before its first change. Outside a refresh it is sorted best first, equal scores by number; during
  one it has holes: links with NONE and the score -inf.
* No list is visited that does not change: those that name a group are a chain of links from `group.listed` on, those
  that a box enters are searched in the tree, by its nodes' lowest floors.
* Numbers of QI groups that are gone may be used again within a batch. What was stored under such a number is compared
  with the list of the group that has it now, which its entry in the journal names.
"""

from __future__ import annotations

from math import inf
from typing import Any

from streamer.incremental.core.layout import FAN, LENGTH, LINKS, NONE, Lists, Shard
from streamer.incremental.core.search import begin_affected, nearest, next_affected, top
from streamer.incremental.core.tree import floor_changed


def link_to(s: Shard, at: int, g: int, score: float) -> None:
    """Makes a hole a link to g."""
    links, group = s.lists.link, s.groups.group[g]
    link, first = links[at], group.listed
    link.score, link.other, link.next, link.previous = score, g, first, NONE
    if first != NONE:
        links[first].previous = at
    group.listed = at


def unlink(s: Shard, at: int) -> None:
    """Makes a link a hole."""
    links = s.lists.link
    link = links[at]
    if link.previous == NONE:
        s.groups.group[link.other].listed = link.next
    else:
        links[link.previous].next = link.next
    if link.next != NONE:
        links[link.next].previous = link.previous
    link.other, link.score = NONE, -inf


def sort_links(s: Shard, which: int) -> None:
    """Sorts the links of a list best first, equal ones by number, holes last."""
    for end in range(which * LINKS + 1, (which + 1) * LINKS):
        at = end
        while at > which * LINKS and is_before(s, at, at - 1):
            swap(s, at - 1, at)
            at -= 1


def is_before(s: Shard, one: int, other: int) -> bool:
    """True if of two links of a list the first comes first."""
    a, b = s.lists.link[one], s.lists.link[other]
    if a.score != b.score:
        return bool(a.score > b.score)
    if a.other == NONE or b.other == NONE:
        return False
    return bool(s.groups.group[a.other].number < s.groups.group[b.other].number)


def swap(s: Shard, one: int, other: int) -> None:
    """Swaps two links of a list, in their chains, too."""
    a, b = s.lists.link[one], s.lists.link[other]
    a.score, b.score = b.score, a.score
    a.other, b.other = b.other, a.other
    a.next, b.next = b.next, a.next
    a.previous, b.previous = b.previous, a.previous
    relink(s.lists, s.groups.group, one)
    relink(s.lists, s.groups.group, other)


def relink(lists: Lists, group: Any, at: int) -> None:
    """Makes the neighbours of a link in its chain name its present index."""
    link = lists.link[at]
    if link.other == NONE:
        return
    if link.previous == NONE:
        group[link.other].listed = at
    else:
        lists.link[link.previous].next = at
    if link.next != NONE:
        lists.link[link.next].previous = at


NO_LIST = -1
"""The `n` of a saved list if there was no list."""


def save_before(s: Shard, which: int) -> None:
    """Saves a list as it is now, unless it was saved since the drain."""
    lists, one = s.lists, s.lists.one[which]
    if one.before != NONE:
        return
    save_none_before(s, which)
    lists.before[one.before].n = one.n
    for j in range(one.n):
        was, link = lists.links_before[one.before * LINKS + j], lists.link[which * LINKS + j]
        was.score, was.other = link.score, link.other


def save_none_before(s: Shard, which: int) -> None:
    """Saves that there was no list."""
    state, one = s.state[0], s.lists.one[which]
    i = state.n_lists_before
    state.n_lists_before += 1
    before = s.lists.before[i]
    before.owner, before.floor, before.n = one.owner, one.floor, NO_LIST
    one.before = i


def settle_list(s: Shard, i: int) -> None:
    """Ends the refresh of a saved list: fills it if it is new or empty, else sorts it and cuts it if it is too long."""
    g = s.lists.before[i].owner
    which = s.groups.group[g].list
    if which == NONE:
        return
    one = s.lists.one[which]
    one.before = NONE
    if one.entered == 0:
        fill(s, i, which)
    else:
        sort_links(s, which)
        if one.entered <= LINKS:
            one.n = one.entered
            return
        one.floor = s.lists.link[which * LINKS + LENGTH].score
        for at in range(which * LINKS + LENGTH, (which + 1) * LINKS):
            unlink(s, at)
        one.n = one.entered = LENGTH
    floor_changed(s, g)


def fill(s: Shard, i: int, which: int) -> None:
    """Fills a list with the LENGTH nearest groups; its floor is the score of the next.

    The search begins with groups that are probably near, which halves the nodes that it visits: those that the list
    named before, and those of `propose_near`.
    """
    state, one, found = s.state[0], s.lists.one[which], s.work.found
    state.n_found = 0
    for j in range(s.lists.before[i].n):
        propose(s, one.owner, s.lists.links_before[i * LINKS + j].other)
    propose_near(s, one.owner)
    top(s, one.owner, LENGTH + 1)
    one.n = one.entered = min(state.n_found, LENGTH)
    one.floor = found[LENGTH].score if state.n_found > LENGTH else 0.0
    for j in range(one.n):
        link_to(s, which * LINKS + j, found[j].group, found[j].score)


def propose_listed(s: Shard, g: int) -> None:
    """Puts the groups that g's list names into `found`, and no others."""
    which = s.groups.group[g].list
    s.state[0].n_found = 0
    if which != NONE:
        for j in range(s.lists.one[which].n):
            propose(s, g, s.lists.link[which * LINKS + j].other)


def propose_near(s: Shard, g: int) -> None:
    """Puts into `found` those whose lists name g, those that the first of these lists names, and those in g's leaf."""
    state, lists, first = s.state[0], s.lists, s.groups.group[g].listed
    if state.n_found <= LENGTH and first != NONE:
        for j in range(LINKS):
            propose(s, g, lists.link[first // LINKS * LINKS + j].other)
        at = first
        while at != NONE and state.n_found < FAN:
            propose(s, g, lists.one[at // LINKS].owner)
            at = lists.link[at].next
    if state.n_found <= LENGTH:
        leaf = s.groups.group[g].node
        for j in range(s.tree.node[leaf].n):
            propose(s, g, s.tree.child[leaf, j])


def propose(s: Shard, g: int, other: int) -> None:
    """Puts another living group into `found`, if there is space."""
    n = s.state[0].n_found
    if other != NONE and other != g and n < FAN and s.groups.group[other].alive:
        s.work.found[n].group = other
        s.state[0].n_found = n + 1


def lists_needed(s: Shard) -> int:
    """The most lists, and the most saved lists, that a refresh may need."""
    return int(s.state[0].lists_used + s.state[0].n_changed)


def refresh(s: Shard) -> None:
    """Brings all lists up to date with the groups of `journal.changed` and `journal.gone`.

    Afterwards exactly the tracked groups have lists, and each list that may have changed is saved. Needs capacity for
    `lists_needed`; leaves the journal and the groups' marks as they are.
    """
    state, journal, groups = s.state[0], s.journal, s.groups
    for i in range(state.n_gone):
        _retire_list(s, journal.gone[i])
    for i in range(state.n_changed):
        _update_own(s, journal.changed[i])
    for i in range(state.n_gone):
        _drop_mentions(s, journal.gone[i])
    for i in range(state.n_changed):
        g = journal.changed[i]
        if groups.group[g].alive and groups.group[g].moved:
            _drop_mentions(s, g)
    for i in range(state.n_changed):
        g = journal.changed[i]
        if groups.group[g].alive and groups.group[g].moved:
            _add_mentions(s, g)
    for i in range(state.n_lists_before):
        settle_list(s, i)


def clear_marks(s: Shard) -> None:
    """Clears the marks `moved` and `changed` of the groups in `journal.changed`."""
    for i in range(s.state[0].n_changed):
        group = s.groups.group[s.journal.changed[i]]
        group.moved = group.changed = 0


def partner(s: Shard, g: int) -> int:
    """The nearest QI group, to merge with; the search begins with the list of g. NONE if there is no other."""
    propose_listed(s, g)
    return nearest(s, g)


def differs(s: Shard, i: int) -> bool:
    """True if the present list of a saved list's owner differs from the saved one."""
    before = s.lists.before[i]
    which = s.groups.group[before.owner].list
    if which == NONE:
        return bool(before.n != NO_LIST)
    one = s.lists.one[which]
    if before.n != one.n or before.floor != one.floor:
        return True
    for j in range(one.n):
        was, now = s.lists.links_before[i * LINKS + j], s.lists.link[which * LINKS + j]
        if was.score != now.score or s.groups.group[was.other].number != s.groups.group[now.other].number:
            return True
    return False


def restore_lists(s: Shard, owners: Any, floors: Any, ends: Any, others: Any, scores: Any) -> None:
    """Makes lists as they were stored, for groups that have none and are in the tree.

    owners (n,), others (entries,): groups; floors (n,); scores (entries,); ends (n,): where each list ends in others
    and scores; best first, at most LINKS each. Needs capacity for n more lists.
    """
    at = 0
    for i in range(owners.shape[0]):
        which = _new_list(s, owners[i])
        n = ends[i] - at
        for j in range(n):
            link_to(s, which * LINKS + j, others[at + j], scores[at + j])
        one = s.lists.one[which]
        one.n = one.entered = n
        one.floor = floors[i]
        floor_changed(s, owners[i])
        at = ends[i]


# -- the list of a group -----------------------------------------------------------------------------------------------


def _retire_list(s: Shard, g: int) -> None:
    """Removes the list of a group that is gone; its saved list passes to the group that has the number now."""
    which = s.groups.group[g].list
    if which == NONE:
        return
    save_before(s, which)
    i = s.lists.one[which].before
    _empty(s, which)
    _free_list(s, g)
    entry = s.groups.group[g].entry
    heir = NONE if entry == NONE else s.journal.entry[entry].group
    if heir != NONE:
        s.lists.before[i].owner = heir
        if s.groups.group[heir].count <= s.state[0].k:
            s.lists.one[_new_list(s, heir)].before = i


def _update_own(s: Shard, g: int) -> None:
    """Gives a changed group a list if it is tracked; empties the list, without a floor, if the box moved."""
    group = s.groups.group[g]
    if not group.alive:
        return
    which = group.list
    if which == NONE:
        if group.count <= s.state[0].k:
            save_none_before(s, _new_list(s, g))
    elif group.moved or group.count > s.state[0].k:
        save_before(s, which)
        _empty(s, which)
        s.lists.one[which].floor = inf
        if group.count > s.state[0].k:
            _free_list(s, g)
        floor_changed(s, g)


def _new_list(s: Shard, g: int) -> int:
    """Gives g a list of holes, still to be filled."""
    state, lists = s.state[0], s.lists
    which = state.list_free
    if which == NONE:
        which = state.lists_used
        state.lists_used += 1
    else:
        state.list_free = lists.one[which].next_free
    for at in range(which * LINKS, (which + 1) * LINKS):
        lists.link[at].other, lists.link[at].score = NONE, -inf
    one = lists.one[which]
    one.owner, one.floor, one.n, one.entered, one.before = g, inf, 0, 0, NONE
    s.groups.group[g].list = which
    return int(which)


def _free_list(s: Shard, g: int) -> None:
    """Takes the list, of holes, from g; another group may get it."""
    which = s.groups.group[g].list
    s.groups.group[g].list = NONE
    s.lists.one[which].next_free, s.lists.one[which].owner = s.state[0].list_free, NONE
    s.state[0].list_free = which


# -- the lists that name a group ---------------------------------------------------------------------------------------


def _drop_mentions(s: Shard, g: int) -> None:
    """Makes all links to g holes."""
    at = s.groups.group[g].listed
    s.groups.group[g].listed = NONE
    while at != NONE:
        link = s.lists.link[at]
        which = at // LINKS
        save_before(s, which)
        s.lists.one[which].entered -= 1
        at = link.next
        link.other, link.score = NONE, -inf


def _add_mentions(s: Shard, g: int) -> None:
    """Inserts g into every list whose floor its score exceeds."""
    begin_affected(s, g)
    h = next_affected(s, g)
    while h != NONE:
        which = s.groups.group[h].list
        save_before(s, which)
        s.lists.one[which].entered += 1
        _insert_link(s, which, g, s.state[0].affected_score)
        h = next_affected(s, g)


def _insert_link(s: Shard, which: int, g: int, score: float) -> None:
    """Puts g into a hole of a list; if there is none, replaces the last in order, if g comes before it."""
    links = s.lists.link
    last = which * LINKS
    for at in range(which * LINKS, (which + 1) * LINKS):
        if links[at].other == NONE:
            link_to(s, at, g, score)
            return
        if is_before(s, last, at):
            last = at
    number = s.groups.group[g].number
    least, holder = links[last].score, s.groups.group[links[last].other].number
    if score > least or (score == least and number < holder):
        unlink(s, last)
        link_to(s, last, g, score)


def _empty(s: Shard, which: int) -> None:
    """Makes all links of a list holes."""
    one = s.lists.one[which]
    for at in range(which * LINKS, which * LINKS + one.n):
        if s.lists.link[at].other != NONE:
            unlink(s, at)
    one.n = one.entered = 0
