"""Entropy and recursive l-diversity, and t-closeness: the papers' tables, and the laws of union and of scale."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError
from streamer.kernels.distributions import settled, shortage
from streamer.privacy.distributions import AtLeastEntropy, AtMostDistance, Law, Recursive, distance, laws_of
from streamer.privacy.models import Model
from streamer.table.codes.reference import EQUAL, HIERARCHICAL, ORDERED, Reference, reference_of
from streamer.table.codes.same_text import without_capitals
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import IN_REFERENCE, Subject
from worlds.distributions import law_holds, moved

VALUES, COMPARED = Subject(0), Subject(0, IN_REFERENCE)

# Li, Li and Venkatasubramanian 2007, table 3 and section 4.1: salaries of nine people, diseases with their taxonomy.
SALARIES = reference_of("salary", ORDERED, {f"{i}000": 1 for i in range(3, 12)}, None, without_capitals)
DISEASES = Hierarchy.from_rows(
    [
        ["gastric ulcer", "ulcer", "stomach", "digestive", "*"],
        ["stomach cancer", "cancer", "stomach", "digestive", "*"],
        ["gastritis", "inflammation", "stomach", "digestive", "*"],
        ["colitis", "inflammation of the colon", "colon", "digestive", "*"],
        ["flu", "flu and cold", "vascular lung", "respiratory", "*"],
        ["pneumonia", "lung infection", "vascular lung", "respiratory", "*"],
        ["bronchitis", "lung inflammation", "bronchial", "respiratory", "*"],
    ]
)


def codes(reference: Reference, *values: str) -> np.ndarray:
    return np.array([[reference.code_of(value)] for value in values], dtype=np.int64)


def counts_of(reference: Reference, *values: str) -> np.ndarray:
    return np.bincount(codes(reference, *values)[:, 0])


def test_the_papers_salaries_are_as_far_from_all_as_it_says() -> None:
    assert distance(SALARIES, counts_of(SALARIES, "3000", "4000", "5000")) == pytest.approx(0.375)
    assert distance(SALARIES, counts_of(SALARIES, "6000", "8000", "11000")) == pytest.approx(0.167, abs=1e-3)


def test_a_group_is_close_exactly_up_to_its_distance() -> None:
    lowest = codes(SALARIES, "3000", "4000", "5000")
    assert Model([AtMostDistance(COMPARED, Decimal("0.375"), ORDERED, SALARIES)]).holds(lowest)
    assert not Model([AtMostDistance(COMPARED, Decimal("0.374"), ORDERED, SALARIES)]).holds(lowest)


def test_values_below_one_node_are_nearer_than_others() -> None:
    rows: dict[str | None, int] = dict.fromkeys(DISEASES.leaves, 1)
    reference = reference_of("disease", HIERARCHICAL, rows, DISEASES, without_capitals)
    stomach = distance(reference, counts_of(reference, "gastric ulcer", "gastritis", "stomach cancer"))
    mixed = distance(reference, counts_of(reference, "gastritis", "flu", "bronchitis"))
    equal = reference_of("disease", EQUAL, rows, None, without_capitals)
    assert distance(equal, counts_of(equal, "gastric ulcer", "gastritis", "stomach cancer")) == pytest.approx(4 / 7)
    assert mixed < stomach  # the paper's point: stomach diseases alone are alike


def test_two_equally_frequent_values_are_exactly_two_diverse() -> None:
    model = Model([AtLeastEntropy(VALUES, Decimal(2))])
    assert model.holds(np.array([[1], [2]])) and model.holds(np.array([[1], [1], [2], [2]]))
    assert not model.holds(np.array([[1], [1], [2]]))


@pytest.mark.parametrize("l", [2, 3, 5, 7, 10, 97])
def test_l_equally_frequent_values_are_l_diverse_at_every_size(l: int) -> None:  # noqa: E741
    for times in (1, 3, 1_000):
        rows = np.repeat(np.arange(1, l + 1), times)[:, None]
        assert Model([AtLeastEntropy(VALUES, Decimal(l))]).holds(rows)
        assert not Model([AtLeastEntropy(VALUES, Decimal(l) + Decimal("0.0001"))]).holds(rows)


def test_recursive_diversity_is_strict() -> None:
    """Two rows of the most frequent value, and what the most frequent one leaves is one row: 2 < c * 1."""
    rows = np.array([[1], [1], [2]])
    assert Model([Recursive(VALUES, Decimal("2.1"), 2)]).holds(rows)
    assert not Model([Recursive(VALUES, Decimal(2), 2)]).holds(rows)


def test_a_value_that_comes_later_counts_as_new_or_as_the_next_higher_one() -> None:
    equal = reference_of("x", EQUAL, {"a": 1, "b": 1, None: 2}, None, without_capitals)
    assert (equal.code_of(None), equal.code_of("b"), equal.code_of("c")) == (0, 2, 3)
    assert [SALARIES.code_of(text) for text in ("3500", "1", "99999")] == [2, 1, 9]


def test_values_without_an_order_are_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="say `distance: equal`"):
        reference_of("x", ORDERED, {"7": 1, "many": 2}, None, without_capitals)


def test_a_distance_from_nothing_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="streamer distribution"):
        laws_of((AtMostDistance(COMPARED, Decimal("0.2"), EQUAL, None),), (COMPARED,), 5)


def test_a_moment_stands_before_its_fractions() -> None:
    """Of 12 rows, 6 at 08:00:00, between 3 half a second later and 3 a second later."""
    rows: dict[str | None, int] = {f"2020-01-01t08:00:0{second}z": n for second, n in (("0.5", 3), ("0", 6), ("1", 3))}
    reference = reference_of("x", ORDERED, rows, None, without_capitals)
    assert reference.rows == (0, 6, 3, 3)
    assert distance(reference, np.array([0, 6])) == pytest.approx(0.375)


@pytest.mark.parametrize("scale", [1, 10**6, 10**12, 10**17])
def test_a_reference_of_any_size_gives_the_same_answer(scale: int) -> None:
    rows: dict[str | None, int] = {"1": scale, "2": scale, "3": 2 * scale}
    for kind in (EQUAL, ORDERED):
        reference = reference_of("x", kind, rows, None, without_capitals)
        for t, holds in (("0.51", False), ("0.76", True)) if kind == EQUAL else (("0.62", False), ("0.63", True)):
            law = AtMostDistance(COMPARED, Decimal(t), kind, reference)
            assert Model([law]).holds(np.array([[1]] * 4)) == holds


some_rows = st.lists(st.integers(0, 5), min_size=1, max_size=30)


@st.composite
def laws(draw: st.DrawFn) -> Law:
    kind = draw(st.sampled_from(["entropy", "recursive", EQUAL, ORDERED]))
    if kind == "entropy":
        return AtLeastEntropy(VALUES, Decimal(draw(st.integers(11, 50))) / 10)
    if kind == "recursive":
        return Recursive(VALUES, Decimal(draw(st.integers(1, 60))) / 10, draw(st.integers(2, 5)))
    rows = {str(i): draw(st.integers(0, 9)) for i in range(1, draw(st.integers(1, 6)))}
    some = {value: n for value, n in rows.items() if n} or {"1": 1}
    reference = reference_of("x", kind, some | {None: draw(st.integers(0, 3))}, None, without_capitals)
    return AtMostDistance(COMPARED, Decimal(draw(st.integers(0, 99))) / 100, kind, reference)


@given(laws(), some_rows)
def test_a_law_is_what_its_definition_says(law: Law, rows: list[int]) -> None:
    if isinstance(law, AtMostDistance):
        assert law.reference is not None
        rows = [min(row, law.reference.unknown) for row in rows]
    assert Model([law]).holds(np.array(rows)[:, None]) == law_holds(law, rows)


@pytest.mark.parametrize("nulls", [0, 2])
@pytest.mark.parametrize("kind", [EQUAL, ORDERED])
@given(st.lists(st.sampled_from([1, 9, 99]), min_size=1, max_size=4), st.integers(5, 99), st.data())
def test_the_answer_of_a_distance_stays_the_same_for_as_many_rows_as_is_promised(
    kind: str, nulls: int, n: list[int], percent: int, data: st.DataObject
) -> None:
    """Rows like those of the reference, then nulls: they are further from one without nulls than any value of it."""
    given: dict[str | None, int] = {str(value): rows_of for value, rows_of in enumerate(n, start=1)} | {None: nulls}
    reference = reference_of("x", kind, given, None, without_capitals)
    known = st.sampled_from([code for code, rows_of in enumerate(reference.rows) for _ in range(rows_of)])
    rows = data.draw(st.lists(known, min_size=10, max_size=40)) + [0] * 20
    law = AtMostDistance(COMPARED, Decimal(percent) / 100, kind, reference)
    kernel, counts, answer, promised = laws_of((law,), (law.subject,), len(rows)), np.zeros(8, np.int64), False, 0
    for size, code in enumerate(rows, start=1):
        counts[code] += 1
        present = np.flatnonzero(counts)
        now = kernel, 0, counts, present, len(present), size
        if promised == 0:
            until = settled(*now)
            answer, promised = until > 0, abs(until)
        assert (shortage(*now) == 0) == answer
        promised -= 1


@given(laws(), some_rows, some_rows)
def test_the_union_of_groups_that_hold_holds(law: Law, one: list[int], other: list[int]) -> None:
    if isinstance(law, AtMostDistance):
        assert law.reference is not None
        one, other = ([min(row, law.reference.unknown) for row in rows] for rows in (one, other))
    model = Model([law])
    if model.holds(np.array(one)[:, None]) and model.holds(np.array(other)[:, None]):
        assert model.holds(np.array([*one, *other])[:, None])


@given(laws(), some_rows)
def test_no_group_of_fewer_rows_than_the_least_holds(law: Law, rows: list[int]) -> None:
    if isinstance(law, AtMostDistance):
        assert law.reference is not None
        rows = [min(row, law.reference.unknown) for row in rows]
    assert len(rows) >= law.rows_min or not Model([law]).holds(np.array(rows)[:, None])


@given(laws(), some_rows)
def test_a_distance_in_words_is_the_one_that_decides(law: Law, rows: list[int]) -> None:
    if isinstance(law, AtMostDistance) and law.reference is not None:
        rows = [min(row, law.reference.unknown) for row in rows]
        shares = {code: Fraction(rows.count(code), len(rows)) for code in set(rows)}
        exact = moved(law.reference, shares, None)
        assert distance(law.reference, np.bincount(rows)) == pytest.approx(float(exact))


@given(st.lists(st.integers(1, 300), min_size=1, max_size=20), st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_few_values_of_a_long_order_are_as_far_as_step_by_step(rows: list[int], seed: int, nulls: int) -> None:
    n = np.random.default_rng(seed).integers(1, 9, 300).tolist()
    given: dict[str | None, int] = {str(value): rows_of for value, rows_of in enumerate(n, start=1)} | {None: nulls}
    reference = reference_of("x", ORDERED, given, None, without_capitals)
    exact = moved(reference, {code: Fraction(rows.count(code), len(rows)) for code in set(rows)}, None)
    just = Decimal(int(exact * 10**6)) / 10**6
    for t in (just, just + Decimal("0.000001")):
        law = AtMostDistance(COMPARED, t, ORDERED, reference)
        assert Model([law]).holds(np.array(rows)[:, None]) == (exact <= Fraction(t))
