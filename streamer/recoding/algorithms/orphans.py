"""Orphans: the rows that local recoding could not label, and how they come into a QI group that holds.

There are two ways, and the one stands that loses less, rows times NCP of all QI groups; of equals the first. Where a
few orphans lie together the first is the better one, and where many lie all over the table the second.

In the first (step 4 of the paper) the orphans become one QI group of their own, if others can spare what they
*lack*: the number of rows that they need at least, the largest of what their constraints ask for. What moves is a
*portion*: all rows that one individual has in one QI group, since rows that belong together should stay together;
without declared individuals, a row. A group *spares* a portion if it holds without it. Portions are asked in the order
of the NCP of the smallest box around them and the orphans; of equals the portion of fewest rows, then the one whose
first row comes first. One is taken if its group spares it, after all that it gave before, and if the orphans then lack
less. A group that gave keeps its values; the orphans publish their smallest box. Where they still lack something, this
is no way.

In the second (step 5) nothing moves, and each orphan goes to the nearest QI group that holds with it: that whose total
NCP rises least, ties to the lower number. The group then publishes the smallest box around its former one and the
orphan. The orphans' order: by the subjects that shares limit, then as the rows come. An orphan that fits nowhere (only
shares refuse a row) waits; those that wait take in whole QI groups, nearest first, until they hold together. That
ends, since the whole table holds.

Source: Tong et al. 2010, algorithm 1, steps 4 and 5. The paper takes step 5 for what step 4 leaves; with a rare value
that would be one QI group of nearly all rows. The paper says for its table 4 and (0.5, 0.5)-anonymity that no
group can spare a row. By single rows one could: record 1 leaves individuals 1, 2, 3 with one row each. That
individuals move with all their rows is the reading under which both of the paper's examples come out as printed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.jit import compiled
from streamer.privacy.compiled import Rules, Scratch, add, clear, holds, remove, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.recoding.algorithms.box_loss import Shape, ncp_term, shape_of
from streamer.recoding.algorithms.recoding import Recoding
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.microdata import INDIVIDUAL, Microdata


def settled(microdata: Microdata, model: Model, qi_group: Ints, lo: Ints, hi: Ints) -> Recoding:
    """The recoding in which the orphans, rows of a negative qi_group, have found a QI group.

    qi_group: int64 (n,), groups that hold; lo, hi: int64 (g, d), their boxes in cells. The whole table holds.
    """
    orphans = np.flatnonzero(qi_group < 0)
    if not len(orphans):
        return Recoding(qi_group, lo, hi, details={"orphans": 0, "moved": 0})
    rules = rules_of(model, microdata.subjects(model.subjects))
    moved = _surplus(microdata, model, rules, qi_group, orphans)
    among = _among(microdata, model, rules, qi_group, lo, hi, orphans)
    if moved is None:
        return among
    apart = _apart(microdata, qi_group, lo, hi, orphans, moved)
    return apart if _loss(microdata, apart) <= _loss(microdata, among) else among


def _apart(microdata: Microdata, qi_group: Ints, lo: Ints, hi: Ints, orphans: Ints, moved: Ints) -> Recoding:
    """The orphans and what moved to them as one QI group."""
    together, qi_group = np.concatenate([orphans, moved]), qi_group.copy()
    qi_group[together] = len(lo)
    box = microdata.space.box_of_cells(microdata.cells[together])
    details = {"orphans": len(orphans), "moved": len(moved)}
    return Recoding(qi_group, np.vstack([lo, box[0]]), np.vstack([hi, box[1]]), details=details)


def _among(
    microdata: Microdata, model: Model, rules: Rules, qi_group: Ints, lo: Ints, hi: Ints, orphans: Ints
) -> Recoding:
    """Every orphan in one of the QI groups."""
    qi_group, lo, hi = qi_group.copy(), lo.copy(), hi.copy()
    _join_nearest(microdata, model, rules, qi_group, lo, hi, orphans)
    qi_group, lo, hi = _take_in(microdata, rules, qi_group, lo, hi)
    return Recoding(qi_group, lo, hi, details={"orphans": len(orphans), "moved": 0})


def _loss(microdata: Microdata, recoding: Recoding) -> float:
    """Rows times NCP, all QI groups together."""
    return float((recoding.sizes * microdata.space.ncp(recoding.lo, recoding.hi)).sum())


def _surplus(microdata: Microdata, model: Model, rules: Rules, qi_group: Ints, orphans: Ints) -> Ints | None:
    """Rows that QI groups can spare and with which the orphans hold; None where there are not enough."""
    sizes = np.bincount(qi_group[qi_group >= 0], minlength=1)
    rows = np.flatnonzero((qi_group >= 0) & (sizes[qi_group] > model.rows_min))
    if not len(rows):
        return None
    who = microdata.subject(INDIVIDUAL)[rows]
    order = np.lexsort((who, qi_group[rows]))
    rows, who = rows[order], who[order]
    portions = _begins(qi_group[rows], who)
    groups = np.searchsorted(portions, _begins(qi_group[rows])).astype(np.int64)
    spare = np.zeros(len(portions) - 1, dtype=np.bool_)
    scratch = scratch_for(rules)
    _find_spare(rules, scratch, rows, portions, groups, spare)
    asked = np.flatnonzero(spare)
    if not len(asked):
        return None
    asked = asked[_by_nearness(microdata, rows, portions, orphans)[asked].argsort(kind="stable")]
    taken = np.zeros(len(portions) - 1, dtype=np.bool_)
    if not _take_portions(rules, scratch, scratch_for(rules), orphans, rows, portions, groups, asked, taken):
        return None
    return rows[np.repeat(taken, np.diff(portions))]


def _begins(*columns: Ints) -> Ints:
    """Where runs of equal rows begin, with the end; columns: int64 (n,) each, n >= 1, sorted."""
    changes = np.zeros(len(columns[0]), dtype=np.bool_)
    changes[0] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.append(np.flatnonzero(changes), len(changes)).astype(np.int64)


def _by_nearness(microdata: Microdata, rows: Ints, portions: Ints, orphans: Ints) -> Ints:
    """The rank of every portion in the order in which they are asked; int64 (p,)."""
    cells, theirs = microdata.cells[rows], microdata.cells[orphans]
    lo = np.minimum(np.minimum.reduceat(cells, portions[:-1]), theirs.min(axis=0))
    hi = np.maximum(np.maximum.reduceat(cells, portions[:-1]), theirs.max(axis=0))
    ncp = microdata.space.ncp(*microdata.space.generalize(lo, hi))
    order = np.lexsort((rows[portions[:-1]], np.diff(portions), ncp))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank


@compiled
def lack(rules: Rules, scratch: Scratch) -> int:
    """How many rows a group needs at least until it holds: the largest of what its constraints ask for; 0: it holds."""
    size = scratch.size[0]
    most = rules.rows - size
    for i in range(rules.distinct.shape[0]):
        most = max(most, rules.distinct[i] - scratch.n_distinct[i])
        most = max(most, -(-scratch.top[i] * rules.denominator[i] // rules.numerator[i]) - size)
    return int(max(most, 0))


@compiled
def _find_spare(rules: Rules, scratch: Scratch, rows: Ints, portions: Ints, groups: Ints, spare: Bools) -> None:
    """Which portions their groups hold without.

    Portion i is rows[portions[i]:portions[i + 1]]; group g has the portions from groups[g] on.
    """
    for g in range(len(groups) - 1):
        members = rows[portions[groups[g]] : portions[groups[g + 1]]]
        for row in members:
            add(rules, scratch, row)
        for portion in range(groups[g], groups[g + 1]):
            for row in rows[portions[portion] : portions[portion + 1]]:
                remove(rules, scratch, row)
            spare[portion] = holds(rules, scratch)
            for row in rows[portions[portion] : portions[portion + 1]]:
                add(rules, scratch, row)
        clear(rules, scratch, members)


@compiled
def _take_portions(
    rules: Rules, giving: Scratch, taking: Scratch, orphans: Ints, rows: Ints, portions: Ints, groups: Ints,
    asked: Ints, taken: Bools,
) -> bool:  # fmt: skip
    """Marks the portions that move to the orphans; whether these then hold. Both scratches are empty before."""
    for row in orphans:
        add(rules, taking, row)
    gave = np.zeros(len(groups) - 1, dtype=np.bool_)
    for portion in asked:
        before = lack(rules, taking)
        if before == 0:
            return True
        members = rows[portions[portion] : portions[portion + 1]]
        for row in members:
            add(rules, taking, row)
        taken[portion] = lack(rules, taking) < before
        g = np.searchsorted(groups, portion, side="right") - 1
        if taken[portion] and gave[g]:
            for other in range(groups[g], groups[g + 1]):
                if not taken[other]:
                    for row in rows[portions[other] : portions[other + 1]]:
                        add(rules, giving, row)
            taken[portion] = holds(rules, giving)
            clear(rules, giving, rows[portions[groups[g]] : portions[groups[g + 1]]])
        if taken[portion]:
            gave[g] = True
        else:
            for row in members:
                remove(rules, taking, row)
    return lack(rules, taking) == 0


class _Shared(NamedTuple):
    """What shares are asked of, s subjects: their codes (s, n), the rows by code (s, n), and the shares."""

    codes: Ints
    by_code: Ints
    numerator: Ints
    denominator: Ints


def _join_nearest(
    microdata: Microdata, model: Model, rules: Rules, qi_group: Ints, lo: Ints, hi: Ints, orphans: Ints
) -> None:
    """Each orphan into the nearest QI group that holds with it, if there is one; changes qi_group, lo and hi."""
    limited = np.array([i for i, subject in enumerate(model.subjects) if subject in model.shares], dtype=np.int64)
    codes = np.ascontiguousarray(rules.subjects[:, limited].T)
    by_code = np.argsort(codes, axis=1, kind="stable")
    shared = _Shared(codes, by_code, rules.numerator[limited], rules.denominator[limited])
    if len(limited):
        orphans = orphans[np.lexsort(codes[:, orphans])]
    sizes = np.bincount(qi_group[qi_group >= 0], minlength=len(lo))
    ncp = microdata.space.ncp(lo, hi)
    _join_one_by_one(shape_of(microdata.space), shared, microdata.cells, orphans, qi_group, sizes, lo, hi, ncp)
    microdata.space.generalize(lo, hi)


@compiled
def _join_one_by_one(
    shape: Shape, shared: _Shared, cells: Ints, orphans: Ints,
    qi_group: Ints, sizes: Ints, lo: Ints, hi: Ints, ncp: Floats,
) -> None:  # fmt: skip
    """Puts orphan after orphan into a group; changes qi_group and the groups' sizes, ncp and runs of cells lo, hi."""
    n_shared, n_groups = len(shared.codes), len(lo)
    count = np.zeros((n_shared, n_groups), dtype=np.int64)  # rows of the orphan's code in every group
    counted = np.full(n_shared, -1, dtype=np.int64)
    for orphan in orphans:
        for i in range(n_shared):
            if shared.codes[i, orphan] != counted[i]:
                counted[i] = shared.codes[i, orphan]
                _count(shared.codes[i], shared.by_code[i], counted[i], qi_group, count[i])
        nearest, least, ncp_then = -1, np.inf, 0.0
        for g in range(n_groups):
            fits = True
            for i in range(n_shared):
                fits &= (count[i, g] + 1) * shared.denominator[i] <= (sizes[g] + 1) * shared.numerator[i]
            if not fits:
                continue
            wide, rise = 0.0, -sizes[g] * ncp[g]
            for j in range(cells.shape[1]):
                cell = cells[orphan, j]
                wide += ncp_term(shape, j, min(lo[g, j], cell), max(hi[g, j], cell))
                rise = (sizes[g] + 1) * wide - sizes[g] * ncp[g]
                if rise >= least:
                    break
            if rise < least:
                nearest, least, ncp_then = g, rise, wide
        if nearest >= 0:
            qi_group[orphan] = nearest
            sizes[nearest] += 1
            ncp[nearest] = ncp_then
            for i in range(n_shared):
                count[i, nearest] += 1
            for j in range(cells.shape[1]):
                lo[nearest, j] = min(lo[nearest, j], cells[orphan, j])
                hi[nearest, j] = max(hi[nearest, j], cells[orphan, j])


