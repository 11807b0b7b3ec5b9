"""Full-domain recoding over a lattice: both searches find what an exhaustive search by plain loops finds.

The golden example is Hu et al.'s (figures 1 to 3: a lattice of age and region) with people of our own: the paper prints
no table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.adult import microdata as adult_microdata
from streamer.privacy.models import AtMostShare, Model, k_anonymity
from streamer.recoding.algorithms.catalog import objections, run
from streamer.recoding.algorithms.contract import LEFT_OUT, PLAIN, Algorithm, Options, Recoding
from streamer.recoding.algorithms.lattice import (
    BAD,
    DEGREE_FIRST,
    GOOD,
    NODES_MAX,
    OLA,
    UNKNOWN,
    FullDomain,
    Lattice,
    degree_first_search,
    ola_search,
)
from streamer.recoding.algorithms.vectors import vector_counts
from streamer.table.arrays import NUMBERS_MAX
from streamer.table.codes import CategoricalAttribute, NumericAttribute
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.algorithms_by_hand import (
    CITIZENS,
    Node,
    below,
    groups_at,
    minimal,
    n_levels,
    nodes,
    obeys,
    suppressed_at,
)
from worlds.microdata import MODELS, TABLES, TEXTS, VALUES, boxes, data_of, microdata, people
from worlds.small_tables import BMI, CITY, YEARS

# What one test decides: everything above a good node, or below a bad one, and nothing else.

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@given(shape=shapes, data=st.data(), good=st.booleans())
def test_a_test_classifies_what_it_decides_and_nothing_else(shape: Node, data: st.DataObject, good: bool) -> None:
    everyone = list(product(*map(range, shape)))
    asked: list[Node] = []

    def test(node: Node) -> bool:
        asked.append(node)
        return good

    lattice = Lattice(shape, test)
    assert lattice.tags.tolist() == [UNKNOWN] * (len(everyone) - 1) + [GOOD]
    node = data.draw(st.sampled_from(everyone))
    known_before = node == everyone[-1]
    assert lattice.is_good(lattice.number(node)) is (good or known_before)
    assert asked == ([] if known_before else [node])
    good_ones = {other for other in everyone if good and below(node, other)} | {everyone[-1]}
    bad_ones = set() if good or known_before else {other for other in everyone if below(other, node)}
    tags = {lattice.node(number): tag for number, tag in enumerate(lattice.tags.tolist())}
    assert {other for other, tag in tags.items() if tag == GOOD} == good_ones
    assert {other for other, tag in tags.items() if tag == BAD} == bad_ones
    assert lattice.n_unknown == len(everyone) - len(good_ones) - len(bad_ones)


@given(shape=shapes)
def test_a_node_and_its_number_name_each_other_and_numbers_are_in_the_order_of_levels(shape: Node) -> None:
    lattice = Lattice(shape, lambda node: True)
    nodes = [lattice.node(number) for number in range(lattice.n_nodes)]
    assert nodes == sorted(product(*map(range, shape)))
    assert [lattice.number(node) for node in nodes] == list(range(lattice.n_nodes))


# How rows are counted at a node of the lattice, whichever nodes were asked before.


def full_domain(data: Microdata, model: Model, numbers_max: int = NUMBERS_MAX) -> FullDomain:
    return FullDomain(data.table, vector_counts(data, model)[0], model, numbers_max)


every_table = pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())


def test_rows_to_suppress_at_every_node_of_age_and_region() -> None:
    """2-anonymous without suppression: (0,3), (1,1), (1,2), (1,3), (2,0) and what is above."""
    suppressed = {node: suppressed_at(CITIZENS, k_anonymity(2), node) for node in nodes(CITIZENS.table)}
    assert suppressed == {
        (0, 0): 8, (0, 1): 8, (0, 2): 8, (0, 3): 0,
        (1, 0): 4, (1, 1): 0, (1, 2): 0, (1, 3): 0,
        (2, 0): 0, (2, 1): 0, (2, 2): 0, (2, 3): 0,
    }  # fmt: skip
    counted = full_domain(CITIZENS, k_anonymity(2))
    assert {node: counted.n_suppressed(node, 8) for node in suppressed} == suppressed


@every_table
@given(data=st.data())
def test_the_answer_at_a_node_does_not_depend_on_the_nodes_asked_before(small: Table, data: st.DataObject) -> None:
    people = data.draw(microdata(small, max_rows=20))
    model = data.draw(st.sampled_from(list(MODELS.values())))
    counted = full_domain(people, model)
    for node in data.draw(st.lists(st.sampled_from(nodes(small)), max_size=8)):
        assert counted.n_suppressed(node, len(people)) == suppressed_at(people, model, node)


def test_climbing_counts_every_row_at_every_step() -> None:
    """From 300 distinct rows to one QI group, each node on what a lower one left: a row lost on the way shows."""
    wide = NumericAttribute("wide", (Decimal(0), Decimal(511)), Decimal(1), Decimal(1), Decimal(1))
    codes = np.random.default_rng(3).integers(0, 512, (300, 2))
    table = people(wide, replace(wide, name="other"))
    data, model = data_of(table, codes), k_anonymity(75)
    counted = full_domain(data, model)
    for node in [*((level, level) for level in range(10)), *((level, 9) for level in range(10))]:
        assert counted.n_suppressed(node, 300) == suppressed_at(data, model, node)


@given(data=st.data(), allowed=st.integers(0, 20))
def test_more_than_allowed_is_said_to_be_more_than_allowed(data: st.DataObject, allowed: int) -> None:
    small = TABLES["individuals"]
    people = data.draw(microdata(small, max_rows=20))
    model = data.draw(st.sampled_from(list(MODELS.values())))
    node = data.draw(st.sampled_from(nodes(small)))
    exactly, said = suppressed_at(people, model, node), full_domain(people, model).n_suppressed(node, allowed)
    assert said == exactly if exactly <= allowed else said > allowed


def test_many_columns_of_many_values_do_not_overflow() -> None:
    """Eight columns of about 1,000 values that occur: 80 bits a row. Every second row equals the one before."""
    wide = NumericAttribute("wide", (Decimal(0), Decimal(2**40 - 1)), Decimal(1), Decimal(1), Decimal(1))
    table = people(*(replace(wide, name=f"wide{j}") for j in range(8)))
    codes = np.repeat(np.random.default_rng(1).integers(0, 2**40, (1000, 8)), 2, axis=0)
    data = data_of(table, codes)
    counted, vector = full_domain(data, k_anonymity(2)), vector_counts(data, k_anonymity(2))[1]
    for level in (0, 3, 36, 39, 40):
        group, n_groups = counted.qi_groups((level,) * 8)
        expected = np.unique(codes >> level, axis=0, return_inverse=True)[1].ravel()
        assert len(set(zip(group[vector].tolist(), expected.tolist(), strict=True))) == n_groups == expected.max() + 1


@given(data=st.data(), small=st.sampled_from(list(TABLES.values())), bound=st.integers(50, 200))
def test_renumbering_half_way_changes_no_group(data: st.DataObject, small: Table, bound: int) -> None:
    people, model = data.draw(microdata(small, max_rows=10)), k_anonymity(2)
    node = data.draw(st.sampled_from(nodes(small)))
    at_once, n_groups = full_domain(people, model).qi_groups(node)
    half_way, same = full_domain(people, model, numbers_max=bound).qi_groups(node)
    assert (at_once.tolist(), n_groups) == (half_way.tolist(), same)


# The two searches of a lattice: every node is classified, none is tested twice, and in which order.

SEARCHES = {"ola": ola_search, "degree-first": degree_first_search}


Search = Callable[[Lattice], object]


both_searches = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())


@st.composite
def questions(draw: st.DrawFn) -> tuple[Node, set[Node]]:
    """The shape of a lattice, and its good nodes: all that are above some drawn ones, or the top."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3) | st.just([2, 3, 2, 3])))
    everyone = list(product(*map(range, shape)))
    lowest = [*draw(st.lists(st.sampled_from(everyone), max_size=5)), everyone[-1]]
    return shape, {node for node in everyone if any(below(low, node) for low in lowest)}


