"""The one way to run an algorithm: what cannot be done is said before anything runs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError, LawViolated, UsageError
from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.catalog import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    algorithm_named,
    initial_groups,
    numbered,
    run,
)
from streamer.recoding.algorithms.contract import (
    STAYING,
    SUPPRESSED,
    Algorithm,
    Options,
    Recoding,
    by_box,
    local_recoding,
)
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import MODELS, TABLES, TEXTS, assert_laws, boxes, data_of, microdata

# The numbers of QI groups: by their boxes, and where these are equal by chance.


@st.composite
def recodings(draw: st.DrawFn) -> Recoding:
    data: Microdata = draw(microdata(draw(st.sampled_from(list(TABLES.values())))))
    group = draw(st.lists(st.integers(-1, 6), min_size=len(data), max_size=len(data)))
    return local_recoding(data, np.array(group, dtype=np.int64), rounds=3)


def box_of_rows(recoding: Recoding) -> list[tuple[list[int], list[int]] | None]:
    ends = list(zip(recoding.lo.tolist(), recoding.hi.tolist(), strict=True))
    return [None if group < 0 else ends[group] for group in recoding.qi_group.tolist()]


@given(recoding=recodings(), seed=st.integers(0, 99))
def test_numbering_changes_numbers_only_and_puts_them_in_the_order_of_the_boxes(recoding: Recoding, seed: int) -> None:
    found = numbered(recoding, np.random.default_rng(seed))
    assert box_of_rows(found) == box_of_rows(recoding)
    assert boxes(found) == boxes(recoding)
    pairs = set(zip(recoding.qi_group.tolist(), found.qi_group.tolist(), strict=True))
    assert len(pairs) == len({before for before, _ in pairs}) == len({after for _, after in pairs})
    ends = np.concatenate([found.lo, found.hi], axis=1).tolist()
    assert ends == sorted(ends)
    assert found.details == {"rounds": 3}


def test_groups_of_one_box_have_every_order_equally_often() -> None:
    box = np.array([[0], [0], [0], [5]])
    recoding = Recoding(np.array([0, 1, 2, 3, -1]), box, box + 1)
    n = 6_000
    found = Counter(tuple(numbered(recoding, np.random.default_rng(seed)).qi_group.tolist()) for seed in range(n))
    assert {order[3:] for order in found} == {(3, -1)}
    assert len(found) == 6
    assert all(abs(count - n / 6) < 5 * (n * 5 / 36) ** 0.5 for count in found.values())


@given(recoding=recodings())
def test_merging_leaves_every_box_once_and_every_row_in_its_box(recoding: Recoding) -> None:
    found = by_box(recoding)
    assert box_of_rows(found) == box_of_rows(recoding)
    ends = np.concatenate([found.lo, found.hi], axis=1)
    assert len(np.unique(ends, axis=0)) == found.n_groups
    assert (found.sizes > 0).all()


PLAIN, PEOPLE = TABLES["one number"], TABLES["individuals"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("k", "fewer than k = 3"),
        ("distinct l", "1 distinct value of problem other than null is fewer than 2"),
        (
            "(alpha, beta)",
            "one of the values of problem has 2 of 2 rows (1.000); the largest share allowed is 0.666667",
        ),
    ],
)
def test_a_model_that_no_grouping_can_hold_is_refused_with_the_reason(name: str, reason: str) -> None:
    data = microdata_of_two_alike()
    with pytest.raises(ConfigError, match="cannot hold on this data") as caught:
        run(ALGORITHMS["mondrian"], data, MODELS[name])
    assert reason in str(caught.value)


def microdata_of_two_alike() -> Microdata:
    return data_of(PLAIN, np.zeros((2, 1), np.int64))


def test_data_without_rows_is_refused() -> None:
    with pytest.raises(ConfigError, match="no rows"):
        run(ALGORITHMS["mondrian"], microdata_of_two_alike().rows(np.array([], dtype=np.int64)), MODELS["k"])


def test_what_an_algorithm_cannot_do_is_said_before_it_runs() -> None:
    for options, reason in ((Options(suppression=0.1), "suppressed rows"), (Options(refine=1), "sweeps")):
        with pytest.raises(UsageError, match=reason):
            run(ALGORITHMS["mondrian"], microdata_of_two_alike(), MODELS["k"], options)
    with pytest.raises(UsageError, match="there is no algorithm 'magic'; there are mondrian"):
        algorithm_named("magic")


def leaving_out(n: int) -> Algorithm:
    """An algorithm that publishes one QI group and leaves out the n rows that come last."""

    def leave_out(microdata: Microdata, model: Model, options: Options) -> Recoding:
        return local_recoding(microdata, np.where(np.arange(len(microdata)) < len(microdata) - n, 0, SUPPRESSED))

    return Algorithm("leaves out", "", "", leave_out, suppresses=True)


def test_as_many_rows_as_the_share_allows_may_be_left_out_and_not_one_more() -> None:
    data, fifth = data_of(PLAIN, np.arange(10)[:, None]), 0.2
    for n in (0, 1, 2):
        assert run(leaving_out(n), data, k_anonymity(2), Options(suppression=fifth)).n_suppressed == n
    with pytest.raises(LawViolated, match="3 rows are suppressed, more than was allowed"):
        run(leaving_out(3), data, k_anonymity(2), Options(suppression=fifth))


def test_qi_groups_of_one_box_become_one_where_that_is_asked_for_alone() -> None:
    def in_pairs(microdata: Microdata, model: Model, options: Options) -> Recoding:
        return local_recoding(microdata, np.arange(len(microdata)) // 2)

    data = data_of(PLAIN, np.array([0, 0, 0, 0, 5, 5])[:, None])
    pairs = Algorithm("pairs", "", "", in_pairs)
    assert run(pairs, data, k_anonymity(2)).sizes.tolist() == [2, 2, 2]
    assert run(pairs, data, k_anonymity(2), Options(merge_equal_boxes=True)).sizes.tolist() == [4, 2]


def test_a_share_of_suppressed_rows_is_the_decimal_that_was_written() -> None:
    """29 % of 100 rows are 29 of them, though 0.29 * 100 is 28.999999999999996."""
    ages = np.repeat([0, 9], [71, 29])[:, None]
    data = data_of(PLAIN, ages)
    recoding = run(ALGORITHMS["ola"], data, k_anonymity(30), Options(suppression=0.29))
    assert (recoding.levels, recoding.n_suppressed) == ((0,), 29)
    assert Options(suppression=0.28).suppressed_max(100) == 28


@pytest.mark.parametrize("name", ALGORITHMS)
@given(data=st.data(), small=st.sampled_from(list(TABLES.values())))
def test_merged_groups_obey_all_laws_and_no_two_share_a_box(name: str, data: st.DataObject, small: Table) -> None:
    model = data.draw(st.sampled_from(list(MODELS.values())))
    recoding = assert_laws(ALGORITHMS[name], data.draw(microdata(small)), model, Options(merge_equal_boxes=True))
    boxes = np.concatenate([recoding.lo, recoding.hi], axis=1)
    assert len(np.unique(boxes, axis=0)) == len(boxes)


# -- how far it is --------------------------------------------------------------------------------------------------

HARD = pytest.mark.parametrize("model", ["k", "distinct l", "(alpha, beta)"])


def a_crowd(n: int = 120) -> Microdata:
    """People of many kinds, of whom some have two rows, and some values that are rare."""
    rng = np.random.default_rng(7)
    table = TABLES["individuals"]
    codes = np.stack([rng.integers(0, attribute.axis.n_cells, n) for attribute in table.attributes], axis=1)
    values = np.minimum(rng.geometric(0.4, (n, 1)) - 1, len(TEXTS[0]) - 1)
    return Microdata(table, codes * table.space.codes_per_cell, rng.integers(0, 2 * n // 3, n), values, TEXTS)


@HARD
def test_the_algorithm_that_takes_minutes_reports_how_far_it_is(model: str) -> None:
    heard: list[float] = []
    run(ALGORITHMS[DEFAULT_ALGORITHM], a_crowd(), MODELS[model], Options(on_progress=heard.append))
    assert heard
    assert all(0 < share <= 1 for share in heard)
    assert heard == sorted(heard)


@HARD
@pytest.mark.parametrize("name", [DEFAULT_ALGORITHM, "gdppr"])
def test_in_however_many_calls_compiled_work_is_done_the_answer_is_the_same(name: str, model: str) -> None:
    at_once: list[float] = []
    expected = run(ALGORITHMS[name], a_crowd(), MODELS[model], Options(on_progress=at_once.append))
    heard: list[float] = []
    found = run(ALGORITHMS[name], a_crowd(), MODELS[model], Options(on_progress=heard.append, rows_per_call=1))
    for one, other in ((found.qi_group, expected.qi_group), (found.lo, expected.lo), (found.hi, expected.hi)):
        assert np.array_equal(one, other)
    assert dict(found.details) == dict(expected.details)
    if name == DEFAULT_ALGORITHM:
        assert len(heard) > 3 * len(at_once)


# The QI groups a shard begins with: those of the default algorithm, or none.


@given(data=st.data(), small=st.sampled_from(list(TABLES.values())), k=st.integers(2, 5), seed=st.integers(0, 99))
def test_they_are_the_default_algorithms_in_the_order_that_the_seed_gives_and_none_where_k_cannot_hold(
    data: st.DataObject, small: Table, k: int, seed: int
) -> None:
    people = data.draw(microdata(small))
    groups = initial_groups(people, k_anonymity(k), seed)
    if len(people) < k:
        assert groups == []
        return
    expected = run(
        ALGORITHMS[DEFAULT_ALGORITHM], people, k_anonymity(k), Options(chance=seed, too_wide=STAYING)
    ).qi_group
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(people)))
    assert [set(expected[members].tolist()) for members in groups] == [{number} for number in range(len(groups))]
