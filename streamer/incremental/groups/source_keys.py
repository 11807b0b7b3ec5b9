"""The source keys of a shard's rows, by place and back: what a list and a dictionary do, in a fifth of their memory.

The rules of this file
----------------------
* The texts stand in one array by place; a text of up to 15 bytes needs nothing beside its 16 bytes there.
* The way back is a hash with open addressing: a slot holds a place, or NONE. A row that goes takes its slot along, and
  those behind it move up, so that the way to a key stays short. Half of the slots are used when they are made anew, two
  thirds at most.
* A key's home is Python's own hash of it, which every process draws anew: nobody who chooses keys can make them
  collide, and no result may depend on where a key stands. What stands there is compared as a whole.
* Messages never hold a source key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.dtypes import StringDType

from streamer.incremental.core.record_types import NONE
from streamer.incremental.core.tally import standing
from streamer.table.arrays import Ints

FIRST_ROOM = 1024
KEYS_AT_ONCE = 10_000
"""Source keys that are objects at the same time, where all of them are looked at."""

HASH_BITS = 32


class SourceKeys:
    """The places of rows by source key, in the order of places; `texts`: the source keys by place."""

    def __init__(self) -> None:
        self.texts: Any = _texts(FIRST_ROOM)
        self._n = 0
        self._slots = np.full(FIRST_ROOM, NONE, np.int32).data  # whose items are integers of Python

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, source_key: str) -> int:
        place: int = self._slots[self._slot_of(source_key)]
        if place == NONE:
            raise KeyError("there is no row with this source key")
        return place

    def __contains__(self, source_key: str) -> bool:
        return bool(self._slots[self._slot_of(source_key)] != NONE)

    def __iter__(self) -> Iterator[str]:
        places = self.places()
        for begin in range(0, len(places), KEYS_AT_ONCE):
            yield from self.texts[places[begin : begin + KEYS_AT_ONCE]].tolist()

    def get(self, source_key: str) -> int | None:
        """The place of a row, None where there is no such row."""
        place: int = self._slots[self._slot_of(source_key)]
        return None if place == NONE else place

    def places_of(self, source_keys: Sequence[str]) -> Ints:
        """The places of n source keys, NONE where there is no such row, (n,) int64."""
        n, slots = len(source_keys), np.asarray(self._slots)
        wanted, places = np.array(source_keys, StringDType()), np.full(n, NONE, np.int64)
        at, sought = _hashes(source_keys) * len(slots) >> HASH_BITS, np.arange(n)
        while len(sought):
            standing_there = slots[at]
            some = standing_there != NONE
            at, sought, standing_there = at[some], sought[some], standing_there[some]
            hit = self.texts[standing_there] == wanted[sought]
            places[sought[hit]] = standing_there[hit]
            at, sought = (at[~hit] + 1) % len(slots), sought[~hit]
        return places

    def add(self, source_key: str, place: int) -> None:
        """A row that has no place yet; nobody else has this one."""
        self._reach(place + 1)
        self.texts[place] = source_key
        if 3 * (self._n + 1) > 2 * len(self._slots):
            self._make_slots(self.places())
        self._slots[self._slot_of(source_key)] = place
        self._n += 1

    def remove(self, place: int) -> None:
        """The row at a place is gone; its text stays until another one is written there."""
        slots, length = self._slots, len(self._slots)
        hole = self._slot_of(self.texts[place])
        at, slots[hole] = hole, NONE
        while True:
            at = at + 1 if at + 1 < length else 0
            follower = slots[at]
            if follower == NONE:
                break
            home = self._home(self.texts[follower])
            if (at > hole and (home <= hole or home > at)) or (at < hole and at < home <= hole):
                slots[hole], slots[at], hole = follower, NONE, at
        self._n -= 1

    def write(self, first: int, source_keys: Sequence[str]) -> None:
        """Texts at n places one after the other; they cannot be found before `found_up_to`."""
        self._reach(first + len(source_keys))
        self.texts[first : first + len(source_keys)] = source_keys

    def found_up_to(self, n: int) -> None:
        """All texts below n are those of rows. Raises ValueError where two rows have one source key."""
        self._make_slots(np.arange(n))
        self._n = n

    def places(self) -> Ints:
        """The places of all rows, ascending, (n,) int64."""
        slots = np.asarray(self._slots)
        return np.sort(slots[slots != NONE]).astype(np.int64)

    def _home(self, source_key: str) -> int:
        return (hash(source_key) % (1 << HASH_BITS)) * len(self._slots) >> HASH_BITS

    def _slot_of(self, source_key: str) -> int:
        """Where a source key stands, or the free slot for it."""
        slots, texts = self._slots, self.texts
        length = len(slots)
        at = (hash(source_key) % (1 << HASH_BITS)) * length >> HASH_BITS
        while (place := slots[at]) != NONE and texts[place] != source_key:
            at = at + 1 if at + 1 < length else 0
        return at

    def _make_slots(self, places: Ints) -> None:
        """New slots for the rows at these places, (n,) int64."""
        hashes = np.empty(len(places), np.int64)
        for begin in range(0, len(places), KEYS_AT_ONCE):
            some = self.texts[places[begin : begin + KEYS_AT_ONCE]].tolist()
            hashes[begin : begin + len(some)] = _hashes(some)
        order = np.argsort(hashes, kind="stable")
        self._refuse_doubles(places[order], hashes[order])
        length = max(FIRST_ROOM, 2 * len(places) + 2)
        slots = np.full(length, NONE, np.int32)
        slots[standing(hashes[order] * length >> HASH_BITS, length)] = places[order]
        self._slots = slots.data

    def _refuse_doubles(self, places: Ints, hashes: Ints) -> None:
        """places (n,) with their hashes, in the order of these."""
        alike = np.zeros(len(places) + 1, bool)
        alike[1:-1] = hashes[1:] == hashes[:-1]
        suspects = self.texts[places[alike[1:] | alike[:-1]]].tolist()
        if len(set(suspects)) < len(suspects):
            raise ValueError("two rows have one source key")

    def _reach(self, n: int) -> None:
        if n > len(self.texts):
            texts = _texts(max(n, len(self.texts) + len(self.texts) // 2))
            texts[: len(self.texts)] = self.texts
            self.texts = texts


def _hashes(source_keys: Sequence[str]) -> Ints:
    """The last HASH_BITS bits of Python's hashes of n source keys, (n,) int64."""
    return np.fromiter(map(hash, source_keys), np.int64, len(source_keys)) & ((1 << HASH_BITS) - 1)


def _texts(n: int) -> Any:
    """n empty texts."""
    return np.empty(n, StringDType())
