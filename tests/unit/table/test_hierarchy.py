"""Generalization hierarchies: what a file may look like, and that every node is an interval of leaves."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError
from streamer.table.hierarchy import Hierarchy

Rows = list[list[str]]


@st.composite
def files(draw: st.DrawFn) -> Rows:
    """Rows of a random tree with distinct labels, in any order; several roots at times."""
    tree = st.recursive(st.none(), lambda children: st.lists(children, min_size=1, max_size=4), max_leaves=12)
    rows: Rows = []
    labels = iter(range(10_000))

    def walk(branch: list | None, above: list[str]) -> None:
        path = [f"n{next(labels)}", *above]
        if branch is None:
            rows.append(path)
        for child in branch or []:
            walk(child, path)

    for root in draw(st.lists(tree, min_size=1, max_size=3)):
        walk(root, [])
    return draw(st.permutations(rows))


def leaves_below(rows: Rows) -> dict[str, frozenset[str]]:
    """The twin: label -> leaves, straight from the rows; `*` holds all where there are several roots."""
    below: dict[str, set[str]] = {}
    for row in rows:
        for label in row:
            below.setdefault(label, set()).add(row[0])
    if len({row[-1] for row in rows}) > 1:
        below["*"] = {row[0] for row in rows}
    return {label: frozenset(leaves) for label, leaves in below.items()}


@given(files(), st.data())
def test_the_cover_is_the_smallest_node_of_the_file_that_holds_both_leaves(rows: Rows, data: st.DataObject) -> None:
    tree, below = Hierarchy.from_rows(rows), leaves_below(rows)
    lo = data.draw(st.integers(0, tree.n_leaves - 1))
    hi = data.draw(st.integers(lo, tree.n_leaves - 1))
    smallest = min((s for s in below.values() if {tree.leaves[lo], tree.leaves[hi]} <= s), key=len)
    node = tree.cover(lo, hi)
    assert frozenset(tree.leaves[node[0] : node[1] + 1]) == smallest
    assert below[tree.label(*node)] == smallest


@given(files())
def test_arrays_are_covered_as_single_intervals_are(rows: Rows) -> None:
    tree = Hierarchy.from_rows(rows)
    pairs = np.array([(lo, hi) for lo in range(tree.n_leaves) for hi in range(lo, tree.n_leaves)])
    nodes = tree.cover_many(pairs[:, 0], pairs[:, 1])
    found = list(zip(tree.node_lo[nodes].tolist(), tree.node_hi[nodes].tolist(), strict=True))
    assert found == [tree.cover(lo, hi) for lo, hi in pairs.tolist()]


@given(files())
def test_every_label_of_the_file_names_an_interval_of_leaves(rows: Rows) -> None:
    tree = Hierarchy.from_rows(rows)
    named = {label: frozenset(tree.leaves[lo : hi + 1]) for label, (lo, hi) in tree.interval_of.items()}
    assert named == leaves_below(rows)


@given(files())
def test_children_come_by_first_appearance(rows: Rows) -> None:
    """Numbering the leaves depth first keeps the order of the file wherever the tree leaves a choice."""
    tree = Hierarchy.from_rows(rows)
    first = {
        label: min(i for i, row in enumerate(rows) if label in row) for label in leaves_below(rows) if label != "*"
    }

    def place(leaf: str) -> list[int]:
        row = next(row for row in rows if row[0] == leaf)
        return [first[label] for label in reversed(row)]

    assert list(tree.leaves) == sorted(tree.leaves, key=place)


def test_ragged_rows_are_read_from_the_root_end() -> None:
    tree = Hierarchy.from_rows([["flu", "lung", "*"], ["burn", "*"], ["cough", "lung", "*"]])
    assert tree.leaves == ("flu", "cough", "burn")
    assert tree.label(0, 1) == "lung"
    assert tree.n_levels == 3


def test_several_roots_get_a_common_one() -> None:
    tree = Hierarchy.from_rows([["a", "west"], ["b", "east"], ["c", "east"]])
    assert tree.label(*tree.cover(0, 2)) == "*"


def test_a_repeated_leaf_row_with_the_same_path_is_accepted() -> None:
    assert Hierarchy.from_rows([["a", "x", "*"], ["b", "x", "*"], ["a", "x", "*"]]).leaves == ("a", "b")


def test_blank_rows_and_the_blanks_around_a_label_do_not_count() -> None:
    assert Hierarchy.from_rows([[" a ", "*"], [], [""], ["b", "* "]]).leaves == ("a", "b")


def test_nodes_with_the_same_leaves_are_one_node_named_by_the_lowest() -> None:
    tree = Hierarchy.from_rows([["a", "A", "*"], ["b", "B", "*"], ["c", "B", "*"]])
    assert tree.label(*tree.cover(0, 0)) == "a"
    assert tree.interval_of["A"] == (0, 0)


def test_a_tree_of_one_leaf_has_one_node() -> None:
    tree = Hierarchy.from_rows([["only", "*"]])
    assert (tree.n_nodes, tree.label(0, 0)) == (1, "only")


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "no rows"),
        ([["", "x", "*"]], "the leaf, is empty"),
        ([["a", "x", "*"], ["a", "y", "*"]], "another path"),
        ([["a", "x", "*"], ["x", "*"]], "inner node"),
        ([["a", "Other", "x", "*"], ["b", "Other", "y", "*"], ["c", "y", "*"]], "two different sets"),
    ],
)
def test_a_file_that_no_reader_could_decode_is_refused(rows: Rows, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Hierarchy.from_rows(rows)


def test_the_fingerprint_is_that_of_the_contents() -> None:
    rows = [["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"]]
    same = Hierarchy.from_rows([*rows, rows[0]])
    renamed = Hierarchy.from_rows([["a", "z", "*"], ["b", "z", "*"], ["c", "y", "*"]])
    assert Hierarchy.from_rows(rows).fingerprint() == same.fingerprint()
    assert Hierarchy.from_rows(rows).fingerprint() != renamed.fingerprint()


def test_the_hierarchies_of_adult_hold_every_category_of_adult(adult: Path) -> None:
    with open(adult / "adult.csv", encoding="utf-8", newline="") as file:
        data = list(csv.DictReader(file, delimiter=";"))
    for name in data[0]:
        with open(adult / "hierarchies" / f"{name}.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter=";"))
        tree = Hierarchy.from_rows(rows)
        assert {row[name] for row in data} <= set(tree.leaves), name
        assert tree.label(*tree.cover(0, tree.n_leaves - 1)) == "*"
        assert set(tree.leaves) == {row[0] for row in rows if row}
