"""Full-domain recoding: one level for every attribute, the best of all that hold, by OLA or degree first.

A node of the lattice of level vectors is *good* if the QI groups that do not hold the model have together at most
floor(suppression x rows) rows; these rows are suppressed, and no others. Going up merges QI groups, and all models are
closed under union: so without suppression the ancestors of a good node are good. With suppression that needs a growing
model, since a group that does not hold may spoil the shares of one that did; shares and suppression together are
therefore an objection. The top node needs no test: before any algorithm runs, the whole table was found to hold.

The loss of a node is the mean over the attributes of level / highest level (Hu et al. 2011, equation 1), compared
exactly; an attribute of one level loses nothing. It grows with every step up, so the least loss is that of a minimal
node; of several the one with fewest suppressed rows, then the lexicographically lowest. So OLA and degree first give
the same table; they differ in the nodes they test (`algorithms.lattice_search`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import lcm, prod

import numpy as np

from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import Algorithm, Options
from streamer.recoding.algorithms.full_domain import FullDomain
from streamer.recoding.algorithms.lattice_nodes import Lattice, Node
from streamer.recoding.algorithms.lattice_search import degree_first_search, ola_search
from streamer.recoding.algorithms.recoding import SUPPRESSED, Recoding
from streamer.table.microdata import Microdata
from streamer.table.schema import Table

Search = Callable[[Lattice], None]

NODES_MAX = 1_000_000
"""Nodes that a lattice may have: more are an objection."""


def lattice_nodes(table: Table) -> int:
    """How many nodes the table's lattice has; it may be more than any array could hold."""
    return prod(attribute.levels.n_levels for attribute in table.attributes)


def objections(table: Table, model: Model, options: Options) -> Sequence[str]:
    """Shares together with suppression, and lattices that are too large."""
    said = []
    if options.suppression and not model.is_growing:
        said.append(
            "with suppressed rows, a recoding that holds may have a coarser one that does not, where the model limits"
            " shares; ask for no suppression, or for a model without alpha, beta and r"
        )
    n_levels = {attribute.name: attribute.levels.n_levels for attribute in table.attributes}
    if (n_nodes := lattice_nodes(table)) > NODES_MAX:
        widest = max(n_levels, key=lambda name: n_levels[name])
        said.append(
            f"its lattice would have {n_nodes:,} nodes and {NODES_MAX:,} are allowed; give {widest}, with"
            f" {n_levels[widest]} levels, or other columns a hierarchy with fewer levels or a wider grid"
        )
    return said


def _run_by(search: Search) -> Callable[[Microdata, Model, Options], Recoding]:
    """Full-domain recoding whose lattice is classified by `search`."""

    def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
        allowed = options.suppressed_max(len(microdata))
        recoded = FullDomain(microdata, model)

        def is_good(node: Node) -> bool:
            return recoded.n_suppressed(node, allowed) <= allowed

        lattice = Lattice(recoded.n_levels, is_good)
        search(lattice)
        minimal = lattice.minimal()
        best = _best(recoded, minimal, allowed)
        details = {"nodes": lattice.n_nodes, "nodes_tested": lattice.tested, "k_minimal": len(minimal)}
        return _recoding(microdata, model, recoded, best, details)

    return run


def _best(recoded: FullDomain, minimal: Sequence[Node], allowed: int) -> Node:
    """The node of least loss, fewest suppressed rows, lowest levels; minimal: in lexicographic order."""
    tops = [max(n - 1, 1) for n in recoded.n_levels]
    steps = lcm(*tops) // np.array(tops)  # a step's loss in every attribute, in whole numbers: exact
    losses = np.array(minimal) @ steps
    tied = [minimal[i] for i in np.flatnonzero(losses == losses.min()).tolist()]
    return tied[0] if len(tied) == 1 else min(tied, key=lambda node: recoded.n_suppressed(node, allowed))


def _recoding(
    microdata: Microdata, model: Model, recoded: FullDomain, node: Node, details: Mapping[str, int]
) -> Recoding:
    """What the node publishes; the rows of QI groups that do not hold are suppressed."""
    qi_group, n_groups = recoded.qi_groups(node)
    holds = model.holds_by_group(qi_group, n_groups, microdata.subjects(model.subjects))
    number = np.where(holds, np.cumsum(holds) - 1, SUPPRESSED)
    first = np.unique(qi_group, return_index=True)[1]
    lo, hi = recoded.boxes(node, first[holds])
    return Recoding(number[qi_group], lo, hi, node, details)


OLA = Algorithm(
    "ola",
    "one level per attribute, the best of all; binary search in the lattice",
    "El Emam et al. 2009",
    _run_by(ola_search),
    objections,
    suppresses=True,
    full_domain=True,
)

DEGREE_FIRST = Algorithm(
    "degree-first",
    "one level per attribute, the best of all; nodes with most neighbours first",
    "Hu et al. 2011",
    _run_by(degree_first_search),
    objections,
    suppresses=True,
    full_domain=True,
)
