"""Bottom-up local recoding: rows that hold the model as they are keep their values, the rest is generalized in steps.

Every QI group that holds the model is *labelled*: it keeps the values that it has. Then one attribute of the unlabelled
rows is generalized by one level (`attribute.levels`), groups that now hold are labelled, and so on. So all unlabelled
rows are at the same levels, and a labelled group publishes the values of the levels at which it was labelled, not
shrunk to its members. The values of a late group may contain those of an early one. Groups of one step never publish
equal values; groups of two steps only if a ragged hierarchy gives one value at two levels. QI groups are numbered as
they are labelled, those of one step in the order of their cells. It ends when no row is left, when every attribute is
at its top, or when what is left, as one group, would not hold even without limits on shares: then no part of it could.
The rows that are left are *orphans*.

The paper does not say which attribute is generalized. Here: the one whose next level labels most rows for the NCP that
it adds to all unlabelled rows; if none labels a row, the one that adds least; of equals the earlier attribute. A level
that adds nothing is taken at once. Rows of equal values are one *bucket*, so that a step costs what the distinct values
cost.

**Orphans** get into a QI group in the way that loses less, rows times NCP of all QI groups; of equals the first.
*Apart* (step 4 of the paper): they become one QI group, to which others move the rows that it lacks. *Among* (step 5):
each goes to the nearest QI group that holds with it; those that fit nowhere take in whole QI groups until they hold.

Source: Tong et al. 2010, algorithm 1. Portions, orders and our readings: docs/explanation/algorithms.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from streamer.kernels.boxes import Geometry, geometry, ncp_term
from streamer.kernels.distributions import whole_rows
from streamer.kernels.shares import keeps_share
from streamer.native import compiled, inlined
from streamer.privacy.compiled import Rules, Scratch, add, clear, holds, remove, rules_of, scratch_for, short_of_laws
from streamer.privacy.models import AtMostShare, Model
from streamer.recoding.algorithms.bundles import rows_lacking
from streamer.recoding.algorithms.contract import SUPPRESSED, Algorithm, Options, Recoding
from streamer.table.arrays import Bools, Floats, Ints, inverse_of, ranks
from streamer.table.hierarchy import value_numbers
from streamer.table.microdata import INDIVIDUAL, Microdata
from streamer.table.space import in_order

UNLABELLED = SUPPRESSED


def settled(microdata: Microdata, model: Model, qi_group: Ints, lo: Ints, hi: Ints) -> Recoding:
    """The recoding in which the orphans, rows of a negative qi_group, have a QI group; the whole table must hold.

    qi_group: int64 (n,), groups that hold; lo, hi: int64 (g, d), their boxes in cells.
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
    """Every orphan in one of the QI groups, or in one that took in others; under laws always in the latter."""
    qi_group, lo, hi = qi_group.copy(), lo.copy(), hi.copy()
    if not model.laws:
        _join_nearest(microdata, model, rules, qi_group, lo, hi, orphans)
    qi_group, lo, hi = _take_in(microdata, rules, qi_group, lo, hi)
    return Recoding(qi_group, lo, hi, details={"orphans": len(orphans), "moved": 0})


def _loss(microdata: Microdata, recoding: Recoding) -> float:
    """Rows times NCP, all QI groups together."""
    return float((recoding.sizes * microdata.space.ncp(recoding.lo, recoding.hi)).sum())


def _surplus(microdata: Microdata, model: Model, rules: Rules, qi_group: Ints, orphans: Ints) -> Ints | None:
    """The rows that move to the orphans so that these hold; None if there are not enough."""
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
    return inverse_of(np.lexsort((rows[portions[:-1]], np.diff(portions), ncp)))


@inlined
def lack(rules: Rules, scratch: Scratch) -> int:
    """The least number of rows that the counted ones still need to hold."""
    lacks = rows_lacking(rules, scratch.size[0], scratch.top, scratch.n_distinct)
    return max(lacks, whole_rows(short_of_laws(rules, scratch)))


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


