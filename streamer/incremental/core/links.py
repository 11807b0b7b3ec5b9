"""The links of similarity lists: holes that come to name a QI group, and the chain of those that name the same one.

The chain begins at `group.listed` and goes on by `next` and `previous`, so that a group that changes finds the lists
that name it, and a list that goes takes its links out. A hole names NONE and has the score -inf.
"""

from __future__ import annotations

from math import inf
from typing import Any

from streamer.incremental.core.layout import Lists, Shard
from streamer.incremental.core.record_types import LINKS, NONE
from streamer.jit import part


@part
def name(s: Shard, at: int, g: int, score: float) -> None:
    """A hole becomes a link to g."""
    links, group = s.lists.link, s.groups.group[g]
    link, first = links[at], group.listed
    link.score, link.other, link.next, link.previous = score, g, first, NONE
    if first != NONE:
        links[first].previous = at
    group.listed = at


@part
def unname(s: Shard, at: int) -> None:
    """A link becomes a hole."""
    links = s.lists.link
    link = links[at]
    if link.previous == NONE:
        s.groups.group[link.other].listed = link.next
    else:
        links[link.previous].next = link.next
    if link.next != NONE:
        links[link.next].previous = link.previous
    link.other, link.score = NONE, -inf


@part
def set_in_order(s: Shard, kept: int) -> None:
    """Sets the links of a list best first, equal ones by number, holes last."""
    for end in range(kept * LINKS + 1, (kept + 1) * LINKS):
        at = end
        while at > kept * LINKS and is_before(s, at, at - 1):
            swap(s, at - 1, at)
            at -= 1


@part
def is_before(s: Shard, one: int, other: int) -> bool:
    """Whether of two links of a list the first comes first."""
    a, b = s.lists.link[one], s.lists.link[other]
    if a.score != b.score:
        return bool(a.score > b.score)
    if a.other == NONE or b.other == NONE:
        return False
    return bool(s.groups.group[a.other].number < s.groups.group[b.other].number)


@part
def swap(s: Shard, one: int, other: int) -> None:
    """Two links of a list change places, in their chains too."""
    a, b = s.lists.link[one], s.lists.link[other]
    a.score, b.score = b.score, a.score
    a.other, b.other = b.other, a.other
    a.next, b.next = b.next, a.next
    a.previous, b.previous = b.previous, a.previous
    fasten(s.lists, s.groups.group, one)
    fasten(s.lists, s.groups.group, other)


@part
def fasten(lists: Lists, group: Any, at: int) -> None:
    """The neighbours of a link in its chain name it where it stands now."""
    link = lists.link[at]
    if link.other == NONE:
        return
    if link.previous == NONE:
        group[link.other].listed = at
    else:
        lists.link[link.previous].next = at
    if link.next != NONE:
        lists.link[link.next].previous = at
