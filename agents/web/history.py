"""What a page draws over time: as many points as it can show, from the start of the worker on.

Where there are too many, every second one goes and the next ones come half as often: so the whole time is kept, ever
more coarsely.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Point = TypeVar("Point")

POINTS_MAX = 360


class History(Generic[Point]):
    """Points, oldest first."""

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self.points: list[Point] = []
        self._most = points_max
        self._every = 1
        self._seen = 0

    def add(self, point: Point) -> None:
        """Takes one of the points that come at equal times, or leaves it out.

        >>> history = History[int](4)
        >>> for point in range(10):
        ...     history.add(point)
        >>> history.points
        [0, 4, 8]
        """
        if self._seen % self._every == 0:
            if len(self.points) == self._most:
                self.points, self._every = self.points[::2], 2 * self._every
            if self._seen % self._every == 0:
                self.points.append(point)
        self._seen += 1
