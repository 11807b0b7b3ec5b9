"""Stored similarity lists, loaded: sound lists by indexes; of any other a refusal."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from streamer.errors import ShardRefused
from streamer.incremental.core.layout import LINKS, NONE
from streamer.incremental.engine import loading
from streamer.incremental.engine.loading import indexes_of_numbers, stored_lists
from streamer.incremental.engine.stored_state import SimilarityList

NAMES = np.array([3, 5, 8, 9])


def test_lists_come_by_the_indexes_of_their_qi_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "AT_ONCE", 2)
    lists = {
        8: SimilarityList(((3, 2.0), (9, 0.5)), 0.25),
        3: SimilarityList((), 0.0),
        9: SimilarityList(((5, 0.5), (8, 0.5)), 0.5),
    }
    restored = stored_lists(iter(lists.items()), NAMES)
    assert [column.tolist() for column in restored] == [
        [2, 0, 3], [0.25, 0.0, 0.5], [2, 2, 4], [0, 3, 1, 2], [2.0, 0.5, 0.5, 0.5]
    ]  # fmt: skip


def test_no_lists_are_empty_arrays() -> None:
    assert [len(column) for column in stored_lists([], NAMES)] == [0] * 5
    assert [len(column) for column in stored_lists([], NAMES[:0])] == [0] * 5


DAMAGED = {
    "of nobody": ([(4, SimilarityList((), 0.0))], "names a QI group that is not stored"),
    "that names nobody": ([(3, SimilarityList(((4, 0.5),), 0.0))], "names a QI group that is not stored"),
    "that names what no array holds": (
        [(3, SimilarityList(((2**70, 0.5),), 0.0))], "names a QI group that is not stored"
    ),
    "too long": ([(3, SimilarityList(((5, 0.5),) * (LINKS + 1), 0.0))], "too many entries"),
    "that names one twice": ([(3, SimilarityList(((5, 0.5), (5, 0.5)), 0.0))], "twice, or its own"),
    "that names its own": ([(3, SimilarityList(((3, 0.5),), 0.0))], "twice, or its own"),
    "without a score": ([(3, SimilarityList(((5, nan),), 0.0))], "not a finite number"),
    "of an endless score": ([(3, SimilarityList(((5, inf),), 0.0))], "not a finite number"),
    "without a floor": ([(3, SimilarityList((), nan))], "not a finite number"),
    "with an endless floor": ([(3, SimilarityList((), inf))], "not a finite number"),
    "in no order": ([(3, SimilarityList(((5, 0.5), (8, 1.0)), 0.0))], "is not sorted"),
    "below its floor": ([(3, SimilarityList(((5, 0.5),), 0.75))], "a floor above its entries"),
    "given twice": ([(3, SimilarityList((), 0.0)), (3, SimilarityList((), 0.5))], "two similarity lists"),
}  # fmt: skip


@pytest.mark.parametrize(("lists", "said"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_list_that_cannot_be_is_refused_and_the_remedy_is_named(
    lists: list[tuple[int, SimilarityList]], said: str
) -> None:
    with pytest.raises(ShardRefused, match=f"the store is damaged: a .*{said}.*; reload <table> from"):
        stored_lists(lists, NAMES)


def test_a_number_that_is_not_there_has_no_index() -> None:
    assert indexes_of_numbers(NAMES, [9, 1, 3, 4, 10]).tolist() == [3, NONE, 0, NONE, NONE]
    assert indexes_of_numbers(NAMES[:0], [9]).tolist() == [NONE]
