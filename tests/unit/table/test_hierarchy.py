"""Generalization hierarchies: what a file may look like, and that every node is an interval of leaves."""

from __future__ import annotations

import csv
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError
from streamer.table.codes import CategoricalAttribute, NumericAttribute
from streamer.table.hierarchy import (
    Hierarchy,
    Levels,
    labels_beside_their_leaves,
    levels_of_numbers,
    levels_of_tree,
    rows_of_text,
    value_numbers,
)
from worlds.microdata import TABLES
from worlds.people_files import CRAFTS, Lines, arx_files, by_label

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


ROUNDED = [["33.1", "33.1", "30-39", "*"], ["33.12", "33.1", "30-39", "*"], ["34", "34.0", "30-39", "*"]]
"""Level 1 rounds the leaves to one place, as ARX does."""


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "no rows"),
        ([["", "x", "*"]], "is empty: if it stands for empty cells, as in files of ARX, set `null: own-category`"),
        ([["a", "x", "*"], ["a", "y", "*"]], "another path"),
        (
            ROUNDED,
            "'33.1' is a leaf and the node at level 1 over 2 leaves, and no reader of a published '33.1' could tell"
            " which one is meant: rename the node, such as to '33.1*'",
        ),
        ([["a", "x", "*"], ["b", "x", "*"], ["x", "*"], ["x*", "*"]], "such as to 'x**'"),
        (
            [["a", "y", "x", "*"], ["b", "y", "x", "*"], ["c", "z", "y", "*"], ["d", "z", "y", "*"], ["e", "y", "*"]],
            "'y' is the node at level 1 over 2 leaves and the node at level 2 over 3 leaves",
        ),
        (
            [["*", "x"], ["b", "x"], ["c", "z"]],
            "rows end with several labels, 'x' and 'z': end all with one",
        ),
        ([["term", "group"], ["a", "*"], ["b", "*"]], "'group' and '*' (is the row of 'term' a header? remove it)"),
        ([["a", "x"], ["b", "x"], ["x", "*"]], "rows are pairs of a node and the one above it"),
        ([["*", "x", "a"], ["*", "x", "b"], ["*", "y", "c"]], "and these seem to begin with the root"),
        (
            [["a", "Other", "x", "*"], ["b", "Other", "y", "*"], ["c", "y", "*"]],
            "'Other' at level 1 names two sets of leaves: rename one of them, such as to 'Other*'",
        ),
    ],
)
def test_a_file_that_no_reader_could_decode_is_refused(rows: Rows, complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        Hierarchy.from_rows(rows)


@pytest.mark.parametrize(
    "text",
    [
        "flu;lung;*\nulcer;belly;*\n",
        "flu,lung,*\r\nulcer,belly,*\r\n",
        "flu\tlung\t*\nulcer\tbelly\t*\n",
        "flu|lung|*\nulcer|belly|*\n",
        "flu ; lung ; *\n\nulcer ; belly ; *",
        "sep=;\nflu;lung;*\nulcer;belly;*\n",
        "# made by hand\nflu;lung;*\n#\nulcer;belly;*\n",
        "leaf;level1;level2\nflu;lung;*\nulcer;belly;*\n",
        "Disease;group;all\nflu;lung;*\nulcer;belly;*\n",
        "# disease;Level 1;Level 2\nflu;lung;*\nulcer;belly;*\n",
    ],
)
def test_a_file_is_read_as_people_bring_it(text: str) -> None:
    tree = Hierarchy.from_rows(rows_of_text(text, "disease"))
    assert (tree.leaves, tree.n_levels, tree.labels[0]) == (("flu", "ulcer"), 3, "*")


@pytest.mark.parametrize(
    "text", ["Doe, J;a|b;*\nRoe, K;a|b;*\n", "#1;odd;*\n#2;even;*\n", "disease;other;*\nflu;other;*\n", "flu\nulcer\n"]
)
def test_a_file_of_strange_labels_loses_none(text: str) -> None:
    rows = rows_of_text(text, "disease")
    assert [row[0] for row in rows] == [line.split(";")[0] for line in text.splitlines()]


def test_a_fault_names_the_line_of_the_file() -> None:
    with pytest.raises(ConfigError, match="row 4: leaf 'flu' has another path"):
        Hierarchy.from_rows(rows_of_text("disease;level1\n# twice\nflu;lung\nflu;belly\n", "disease"))


ACCENTS = Hierarchy.from_rows([["K\u00f6ln", "*"], ["\u00c9vora", "*"], ["S\u00e3o Paulo", "*"]])


@pytest.mark.parametrize(
    "text", ["k\u00f6ln", "KOLN", "Sa\u0303o  paulo", "Ko\u0308\u200bln", "\uff2b\u00f6ln", "evora"]
)
def test_a_text_that_only_looks_like_a_leaf_is_known_as_such(text: str) -> None:
    assert ACCENTS.has_look_alike(text)
    assert not ACCENTS.has_look_alike("Kolding")


def test_a_label_may_name_a_leaf_and_a_node_where_only_one_of_them_is_ever_published() -> None:
    """Level 1 of 7.04 is 7.0, and holds it alone: published is 7.04. Level 2 of 8.1 and 9.1 is 7.0, too."""
    rows = [["7.04", "7.0", "7", "*"], ["7.11", "7.1", "7", "*"], ["8.1", "8", "7.0", "*"], ["9.1", "9", "7.0", "*"]]
    tree = Hierarchy.from_rows(rows)
    published = {tree.label(*tree.cover(lo, hi)) for lo in range(4) for hi in range(lo, 4)}
    assert published == {"7.04", "7.11", "8.1", "9.1", "7", "7.0", "*"}
    assert tree.interval_of["7.0"] == (2, 3)
    rounded = Hierarchy.from_rows([["33.1", "33.1", "33", "*"], ["33.2", "33.2", "33", "*"], ["40", "40", "40", "*"]])
    assert rounded.labels == ("*", "33", "33.1", "33.2", "40")


def test_a_node_is_a_label_at_a_level_where_no_label_is_published() -> None:
    """Intervals are published of numbers, and leaves of sensitive values."""
    tree = Hierarchy.from_rows(ROUNDED, published=False)
    assert tree.leaves == ("33.1", "33.12", "34")
    of_levels = [[tree.leaves[tree.node_lo[n] : tree.node_hi[n] + 1] for n in level] for level in tree.levels]
    both, every = ("33.1", "33.12"), tree.leaves
    assert of_levels == [[("33.1",), ("33.12",), ("34",)], [both, both, ("34",)], [every] * 3, [every] * 3]


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


# Levels of full-domain recoding: what each publishes for a cell, and hierarchies of numbers.

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
        (tens(0, 9), (0, 10), 1, "10 is in the domain, but not a leaf"),
        (tens(1, 9), (0, 9), 1, "0 is in the domain, but not a leaf"),
        ([["young", "*"]], (0, 9), 1, "the leaf 'young' is not a number"),
        (tens(0, 29), (0, 29), 4, "the node '0-9' begins or ends inside a cell of the grid"),
        (
            [["0", "even", "*"], ["1", "odd", "*"], ["2", "even", "*"], ["3", "odd", "*"]],
            (0, 3),
            1,
            "not consecutive",
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


# --- levels whose values nest -----------------------------------------------------------------------------------------


def assert_levels(levels: Levels, n_cells: int) -> None:
    """Level 0 is the cell, the last one everything, each contains the one below and parts nothing that it made one."""
    cells = np.arange(n_cells)
    before = list(zip(*levels.recode(0, cells), strict=True))
    assert before == [(cell, cell) for cell in cells]
    for level in range(1, levels.n_levels):
        here = list(zip(*levels.recode(level, cells), strict=True))
        assert all(lo <= lower[0] and lower[1] <= hi for lower, (lo, hi) in zip(before, here, strict=True))
        becomes: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for lower, value in zip(before, here, strict=True):
            becomes.setdefault(lower, set()).add(value)
        assert {len(values) for values in becomes.values()} == {1}
        before = here
    assert set(before) == {(0, n_cells - 1)}


@given(arx_files())
def test_levels_of_any_file_contain_one_another_and_part_nothing(lines: Lines) -> None:
    tree = Hierarchy.from_rows(lines)
    assert_levels(levels_of_tree(tree), tree.n_leaves)


@given(arx_files(), st.data())
def test_the_levels_of_a_file_do_not_depend_on_the_order_of_its_lines(lines: Lines, data: st.DataObject) -> None:
    permuted = data.draw(st.permutations(lines))
    assert by_label(Hierarchy.from_rows(lines)) == by_label(Hierarchy.from_rows(permuted))


def test_a_level_may_publish_a_value_and_what_contains_it() -> None:
    levels = levels_of_tree(Hierarchy.from_rows(CRAFTS))  # baker, smith, unknown
    lo, hi = levels.recode(1, np.arange(3))
    assert (lo.tolist(), hi.tolist()) == ([0, 0, 0], [1, 1, 2])
    assert value_numbers(levels, 1, np.arange(3)).tolist() == [0, 0, 1]
    assert [levels.reach(level, np.arange(3)).tolist() for level in range(3)] == [[0, 1, 2], [2, 2, 2], [2, 2, 2]]


def test_where_a_line_runs_ahead_the_others_of_its_value_follow() -> None:
    """One level up both are m; two levels up the file says m of a and * of b: then * counts for both."""
    tree = Hierarchy.from_rows([["a", "m", "m", "*"], ["b", "m", "*", "*"], ["c", "n", "n", "*"]])
    assert [tree.labels[node] for node in tree.levels[2]] == ["*", "*", "c"]


# --- hierarchies of numbers with repeated labels ----------------------------------------------------------------------


def test_a_repeated_label_of_a_number_may_be_its_leaf() -> None:
    lines = [[f"{n // 10}.{n % 10}", f"{n // 10}.{n % 10}", str(n // 10), "*"] for n in range(330, 350)]
    levels = levels_of_numbers(Hierarchy.from_rows(lines), (D("33.0"), D("34.4")), D("0.1"), 5)
    assert_levels(levels, 3)
    assert levels.recode(1, np.arange(3))[1].tolist() == [0, 1, 2]
    assert levels.recode(2, np.arange(3))[1].tolist() == [1, 1, 2]


@given(st.data(), st.sampled_from([1, 2, 4]))
def test_any_padding_of_a_hierarchy_of_numbers_is_taken(data: st.DataObject, grid: int) -> None:
    """Eights and fours, in any order of lines, each label once or several times; the grid may be coarser."""
    copies = st.sampled_from([1, 1, 2])
    lines = [
        [label for label in (str(n), f"four {n // 4}", f"eight {n // 8}", "*") for _ in range(data.draw(copies))]
        for n in range(16)
    ]
    one = numbers(data.draw(st.permutations(lines)), 0, 15, grid)
    other = numbers(lines, 0, 15, grid)
    assert_levels(one, 16 // grid)
    assert (one.lo == other.lo).all() and (one.hi == other.hi).all()
