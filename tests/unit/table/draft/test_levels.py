"""Drafted hierarchies hold every value, nest, and come back from their file as they were drafted."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.errors import ConfigError
from streamer.table.draft.columns import HierarchyRows
from streamer.table.draft.levels import RARE, by_frequency, by_intervals, by_order, by_prefix
from streamer.table.draft.yaml_text import hierarchy_text
from streamer.table.hierarchy import Hierarchy, labels_beside_their_leaves, levels_of_numbers, rows_of_text
from worlds.calls import streamer
from worlds.checkout import PATIENTS
from worlds.people_files import write

CODES = st.lists(st.from_regex(r"[A-C][0-9]{1,2}(\.[0-9]{1,2})?", fullmatch=True), min_size=2, max_size=30)
NUMBERS = st.lists(
    st.integers(-30, 60) | st.decimals(-5, 5, places=1, allow_nan=False), min_size=2, max_size=30, unique=True
)


def read(rows: HierarchyRows) -> Hierarchy:
    """The tree of the file, in which levels nest."""
    found = rows_of_text(hierarchy_text(rows), "column")
    assert [tuple(row) for row in found] == [*rows]
    tree = Hierarchy.from_rows(found)
    for below, above in zip(tree.levels, tree.levels[1:], strict=False):
        assert (tree.node_lo[above] <= tree.node_lo[below]).all()
        assert (tree.node_hi[above] >= tree.node_hi[below]).all()
        assert len(np.unique(above)) <= len(np.unique(below))
    return tree


@pytest.mark.parametrize("by", [by_prefix, by_frequency, lambda texts: by_order(texts, 3)])
@given(texts=CODES)
def test_every_value_is_a_leaf_and_levels_nest(by: object, texts: list[str]) -> None:
    try:
        rows = by(texts)  # type: ignore[operator]
    except ConfigError as error:
        assume("joins nothing" not in str(error))
        raise
    assert sorted(read(rows).leaves) == sorted({*texts})


@given(NUMBERS, st.integers(2, 5))
def test_intervals_hold_every_number_between_their_ends(numbers: list[Decimal], fan: int) -> None:
    try:
        rows = by_intervals([str(number) for number in numbers], fan)
    except ConfigError as error:
        assume("joins nothing" not in str(error))
        raise
    leaves = {Decimal(leaf) for leaf in read(rows).leaves}
    assert {Decimal(str(number)) for number in numbers} <= leaves
    assert [*labels_beside_their_leaves(read(rows))] == []


def test_intervals_serve_a_numeric_column() -> None:
    rows = by_intervals(["17", "23", "67", "", "90"], fan=2)
    assert rows[0] == ("15", "15-19", "15-19", "15-19", "15-39", "*")
    levels = levels_of_numbers(read(rows), (Decimal(rows[0][0]), Decimal(rows[-1][0])), Decimal(1), 1)
    assert levels.n_levels == 6


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["E11.9", "E11.0", "E10.1", "I10", "I21.4"], ("E10.1", "E10*", "E1*", "E*", "*")),
        (["62.01", "62.02", "63.11", "01.11"], ("01.11", "01.1*", "0*", "*")),
        (["10115", "10117", "10243", "80331"], ("10115", "1011*", "10*", "*")),
    ],
    ids=["ICD-10", "NACE", "postal"],
)
def test_codes_are_joined_by_what_they_begin_with(texts: list[str], first: tuple[str, ...]) -> None:
    assert min(by_prefix(texts)) == first
    read(by_prefix(texts))


def test_an_order_may_be_given() -> None:
    rows = by_order(["mild", "none", "strong", "?"], 2, ("none", "mild", "strong", "unbearable"))
    assert rows[0] == ("none", "none to mild", "*")
    assert read(rows).leaves == ("none", "mild", "strong", "unbearable")
    with pytest.raises(ConfigError, match="1 of the column's 3 values"):
        by_order(["mild", "none", "strong"], 2, ("none", "mild"))
    assert [row[0] for row in by_order(["10", "9", "1"], 2)] == ["1", "9", "10"]


@given(CODES)
def test_the_rarest_values_have_at_most_their_share_of_the_rows(texts: list[str]) -> None:
    try:
        rows = by_frequency(texts)
    except ConfigError:
        return
    counts = Counter(texts)
    for level in range(1, max(map(len, rows)) - 1):
        joined = [row[0] for row in rows if row[level].endswith(" rarest")]
        assert sum(counts[value] for value in joined) <= max(RARE) * len(texts)
        assert max(counts[value] for value in joined) <= min(
            (count for value, count in counts.items() if value not in joined), default=len(texts)
        )


def test_values_that_no_reader_could_tell_from_a_node_are_refused_without_being_named() -> None:
    with pytest.raises(ConfigError, match="a value has the label of a node") as refused:
        by_prefix(["E1*", "E11", "E12", "F1"])
    assert "E1" not in str(refused.value)


# The command.


def test_a_drafted_file_is_read_with_the_table(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", {"id": [*map(str, range(9))], "code": ["E11.9", "E10.1", "I10"] * 3})
    assert streamer("init", rows, "-o", tmp_path / "mine").exit_code == 0
    file = tmp_path / "mine" / "hierarchies" / "code.csv"
    call = ("hierarchy", rows, "--column", "code", "--by", "prefix", "-o", file)
    assert "exists already" in streamer(*call).stderr
    done = streamer(*call, "--force")
    assert (done.exit_code, file.read_text()) == (0, "E10.1;E1*;*\nE11.9;E1*;*\nI10;I1*;*\n"), done.stderr
    assert streamer("check", "--table", tmp_path / "mine", "--data", rows).exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--column", "agee", "--by", "order"), "has no column 'agee'; it has id, name, age"),
        (("--column", "sex", "--by", "intervals"), "not all values are numbers"),
        (("--column", "zip", "--by", "prefix", "--fan", "3"), "--fan: of no use with --by prefix"),
        (("--column", "age", "--by", "intervals", "--width", "0"), "--width: must be a number above 0"),
        (("--column", "age", "--by", "intervals", "--width", "2.5"), "--width: must be a multiple of 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], said: str) -> None:
    result = streamer("hierarchy", PATIENTS / "rows.csv", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
