"""Links of similarity lists stand in the chains of those whom they name, wherever they are moved."""

from __future__ import annotations

from math import inf

from streamer.incremental.core.layout import Shard, empty_shard
from streamer.incremental.core.links import name, set_in_order, unname
from streamer.incremental.core.record_types import LINKS, NONE
from worlds.scanned_boxes import SPACES


def shard_of_holes(groups: int) -> Shard:
    """Groups numbered from 1 that nobody names, and two lists of holes."""
    s = empty_shard(SPACES["one number"], 2, recut=True, shrink=True, individuals=False)
    for g in range(groups):
        s.groups.group[g].number, s.groups.group[g].listed = g + 1, NONE
    s.lists.link[: 2 * LINKS].other, s.lists.link[: 2 * LINKS].score = NONE, -inf
    return s


def chain(s: Shard, g: int) -> list[int]:
    """The links that name a group; their way back is looked at too."""
    found, at, previous = [], s.groups.group[g].listed, NONE
    while at != NONE:
        assert s.lists.link[at].previous == previous and s.lists.link[at].other == g
        found.append(int(at))
        at, previous = s.lists.link[at].next, at
    return found


def test_a_link_leaves_its_chain_from_the_beginning_the_middle_and_the_end() -> None:
    for gone in (0, 3, LINKS):
        s = shard_of_holes(1)
        for at in (0, 3, LINKS):
            name(s, at, 0, 1.0)
        unname(s, gone)
        assert chain(s, 0) == [at for at in (LINKS, 3, 0) if at != gone]
        assert s.lists.link[gone].other == NONE


def test_a_list_is_set_in_order_by_score_then_number_with_holes_last_and_chains_follow() -> None:
    s = shard_of_holes(4)
    for at, g, score in ((1, 2, 1.0), (3, 3, 2.0), (4, 1, 1.0), (7, 0, 0.5), (LINKS, 3, 9.0)):
        name(s, at, g, score)
    set_in_order(s, 0)
    assert s.lists.link[:LINKS].other.tolist() == [3, 1, 2, 0, NONE, NONE, NONE, NONE]
    assert [sorted(chain(s, g)) for g in range(4)] == [[3], [1], [2], [0, LINKS]]