def asked_by(search: Search, shape: Node, good: set[Node]) -> tuple[Lattice, list[Node]]:
    """The lattice after the search, and the nodes it tested in their order."""
    asked = []

    def is_good(node: Node) -> bool:
        asked.append(node)
        return node in good

    lattice = Lattice(shape, is_good)
    search(lattice)
    return lattice, asked


@both_searches
@given(question=questions())
def test_every_node_is_classified_and_none_is_tested_twice(search: Search, question: tuple[Node, set[Node]]) -> None:
    shape, good = question
    lattice, asked = asked_by(search, shape, good)
    assert len(asked) == len(set(asked)) == lattice.tested
    assert shape_top(shape) not in asked
    assert lattice.n_unknown == 0
    assert {lattice.node(number) for number in range(lattice.n_nodes) if lattice.is_good(number)} == good
    assert lattice.minimal() == sorted(minimal(good))


def shape_top(shape: Node) -> Node:
    return tuple(n - 1 for n in shape)


@given(question=questions())
def test_ola_tests_the_nodes_that_the_published_procedure_tests(question: tuple[Node, set[Node]]) -> None:
    """El Emam et al. 2009, Kmin, word for word; the top is known to be good, and no sublattice is skipped."""
    shape, good = question
    everyone = list(product(*map(range, shape)))
    known = {shape_top(shape): True}
    asked = []

    def test(node: Node) -> bool:
        if node not in known:
            asked.append(node)
            known.update((other, True) for other in everyone if node in good and below(node, other))
            known.update((other, False) for other in everyone if node not in good and below(other, node))
        return known[node]

    def kmin(bottom: Node, top: Node) -> None:
        height = sum(top) - sum(bottom)
        if height <= 1:
            test(bottom)
            return
        for node in everyone:
            if below(bottom, node) and below(node, top) and sum(node) == sum(bottom) + height // 2:
                if test(node):
                    kmin(bottom, node)
                else:
                    kmin(node, top)

    kmin(everyone[0], everyone[-1])
    assert asked_by(ola_search, shape, good)[1] == asked


