"""What a recoding still risks: the examples of the papers, and which sensitive values are close."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import identity_reserved, k_anonymity, r_k
from streamer.recoding.algorithms.contract import Recoding, local_recoding
from streamer.recoding.metrics import risk
from streamer.recoding.metrics.measures import measure
from streamer.recoding.metrics.risk import tally
from streamer.table.codes import CategoricalAttribute, Diversity, KeptColumn
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata, Subject
from worlds.microdata import GROUPS, INDIVIDUALS, SEVEN, TABLE_5, TONG, VALUES, numbers_of, recoded

# Counting values in QI groups, whatever the size of the values.


@given(given=recoded(), stride=st.sampled_from([1, 2**20, 2**60]))
def test_tallies_count_values_of_any_size(given: tuple[Microdata, Recoding], stride: int) -> None:
    data, recoding = given
    values = data.values[:, 0] * stride
    pairs = zip(recoding.qi_group.tolist(), values.tolist(), strict=True)
    expected = sorted(Counter(pair for pair in pairs if pair[0] >= 0).items())
    found = tally(recoding, values)
    assert [((g, v), c) for g, v, c in zip(*(part.tolist() for part in found), strict=True)] == expected


def test_tongs_table_5_has_the_individuals_and_heights_of_the_paper() -> None:
    found = measure(TONG, TABLE_5, identity_reserved(2))
    assert (found["k"], found["k_individuals"], found["l"]) == (2, 2, 2)
    assert (found["vulnerable"], found["single_value"]) == (0, 0)
    assert found["distortion"] == (3 * 1 + 4 * 1 + 2 * 2) / (9 * 5)
    # group 1 is 4, 4, 5, 6 and group 0 is 1, 1, 3: at least 3 rows both, fewer than 3 individuals in group 0 alone
    assert risk.vulnerable(TONG, TABLE_5, 3) == 1 / 3


def test_tongs_table_2_has_a_vulnerable_group_of_one_individual() -> None:
    """2-anonymous and 2-diverse, and Mike is the only one in the first group (Tong et al. 2010, section 1)."""
    sexes = CategoricalAttribute("sex", Hierarchy.from_rows([["M", "*"], ["F", "*"]]), Decimal(1))
    data = Microdata(
        replace(TONG.table, attributes=(sexes,)),
        np.array([[0], [0], [1], [0], [1], [1]]),
        numbers_of(["Mike", "Mike", "Emily", "Tim", "Jane", "Ella"]),
        np.array([[4], [3], [0], [2], [2], [1]]),
        TONG.texts,
    )
    found = measure(data, local_recoding(data, np.array([0, 0, 1, 1, 2, 2])), k_anonymity(2))
    assert (found["k"], found["l"]) == (2, 2)
    assert (found["vulnerable"], found["single_value"]) == (1 / 3, 1 / 3)
    assert (found["alpha"], found["prosecutor_max"]) == (1, 1)


def test_risk_follows_the_level_that_the_model_bounds() -> None:
    deep = Hierarchy.from_rows(
        [["flu", "viral", "lung", "*"], ["cough", "other", "lung", "*"], ["ulcer", "acid", "belly", "*"]]
    )
    table = replace(SEVEN.table, kept=(KeptColumn("problem", sensitive=True, type="text", hierarchy=deep),))
    texts = ((b'"cough"', b'"flu"', b'"ulcer"'),)
    data = Microdata(table, SEVEN.codes[:3], INDIVIDUALS[:3], np.array([[0], [1], [2]]), texts)
    together = local_recoding(data, np.array([0, 0, 0]))
    assert risk.risk(data, together, k_anonymity(2)) == pytest.approx(1 / 3)  # level 1: viral, other, acid
    assert risk.risk(data, together, r_k(2, Subject(0, 2), Fraction(1))) == pytest.approx(2 / 3)  # lung, lung, belly
    named = replace(data, table=replace(table, diversity=Diversity(level=2)))
    assert risk.risk(named, together, k_anonymity(2)) == pytest.approx(2 / 3)


def test_of_several_bounded_levels_the_lowest_counts() -> None:
    """A bound on families is stricter than one on departments, so the risk is that of the families."""
    deep = Hierarchy.from_rows([["flu", "viral", "lung", "*"], ["ulcer", "acid", "belly", "*"]])
    table = replace(SEVEN.table, kept=(KeptColumn("problem", sensitive=True, type="text", hierarchy=deep),))
    bounded = r_k(2, Subject(0, 3), Fraction(1)) & r_k(2, Subject(0, 2), Fraction(1))
    assert risk.close_subjects(table, bounded) == (Subject(0, 2),)
    assert risk.close_subjects(table, bounded & r_k(2, Subject(0, 1), Fraction(1))) == (Subject(0, 1),)


def test_every_sensitive_column_is_close_at_a_level_of_its_own() -> None:
    """A bound on one column says nothing of another; a column without a hierarchy has its values alone."""
    flat, deep = (Hierarchy.from_rows(rows) for rows in ([["a", "*"], ["b", "*"]], [["c", "x", "*"], ["d", "y", "*"]]))
    kept = (
        KeptColumn("flat", sensitive=True, type="text", hierarchy=flat),
        KeptColumn("harmless", sensitive=False),
        KeptColumn("deep", sensitive=True, type="text", hierarchy=deep),
        KeptColumn("none", sensitive=True),
    )
    table = replace(SEVEN.table, kept=kept)
    assert risk.close_subjects(table, k_anonymity(2)) == (Subject(0, 1), Subject(2, 1), Subject(3, 0))
    assert risk.close_subjects(table, r_k(2, Subject(2, 2), Fraction(1))) == (
        Subject(0, 1), Subject(2, 2), Subject(3, 0),
    )  # fmt: skip
    # a level of the whole table ends at the top of a lower hierarchy
    high = replace(table, diversity=Diversity(level=2))
    assert risk.close_subjects(high, k_anonymity(2)) == (Subject(0, 1), Subject(2, 2), Subject(3, 0))


def test_a_bound_on_single_values_does_not_change_which_values_are_close() -> None:
    assert risk.risk(SEVEN, GROUPS, r_k(2, VALUES, Fraction(1))) == 2 / 3


def test_the_worst_sensitive_column_counts() -> None:
    kept = (
        KeptColumn("problem", sensitive=True),
        KeptColumn("note", sensitive=False),
        KeptColumn("pay", sensitive=True),
    )
    values = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 1]])
    texts = ((b"0", b"1", b"2"), (b"0",), (b"0", b"1"))
    data = Microdata(replace(SEVEN.table, kept=kept), SEVEN.codes[:3], INDIVIDUALS[:3], values, texts)
    found = measure(data, local_recoding(data, np.array([0, 0, 0])), k_anonymity(2))
    assert (found["l"], found["beta"], found["risk"]) == (2, 2 / 3, 2 / 3)


def test_a_table_without_a_sensitive_column_has_no_diversity() -> None:
    harmless = replace(SEVEN.table, kept=(replace(SEVEN.table.kept[0], sensitive=False),))
    found = measure(replace(SEVEN, table=harmless), GROUPS, k_anonymity(3))
    assert {name for name, value in found.items() if value is None} == {"l", "beta", "risk"}


# Values that only one row has, and values that are no answer.


def incomes(texts: list[bytes], individuals: list[int] | None = None) -> Microdata:
    """Rows with these values, all else alike."""
    distinct = tuple(sorted(set(texts)))
    who = None if individuals is None else np.array(individuals)
    table = replace(SEVEN.table, kept=(KeptColumn("income", sensitive=True),), individual=None)
    values = np.array([distinct.index(text) for text in texts], dtype=np.int64)[:, None]
    return Microdata(table, np.zeros((len(texts), 2), dtype=np.int64), who, values, (distinct,))


def test_values_that_nobody_else_has_are_counted_by_rows_and_nulls_are_not_values() -> None:
    assert risk.rows_of_one(incomes([b"1", b"2", b"2", b"3", b"null"]), 0) == 2
    assert risk.rows_of_one(incomes([b"1", b'"Unknown"']), 0) == 1
    assert risk.rows_of_one(incomes([]), 0) == 0


def test_a_value_of_one_persons_rows_alone_is_hers() -> None:
    assert risk.rows_of_one(incomes([b"1", b"1", b"2", b"2"], [0, 0, 1, 2]), 0) == 2
