"""A privacy model as compiled loops: the answers are the model's own."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.compiled import add, clear, holds, holds_so_far, holds_together, remove, rules_of, scratch_for
from streamer.privacy.distributions import AtMostDistance
from streamer.privacy.models import Model
from streamer.table.codes.reference import EQUAL, ORDERED, reference_of
from streamer.table.codes.same_text import without_capitals
from streamer.table.microdata import IN_REFERENCE, Subject
from worlds.algorithms_by_hand import obeys, rows_of
from worlds.microdata import MODELS

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


@every_model
@given(data=st.data())
def test_compiled_counts_answer_as_the_model(model: Model, data: st.DataObject) -> None:
    pool = rows_of(data.draw, model)
    rules = rules_of(model, pool)
    scratch = scratch_for(rules)
    inside: list[int] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if len(inside) > 0 and data.draw(st.booleans()):
            remove(rules, scratch, inside.pop(data.draw(st.integers(0, len(inside) - 1))))
        elif outside := sorted(set(range(len(pool))) - set(inside)):
            inside.append(data.draw(st.sampled_from(outside)))
            add(rules, scratch, inside[-1])
        assert holds(rules, scratch) == (len(inside) > 0 and obeys(model, pool[inside]))
    clear(rules, scratch, np.array(inside, dtype=np.int64))
    assert all(not counts.any() for counts in scratch[:5])


@every_model
@given(data=st.data())
def test_compiled_answers_for_many_rows_at_once(model: Model, data: st.DataObject) -> None:
    rows = rows_of(data.draw, model)
    order = np.array(data.draw(st.permutations(range(len(rows)))), dtype=np.int64)
    rules = rules_of(model, rows)
    scratch = scratch_for(rules)
    for i in range(len(rows)):
        assert holds_together(rules, scratch, order[i:]) == obeys(model, rows[order[i:]])
    assert all(not counts.any() for counts in scratch[:5])


@every_model
@given(data=st.data())
def test_while_rows_come_the_answer_is_that_of_a_fresh_count(model: Model, data: st.DataObject) -> None:
    pool = rows_of(data.draw, model)
    rules = rules_of(model, pool[np.array(data.draw(st.lists(st.integers(0, len(pool) - 1), min_size=1, max_size=60)))])
    scratch, known = scratch_for(rules), np.array([1, -1])
    for row in range(len(rules.subjects)):
        add(rules, scratch, row)
        if data.draw(st.booleans()):  # some are added without being asked for
            assert holds_so_far(rules, scratch, known) == holds(rules, scratch)


@pytest.mark.parametrize("kind", [EQUAL, ORDERED])
@given(data=st.data(), there=st.integers(1, 9), t=st.integers(1, 99))
def test_it_is_asked_again_in_time_if_all_that_comes_is_as_far_away_as_can_be(
    kind: str, data: st.DataObject, there: int, t: int
) -> None:
    reference = reference_of("x", kind, {"1": there, "2": 1, "3": data.draw(st.integers(1, 9))}, None, without_capitals)
    runs = data.draw(st.lists(st.tuples(st.sampled_from("123"), st.integers(1, 30)), min_size=1, max_size=4))
    codes = np.array([reference.code_of(value) for value, n in runs for _ in range(n)])
    rules = rules_of(
        Model([AtMostDistance(Subject(0, IN_REFERENCE), Decimal(t) / 100, kind, reference)]), codes[:, None]
    )
    scratch, known = scratch_for(rules), np.array([1, -1])
    for row in range(len(codes)):
        add(rules, scratch, row)
        assert holds_so_far(rules, scratch, known) == holds(rules, scratch)
