"""The nearest QI groups of one, without an index: as a scan by the definitions finds them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.kept import QIGroupState, SimilarityList
from streamer.incremental.groups.nearest import nearest_qi_groups
from streamer.table.space import Space
from worlds.scanned_boxes import SPACES, Box, Twin, boxes


def stored(*some: Box) -> dict[int, QIGroupState]:
    """QI groups as a store has them, numbered from 1; not by their order."""
    return {number: QIGroupState(tuple(lo), tuple(hi), (), ()) for number, (lo, hi) in reversed([*enumerate(some, 1)])}


@given(data=st.data(), space=st.sampled_from(list(SPACES.values())), count=st.integers(1, 5))
def test_they_are_the_best_of_a_scan_and_the_floor_is_the_best_of_the_rest(
    data: st.DataObject, space: Space, count: int
) -> None:
    some, twin = data.draw(st.lists(boxes(space), min_size=1, max_size=12)), Twin(space)
    twin.groups = {number: (lo, hi, 1) for number, (lo, hi) in enumerate(some, 1)}
    scan = sorted((-twin.qgssd(1, other), other) for other in twin.groups if other != 1)
    found = nearest_qi_groups(space, stored(*some), 1, count)
    assert found.neighbours == tuple((other, -score) for score, other in scan[:count])
    assert found.floor == (-scan[count][0] if len(scan) > count else 0.0)


def test_a_lone_qi_group_has_none() -> None:
    assert nearest_qi_groups(SPACES["numbers"], stored(([0, 0], [1, 1])), 1, 3) == SimilarityList((), 0.0)
