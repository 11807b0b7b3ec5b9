"""What one test tells of a lattice: everything above a good node, everything below a bad one, and nothing else."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from streamer.recoding.algorithms.lattice_nodes import BAD, GOOD, UNKNOWN, Lattice
from worlds.lattices import Node, below

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
