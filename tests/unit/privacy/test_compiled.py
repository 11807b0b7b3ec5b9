"""A privacy model as compiled loops: the answers are the model's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.compiled import add, clear, holds, holds_together, remove, rules_of, scratch_for
from streamer.privacy.models import Model
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
