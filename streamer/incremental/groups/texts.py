"""Published values and individuals by number: the core compares numbers, and orders values by their texts.

A number is given with the first row that needs it. When far more have been given than there are rows, those that
no row has are taken back; and when their texts have become far longer than those that rows had, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from streamer.incremental.core import room
from streamer.incremental.core.layout import Shard
from streamer.table.arrays import Ints
from streamer.table.row import Values

T = TypeVar("T", bound=Hashable)

SPARE = 10_000
"""Numbers that may stand for nothing before anything is taken back, beside one per row."""

SPARE_BYTES = 16_000_000
"""Bytes of texts that may stand for nothing before anything is taken back, beside as many as were in use then."""


class Numbers(Generic[T]):
    """Things that have a number; equal things have one."""

    def __init__(self) -> None:
        self.number_of: dict[T, int] = {}
        self.things: list[T | None] = []
        self._free: list[int] = []

    def give(self, thing: T) -> int:
        """The number of a thing, which may be new."""
        number = self.number_of.get(thing)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.things[number] = thing
            else:
                number = len(self.things)
                self.things.append(thing)
            self.number_of[thing] = number
            self.is_new(thing, number)
        return number

    def give_many(self, things: Sequence[T]) -> Ints:
        """The numbers of n things, (n,) int64."""
        for thing in dict.fromkeys(things):
            self.give(thing)
        return np.fromiter(map(self.number_of.__getitem__, things), np.int64, len(things))

    def is_new(self, thing: T, number: int) -> None:
        """Called with what has just got a number."""

    def has_many_spare(self, n_rows: int) -> bool:
        return len(self.number_of) > 2 * n_rows + SPARE

    def keep(self, used: Ints) -> None:
        """Takes back all numbers but those in use."""
        mask = np.zeros(len(self.things), dtype=bool)
        mask[used] = True
        self._free = np.flatnonzero(~mask).tolist()
        for number in self._free:
            thing = self.things[number]
            if thing is not None:
                del self.number_of[thing]
                self.things[number] = None


class ValueTexts(Numbers[Values]):
    """Values by number, with the texts that the core does not have yet."""

    def __init__(self) -> None:
        super().__init__()
        self._fresh: list[tuple[int, bytes]] = []
        self._bytes = 0
        self._bytes_kept = 0

    def has_many_spare(self, n_rows: int) -> bool:
        return super().has_many_spare(n_rows) or self._bytes > 2 * self._bytes_kept + SPARE_BYTES

    def is_new(self, thing: Values, number: int) -> None:
        self._fresh.append((number, b"\0".join(thing)))

    def keep(self, used: Ints) -> None:
        super().keep(used)
        self._fresh = [(number, b"\0".join(thing)) for number, thing in enumerate(self.things) if thing is not None]
        self._bytes, self._bytes_kept = 0, sum(len(text) for _, text in self._fresh)

    def untold(self) -> list[tuple[int, Values]]:
        """Values that the core does not have yet, by number."""
        things = [(number, self.things[number]) for number, _ in self._fresh]
        return [(number, thing) for number, thing in things if thing is not None]

    def told(self, shard: Shard) -> Shard:
        """The shard, with the texts of all values."""
        if not self._fresh:
            return shard
        fresh, self._fresh = self._fresh, []
        numbers = [number for number, _ in fresh]
        lengths = np.array([len(text) for _, text in fresh], dtype=np.int64)
        joined = b"".join(text for _, text in fresh)
        shard = room.with_values(shard, len(self.things), self._bytes + len(joined))
        at = self._bytes + np.cumsum(lengths) - lengths
        shard.values.value.at[numbers], shard.values.value.length[numbers] = at, lengths
        shard.values.value.prefix[numbers] = np.frombuffer(
            b"".join(text[:8].ljust(8, b"\0") for _, text in fresh), dtype=">u8"
        )
        shard.values.text[self._bytes : self._bytes + len(joined)] = np.frombuffer(joined, dtype=np.uint8)
        self._bytes += len(joined)
        return shard
