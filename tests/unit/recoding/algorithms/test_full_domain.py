"""How rows are counted at a node of the lattice, whichever nodes were asked before."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms import full_domain
from streamer.recoding.algorithms.full_domain import FullDomain
from streamer.table.attributes import NumericAttribute
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.lattices import (
    CITIZENS,
    nodes,
    suppressed_at,
)
from worlds.microdata import MODELS, TABLES, TEXTS, microdata, people

every_table = pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())


def test_rows_to_suppress_at_every_node_of_age_and_region() -> None:
    """2-anonymous without suppression: (0,3), (1,1), (1,2), (1,3), (2,0) and what is above."""
    suppressed = {node: suppressed_at(CITIZENS, k_anonymity(2), node) for node in nodes(CITIZENS.table)}
    assert suppressed == {
        (0, 0): 8, (0, 1): 8, (0, 2): 8, (0, 3): 0,
        (1, 0): 4, (1, 1): 0, (1, 2): 0, (1, 3): 0,
        (2, 0): 0, (2, 1): 0, (2, 2): 0, (2, 3): 0,
    }  # fmt: skip
    counted = FullDomain(CITIZENS, k_anonymity(2))
    assert {node: counted.n_suppressed(node, 8) for node in suppressed} == suppressed


@every_table
@given(data=st.data())
def test_the_answer_at_a_node_does_not_depend_on_the_nodes_asked_before(small: Table, data: st.DataObject) -> None:
    people = data.draw(microdata(small, max_rows=20))
    model = data.draw(st.sampled_from(list(MODELS.values())))
    counted = FullDomain(people, model)
    for node in data.draw(st.lists(st.sampled_from(nodes(small)), max_size=8)):
        assert counted.n_suppressed(node, len(people)) == suppressed_at(people, model, node)


def test_climbing_counts_every_row_at_every_step() -> None:
    """From 300 distinct rows to one QI group, each node on what a lower one left: a row lost on the way shows."""
    wide = NumericAttribute("wide", (Decimal(0), Decimal(511)), Decimal(1), Decimal(1), Decimal(1))
    codes = np.random.default_rng(3).integers(0, 512, (300, 2))
    table = people(wide, replace(wide, name="other"))
    data, model = Microdata(table, codes, None, np.zeros((300, 1), dtype=np.int64), TEXTS), k_anonymity(75)
    counted = FullDomain(data, model)
    for node in [*((level, level) for level in range(10)), *((level, 9) for level in range(10))]:
        assert counted.n_suppressed(node, 300) == suppressed_at(data, model, node)


@given(data=st.data(), allowed=st.integers(0, 20))
def test_more_than_allowed_is_said_to_be_more_than_allowed(data: st.DataObject, allowed: int) -> None:
    small = TABLES["individuals"]
    people = data.draw(microdata(small, max_rows=20))
    model = data.draw(st.sampled_from(list(MODELS.values())))
    node = data.draw(st.sampled_from(nodes(small)))
    exactly, said = suppressed_at(people, model, node), FullDomain(people, model).n_suppressed(node, allowed)
    assert said == exactly if exactly <= allowed else said > allowed


def test_many_columns_of_many_values_do_not_overflow() -> None:
    """Eight columns of about 1,000 values that occur: 80 bits a row. Every second row equals the one before."""
    wide = NumericAttribute("wide", (Decimal(0), Decimal(2**40 - 1)), Decimal(1), Decimal(1), Decimal(1))
    table = people(*(replace(wide, name=f"wide{j}") for j in range(8)))
    codes = np.repeat(np.random.default_rng(1).integers(0, 2**40, (1000, 8)), 2, axis=0)
    data = Microdata(table, codes, None, np.zeros((2000, 1), dtype=np.int64), TEXTS)
    counted = FullDomain(data, k_anonymity(2))
    for level in (0, 3, 36, 39, 40):
        group, n_groups = counted.qi_groups((level,) * 8)
        expected = np.unique(codes >> level, axis=0, return_inverse=True)[1].ravel()
        assert len(set(zip(group.tolist(), expected.tolist(), strict=True))) == n_groups == expected.max() + 1


@given(data=st.data(), small=st.sampled_from(list(TABLES.values())), bound=st.integers(50, 200))
def test_renumbering_half_way_changes_no_group(data: st.DataObject, small: Table, bound: int) -> None:
    people, model = data.draw(microdata(small, max_rows=10)), k_anonymity(2)
    node = data.draw(st.sampled_from(nodes(small)))
    at_once, n_groups = FullDomain(people, model).qi_groups(node)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(full_domain, "NUMBERS_MAX", bound)
        half_way, same = FullDomain(people, model).qi_groups(node)
    assert (at_once.tolist(), n_groups) == (half_way.tolist(), same)