@compiled
def _count(codes: Ints, by_code: Ints, code: int, qi_group: Ints, count: Ints) -> None:
    """Rows of one code in every QI group; count: int64 (g,), written over."""
    count[:] = 0
    first, end = 0, len(by_code)
    while first < end:
        middle = (first + end) // 2
        if codes[by_code[middle]] < code:
            first = middle + 1
        else:
            end = middle
    while first < len(by_code) and codes[by_code[first]] == code:
        if qi_group[by_code[first]] >= 0:
            count[qi_group[by_code[first]]] += 1
        first += 1


def _take_in(microdata: Microdata, rules: Rules, qi_group: Ints, lo: Ints, hi: Ints) -> tuple[Ints, Ints, Ints]:
    """Those that fit nowhere take in whole QI groups, nearest first, until they hold; qi_group, lo, hi then."""
    waiting = np.flatnonzero(qi_group < 0)
    if not len(waiting):
        return qi_group, lo, hi
    space, scratch = microdata.space, scratch_for(rules)
    order = np.argsort(qi_group, kind="stable")
    begins = np.searchsorted(qi_group[order], np.arange(len(lo) + 1))
    sizes, ncp = np.diff(begins), space.ncp(lo, hi)
    box_lo, box_hi = space.box_of_cells(microdata.cells[waiting])
    _add_all(rules, scratch, waiting)
    stands, n = np.ones(len(lo), dtype=np.bool_), len(waiting)
    while not holds(rules, scratch):
        wide = space.ncp(*space.generalize(np.minimum(lo, box_lo), np.maximum(hi, box_hi)))
        g = int(np.argmin(np.where(stands, (sizes + n) * wide - sizes * ncp, np.inf)))
        _add_all(rules, scratch, order[begins[g] : begins[g + 1]])
        box_lo, box_hi = space.generalize(np.minimum(lo[g], box_lo), np.maximum(hi[g], box_hi))
        stands[g], n = False, n + sizes[g]
    number = np.where(stands, np.cumsum(stands) - 1, stands.sum())
    qi_group = np.where(qi_group < 0, stands.sum(), number[qi_group])
    return qi_group, np.vstack([lo[stands], box_lo]), np.vstack([hi[stands], box_hi])


@compiled
def _add_all(rules: Rules, scratch: Scratch, rows: Ints) -> None:
    for row in rows:
        add(rules, scratch, row)
