"""Privacy models: what each asks of a QI group, however the question is put: by group, or compiled."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError, UsageError
from streamer.privacy.compiled import add, clear, holds, holds_together, remove, rules_of, scratch_for
from streamer.privacy.models import (
    INDIVIDUAL,
    AtLeastRows,
    AtMostShare,
    Model,
    alpha_beta,
    distinct_l,
    identity_reserved,
    k_anonymity,
    k_l,
    model_of,
    r_k,
    words,
)
from streamer.recoding.algorithms.catalog import ALGORITHMS, algorithm_named, run
from streamer.recoding.algorithms.contract import Options
from streamer.table.microdata import Microdata, Subject
from streamer.table.schema import Diversity, Table
from worlds.microdata import (
    ANCESTORS,
    MODELS,
    PROBLEMS,
    TABLES,
    TEXTS,
    VALUES,
    assert_cities_are_ragged,
    assert_holds,
    microdata,
)

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


def obeys(model: Model, subjects: np.ndarray) -> bool:
    """The model counted by hand."""
    try:
        assert_holds(model, subjects.tolist())
    except AssertionError:
        return False
    return True


def rows_of(draw: st.DrawFn, model: Model, max_rows: int = 12) -> np.ndarray:
    row = st.lists(st.integers(0, 3), min_size=len(model.subjects), max_size=len(model.subjects))
    rows = draw(st.lists(row, min_size=1, max_size=max_rows))
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(model.subjects))


# -- what the models of the papers say ------------------------------------------------------------------------------

#       individual, disease: Tong et al. 2010, table 2, published from table 1 (Mike twice)
MIKE = np.array([[0, 0], [0, 1]])  # group 1: Mike hypertension, Mike hyperlipemia
TIM = np.array([[1, 2], [2, 3]])  # group 2: Emily diabetes, Tim heart


def test_two_rows_of_one_person_are_two_anonymous_and_two_diverse_and_yet_identity_reserved_nothing() -> None:
    assert k_anonymity(2).holds(MIKE[:, :0])
    assert distinct_l(VALUES, 2).holds(MIKE[:, 1:])
    assert not identity_reserved(2).holds(MIKE[:, :1])
    assert identity_reserved(2).holds(TIM[:, :1])
    assert k_l(2, VALUES, 2).holds(TIM)
    assert not k_l(2, VALUES, 2).holds(MIKE)


def test_a_share_of_exactly_alpha_is_allowed() -> None:
    model = alpha_beta(INDIVIDUAL, Fraction(1, 2), VALUES, Fraction(1, 2))
    group_1 = np.array([[1, 0], [1, 1], [2, 2], [3, 3]])  # Tong et al. 2010, table 4: individual 1 has 2 of 4 records
    assert model.holds(group_1)
    assert not model.holds(group_1[:3])  # and 2 of 3 are too many: nobody can be spared


def test_close_values_count_together() -> None:
    near, apart = np.array([[0], [0], [0]]), np.array([[0], [1], [2]])  # ancestors of flu, pneumonia, ...
    model = r_k(3, ANCESTORS, Fraction(1, 2))
    assert not model.holds(near)
    assert model.holds(apart)


def test_composing_keeps_the_stronger_constraint_of_each_kind() -> None:
    both = k_l(3, VALUES, 2) & k_anonymity(5) & distinct_l(VALUES, 4) & r_k(2, VALUES, Fraction(1, 4))
    assert (both.rows, both.distinct, both.shares) == (5, {INDIVIDUAL: 3, VALUES: 4}, {VALUES: Fraction(1, 4)})
    assert both == Model(reversed(both.constraints))
    assert Model([AtMostShare(VALUES, Fraction(1, 2)), AtMostShare(VALUES, Fraction(1, 3))]).rows_min == 3


@every_model
@given(data=st.data())
def test_no_group_smaller_than_the_least_rows_holds(model: Model, data) -> None:
    rows = rows_of(data.draw, model)
    assert len(rows) >= model.rows_min or not model.holds(rows)


@every_model
@given(data=st.data())
def test_two_groups_that_hold_hold_together(model: Model, data) -> None:
    one, other = rows_of(data.draw, model), rows_of(data.draw, model)
    if model.holds(one) and model.holds(other):
        assert model.holds(np.concatenate([one, other]))


@every_model
@given(data=st.data())
def test_a_growing_model_is_not_broken_by_one_more_row(model: Model, data) -> None:
    rows = rows_of(data.draw, model)
    if model.is_growing and model.holds(rows[:-1]):
        assert model.holds(rows)


def test_shares_do_not_grow() -> None:
    model = MODELS["(alpha, beta)"]
    assert not model.is_growing
    assert model.holds(np.array([[0, 0], [1, 1]]))
    assert not model.holds(np.array([[0, 0], [1, 1], [1, 1]]))


# -- one question, put in four ways ---------------------------------------------------------------------------------


@every_model
@given(data=st.data())
def test_groups_at_once_hold_as_they_do_one_by_one(model: Model, data) -> None:
    rows = rows_of(data.draw, model)
    qi_group = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=len(rows), max_size=len(rows))))
    answers = model.holds_by_group(qi_group, 5, rows)
    for group in range(5):
        members = rows[qi_group == group]
        assert answers[group] == (len(members) > 0 and obeys(model, members))


@every_model
@given(data=st.data())
def test_compiled_counts_answer_as_the_model(model: Model, data) -> None:
    pool = rows_of(data.draw, model)
    rules = rules_of(model, pool)
    scratch = scratch_for(rules)
    inside: list[int] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if inside and data.draw(st.booleans()):
            remove(rules, scratch, inside.pop(data.draw(st.integers(0, len(inside) - 1))))
        elif outside := sorted(set(range(len(pool))) - set(inside)):
            inside.append(data.draw(st.sampled_from(outside)))
            add(rules, scratch, inside[-1])
        assert holds(rules, scratch) == (len(inside) > 0 and obeys(model, pool[inside]))
    clear(rules, scratch, np.array(inside, dtype=np.int64))
    assert all(not counts.any() for counts in scratch)


@every_model
@given(data=st.data())
def test_compiled_answers_for_many_rows_at_once(model: Model, data) -> None:
    rows = rows_of(data.draw, model)
    order = np.array(data.draw(st.permutations(range(len(rows)))), dtype=np.int64)
    rules = rules_of(model, rows)
    scratch = scratch_for(rules)
    for i in range(len(rows)):
        assert holds_together(rules, scratch, order[i:]) == obeys(model, rows[order[i:]])
    assert all(not counts.any() for counts in scratch)


# -- what table.yaml demands ----------------------------------------------------------------------------------------

PLAIN, PEOPLE = TABLES["one number"], TABLES["individuals"]


def demanding(table: Table, **demands: object) -> Model:
    return model_of(replace(table, diversity=Diversity(**demands)))  # type: ignore[arg-type]


def test_k_counts_individuals_where_they_are_declared() -> None:
    assert model_of(PLAIN) == k_anonymity(2)
    assert model_of(PEOPLE) == identity_reserved(2)


def test_every_demand_is_one_constraint_more() -> None:
    half, third = Decimal("0.5"), Decimal("0.25")
    assert demanding(PEOPLE, l=3) == k_l(2, VALUES, 3)
    assert demanding(PEOPLE, alpha=half, beta=third) == identity_reserved(2) & alpha_beta(
        INDIVIDUAL, Fraction(1, 2), VALUES, Fraction(1, 4)
    )
    assert demanding(PLAIN, r=half, level=1) == r_k(2, ANCESTORS, Fraction(1, 2))


def test_without_individuals_alpha_asks_for_rows_since_every_row_is_somebody_else() -> None:
    assert demanding(PLAIN, alpha=Decimal("0.3")) == Model([AtLeastRows(4)])


def test_a_model_is_said_in_words() -> None:
    model = demanding(PEOPLE, l=3, alpha=Decimal("0.5"), r=Decimal("0.25"))
    assert words(PEOPLE, model) == (
        "at least 2 rows and at least 2 distinct individuals and at least 3 distinct values of problem"
        " and at most 50 % of the rows for any of the individuals"
        " and at most 25 % of the rows for any of the values of problem at level 1 of its hierarchy"
    )


# -- the one way to run an algorithm --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("k", "fewer than k = 3"),
        ("distinct l", "distinct values of problem are fewer than 2"),
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
    return Microdata(PLAIN, np.zeros((2, 1), np.int64), None, np.zeros((2, 1), np.int64), TEXTS)


def test_data_without_rows_is_refused() -> None:
    with pytest.raises(ConfigError, match="no rows"):
        run(ALGORITHMS["mondrian"], microdata_of_two_alike().rows(np.array([], dtype=np.int64)), MODELS["k"])


def test_what_an_algorithm_cannot_do_is_said_before_it_runs() -> None:
    for options, reason in ((Options(suppression=0.1), "suppressed rows"), (Options(refine=1), "sweeps")):
        with pytest.raises(UsageError, match=reason):
            run(ALGORITHMS["mondrian"], microdata_of_two_alike(), MODELS["k"], options)
    with pytest.raises(UsageError, match="there is no algorithm 'magic'; there are mondrian"):
        algorithm_named("magic")


# -- the table as columns -------------------------------------------------------------------------------------------


def test_the_trees_of_the_small_tables_are_ragged() -> None:
    assert_cities_are_ragged()


@given(data=st.data(), small=st.sampled_from(list(TABLES.values())))
def test_the_canonical_order_makes_one_table_of_all_orders(data, small: Table) -> None:
    people = data.draw(microdata(small))
    shuffled = people.rows(np.array(data.draw(st.permutations(range(len(people))))))
    one, other = people.rows(people.in_canonical_order()), shuffled.rows(shuffled.in_canonical_order())
    assert (one.codes == other.codes).all()
    assert (one.values == other.values).all()
    assert (one.subject(INDIVIDUAL) == other.subject(INDIVIDUAL)).all()


def test_a_null_is_a_value_of_its_own_at_every_level() -> None:
    n = len(TEXTS[0])
    data = Microdata(PLAIN, np.zeros((n, 1), np.int64), None, np.arange(n).reshape(n, 1), TEXTS)
    above = data.subject(Subject(0, 1))
    by_text = dict(zip(TEXTS[0], above.tolist(), strict=True))
    assert by_text[b'"flu"'] == by_text[b'"cough"'] != by_text[b'"ulcer"']
    assert list(above).count(by_text[b"null"]) == 1
    assert len(set(above.tolist())) == len({PROBLEMS.levels[1, leaf] for leaf in range(PROBLEMS.n_leaves)}) + 1
