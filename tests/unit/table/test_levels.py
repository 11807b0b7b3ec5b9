"""Levels of full-domain recoding: what each publishes for a cell, and hierarchies of numbers."""

from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError
from streamer.table.hierarchy import Hierarchy
from streamer.table.levels import labels_beside_their_leaves, levels_of_numbers, levels_of_tree
from streamer.table.schema import CategoricalAttribute, NumericAttribute
from worlds.microdata import TABLES

ATTRIBUTES = {f"{name}: {a.name}": a for name, table in TABLES.items() for a in table.attributes}
D = Decimal


@pytest.mark.parametrize("attribute", ATTRIBUTES.values(), ids=ATTRIBUTES.keys())
def test_level_0_is_the_cell_the_last_one_everything_and_each_holds_the_one_below(
    attribute: NumericAttribute | CategoricalAttribute,
) -> None:
    levels, n_cells = attribute.levels, attribute.axis.n_cells
    cells = np.arange(n_cells)
    lo, hi = levels.recode(0, cells)
    assert (lo == cells).all() and (hi == cells).all()
    for level in range(1, levels.n_levels):
        coarser_lo, coarser_hi = levels.recode(level, cells)
        assert (coarser_lo <= lo).all() and (hi <= coarser_hi).all()
        for cell in cells:  # every cell of a published value is published as that value
            inside = slice(coarser_lo[cell], coarser_hi[cell] + 1)
            assert set(coarser_lo[inside].tolist()) == {coarser_lo[cell]}
            assert set(coarser_hi[inside].tolist()) == {coarser_hi[cell]}
        lo, hi = coarser_lo, coarser_hi
    assert (lo == 0).all() and (hi == n_cells - 1).all()


def test_levels_of_a_category_are_the_columns_of_its_file() -> None:
    tree = Hierarchy.from_rows(
        [["a", "ab", "abc", "*"], ["b", "ab", "abc", "*"], ["c", "cc", "abc", "*"], ["d", "d", "d", "*"]]
    )
    levels = levels_of_tree(tree)
    published = [
        [tree.label(int(lo), int(hi)) for lo, hi in zip(*levels.recode(level, np.arange(4)), strict=True)]
        for level in range(levels.n_levels)
    ]
    assert published == [
        ["a", "b", "c", "d"],
        ["ab", "ab", "c", "d"],  # `cc` holds c alone: one node, named by its lowest label
        ["abc", "abc", "abc", "d"],
        ["*", "*", "*", "*"],
    ]


def test_a_short_row_stays_a_leaf_until_the_others_are_as_high() -> None:
    tree = Hierarchy.from_rows([["a1", "a", "west"], ["a2", "a", "west"], ["b", "west"], ["e", "east"]])
    labels = [[tree.labels[node] for node in row] for row in tree.levels]
    assert labels == [["a1", "a2", "b", "e"], ["a", "a", "b", "e"], ["west", "west", "west", "e"], ["*"] * 4]


def numbers(rows: list[list[str]], lo: int, hi: int, grid: int = 1):  # type: ignore[no-untyped-def]
    return levels_of_numbers(Hierarchy.from_rows(rows), (D(lo), D(hi)), D(1), grid)


def tens(first: int, last: int, width: int = 10) -> list[list[str]]:
    return [[str(n), f"{n // width * width}-{n // width * width + width - 1}", "*"] for n in range(first, last + 1)]


def test_a_hierarchy_of_numbers_counts_only_what_lies_in_the_domain() -> None:
    levels = numbers(tens(0, 99), 17, 33)
    lo, hi = levels.recode(1, np.array([0, 2, 3, 12, 13, 16]))  # 17, 19, 20, 29, 30, 33
    assert (lo + 17).tolist() == [17, 17, 20, 20, 30, 30]
    assert (hi + 17).tolist() == [19, 19, 29, 29, 33, 33]


def test_cells_of_a_grid_are_coarsened_where_nodes_end_with_them() -> None:
    levels = numbers(tens(0, 29), 0, 27, grid=5)
    lo, hi = levels.recode(1, np.arange(6))
    assert (lo.tolist(), hi.tolist()) == ([0, 0, 2, 2, 4, 4], [1, 1, 3, 3, 5, 5])


@given(st.permutations(tens(0, 29)), st.integers(0, 10), st.integers(11, 29))
def test_the_order_of_the_lines_does_not_matter(rows: list[list[str]], first: int, last: int) -> None:
    one, other = numbers(rows, first, last), numbers(tens(0, 29), first, last)
    assert (one.lo == other.lo).all() and (one.hi == other.hi).all()


@pytest.mark.parametrize(
    ("rows", "domain", "grid", "message"),
    [
        (tens(0, 9), (0, 10), 1, "the domain's value 10 is no leaf"),
        (tens(1, 9), (0, 9), 1, "the domain's value 0 is no leaf"),
        ([["young", "*"]], (0, 9), 1, "the leaf 'young' is no number"),
        (tens(0, 29), (0, 29), 4, "the node '0-9' ends within a cell of the grid"),
        (
            [["0", "even", "*"], ["1", "odd", "*"], ["2", "even", "*"], ["3", "odd", "*"]],
            (0, 3),
            1,
            "not next to each other",
        ),
        (tens(0, 9), (0, 2_000_000), 1, "too large for a hierarchy"),
    ],
)
def test_a_hierarchy_that_does_not_fit_the_numbers_is_refused(
    rows: list[list[str]], domain: tuple[int, int], grid: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        numbers(rows, *domain, grid)


@pytest.mark.parametrize("label", ["15-19", "[15, 19]", "15 to 19", "15..19", "15–19"])
def test_a_label_that_does_not_hold_its_leaf_is_found(label: str) -> None:
    tree = Hierarchy.from_rows([["19", label, "*"], ["20", label, "*"], ["21", "some", "*"]])
    assert list(labels_beside_their_leaves(tree)) == [("20", label)]


def test_the_published_ages_of_adults_hierarchy_are_off_by_one(adult: Path) -> None:
    with open(adult / "hierarchies" / "age.csv", newline="") as file:
        tree = Hierarchy.from_rows(csv.reader(file, delimiter=";"))
    found = list(labels_beside_their_leaves(tree))
    assert ("20", "15-19") in found and ("19", "15-19") not in found
    levels = levels_of_numbers(tree, (D(17), D(90)), D(1), 1)
    lo, hi = levels.recode(1, np.array([3, 4]))
    assert ((lo + 17).tolist(), (hi + 17).tolist()) == ([17, 21], [20, 25])  # made from the leaves: the rows are inside
