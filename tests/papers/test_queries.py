"""COUNT queries over source tables, generalized tables and lossy joins: Tong et al. 2010, sections 3.2 and 4."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.papers.queries import Query, actual, from_boxes, from_lossy_join, random_queries, relative_correctness
from streamer.errors import UsageError
from streamer.recoding.algorithms.contract import Recoding, local_recoding
from streamer.recoding.algorithms.lossy_join import lossy_join
from streamer.table.microdata import Microdata
from worlds.microdata import DISEASES, TABLE_5, TABLES, TEXTS, TONG, ZIPS, microdata, people
from worlds.small_tables import CITY, YEARS


def asking(zips: list[str], diseases: list[str]) -> Query:
    cells = np.sort([ZIPS.code_of[zip_] for zip_ in zips])
    return Query((0,), (cells,), 0, np.sort([DISEASES.index(disease) for disease in diseases]))


# Table 5: group 0 is 1008* = {10085 twice, 10087}, group 1 is 1007* = {10075 twice, 10076, 10077}, group 2 is
# 100** = {10050, 10086}, seven leaves. Table 6, of distinct zips, has 2, 3 and 2 rows; the zips that it prints beside
# them are those of table 3 in order, not those of table 5 by group.
@pytest.mark.parametrize(
    ("query", "act", "boxes", "join"),
    [
        # one leaf of three in group 0, one zip of two
        (asking(["10085"], ["Hypertension"]), 1, 1 / 3, 1 / 2),
        # group 1: Hypertension and Diabetes, two leaves of three, two zips of three; the Diabetes of group 2 may be any
        # of seven leaves, but no zip of group 2 is asked for
        (asking(["10075", "10076"], ["Hypertension", "Diabetes"]), 2, 2 * 2 / 3 + 2 / 7, 2 * 2 / 3),
        # groups 0 and 2 hold one Heart each: 1/3 and 1/7 of the leaves; in table 6 10086 is in group 2 alone
        (asking(["10086"], ["Heart"]), 0, 1 / 3 + 1 / 7, 1 / 2),
        # everything: all Heart rows, whatever is published
        (asking(list(ZIPS.leaves), ["Heart"]), 3, 3, 3),
    ],
)
def test_tongs_example_by_hand(query: Query, act: int, boxes: float, join: float) -> None:
    assert actual(TONG, [query]).tolist() == [act]
    assert from_boxes(TONG, TABLE_5, [query]) == pytest.approx([boxes])
    assert from_lossy_join(lossy_join(TONG, TABLE_5), [query]) == pytest.approx([join])


def test_two_attributes_share_a_box_by_their_product() -> None:
    """Years 0..3 and city west (a1, a2, b1): 2 of 4 cells and 1 of 3 leaves, so a sixth of each of two rows."""
    data = Microdata(people(YEARS, CITY), np.array([[0, 0], [3, 2]]), None, np.array([[1], [1]]), TEXTS)
    query = Query((0, 1), (np.array([1, 2, 7]), np.array([0, 5])), 0, np.array([1]))
    assert from_boxes(data, local_recoding(data, np.array([0, 0])), [query]) == pytest.approx([2 / 6])


def test_relative_correctness_falls_by_half_for_every_whole_answer_it_is_off() -> None:
    assert relative_correctness(np.array([5]), np.array([5.0])) == 1
    assert relative_correctness(np.array([5]), np.array([10.0])) == 1 / 2
    assert relative_correctness(np.array([5]), np.array([0.0])) == 1 / 2
    assert relative_correctness(np.array([1]), np.array([3.0])) == 1 / 4


def test_queries_that_match_no_row_are_skipped() -> None:
    assert relative_correctness(np.array([0, 5]), np.array([7.0, 5.0])) == 1
    assert relative_correctness(np.array([0]), np.array([7.0])) is None


def test_more_quasi_identifiers_than_there_are_cannot_be_asked_about() -> None:
    with pytest.raises(UsageError, match="2 quasi-identifiers: the table has 1"):
        random_queries(TONG, 1, 2, 0, seed=0)
    with pytest.raises(UsageError, match="without rows"):
        random_queries(TONG.rows(np.arange(0)), 1, 1, 0, seed=0)


@st.composite
def asked(draw: st.DrawFn) -> tuple[Microdata, Recoding, list[Query]]:
    data = draw(microdata(draw(st.sampled_from(list(TABLES.values()))), max_rows=25))
    groups = draw(st.lists(st.integers(-1, 3), min_size=len(data), max_size=len(data)))
    qd = draw(st.integers(0, data.space.d))
    queries = random_queries(data, 5, qd, 0, seed=draw(st.integers(0, 99)))
    return data, local_recoding(data, np.array(groups)), queries


def wants(query: Query, cells: list[int]) -> bool:
    return all(cells[j] in wanted for j, wanted in zip(query.attributes, query.cells, strict=True))


@given(asked=asked())
def test_answers_are_what_a_loop_over_rows_counts(asked: tuple[Microdata, Recoding, list[Query]]) -> None:
    data, recoding, queries = asked
    cells, values, group = data.cells.tolist(), data.values[:, 0].tolist(), recoding.qi_group.tolist()
    for query, act, boxes, join in zip(
        queries,
        actual(data, queries),
        from_boxes(data, recoding, queries),
        from_lossy_join(lossy_join(data, recoding), queries),
        strict=True,
    ):
        hits = [i for i, value in enumerate(values) if value in query.values]
        assert act == sum(wants(query, cells[i]) for i in hits)
        spread = joined = 0.0
        for i in hits:
            if group[i] >= 0:
                share = 1.0
                for j, wanted in zip(query.attributes, query.cells, strict=True):
                    box = range(recoding.lo[group[i], j], recoding.hi[group[i], j] + 1)
                    share *= sum(cell in wanted for cell in box) / len(box)
                spread += share
                qit = {tuple(cells[other]) for other in range(len(data)) if group[other] == group[i]}
                joined += sum(wants(query, list(row)) for row in qit) / len(qit)
        assert boxes == pytest.approx(spread)
        assert join == pytest.approx(joined)


@given(asked=asked())
def test_a_table_that_is_published_as_it_is_answers_exactly(
    asked: tuple[Microdata, Recoding, list[Query]],
) -> None:
    data, _, queries = asked
    alike = local_recoding(data, np.unique(data.cells, axis=0, return_inverse=True)[1].ravel())
    act = actual(data, queries)
    assert from_boxes(data, alike, queries) == pytest.approx(act)
    assert from_lossy_join(lossy_join(data, alike), queries) == pytest.approx(act)


@given(asked=asked(), seed=st.integers(0, 99))
def test_queries_are_drawn_from_the_seed_and_the_values_of_the_table_alone(
    asked: tuple[Microdata, Recoding, list[Query]], seed: int
) -> None:
    data, _, _ = asked
    shuffled = data.rows(np.random.default_rng(seed).permutation(len(data)))
    for one, other in zip(random_queries(data, 4, 1, 0, seed), random_queries(shuffled, 4, 1, 0, seed), strict=True):
        assert one.attributes == other.attributes
        assert [cells.tolist() for cells in one.cells] == [cells.tolist() for cells in other.cells]
        assert one.values.tolist() == other.values.tolist()
        for j, cells in zip(one.attributes, one.cells, strict=True):
            assert set(cells.tolist()) <= set(data.cells[:, j].tolist())


def test_queries_ask_for_about_a_twentieth_of_independent_rows() -> None:
    """64 values in two attributes and a sensitive column: 24 of each, 64 * 0.05 ** (1 / 3) = 23.6 rounded up."""
    n = 64
    rng = np.random.default_rng(0)
    domain = (YEARS.domain[0], YEARS.domain[0] + n - 1)
    wide = people(replace(YEARS, domain=domain), replace(YEARS, name="other", domain=domain))
    texts = (tuple(b"%d" % i for i in range(n)),)
    data = Microdata(wide, rng.integers(0, n, (20_000, 2)), None, rng.integers(0, n, (20_000, 1)), texts)
    queries = random_queries(data, 50, 2, 0, seed=1)
    assert {len(part) for query in queries for part in (*query.cells, query.values)} == {24}
    assert actual(data, queries).mean() / len(data) == pytest.approx((24 / n) ** 3, rel=0.02)
