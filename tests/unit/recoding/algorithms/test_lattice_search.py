"""The two searches of a lattice: every node is classified, none is tested twice, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.recoding.algorithms.lattice_nodes import Lattice
from streamer.recoding.algorithms.lattice_search import degree_first_search, ola_search
from worlds.lattices import Node, below, minimal

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
