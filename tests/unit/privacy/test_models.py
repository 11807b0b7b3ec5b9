"""Privacy models: what each asks of a QI group, however the question is put: by group, or compiled."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import (
    AtLeastDistinct,
    AtLeastRows,
    AtMostShare,
    Constraint,
    Model,
    SubjectCodes,
    alpha_beta,
    distinct_l,
    identity_reserved,
    k_anonymity,
    k_l,
    margins,
    model_of,
    of_values,
    r_k,
    subject_names,
    subject_of,
    words,
)
from streamer.table.codes import Diversity
from streamer.table.encode import EncodedRows
from streamer.table.microdata import IN_REFERENCE, INDIVIDUAL, NULL, Subject, microdata_of
from streamer.table.schema import Table
from worlds.algorithms_by_hand import obeys, rows_of
from worlds.microdata import ANCESTORS, MODELS, TABLES, VALUES, WITHOUT_NULL
from worlds.small_tables import MODEL_TABLES, YEARS, asking, rows, table

# What a model counts of rows that come one by one is what it counts of them as columns of a whole table.


@pytest.mark.parametrize("name", MODEL_TABLES)
@given(data=st.data())
def test_rows_hold_a_model_exactly_where_they_do_as_columns(name: str, data: st.DataObject) -> None:
    small = MODEL_TABLES[name]
    model, people = model_of(small), data.draw(st.lists(rows(small), min_size=1, max_size=12))
    codes = SubjectCodes(small, model).of([row.values for row in people], [row.individual for row in people])
    encoded = EncodedRows.of_rows({str(i): row for i, row in enumerate(people)}, small.space.d)
    columns = microdata_of(small, encoded).subjects(model.subjects)
    names = subject_names(small, model)
    assert ((codes == NULL) == (columns == NULL))[:, [s.column >= 0 for s in model.subjects]].all()
    assert [len(np.unique(column)) for column in codes.T] == [len(np.unique(column)) for column in columns.T]
    assert model.holds(codes) == model.holds(columns)
    assert model.shortfall(codes, names) == model.shortfall(columns, names)


@pytest.mark.parametrize("name", MODEL_TABLES)
@given(data=st.data())
def test_the_predicate_of_values_is_the_model(name: str, data: st.DataObject) -> None:
    small = MODEL_TABLES[name]
    model = Model(
        one for one in model_of(small).constraints if isinstance(one, AtLeastRows) or one.subject != INDIVIDUAL
    )
    values = [row.values for row in data.draw(st.lists(rows(small), min_size=1, max_size=12))]
    assert of_values(small, model)(values) == model.holds(SubjectCodes(small, model).of(values))


def test_a_subject_names_a_text_or_the_node_above_it_and_nothing_for_a_null() -> None:
    small = asking(YEARS, r="0.5", level=1)
    of_values, of_nodes = subject_of(small, Subject(0)), subject_of(small, Subject(0, 1))
    assert of_values((b'"flu"',)) == of_values((b'"FLU "',)) != of_values((b'"cough"',))
    assert of_nodes((b'"flu"',)) == of_nodes((b'"cough"',)) != of_nodes((b'"ulcer"',))
    assert of_values((b"null",)) is None is of_nodes((b"null",))


every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


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


def test_a_model_without_constraints_asks_for_one_row() -> None:
    assert Model([]).rows_min == Model([]).rows == k_anonymity(1).rows_min == 1
    assert Model([]).holds(np.zeros((1, 0), dtype=np.int64))
    assert not Model([]).holds(np.zeros((0, 0), dtype=np.int64))


def test_a_model_equals_models_of_the_same_constraints_alone() -> None:
    assert k_anonymity(2) != k_anonymity(3)
    assert k_anonymity(2) != 2


@every_model
@given(data=st.data())
def test_no_group_smaller_than_the_least_rows_holds(model: Model, data: st.DataObject) -> None:
    rows = rows_of(data.draw, model)
    assert len(rows) >= model.rows_min or not model.holds(rows)


@every_model
@given(data=st.data())
def test_two_groups_that_hold_hold_together(model: Model, data: st.DataObject) -> None:
    one, other = rows_of(data.draw, model), rows_of(data.draw, model)
    if model.holds(one) and model.holds(other):
        assert model.holds(np.concatenate([one, other]))


@every_model
@given(data=st.data())
def test_a_growing_model_is_not_broken_by_one_more_row(model: Model, data: st.DataObject) -> None:
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
def test_groups_at_once_hold_as_they_do_one_by_one(model: Model, data: st.DataObject) -> None:
    rows = rows_of(data.draw, model)
    qi_group = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=len(rows), max_size=len(rows))))
    answers = model.holds_by_group(qi_group, 5, rows)
    for group in range(5):
        members = rows[qi_group == group]
        assert answers[group] == (len(members) > 0 and obeys(model, members))


# -- nulls ----------------------------------------------------------------------------------------------------------

FLU_FLU_NONE = np.array([[1], [1], [NULL]])


def test_a_null_does_not_make_a_group_diverse_unless_it_is_to_count() -> None:
    assert not distinct_l(WITHOUT_NULL, 2).holds(FLU_FLU_NONE)
    assert distinct_l(VALUES, 2).holds(FLU_FLU_NONE)
    assert distinct_l(WITHOUT_NULL, 1).holds(FLU_FLU_NONE)
    assert not distinct_l(WITHOUT_NULL, 1).holds(FLU_FLU_NONE[2:])


def test_what_a_null_lacks_is_said_without_counting_it() -> None:
    names = {WITHOUT_NULL: "values"}
    assert distinct_l(WITHOUT_NULL, 2).shortfall(FLU_FLU_NONE, names) == "1 distinct value is fewer than 2"


def test_nulls_have_a_share_like_any_value_and_are_among_the_rows() -> None:
    at_most_half = Model([AtMostShare(VALUES, Fraction(1, 2))])
    assert at_most_half.holds(np.array([[1], [NULL]]))
    assert not at_most_half.holds(np.array([[1], [NULL], [NULL]]))


def test_with_at_most_a_share_of_nulls_no_value_has_more_than_that_bound_of_the_others() -> None:
    """As the rules say: a share s of all rows is at most s / (1 - s) of those that have a value."""
    s = Fraction(1, 3)
    assert Model([AtMostShare(VALUES, s)]).holds(np.array([[1], [1], [2], [3], [NULL], [NULL]]))
    assert Fraction(2, 4) == s / (1 - s)


# -- why a group does not hold ----------------------------------------------------------------------------------------

NAMED = {
    INDIVIDUAL: "individuals",
    VALUES: "values of mind",
    ANCESTORS: "organs",
    Subject(0, IN_REFERENCE): "values",
    WITHOUT_NULL: "values",
}


@every_model
@given(data=st.data())
def test_a_reason_is_given_exactly_where_the_rows_do_not_hold(model: Model, data: st.DataObject) -> None:
    rows = rows_of(data.draw, model)
    assert (model.shortfall(rows, NAMED) == "") == obeys(model, rows)


def test_the_reason_is_the_first_constraint_that_fails_with_its_figures() -> None:
    model = k_l(3, VALUES, 2) & r_k(3, ANCESTORS, Fraction(1, 2))
    alike, three_alike = [[0, 0, 0]] * 3, [[0, 0, 0], [1, 1, 0], [2, 2, 0]]
    assert model.shortfall(np.array(alike[:2]), NAMED) == "2 rows are fewer than k = 3"
    assert model.shortfall(np.array(alike), NAMED) == "1 distinct individual is fewer than 3"
    assert (
        model.shortfall(np.array([[0, 1, 0], [1, 1, 0], [2, 1, 1]]), NAMED)
        == "1 distinct value of mind is fewer than 2"
    )
    assert model.shortfall(np.array(three_alike), NAMED) == (
        "one of the organs has 3 of 3 rows (1.000); the largest share allowed is 0.5"
    )


# -- what table.yaml demands ----------------------------------------------------------------------------------------

PLAIN, PEOPLE = TABLES["one number"], TABLES["individuals"]


def demanding(table: Table, **demands: object) -> Model:
    return model_of(replace(table, diversity=Diversity(**demands)))  # type: ignore[arg-type]


def test_k_counts_individuals_where_they_are_declared() -> None:
    assert model_of(PLAIN) == k_anonymity(2)
    assert model_of(PEOPLE) == identity_reserved(2)


def test_every_demand_is_one_constraint_more() -> None:
    half, third = Decimal("0.5"), Decimal("0.25")
    assert demanding(PEOPLE, l=3) == k_l(2, WITHOUT_NULL, 3)
    assert demanding(PEOPLE, l=3, null_counts=True) == k_l(2, VALUES, 3)
    assert demanding(PEOPLE, alpha=half, beta=third) == identity_reserved(2) & alpha_beta(
        INDIVIDUAL, Fraction(1, 2), VALUES, Fraction(1, 4)
    )
    assert demanding(PLAIN, r=half, level=1) == r_k(2, ANCESTORS, Fraction(1, 2))


def test_a_column_demands_more_of_itself_and_never_less() -> None:
    two = (replace(PEOPLE.kept[0], diversity=Diversity(l=3)), replace(PEOPLE.kept[0], name="smokes"))
    of_each = [Subject(column, null_counts=False) for column in range(2)]
    for asked, least in ((Diversity(), (3, None)), (Diversity(l=2), (3, 2)), (Diversity(l=4), (4, 4))):
        model = model_of(replace(PEOPLE, kept=two, diversity=asked))
        assert tuple(map(model.distinct.get, of_each)) == least
    assert model_of(replace(PEOPLE, kept=two[:1])) == demanding(PEOPLE, l=3)


def test_without_individuals_alpha_asks_for_rows_since_every_row_is_somebody_else() -> None:
    assert demanding(PLAIN, alpha=Decimal("0.3")) == Model([AtLeastRows(4)])


def test_a_model_without_a_demand_is_said_as_nothing_and_one_of_two_rows_is_said() -> None:
    assert words(PEOPLE, Model([])) == words(PEOPLE, k_anonymity(1)) == "nothing"
    assert words(PEOPLE, k_anonymity(2)) == "at least 2 rows"


def test_a_model_is_said_in_words() -> None:
    model = demanding(PEOPLE, l=3, alpha=Decimal("0.5"), r=Decimal("0.25"))
    assert words(PEOPLE, model) == (
        "at least 2 rows and at least 2 distinct individuals and at least 3 distinct values of problem other than null"
        " and at most 50 % of the rows for any of the individuals"
        " and at most 25 % of the rows for any of the values of problem at level 1 of its hierarchy"
    )


# What a QI group can spare before its model breaks, against the model itself.

PROBLEM = Subject(0, null_counts=False)


@pytest.mark.parametrize(
    "constraint", [AtLeastRows(2), AtLeastDistinct(PROBLEM, 2), AtMostShare(Subject(0), Fraction(2, 3))], ids=str
)
@given(values=st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_so_many_rows_can_leave_whichever_they_are(constraint: Constraint, values: list[int]) -> None:
    model = Model([constraint])
    codes = np.array(values)[:, None]
    subjects = codes if model.subjects else codes[:, :0]
    spare = min(margin.spare for margin in margins(table(YEARS, k=2), model, subjects))
    for leaving in range(spare + 1):
        for stay in combinations(range(len(values)), len(values) - leaving):
            assert model.holds(subjects[list(stay)])


@given(values=st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_nothing_is_spare_where_the_model_does_not_hold(values: list[int]) -> None:
    model = Model([AtLeastRows(3), AtMostShare(Subject(0), Fraction(1, 2))])
    found = list(margins(table(YEARS, k=2), model, np.array(values)[:, None]))
    assert model.holds(np.array(values)[:, None]) == all(margin.spare >= 0 for margin in found)
