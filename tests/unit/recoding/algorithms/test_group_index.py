"""Counts of subjects in many groups at once, against counting by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.compiled import rules_of
from streamer.recoding.algorithms.group_index import count_row, counts_for, discount_row, rows_with
from worlds.microdata import MODELS

SLOTS, CODES = 7, 40


@given(
    places=st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=60),
    moves=st.lists(st.tuples(st.integers(0, 59), st.integers(0, SLOTS - 1)), max_size=60),
    seed=st.integers(0, 99),
)
def test_counts_follow_rows_from_group_to_group(places: list[int], moves: list[tuple[int, int]], seed: int) -> None:
    model = MODELS["all at once"]
    subjects = np.random.default_rng(seed).integers(0, CODES, (len(places), len(model.subjects)))
    rules = rules_of(model, subjects)
    counts = counts_for(rules, SLOTS)
    for row, slot in enumerate(places):
        count_row(rules, counts, slot, row)
    for row, slot in moves:
        if row < len(places):
            discount_row(rules, counts, places[row], row)
            count_row(rules, counts, slot, row)
            places[row] = slot
    for slot in range(SLOTS):
        for i in range(len(model.subjects)):
            expected = Counter(int(subjects[row, i]) for row, there in enumerate(places) if there == slot)
            del expected[int(rules.uncounted[i])]  # a null that does not count as a value
            codes = range(subjects[:, i].max() + 1)
            assert [rows_with(counts, slot, i, code) for code in codes] == [expected[code] for code in codes]
            assert counts.n_distinct[slot, i] == len(expected)
            assert counts.top[slot, i] >= max(expected.values(), default=0)
