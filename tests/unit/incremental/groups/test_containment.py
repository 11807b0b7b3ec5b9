"""Which boxes hold a tuple: never one too few, and exactly those where no attribute is coarsened."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.containment import BINS_MAX, WORD, BoxBitmap
from streamer.table.space import Space
from worlds.scanned_boxes import SPACES, Box, boxes, number_axis, tuples


def marked(space: Space, all_boxes: list[Box]) -> BoxBitmap:
    bitmap = BoxBitmap(space)
    bitmap.grow(len(all_boxes))
    for place, (los, his) in enumerate(all_boxes):
        for j, (lo, hi) in enumerate(zip(los, his, strict=True)):
            bitmap.mark(place, j, lo, hi)
    return bitmap


@given(data=st.data(), space=st.sampled_from(list(SPACES.values())))
def test_the_candidates_are_the_boxes_that_hold_the_tuple_in_order(data: st.DataObject, space: Space) -> None:
    all_boxes = data.draw(st.lists(boxes(space), min_size=1, max_size=2 * WORD + 3))
    cells = np.array(data.draw(tuples(space)), dtype=np.int64)
    bitmap = marked(space, all_boxes)
    assert bitmap.exact
    expected = [i for i, (lo, hi) in enumerate(all_boxes) if space.contains(np.array(lo), np.array(hi), cells)]
    assert bitmap.candidates(cells).tolist() == expected


def test_a_cleared_box_holds_nothing_and_its_neighbours_in_the_word_stay() -> None:
    space = Space([number_axis(1, 9)])
    bitmap = marked(space, [([0], [8])] * 3)
    bitmap.clear(1, 0, 0, 8)
    assert bitmap.candidates(np.array([4])).tolist() == [0, 2]


def test_places_beyond_a_word_are_told_apart() -> None:
    bitmap = marked(Space([number_axis(1, 9)]), [([i % 9], [i % 9]) for i in range(WORD + 2)])
    assert bitmap.candidates(np.array([WORD % 9])).tolist() == list(range(WORD % 9, WORD + 2, 9))


def test_coarsened_cells_give_candidates_too_many_and_never_one_too_few() -> None:
    space = Space([number_axis(1, 4 * BINS_MAX)])
    bitmap = marked(space, [([0], [0]), ([1], [1]), ([4], [9])])
    assert not bitmap.exact
    assert bitmap.candidates(np.array([1])).tolist() == [0, 1]
    assert bitmap.candidates(np.array([9])).tolist() == [2]
    assert bitmap.candidates(np.array([12])).tolist() == []