@given(question=questions())
def test_degree_first_tests_the_node_of_highest_degree_product_in_what_is_left(
    question: tuple[Node, set[Node]],
) -> None:
    """Hu et al. 2011, section 3, with the rule for ties that the module states."""
    shape, good = question
    everyone = list(product(*map(range, shape)))
    reach = {
        node: sum(below(node, other) for other in everyone) * sum(below(other, node) for other in everyone)
        for node in everyone
    }
    left = set(everyone) - {shape_top(shape)}
    asked = []

    def rank(node: Node) -> tuple:
        steps = [(*node[:j], node[j] + step, *node[j + 1 :]) for j in range(len(node)) for step in (1, -1)]
        parents, children = (sum(step in left for step in some) for some in (steps[::2], steps[1::2]))
        return -parents * children, -reach[node], node

    while left:
        node = min(left, key=rank)
        asked.append(node)
        left -= {other for other in everyone if (below(node, other) if node in good else below(other, node))}
    assert asked_by(degree_first_search, shape, good)[1] == asked


ALGORITHMS = {algorithm.name: algorithm for algorithm in (OLA, DEGREE_FIRST)}
SHARES = [0.0, 0.1, 0.3, 0.5]

both = pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS.keys())


# --- the twin: every node, recoded row by row -------------------------------------------------------------------------


def twin(data: Microdata, model: Model, suppression: float) -> tuple[Node, int, set[Node], int]:
    """The optimum, the rows it suppresses and all good nodes, by trying every node that may be; how many these are.

    What even the coarsest node that `coarsest` allows has to suppress is suppressed, whatever the share.
    """
    highest = [n - 1 for n in n_levels(data.table)]
    suppressed = {node: suppressed_at(data, model, node) for node in nodes(data.table) if narrow(data, node)}
    least = suppressed[max(suppressed)]
    good = {node for node, rows in suppressed.items() if rows <= max(least, int(suppression * len(data)))}
    weights = [Fraction(attribute.weight) for attribute in data.table.attributes]

    def rank(node: Node) -> tuple:
        heights = zip(node, highest, weights, strict=True)
        return sum(Fraction(h, top) * weight for h, top, weight in heights if top), suppressed[node], node

    best = min(good, key=rank)
    return best, suppressed[best], good, len(suppressed)


def narrow(data: Microdata, node: Node) -> bool:
    """True if the node publishes nothing of these people that `coarsest` forbids."""
    return not any(data.space.forbids(*zip(*box, strict=True)) for box in groups_at(data, node))


@st.composite
def problems(draw: st.DrawFn, small: Table) -> tuple[Microdata, Model, Options]:
    """People who hold a model as a whole, and a share to suppress that the model allows."""
    data = draw(microdata(small, max_rows=20))
    model = draw(st.sampled_from(list(MODELS.values())))
    suppression = draw(st.sampled_from(SHARES)) if model.is_growing else 0.0
    assume(model.holds(data.subjects(model.subjects)))
    assume(model.is_growing or not small.space.is_bounded)
    return data, model, Options(suppression=suppression, too_wide=LEFT_OUT)


@every_table
@given(data=st.data())
def test_both_find_the_optimum_of_an_exhaustive_search(small: Table, data: st.DataObject) -> None:
    people, model, options = data.draw(problems(small))
    best, suppressed, good, n_nodes = twin(people, model, options.suppression)
    for algorithm in ALGORITHMS.values():
        recoding = run(algorithm, people, model, options)
        assert recoding.levels == best
        assert recoding.n_suppressed == suppressed
        assert recoding.details["nodes"] == n_nodes
        assert recoding.details["nodes_tested"] < n_nodes
        assert recoding.details["k_minimal"] == len(minimal(good))
        assert_is_the_node(people, model, best, recoding)