def _group_of(groups: Ints, portion: int) -> int:
    """The group whose portions reach over this one."""
    low, high = 0, len(groups) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if groups[middle] <= portion:
            low = middle
        else:
            high = middle
    return low


@compiled
def _take_portions(
    rules: Rules, giving: Scratch, taking: Scratch, orphans: Ints, rows: Ints, portions: Ints, groups: Ints,
    asked: Ints, taken: Bools,
) -> bool:  # fmt: skip
    """Marks the portions that move to the orphans; True if these then hold. Both scratches must be empty."""
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
        g = _group_of(groups, portion)
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
    """The s subjects whose shares the model limits."""

    codes: Ints  # (s, n)
    by_code: Ints  # (s, n) the rows in the order of their codes
    numerator: Ints  # (s,) of the largest share
    denominator: Ints


def _join_nearest(
    microdata: Microdata, model: Model, rules: Rules, qi_group: Ints, lo: Ints, hi: Ints, orphans: Ints
) -> None:
    """Puts each orphan into the nearest QI group that holds with it, if any; changes qi_group, lo and hi."""
    limited = np.array([i for i, subject in enumerate(model.subjects) if subject in model.shares], dtype=np.int64)
    codes = np.ascontiguousarray(rules.subjects[:, limited].T)
    by_code = np.argsort(codes, axis=1, kind="stable")
    shared = _Shared(codes, by_code, rules.numerator[limited], rules.denominator[limited])
    if len(limited):
        orphans = orphans[np.lexsort(codes[:, orphans])]
    sizes = np.bincount(qi_group[qi_group >= 0], minlength=len(lo))
    ncp = microdata.space.ncp(lo, hi)
    _join_one_by_one(geometry(microdata.space), shared, microdata.cells, orphans, qi_group, sizes, lo, hi, ncp)
    microdata.space.generalize(lo, hi)


@compiled
def _join_one_by_one(
    shape: Geometry, shared: _Shared, cells: Ints, orphans: Ints,
    qi_group: Ints, sizes: Ints, lo: Ints, hi: Ints, ncp: Floats,
) -> None:  # fmt: skip
    """Puts orphan after orphan into a group; changes qi_group, sizes, ncp and the runs of cells lo, hi."""
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
                fits = fits and keeps_share(count[i, g] + 1, sizes[g] + 1, shared.numerator[i], shared.denominator[i])
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


def _count(codes: Ints, by_code: Ints, code: int, qi_group: Ints, count: Ints) -> None:
    """Rows of one code in every QI group; count: int64 (g,), overwritten."""
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
    """The new qi_group, lo and hi: orphans that fit nowhere take in the nearest QI groups until they hold."""
    waiting = np.flatnonzero(qi_group < 0)
    if not len(waiting):
        return qi_group, lo, hi
    space, scratch = microdata.space, scratch_for(rules)
    order = np.argsort(qi_group, kind="stable")
    begins = np.searchsorted(qi_group[order], np.arange(len(lo) + 1))
    sizes, ncp = np.diff(begins), space.ncp(lo, hi)
    box_lo, box_hi = space.box_of_cells(microdata.cells[waiting])
    held = _add_all(rules, scratch, waiting)
    stands, n = np.ones(len(lo), dtype=np.bool_), len(waiting)
    while not held:
        wide = space.ncp(*space.generalize(np.minimum(lo, box_lo), np.maximum(hi, box_hi)))
        g = int(np.argmin(np.where(stands, (sizes + n) * wide - sizes * ncp, np.inf)))
        held = _add_all(rules, scratch, order[begins[g] : begins[g + 1]])
        box_lo, box_hi = space.generalize(np.minimum(lo[g], box_lo), np.maximum(hi[g], box_hi))
        stands[g], n = False, n + sizes[g]
    number = np.where(stands, np.cumsum(stands) - 1, stands.sum())
    qi_group = np.where(qi_group < 0, stands.sum(), number[qi_group])
    return qi_group, np.vstack([lo[stands], box_lo]), np.vstack([hi[stands], box_hi])


