"""What a page draws over time covers all of it, in so many points."""

from __future__ import annotations

import pytest

from agents.web.history import History


@pytest.mark.parametrize("n", [0, 1, 359, 360, 361, 10_000])
def test_all_the_time_is_covered_by_points_at_equal_distances(n: int) -> None:
    history = History[int]()
    for point in range(n):
        history.add(point)
    assert len(history.points) <= 360
    distances = {after - before for before, after in zip(history.points, history.points[1:], strict=False)}
    assert len(distances) <= 1
    assert history.points[:1] == list(range(n))[:1]
    assert not n or n - history.points[-1] <= max(distances, default=1)
    assert n < 360 or len(history.points) >= 180