def assert_is_the_node(data: Microdata, model: Model, node: Node, recoding: Recoding) -> None:
    """Exactly the QI groups of the node that hold, each with its box; all other rows are suppressed."""
    subjects = data.subjects(model.subjects).tolist()
    expected = {
        (box, tuple(rows))
        for box, rows in groups_at(data, node).items()
        if obeys(model, [subjects[row] for row in rows])
    }
    found = set()
    for group, ends in enumerate(np.stack([recoding.lo, recoding.hi], axis=2).tolist()):
        box, rows = tuple(map(tuple, ends)), tuple(np.flatnonzero(recoding.qi_group == group).tolist())
        found.add((box, rows))
    assert found == expected


# --- a lattice of age and region ------------------------------------------------------------------------------------


def shown(data: Microdata, recoding: Recoding) -> set[tuple[str, ...]]:
    """The published rows, as labels."""
    trees = [attribute.hierarchy for attribute in data.table.attributes if isinstance(attribute, CategoricalAttribute)]
    return {
        tuple(tree.label(a, b) for tree, a, b in zip(trees, lo, hi, strict=True))
        for lo, hi in zip(recoding.lo.tolist(), recoding.hi.tolist(), strict=True)
    }


@both
def test_the_best_of_the_three_k_minimal_nodes_of_age_and_region(algorithm: Algorithm) -> None:
    """Losses: (0,3) 1/2 (0/2 + 3/3) = 1/2; (1,1) 1/2 (1/2 + 1/3) = 5/12; (2,0) 1/2 (2/2 + 0/3) = 1/2."""
    recoding = run(algorithm, CITIZENS, k_anonymity(2))
    assert recoding.details["k_minimal"] == 3
    assert recoding.levels == (1, 1)
    assert shown(CITIZENS, recoding) == {("20-29", "north"), ("30-39", "north"), ("20-29", "east"), ("30-39", "east")}


@both
def test_suppressing_four_of_eight_rows_saves_the_cities(algorithm: Algorithm) -> None:
    """(1,0) then holds with loss 1/4: the four people of the north go, who were alone with their city and decade."""
    recoding = run(algorithm, CITIZENS, k_anonymity(2), Options(suppression=0.5))
    assert recoding.levels == (1, 0)
    assert recoding.qi_group.tolist()[:4] == [-1] * 4
    assert shown(CITIZENS, recoding) == {("20-29", "Shanghai"), ("30-39", "Nanjing")}


# --- objections and progress ----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_shares_with_suppression_are_an_objection_and_nothing_else_is(algorithm: Algorithm, model: Model) -> None:
    table = TABLES["decimal, number, category"]
    said = objections(algorithm, table, model, Options(suppression=0.1))
    assert [("shares" in sentence) for sentence in said] == ([] if model.is_growing else [True])
    assert not objections(algorithm, table, model, PLAIN)


def test_suppression_and_shares_are_not_monotone() -> None:
    """Why it is an objection. Level 0 keeps cough, flu and suppresses cough, cough; level 1 makes them one group."""
    data = Microdata(people(YEARS), np.array([[0], [0], [1], [1]]), None, np.array([[0], [1], [0], [0]]), TEXTS)
    halves = k_anonymity(2) & Model([AtMostShare(VALUES, Fraction(1, 2))])
    assert [suppressed_at(data, halves, (level,)) for level in (0, 1)] == [2, 4]


@both
def test_a_lattice_that_is_too_large_is_an_objection_with_its_size(algorithm: Algorithm) -> None:
    wide = NumericAttribute("wide", (Decimal(0), Decimal(2**31 - 1)), Decimal(1), Decimal(1), Decimal(1))
    table = people(*(replace(wide, name=f"wide{j}") for j in range(4)))
    (said,) = objections(algorithm, table, k_anonymity(2))
    assert f"{32**4:,} nodes" in said
    assert f"{NODES_MAX:,} are allowed" in said
    assert "wide0" in said
    assert not objections(algorithm, people(*table.attributes[:3], BMI, CITY), k_anonymity(2))


# --- Adult ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("suppression", [0.0, 0.01])
def test_both_find_the_same_table_for_adult_and_test_few_of_its_nodes(adult: Path, suppression: float) -> None:
    data, options = adult_microdata(10), Options(suppression=suppression)
    one, other = (run(algorithm, data, k_anonymity(10), options) for algorithm in ALGORITHMS.values())
    assert one.levels == other.levels
    assert boxes(one) == boxes(other)
    assert one.details["nodes"] == other.details["nodes"] == 6480
    assert one.details["k_minimal"] == other.details["k_minimal"]
    assert max(one.details["nodes_tested"], other.details["nodes_tested"]) < 6480 / 8
