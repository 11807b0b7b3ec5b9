"""The formulas of Song et al. 2009, by the golden numbers and by what they say where the paper is silent."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.incremental.groups.similarity import Shapes, Similarity
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import FINENESS, Axis, Space

AGE = Axis(codes_per_cell=5, n_cells=24, closed=True, width_codes=119.0, unit_codes=1.0, hierarchy=None)
ZIP = Axis(codes_per_cell=5, n_cells=20, closed=True, width_codes=98.0, unit_codes=1.0, hierarchy=None)
GOLDEN = Space([AGE, ZIP])
QI_GROUPS = {1: ((21, 25), (11, 20)), 2: ((41, 50), (21, 30)), 3: ((51, 55), (51, 60))}  # years, thousands


def golden_boxes(*numbers: int) -> Shapes:
    boxes = np.array([QI_GROUPS[number] for number in numbers], dtype=np.int64)
    return Similarity(GOLDEN).shapes((boxes[:, :, 0] - 1) // 5, (boxes[:, :, 1] - 1) // 5)


def tree_axis(rows: list[tuple[str, ...]], unit: float) -> Axis:
    tree = Hierarchy.from_rows(rows)
    return Axis(1, tree.n_leaves, True, float(tree.n_leaves), unit, tree)


ILLNESS = tree_axis(
    [("flu", "lung", "*"), ("cough", "lung", "*"), ("ulcer", "belly", "*"), ("colic", "belly", "*"), ("gout", "*")], 1.0
)


@pytest.mark.parametrize(
    ("age", "thousands", "expected"),
    [
        (21, 12, (2.0, 0.517007, None)),
        (24, 17, (2.0, None, None)),
        (55, 62, (0.159274, 0.596972, 1.692308)),
    ],
)
def test_t_qgssd_has_the_golden_numbers(age: int, thousands: int, expected: tuple[float | None, ...]) -> None:
    scores = Similarity(GOLDEN).t_qgssd(np.array([age - 1, thousands - 1]), golden_boxes(1, 2, 3))
    for score, golden in zip(scores.round(6).tolist(), expected, strict=True):
        assert golden is None or score == golden


@pytest.mark.parametrize(("one", "other", "golden"), [(1, 2, 0.144444), (1, 3, 0.058333), (2, 3, 0.166667)])
def test_qgssd_has_the_golden_numbers(one: int, other: int, golden: float) -> None:
    similarity = Similarity(GOLDEN)
    assert similarity.qgssd(golden_boxes(one), golden_boxes(other)).round(6).tolist() == [golden]
    assert similarity.qgssd(golden_boxes(other), golden_boxes(one)).round(6).tolist() == [golden]


def test_a_box_of_one_value_has_half_a_step_as_half_width() -> None:
    similarity = Similarity(Space([Axis(1, 10, True, 9.0, 1.0, None)]))
    box = similarity.shapes(np.array([4]), np.array([4]))
    assert [float(similarity.t_qgssd(np.array([code]), box)) for code in (4, 5, 6)] == [1.0, 0.5, 0.25]


def test_equal_centers_count_as_half_a_unit_apart() -> None:
    similarity = Similarity(Space([Axis(1, 10, True, 9.0, 4.0, None)]))
    boxes = similarity.shapes(np.array([[4], [3], [6]]), np.array([[4], [5], [6]]))
    first = similarity.shapes(np.array([4]), np.array([4]))
    assert similarity.qgssd(first, boxes).tolist() == [2.0, 2.0, 2.0]
    assert similarity.qgssd(first, similarity.shapes(np.array([8]), np.array([8]))).tolist() == 1.0


def test_ssd_of_a_category_is_the_share_of_the_leaves_of_the_node_that_covers_both() -> None:
    similarity = Similarity(Space([ILLNESS]))
    boxes = similarity.shapes(np.array([[0], [1], [0], [2], [0]]), np.array([[0], [1], [1], [3], [4]]))
    assert similarity.t_qgssd(np.array([0]), boxes).tolist() == [1.0, 1 / 2, 1.0, 2 / 5, 1.0]


def test_distance_of_categories_is_the_leaves_of_the_common_node_less_the_mean_of_both() -> None:
    similarity = Similarity(Space([ILLNESS]))
    lung = similarity.shapes(np.array([0]), np.array([1]))
    boxes = similarity.shapes(np.array([[0], [0], [2], [4], [0]]), np.array([[0], [1], [3], [4], [4]]))
    expected = [1 / 0.5, 1 / 0.5, 1 / (5 - 2), 1 / (5 - 1.5), 1 / (5 - 3.5)]
    assert similarity.qgssd(lung, boxes).tolist() == expected


@pytest.mark.parametrize("cells", [7 / 3, 1.0, 99_999.7 / 0.3])
def test_a_decimal_inside_the_box_scores_exactly_one_up_to_the_clipped_edge(cells: float) -> None:
    n_cells = int(np.ceil(cells))
    similarity = Similarity(Space([Axis(FINENESS, n_cells, False, cells * FINENESS, 1.0, None)]))
    for lo in {0, n_cells // 2, n_cells - 1}:
        box = similarity.shapes(np.array([lo]), np.array([n_cells - 1]))
        for code in (lo * FINENESS, int(cells * FINENESS)):
            assert similarity.t_qgssd(np.array([code]), box).tolist() == 1.0


def test_a_pair_has_one_figure_whatever_the_shape_of_the_arrays() -> None:
    axes = [Axis(1, 50, True, 49.0, 3.7, None)] * 9 + [ILLNESS]
    similarity = Similarity(Space(axes))
    random = np.random.default_rng(1)
    lo, codes = random.integers(0, 5, (40, 10)), random.integers(0, 5, (30, 10))
    boxes = similarity.shapes(lo, lo)
    at_once = similarity.t_qgssd(codes[:, None, :], boxes)
    one_by_one = [[similarity.t_qgssd(code, similarity.shapes(one, one)) for one in lo] for code in codes]
    assert at_once.tolist() == np.array(one_by_one).tolist()
