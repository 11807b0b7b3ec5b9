"""The last committed record of a partition is found behind any number of offsets that hold none."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.last_record import WINDOW_OFFSETS, last_value


class Partition:
    """Records by offset, and the offsets from which it was read."""

    def __init__(self, *offsets: int) -> None:
        self._offsets = sorted(offsets)
        self.read_from: list[int] = []

    def values_from(self, start: int) -> Iterator[bytes]:
        self.read_from.append(start)
        return (b"%d" % offset for offset in self._offsets if offset >= start)


@given(st.sets(st.integers(0, 100_000), max_size=5), st.integers(0, 100), st.integers(0, 1_000))
def test_it_is_found_wherever_it_is(offsets: set[int], first: int, behind: int) -> None:
    there = {offset for offset in offsets if offset >= first}
    end = max(there, default=first) + 1 + behind
    expected = b"%d" % max(there) if there else None
    assert last_value(first, end, Partition(*there).values_from) == expected


def test_an_empty_partition_is_not_read() -> None:
    partition = Partition()
    assert last_value(7, 7, partition.values_from) is None
    assert partition.read_from == []


def test_a_record_near_the_end_costs_one_short_window() -> None:
    partition = Partition(999_999)
    last_value(0, 1_000_000, partition.values_from)
    assert partition.read_from == [1_000_000 - WINDOW_OFFSETS]


def test_a_million_aborted_offsets_cost_a_handful_of_looks_and_none_before_the_start() -> None:
    partition = Partition()
    assert last_value(500, 1_000_000, partition.values_from) is None
    assert len(partition.read_from) <= 6
    assert min(partition.read_from) == partition.read_from[-1] == 500
