"""The counts of distinct vectors say of a table what its rows say, from its parts as from the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.errors import UsageError
from streamer.privacy.models import Model, identity_reserved, k_anonymity, subject_names
from streamer.recoding.algorithms.catalog import ALGORITHMS, objections, run, run_on_vectors
from streamer.recoding.algorithms.contract import LEFT_OUT, PLAIN, SUPPRESSED, Options
from streamer.recoding.algorithms.vectors import VectorCounts, united, vector_counts
from streamer.table.microdata import NULL, Microdata
from streamer.table.schema import Table
from worlds.microdata import MODELS, TABLES, every_model, microdata, some_model, some_table

FULL_DOMAIN = [algorithm for algorithm in ALGORITHMS.values() if algorithm.full_domain]


def parts_of(rows: Microdata, parts: int) -> list[Microdata]:
    return [rows.rows(part) for part in np.array_split(np.arange(len(rows)), parts) if len(part)]


def listed(counts: VectorCounts) -> list[object]:
    return [counts.cells.tolist(), counts.rows.tolist(), *([column.tolist() for column in one] for one in
                                                           counts.subjects)]  # fmt: skip


def by_hand(rows: Microdata, model: Model) -> list[object]:
    """The same counts, by plain loops over rows."""
    cells = sorted({tuple(row) for row in rows.cells.tolist()})
    of_row = [cells.index(tuple(row)) for row in rows.cells.tolist()]
    found: list[object] = [[list(row) for row in cells], [of_row.count(i) for i in range(len(cells))]]
    for subject in model.subjects:
        pairs = list(zip(of_row, rows.subject(subject).tolist(), strict=True))
        kept: list[tuple[int, int, int]] = []
        for vector in range(len(cells)):
            codes = sorted({code for one, code in pairs if one == vector and (subject.null_counts or code != NULL)})
            all_count = subject in model.shares or any(law.subject == subject for law in model.laws)
            most = None if all_count else model.distinct[subject]
            kept += [(vector, code, pairs.count((vector, code))) for code in codes[:most]]
        found.append([[pair[column] for pair in kept] for column in range(3)])
    return found


@given(st.data(), some_table, some_model)
def test_vectors_and_whom_they_have_are_those_of_the_rows(data: st.DataObject, small: Table, model: Model) -> None:
    rows = data.draw(microdata(small, 30))
    counts, vector = vector_counts(rows, model)
    assert listed(counts) == by_hand(rows, model)
    assert counts.cells[vector].tolist() == rows.cells.tolist()
    assert counts.size == len(counts.rows) + sum(len(pairs.rows) for pairs in counts.subjects)


@given(st.data(), some_model, st.integers(1, 6))
def test_counts_of_the_parts_of_a_table_are_those_of_the_whole(data: st.DataObject, model: Model, parts: int) -> None:
    rows = data.draw(microdata(TABLES["individuals"], 60))
    some = [vector_counts(part, model)[0] for part in parts_of(rows, parts)]
    assert listed(united(some, model)) == listed(vector_counts(rows, model)[0])
    assert listed(united([united(some[:2], model), *some[2:]], model)) == listed(vector_counts(rows, model)[0])


@given(st.data(), some_table, some_model, st.sampled_from([0.0, 0.1, 0.3]), st.integers(1, 4))
def test_rows_are_recoded_by_counts_as_by_themselves(
    data: st.DataObject, small: Table, model: Model, suppression: float, parts: int
) -> None:
    rows = data.draw(microdata(small, 40))
    if rows.individuals is None:  # then every row is somebody, in whatever part
        rows = replace(rows, individuals=np.arange(len(rows)))
    options = Options(suppression=suppression if model.is_growing else 0.0, chance=3, too_wide=LEFT_OUT)
    assume(model.holds(rows.subjects(model.subjects)))
    counts = united([vector_counts(part, model)[0] for part in parts_of(rows, parts)], model)
    for algorithm in FULL_DOMAIN:
        assert not objections(algorithm, small, model, options)
        one, many = run(algorithm, rows, model, options), run_on_vectors(algorithm, small, counts, model, options)
        vector = vector_counts(rows, model)[1]
        assert many.qi_group[vector].tolist() == one.qi_group.tolist()
        assert (many.lo.tolist(), many.hi.tolist()) == (one.lo.tolist(), one.hi.tolist())
        assert (many.levels, many.details) == (one.levels, one.details)


@every_model
@given(data=st.data())
def test_what_a_table_lacks_is_said_alike_of_rows_and_of_counts(model: Model, data: st.DataObject) -> None:
    rows = data.draw(microdata(TABLES["individuals"], 6))
    names = subject_names(rows.table, model)
    counts = vector_counts(rows, model)[0]
    said = model.shortfall_of_counts(len(rows), counts.codes(model.subjects), names)
    assert said == model.shortfall(rows.subjects(model.subjects), names)


def test_a_crowd_in_one_cell_is_few_pairs() -> None:
    """A million people alike: of whom k is asked, k are kept."""
    small = TABLES["individuals"]
    n = 1_000_000
    crowd = Microdata(small, np.zeros((n, 2), np.int64), np.arange(n), np.zeros((n, 1), np.int64), ((b'"flu"',),))
    counts, _ = vector_counts(crowd, identity_reserved(5))
    assert (counts.rows.tolist(), counts.size) == ([n], 1 + 5)
    assert len(vector_counts(crowd, MODELS["(alpha, beta)"])[0].subjects[0].rows) == n  # shares need everybody


def test_suppressed_vectors_have_no_group() -> None:
    rows = Microdata(
        TABLES["one number"],
        np.array([[0]] * 5 + [[9]], dtype=np.int64),
        None,
        np.zeros((6, 1), dtype=np.int64),
        ((b'"flu"',),),
    )
    model, options = k_anonymity(5), replace(PLAIN, suppression=0.2)
    found = run_on_vectors(FULL_DOMAIN[0], rows.table, vector_counts(rows, model)[0], model, options)
    assert found.qi_group.tolist() == [0, SUPPRESSED]


@pytest.mark.parametrize("algorithm", ["mondrian", "ordered"])
def test_an_algorithm_that_recodes_locally_cannot_work_on_counts(algorithm: str) -> None:
    nothing = VectorCounts(np.zeros((0, 1), np.int64), np.zeros(0, np.int64), ())
    with pytest.raises(UsageError, match="does not recode all rows alike"):
        run_on_vectors(ALGORITHMS[algorithm], TABLES["one number"], nothing, k_anonymity(2), PLAIN)
