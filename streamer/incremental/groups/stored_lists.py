"""Similarity lists as they were stored, as the core restores them; and what is said of a store that is damaged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from streamer.errors import ShardRefused
from streamer.incremental import mends
from streamer.incremental.core.record_types import LINKS, NONE
from streamer.incremental.groups.kept import SimilarityList
from streamer.table.arrays import Floats, Ints

LISTS_AT_ONCE = 10_000
"""Stored lists that are objects at the same time."""


class RestoredLists(NamedTuple):
    """What `core.lists.restore` takes: owners (n,) and others (entries,) are places of QI groups, floors (n,), scores
    (entries,), and ends (n,) says where a list ends in others and scores."""

    owners: Ints
    floors: Floats
    ends: Ints
    others: Ints
    scores: Floats


def stored_lists(stored: Iterable[tuple[int, SimilarityList]], names: Ints) -> RestoredLists:
    """The lists; names (groups,): the numbers of the QI groups by their places, ascending. Raises ShardRefused."""
    stored = iter(stored)
    parts = [_as_arrays([], names)]
    while some := list(islice(stored, LISTS_AT_ONCE)):
        parts.append(_as_arrays(some, names))
    owners, floors, lengths, others, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(np.unique(owners)) < len(owners):
        raise refusal("a QI group has two similarity lists")
    return RestoredLists(owners, floors, np.cumsum(lengths), others, scores)


def _as_arrays(some: Sequence[tuple[int, SimilarityList]], names: Ints) -> tuple[Ints, Floats, Ints, Ints, Floats]:
    """As `RestoredLists`, but with the lists' lengths in place of their ends."""
    lengths = np.array([len(stored.neighbours) for _, stored in some], dtype=np.int64)
    if (lengths > LINKS).any():
        raise refusal("a similarity list has too many entries")
    neighbours = list(chain.from_iterable([stored.neighbours for _, stored in some]))
    owners = places_of_numbers(names, [number for number, _ in some])
    others = places_of_numbers(names, [number for number, _ in neighbours])
    if (owners == NONE).any() or (others == NONE).any():
        raise refusal("a similarity list names a QI group that is not stored")
    floors = np.array([stored.floor for _, stored in some], dtype=np.float64)
    scores = np.array([score for _, score in neighbours], dtype=np.float64)
    of_list = np.repeat(np.arange(len(some)), lengths)
    pairs = np.unique(np.column_stack([of_list, others]), axis=0)
    if len(pairs) < len(others) or (others == owners[of_list]).any():
        raise refusal("a similarity list names a QI group twice, or its own")
    falls = (scores[1:] <= scores[:-1]) | (of_list[1:] != of_list[:-1])
    if not (np.isfinite(floors).all() and np.isfinite(scores).all() and falls.all()):
        raise refusal("a similarity list holds what is no similarity, or stands in no order")
    if (scores < floors[of_list]).any():
        raise refusal("a similarity list has a floor above its entries")
    return owners, floors, lengths, others, scores


def places_of_numbers(names: Ints, numbers: Sequence[int]) -> Ints:
    """Where each of n numbers stands in names, ascending; NONE where it does not; (n,) int64."""
    try:
        wanted = np.array(numbers, dtype=np.int64)
    except OverflowError:
        return np.full(len(numbers), NONE)
    at = np.searchsorted(names, wanted)
    there = at < len(names)
    there[there] = names[at[there]] == wanted[there]
    return np.where(there, at, NONE)


def refusal(what: str) -> ShardRefused:
    """What is wrong with the store, and what mends it."""
    return ShardRefused(f"the store is damaged: {what}; {mends.begin_anew()}")
