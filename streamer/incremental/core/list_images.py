"""Similarity lists as they were before a batch, and how each is left when a refresh is done with it.

The rules of both are those of `streamer.incremental.core.lists`.
"""

from __future__ import annotations

from streamer.incremental.core.layout import Shard
from streamer.incremental.core.links import name, set_in_order, unname
from streamer.incremental.core.nodes import floor_changed
from streamer.incremental.core.record_types import FAN, LENGTH, LINKS, NONE
from streamer.incremental.core.search import top
from streamer.jit import part

NO_LIST = -1
"""Entries of a list, in an image, where there was none."""


@part
def remember_before(s: Shard, kept: int) -> None:
    """A list as it is now, if it has not been remembered since the drain."""
    lists, one = s.lists, s.lists.one[kept]
    if one.before != NONE:
        return
    remember_none_before(s, kept)
    lists.before[one.before].n = one.n
    for j in range(one.n):
        was, link = lists.links_before[one.before * LINKS + j], lists.link[kept * LINKS + j]
        was.score, was.other = link.score, link.other


@part
def remember_none_before(s: Shard, kept: int) -> None:
    """That there was no list."""
    state, one = s.state[0], s.lists.one[kept]
    i = state.n_lists_before
    state.n_lists_before += 1
    before = s.lists.before[i]
    before.owner, before.floor, before.n = one.owner, one.floor, NO_LIST
    one.before = i


@part
def settle(s: Shard, i: int) -> None:
    """Fills the list of an image's owner if it is new or empty, else sets it in order and cuts it if it is too long."""
    g = s.lists.before[i].owner
    kept = s.groups.group[g].list
    if kept == NONE:
        return
    one = s.lists.one[kept]
    one.before = NONE
    if one.entered == 0:
        fill(s, i, kept)
    else:
        set_in_order(s, kept)
        if one.entered <= LINKS:
            one.n = one.entered
            return
        one.floor = s.lists.link[kept * LINKS + LENGTH].score
        for at in range(kept * LINKS + LENGTH, (kept + 1) * LINKS):
            unname(s, at)
        one.n = one.entered = LENGTH
    floor_changed(s, g)


@part
def fill(s: Shard, i: int, kept: int) -> None:
    """The LENGTH nearest of all and the score of the next."""
    state, one, found = s.state[0], s.lists.one[kept], s.work.found
    suspect_some(s, i, one.owner)
    top(s, one.owner, LENGTH + 1)
    one.n = one.entered = min(state.n_found, LENGTH)
    one.floor = found[LENGTH].score if state.n_found > LENGTH else 0.0
    for j in range(one.n):
        name(s, kept * LINKS + j, found[j].group, found[j].score)


@part
def suspect_some(s: Shard, i: int, g: int) -> None:
    """Groups that are likely to be near g into `found`: a search that begins with them visits half as much.

    Those that g's list named before; else those whose lists name g, and whom the first of these lists names; else
    those in g's leaf of the tree.
    """
    state, lists, first = s.state[0], s.lists, s.groups.group[g].listed
    state.n_found = 0
    for j in range(lists.before[i].n):
        suspect(s, g, lists.links_before[i * LINKS + j].other)
    if state.n_found <= LENGTH and first != NONE:
        for j in range(LINKS):
            suspect(s, g, lists.link[first // LINKS * LINKS + j].other)
        at = first
        while at != NONE and state.n_found < FAN:
            suspect(s, g, lists.one[at // LINKS].owner)
            at = lists.link[at].next
    if state.n_found <= LENGTH:
        leaf = s.groups.group[g].node
        for j in range(s.tree.node[leaf].n):
            suspect(s, g, s.tree.child[leaf, j])


@part
def suspect(s: Shard, g: int, other: int) -> None:
    """Another group that is alive into `found`, while there is room."""
    n = s.state[0].n_found
    if other != NONE and other != g and n < FAN and s.groups.group[other].alive:
        s.work.found[n].group = other
        s.state[0].n_found = n + 1
