"""Ordered segments: the laws under every model, the losses on Adult, and what sweeps may do."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import adult as world
from streamer.privacy.models import AtMostShare, Model, k_anonymity
from streamer.recoding.algorithms import ordered
from streamer.recoding.algorithms.bundles import Task
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import Options
from streamer.recoding.algorithms.group_index import Groups, groups_of
from streamer.recoding.algorithms.ordered import ORDERED
from streamer.recoding.algorithms.recoding import Recoding
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata, Subject
from streamer.table.schema import KeptColumn, Table
from worlds.microdata import MODELS, TABLES, assert_laws, boxes, holding, microdata, people, permuted
from worlds.small_tables import YEARS

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
some_table = st.sampled_from(list(TABLES.values()))


def loss(data: Microdata, recoding: Recoding) -> float:
    """Rows times NCP, all groups together."""
    return float((recoding.sizes * data.space.ncp(recoding.lo, recoding.hi)).sum())


@every_model
@given(data=st.data(), small=some_table, refine=st.integers(0, 2))
def test_rows_are_in_one_group_that_holds_and_in_its_box(
    model: Model, data: st.DataObject, small: Table, refine: int
) -> None:
    assert_laws(ORDERED, data.draw(microdata(small)), model, Options(refine=refine))


@every_model
@given(data=st.data(), small=some_table, refine=st.integers(0, 2), seed=st.integers(0, 99))
def test_the_order_of_the_rows_does_not_change_what_is_published(
    model: Model, data: st.DataObject, small: Table, refine: int, seed: int
) -> None:
    rows, options = data.draw(microdata(small)), Options(refine=refine)
    one = holding(ORDERED, rows, model, options)
    assert boxes(holding(ORDERED, permuted(rows, seed), model, options)) == boxes(one)


@every_model
@given(data=st.data(), small=some_table)
def test_no_sweep_raises_the_loss(model: Model, data: st.DataObject, small: Table) -> None:
    rows = data.draw(microdata(small))
    losses = [loss(rows, holding(ORDERED, rows, model, Options(refine=sweeps))) for sweeps in range(4)]
    assert all(after <= before + 1e-9 for before, after in pairwise(losses))


@given(values=st.lists(st.integers(0, 9), min_size=3, max_size=10), k=st.integers(1, 3))
def test_along_one_number_no_grouping_of_neighbours_loses_less(values: list[int], k: int) -> None:
    rows = one_number(values)
    assert loss(rows, run(ORDERED, rows, k_anonymity(k))) == pytest.approx(least_loss(rows, k))


def least_loss(rows: Microdata, k: int) -> float:
    """The least loss over all ways to cut the sorted rows into runs of k and more."""
    cells = np.sort(rows.cells, axis=0)
    ways = [
        [0, *(i for i in range(1, len(cells)) if chosen >> i & 1), len(cells)]
        for chosen in range(0, 1 << len(cells), 2)
    ]
    return min(
        sum(
            (end - begin) * float(rows.space.ncp(*rows.space.box_of_cells(cells[begin:end])))
            for begin, end in pairwise(positions)
        )
        for positions in ways
        if all(end - begin >= k for begin, end in pairwise(positions))
    )


def one_number(values: list[int]) -> Microdata:
    codes = np.array(values, dtype=np.int64)[:, None]
    return Microdata(people(YEARS), codes, None, np.zeros_like(codes), ((b"null",),))


def test_a_table_of_fewer_than_2k_rows_is_one_group() -> None:
    rows = one_number([1, 9, 4])
    assert run(ORDERED, rows, k_anonymity(2)).n_groups == 1


def test_identical_rows_lose_nothing() -> None:
    rows = one_number([3] * 50)
    recoding = run(ORDERED, rows, k_anonymity(4), Options(refine=1))
    assert loss(rows, recoding) == 0
    assert recoding.sizes.min() >= 4


def test_the_records_of_one_individual_in_one_cell_are_in_one_group() -> None:
    small = TABLES["individuals"]
    rng = np.random.default_rng(5)
    codes = np.stack([rng.integers(0, 6, 60), rng.integers(0, 2, 60)], axis=1)
    who = rng.integers(0, 12, 60)
    rows = Microdata(small, codes, who, np.zeros((60, 1), dtype=np.int64), ((b"null",),))
    recoding = run(ORDERED, rows, MODELS["identity-reserved k"], Options(refine=1))
    where: dict[tuple[int, ...], set[int]] = {}
    for i in range(60):
        where.setdefault((int(who[i]), *rows.cells[i].tolist()), set()).add(int(recoding.qi_group[i]))
    assert recoding.n_groups > 1
    assert all(len(groups) == 1 for groups in where.values())


def test_a_rare_sensitive_value_is_shared_out_among_as_many_groups_as_it_can_serve() -> None:
    """Nine of ten rows of every cell have one value: runs of few rows hold where the other one is spread among them."""
    codes, values = np.arange(100, dtype=np.int64)[:, None] % 10, np.repeat([0, 1], [90, 10])[:, None]
    rows = Microdata(people(YEARS), codes, None, values, ((b'"cough"', b'"flu"'),))
    recoding = run(ORDERED, rows, MODELS["distinct l"])
    assert loss(rows, recoding) == 0
    assert recoding.n_groups == 10


def test_every_number_of_a_candidate_has_a_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three columns of two values, half the rows each, no share above a half: many are left, with high numbers."""
    rng, kept = np.random.default_rng(38), tuple(KeptColumn(f"problem {i}", sensitive=True) for i in range(3))
    values = np.stack([rng.permutation(28) % 2 for _ in kept], axis=1)
    years = rng.integers(0, 10, (28, 1))
    data = Microdata(Table("people", ("id",), (YEARS,), kept, 2), years, None, values, ((b'"a"', b'"b"'),) * 3)
    seats: list[tuple[int, int]] = []

    def seated(task: Task, qi_group: Ints, n_seats: int) -> Groups:
        seats.append((int(qi_group.max()), n_seats))
        assert qi_group.max() < n_seats  # compiled code would write behind the end of its arrays
        return groups_of(task, qi_group, n_seats)

    monkeypatch.setattr(ordered, "groups_of", seated)
    halves = Model(AtMostShare(Subject(column), Fraction(1, 2)) for column in range(3))
    run(ORDERED, data, halves)
    assert seats[0][0] >= len(data) // halves.rows_min


@pytest.mark.slow
@pytest.mark.parametrize(("k", "plain", "refined"), [(5, 0.0480, 0.0472), (10, 0.0775, 0.0763)])
def test_adult_loses_little_and_a_sweep_makes_it_less(adult: Path, k: int, plain: float, refined: float) -> None:
    """NCP by rows and attributes, 2 to 3 % above what `benchmarks/batch.py` prints."""
    rows = world.microdata(k)
    for options, bar in ((Options(), plain), (Options(refine=1), refined)):
        recoding = run(ORDERED, rows, k_anonymity(k), options)
        assert loss(rows, recoding) / len(rows) / rows.space.d < bar
        assert recoding.n_suppressed == 0
