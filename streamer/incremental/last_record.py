"""The last committed record of a partition, which no client library can be asked for.

Transaction markers, aborted and compacted records occupy offsets too, so it is looked for from the end backwards, in
windows that grow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

WINDOW_OFFSETS, WIDER = 16, 16


def last_value(first: int, end: int, values_from: Callable[[int], Iterable[bytes]]) -> bytes | None:
    """The value of the last record between the offsets first and end (exclusive); None where there is none.

    values_from: the values from an offset on, up to the end.

    >>> records = {3: b"old", 40: b"new"}
    >>> last_value(0, 1000, lambda start: [value for offset, value in records.items() if offset >= start])
    b'new'
    """
    start, window = end, WINDOW_OFFSETS
    while start > first:
        start = max(first, end - window)
        window *= WIDER
        if found := deque(values_from(start), maxlen=1):
            return found[0]
    return None
