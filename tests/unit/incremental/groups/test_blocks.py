"""Boxes in blocks: whatever block a box is in, its scores are those of the formulas, and no block grows too large."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.incremental.groups import blocks as blocks_module
from streamer.incremental.groups.blocks import Blocks, Profile
from streamer.incremental.groups.similarity import Similarity
from streamer.table.space import Space
from worlds.scanned_boxes import number_axis

MAX, MIN = 8, 3


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BLOCK_MAX", MAX), ("BLOCK_MIN", MIN), ("STALE_MAX", 5)):
        monkeypatch.setattr(blocks_module, name, value)


def blocks_of(*centers: float) -> Blocks:
    """Boxes of half-width 1 at these places of a line of 200 codes, numbered in their order."""
    blocks = Blocks(Similarity(Space([number_axis(1, 200)])))
    for place, center in enumerate(centers):
        blocks.add(place, Profile([center], [1.0], []), 0.1)
    return blocks


def members_by_block(blocks: Blocks, n: int) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for place in range(n):
        found.setdefault(blocks.where(place)[0], set()).add(place)
    return found


def test_a_full_block_is_cut_in_two_halves_that_lie_apart() -> None:
    centers = [float(10 * i) for i in range(MAX + 1)]
    blocks = blocks_of(*centers)
    first, second = members_by_block(blocks, len(centers)).values()
    assert max(first) < min(second) or max(second) < min(first)
    assert max(len(first), len(second)) <= MAX


def test_no_block_is_ever_larger_than_allowed() -> None:
    random = np.random.default_rng(1)
    centers = random.uniform(0, 199, 100).tolist()
    blocks = blocks_of(*centers)
    assert max(map(len, members_by_block(blocks, 100).values())) <= MAX


def test_every_box_scores_what_the_formula_says_in_whatever_block_it_is() -> None:
    random = np.random.default_rng(2)
    centers = random.uniform(0, 199, 40).tolist()
    blocks = blocks_of(*centers)
    value = 77.0
    probe = blocks.tuple_probe(np.array([[value]]), [])
    for place, center in enumerate(centers):
        block, slot = blocks.where(place)
        scores = blocks.t_qgssd(probe, np.array([block]))
        assert scores[0, slot] == min(1.0, 1.0 / abs(value - center))
        assert scores[0, slot] <= blocks.bounds.t_qgssd(probe.value, [])[block]


def test_a_slot_without_a_box_scores_below_everything() -> None:
    blocks = blocks_of(5.0)
    block, slot = blocks.where(0)
    scores = blocks.t_qgssd(blocks.tuple_probe(np.array([[5.0]]), []), np.array([block]))[0]
    assert scores[slot] == 1.0
    assert all(score == -np.inf for i, score in enumerate(scores.tolist()) if i != slot)