@compiled
def _add_all(rules: Rules, scratch: Scratch, rows: Ints) -> bool:
    """Counts some rows more; True if all that are counted hold."""
    for row in rows:
        add(rules, scratch, row)
    return holds(rules, scratch)


class _Buckets(NamedTuple):
    """Unlabelled rows by their values, in b buckets."""

    at: Ints  # (b, d) the cells of one row of each bucket, as numbers among those that occur
    values: Ints  # (b, d) the sides of the boxes as numbers, in the order of lo and then hi
    lo: Ints  # (b, d) boxes, in cells
    hi: Ints
    rows: Ints  # those of bucket i from begins[i] on
    begins: Ints  # (b + 1,)

    def chosen(self, which: Ints | Bools, rows: Ints, begins: Ints) -> _Buckets:
        """Some of the buckets, with other rows."""
        return _Buckets(self.at[which], self.values[which], self.lo[which], self.hi[which], rows, begins)


class _Step(NamedTuple):
    """Attribute j one level up."""

    j: int
    values: Ints  # (b,) as in `_Buckets`, and so lo and hi
    lo: Ints
    hi: Ints
    becomes: Ints  # (b,) the number of the bucket that each becomes
    holding: Bools  # which of these hold
    labels: int  # rows
    adds: float  # NCP over all unlabelled rows


class Labelling:
    """Steps 2 and 3 of algorithm 1.

    qi_group: int64 (n,), UNLABELLED or a number; lo, hi: the boxes, an array for each step.
    """

    def __init__(self, microdata: Microdata, model: Model) -> None:
        self._model, self._space = model, microdata.space
        self._axes = [microdata.space.of_one(j) for j in range(microdata.space.d)]
        self._levels = [attribute.levels for attribute in microdata.table.attributes]
        self._level = [0] * self._space.d
        self._rules = rules_of(model, microdata.subjects(model.subjects))
        self._scratch = scratch_for(self._rules)
        self._without_shares = Model([part for part in model.constraints if not isinstance(part, AtMostShare)])
        self._subjects = microdata.subjects(self._without_shares.subjects)
        self.qi_group = np.full(len(microdata), UNLABELLED, dtype=np.int64)
        self.lo, self.hi = list[Ints](), list[Ints]()
        self._n_groups = 0
        cells = microdata.cells
        rows, begins = _runs(numbered(list(cells.T)))
        lo = cells[rows[begins[:-1]]]
        used = [np.unique(column, return_inverse=True) for column in lo.T]
        self._used = [distinct for distinct, _ in used]
        at = np.stack([numbers for _, numbers in used], axis=1)
        self._buckets = _Buckets(at, at.copy(), lo, lo.copy(), rows, begins)
        self._label(self._holding(np.arange(len(lo))))

    @property
    def n_unlabelled(self) -> int:
        return len(self._buckets.rows)

    def goes_on(self) -> bool:
        """True if a further step could label a row."""
        rows = self._buckets.rows
        if len(rows) < self._model.rows_min or not any(map(self._rises, range(self._space.d))):
            return False
        return self._without_shares.holds(self._subjects[rows])

    def _rises(self, j: int) -> bool:
        return self._level[j] + 1 < self._levels[j].n_levels

    def step(self) -> None:
        """Generalizes one attribute of the unlabelled rows by one level, and labels what then holds."""
        best = max(self._steps(), key=lambda step: (step.labels / step.adds if step.adds else np.inf, -step.adds))
        self._level[best.j] += 1
        buckets, (order, first) = self._buckets, _runs(best.becomes)
        buckets.values[:, best.j], buckets.lo[:, best.j], buckets.hi[:, best.j] = best.values, best.lo, best.hi
        sizes = np.diff(buckets.begins)[order]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(len(buckets.rows)) + np.repeat(buckets.begins[order] - begins[:-1], sizes)
        self._buckets = buckets.chosen(order[first[:-1]], buckets.rows[at], begins[first])
        self._label(best.holding)

    def _steps(self) -> Iterator[_Step]:
        """The possible next steps, attribute by attribute."""
        buckets = self._buckets
        sizes = np.diff(buckets.begins)
        columns = list(buckets.values.T)
        for j in filter(self._rises, range(self._space.d)):
            values, lo, hi = self._recoded(j, self._level[j] + 1)
            becomes = numbered([*columns[:j], values, *columns[j + 1 :]])
            holding = self._holding(becomes)
            adds = in_order(sizes * (self._ncp(j, lo, hi) - self._ncp(j, buckets.lo[:, j], buckets.hi[:, j])))
            yield _Step(j, values, lo, hi, becomes, holding, int(sizes[holding[becomes]].sum()), float(adds))

    def _recoded(self, j: int, level: int) -> tuple[Ints, Ints, Ints]:
        """Values, lo and hi of every bucket with attribute j at the level; three int64 (b,)."""
        levels, used, at = self._levels[j], self._used[j], self._buckets.at[:, j]
        lo, hi = levels.recode(level, used)
        return value_numbers(levels, level, used)[at], lo[at], hi[at]

    def _ncp(self, j: int, lo: Ints, hi: Ints) -> Floats:
        return self._axes[j].ncp(lo[:, None], hi[:, None])

    def _holding(self, becomes: Ints) -> Bools:
        """Which of the buckets that the present ones become hold; becomes: int64 (b,), from 0 without gaps."""
        buckets = self._buckets
        enough = np.asarray(np.bincount(becomes, weights=np.diff(buckets.begins)) >= self._model.rows_min)
        if self._model.subjects:
            _test(self._rules, self._scratch, *_runs(becomes), buckets.rows, buckets.begins, enough)
        return enough

    def _label(self, holding: Bools) -> None:
        """Labels the buckets that hold; the others stay."""
        buckets = self._buckets
        sizes = np.diff(buckets.begins)
        number = np.where(holding, self._n_groups + np.cumsum(holding) - 1, UNLABELLED)
        of_row = np.repeat(number, sizes)
        self.qi_group[buckets.rows] = of_row
        self._n_groups += int(holding.sum())
        self.lo.append(buckets.lo[holding])
        self.hi.append(buckets.hi[holding])
        begins = np.concatenate([[0], np.cumsum(sizes[~holding])])
        self._buckets = buckets.chosen(~holding, buckets.rows[of_row == UNLABELLED], begins)


