"""Median Mondrian: the table cut in two at medians, again and again, as long as both halves hold the model.

The rules of this file
----------------------
* The attribute of widest NCP is cut first (categories: their node's share of the leaves); where a half would fall below
  k, the next widest; equal widths: the earlier attribute.
* Cuts are *strict*: rows of one cell stay on one side. The median row's cell goes to the lower half where both halves
  then hold the model, else to the upper half.
* `relaxed=True` cuts on where no strict cut is left and 2k or more remain, by the relaxed cut of `streamer.groups.cut`,
  so that no QI group is left at 2k or more if that can be avoided: the initial load of a shard.
* Baseline: LeFevre et al. 2006; the fresh table that the incremental one is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from streamer.algorithms.contract import Algorithm, Options, Tick, no_objections
from streamer.algorithms.recoding import Recoding, local_recoding
from streamer.groups.cut import best_cut
from streamer.privacy.models import Model
from streamer.table.microdata import Microdata
from streamer.table.space import Space

Ints = npt.NDArray[np.int64]


def median_mondrian(
    space: Space,
    codes: Ints,
    source_keys: Sequence[str],
    individuals: Sequence[str] | None,
    k: int,
    *,
    relaxed: bool,
) -> list[Ints]:
    """QI groups of the rows codes (n, d) as arrays of row numbers, in order of the cuts, lower half first.

    An empty list where the whole table does not hold k.
    """
    everyone = np.arange(len(codes), dtype=np.int64)
    who = None if individuals is None else np.unique(np.array(individuals, dtype=str), return_inverse=True)[1]
    if _count(everyone, who) < k:
        return []
    cells = space.cells(codes)
    done: list[Ints] = []
    todo = [everyone]
    while todo:
        members = todo.pop()
        halves = _strict_cut(space, cells, members, who, k)
        if halves is None and relaxed:
            if who is None and _all_alike(space, codes[members]):
                done.extend(_runs_of_k(source_keys, members, k))
                continue
            cut = best_cut(
                space,
                codes[members],
                [source_keys[i] for i in members.tolist()],
                None if individuals is None else [individuals[i] for i in members.tolist()],
                k,
            )
            halves = None if cut is None else (members[cut[0]], members[cut[1]])
        if halves is None:
            done.append(members)
        else:
            todo.extend(halves[::-1])
    return done


def _count(members: Ints, who: Ints | None) -> int:
    return len(members) if who is None else len(np.unique(who[members]))


def _strict_cut(space: Space, cells: Ints, members: Ints, who: Ints | None, k: int) -> tuple[Ints, Ints] | None:
    if len(members) < 2 * k:
        return None
    here = cells[members]
    lo, hi = here.min(axis=0), here.max(axis=0)
    if (lo == hi).all():
        return None
    width = space.ncp_terms(*space.generalize(lo.copy(), hi.copy()))
    for j in np.argsort(-width, kind="stable"):
        if lo[j] == hi[j]:
            continue
        along = here[:, j]
        median = np.partition(along, (len(along) - 1) // 2)[(len(along) - 1) // 2]
        for below in (along <= median, along < median):
            lower, upper = members[below], members[~below]
            if _count(lower, who) >= k and _count(upper, who) >= k:
                return lower, upper
    return None


def _all_alike(space: Space, codes: Ints) -> bool:
    """Whether the rows are identical and their box costs nothing."""
    return bool((codes == codes[0]).all()) and not space.ncp(*space.box_of(codes[:1]))


def _runs_of_k(source_keys: Sequence[str], members: Ints, k: int) -> Iterator[Ints]:
    """What repeated relaxed cuts make of identical rows, at once: every cut costs nothing, so the lowest place wins."""
    along = members[sorted(range(len(members)), key=[source_keys[i] for i in members.tolist()].__getitem__)]
    while len(along) >= 2 * k:
        yield along[:k]
        along = along[k:]
    yield along


def run(microdata: Microdata, model: Model, options: Options, tick: Tick) -> Recoding:
    """Median Mondrian under any model."""
    subjects = microdata.subjects(model.subjects)
    qi_group = np.zeros(len(microdata), dtype=np.int64)
    todo, done = [np.arange(len(microdata))], 0
    while todo:
        members = todo.pop()
        here = microdata.cells[members]
        lo, hi = here.min(axis=0), here.max(axis=0)
        width = microdata.space.ncp_terms(*microdata.space.generalize(lo.copy(), hi.copy()))
        for j in np.argsort(-width, kind="stable"):
            along = here[:, j]
            median = np.partition(along, (len(along) - 1) // 2)[(len(along) - 1) // 2]
            halves = [
                (members[below], members[~below])
                for below in (along <= median, along < median)
                if model.holds(subjects[members[below]]) and model.holds(subjects[members[~below]])
            ]
            if halves:
                todo.extend(halves[0][::-1])
                break
        else:
            qi_group[members] = done
            done += 1
    return local_recoding(microdata, qi_group)


MONDRIAN = Algorithm(
    "mondrian",
    "cuts at medians of the widest attribute",
    "LeFevre et al. 2006",
    run,
    no_objections,
)
