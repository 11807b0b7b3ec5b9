"""What a model counts of rows that come one by one is what it counts of them as columns of a whole table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import model_of, subject_names
from streamer.privacy.subjects import SubjectCodes, subject_of
from streamer.table.encode import EncodedRows
from streamer.table.microdata import NULL, Subject, microdata_of
from worlds.model_tables import MODEL_TABLES, asking
from worlds.small_tables import YEARS, rows


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


def test_a_subject_names_a_text_or_the_node_above_it_and_nothing_for_a_null() -> None:
    small = asking(YEARS, r="0.5", level=1)
    of_values, of_nodes = subject_of(small, Subject(0)), subject_of(small, Subject(0, 1))
    assert of_values((b'"flu"',)) == b'"flu"'
    assert of_nodes((b'"flu"',)) == of_nodes((b'"cough"',)) != of_nodes((b'"ulcer"',))
    assert of_values((b"null",)) is None is of_nodes((b"null",))