def numbered(columns: Sequence[Ints]) -> Ints:
    """Vectors of cells as numbers (m,) from 0 without gaps, in the order of the vectors; columns: d of int64 (m,)."""
    return ranks(np.stack(columns, axis=1))


def _runs(numbers: Ints) -> tuple[Ints, Ints]:
    """Positions sorted by number, and where each number's run begins, with the end; numbers from 0 without gaps."""
    order = np.argsort(numbers, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(numbers))])


@compiled
def _test(rules: Rules, scratch: Scratch, order: Ints, first: Ints, rows: Ints, begins: Ints, enough: Bools) -> None:
    """Makes `enough` False for what does not hold: union i of buckets is order[first[i]:first[i + 1]]."""
    for union in range(len(enough)):
        if not enough[union]:
            continue
        buckets = order[first[union] : first[union + 1]]
        for bucket in buckets:
            for row in rows[begins[bucket] : begins[bucket + 1]]:
                add(rules, scratch, row)
        enough[union] = holds(rules, scratch)
        for bucket in buckets:
            clear(rules, scratch, rows[begins[bucket] : begins[bucket + 1]])


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Algorithm 1 under any model."""
    labelling = Labelling(microdata, model)
    while labelling.goes_on():
        labelling.step()
    lo, hi = np.concatenate(labelling.lo), np.concatenate(labelling.hi)
    return settled(microdata, model, labelling.qi_group, lo, hi)


BOTTOM_UP = Algorithm(
    "bottom-up", "generalizes, level by level, only the rows that do not hold yet", "Tong et al. 2010, algorithm 1", run
)
