"""Laws about distributions as the papers define them: in fractions, over the shares of all values."""

from __future__ import annotations

from fractions import Fraction
from math import log2

from streamer.privacy.distributions import AtLeastEntropy, AtMostDistance, Law, Recursive
from streamer.table.codes import EQUAL, ORDERED, Reference
from streamer.table.codes.same_text import counted_value
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import NULL, Subject
from streamer.table.schema import Table


def law_holds(law: Law, codes: list[int], tree: Hierarchy | None = None) -> bool:
    """A law about distributions on the codes of one QI group, by its definition."""
    counts = sorted((codes.count(code) for code in set(codes)), reverse=True)
    match law:
        case AtLeastEntropy(_, l):
            entropy = -sum(n / len(codes) * log2(n / len(codes)) for n in counts)
            return bool(codes) and entropy >= log2(l) - 1e-9
        case Recursive(_, c, l):
            return bool(codes) and counts[0] < Fraction(c) * sum(counts[l - 1 :])
        case AtMostDistance(_, t, _, reference):
            assert reference is not None
            shares = {code: Fraction(codes.count(code), len(codes)) for code in set(codes)}
            return moved(reference, shares, tree) <= Fraction(t)


def moved(reference: Reference, shares: dict[int, Fraction], tree: Hierarchy | None) -> Fraction:
    """The earth mover's distance of shares by code, as section 4 of Li, Li and Venkatasubramanian 2007 has it."""
    total = max(1, sum(reference.rows))
    codes = range(max([*shares, len(reference.rows)]) + 1)
    there = dict(enumerate(reference.rows))
    extra = [shares.get(code, Fraction(0)) - Fraction(there.get(code, 0), total) for code in codes]
    if reference.distance == EQUAL:
        return Fraction(sum(map(abs, extra))) / 2
    if reference.distance == ORDERED:
        last = len(reference.rows) - 1
        running, steps = Fraction(0), list[Fraction]()
        for code in range(last):
            running += extra[code]
            steps.append(abs(running))
        return sum(steps, Fraction(0)) / max(1, last - (reference.rows[0] == 0))
    assert tree is not None
    return _cost(reference, tree, extra)


def _cost(reference: Reference, tree: Hierarchy, extra: list[Fraction]) -> Fraction:
    """Sum over nodes of height times what moves below them: the lesser of what is too much and what is missing."""
    height = len(tree.levels) - 1
    below: dict[int, list[int]] = {}
    for leaf, label in enumerate(tree.leaves):
        for level in range(1, height):
            if tree.levels[level][leaf] != tree.levels[level - 1][leaf]:
                below.setdefault(int(tree.levels[level][leaf]), []).append(reference.values.index(label) + 1)
    cost, roots = Fraction(0), list[Fraction]()
    assert height == 2  # so a node's children are leaves
    for leaves in below.values():
        parts = [extra[code] for code in leaves]
        cost += Fraction(1, height) * min(sum(p for p in parts if p > 0), -sum(p for p in parts if p < 0))
        roots.append(sum(parts, Fraction(0)))
    alone = set(range(len(extra))) - {code for leaves in below.values() for code in leaves}
    roots += [extra[code] for code in alone]
    return cost + min(sum((p for p in roots if p > 0), Fraction(0)), -sum((p for p in roots if p < 0), Fraction(0)))


def distributions_hold(table: Table, i: int, values: list[bytes]) -> bool:
    """True if these values of a column meet what it asks of its distribution."""
    column, texts = table.kept[i], [counted_value(value, table.counted_text) for value in values]
    asked = column.distribution
    if asked is None:
        return True
    numbers = {None: NULL} | {text: n for n, text in enumerate(sorted({*texts} - {None}, key=str), start=1)}
    laws: list[Law] = []
    if asked.entropy_l is not None:
        laws.append(AtLeastEntropy(Subject(i), asked.entropy_l))
    if asked.recursive is not None:
        laws.append(Recursive(Subject(i), *asked.recursive))
    codes = [numbers[text] for text in texts]
    some = codes if asked.null_counts else [code for code in codes if code != NULL]
    if not all(law_holds(law, which) for law in laws for which in (codes, some)):
        return False
    if asked.t is None or asked.reference is None:
        return True
    compared = [asked.reference.code_of(text) for text in texts]
    law = AtMostDistance(Subject(i), asked.t, asked.distance, asked.reference)
    return law_holds(law, compared, column.hierarchy)
