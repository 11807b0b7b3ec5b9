"""Ordered segments: all rows in one good order, the best way to cut it into QI groups, and sweeps that improve these.

Dynamic programming cuts an order of all rows into the segments of least total loss, rows times NCP (`segments`). This
is done for each sharpness of SHARPNESS and, if many rows have rare leaves, for orders that take these for one. Each way
is a *candidate*; the one of least loss wins, of equals the earlier. If groups have FEW_FROM rows or more, there are
more candidates (OF_FEW), each that loses little more than the best is swept, and the best result wins. If the model
counts sensitive values, groups are seeded with rare values (`seeding`) and exchange bundles; segments are the start
only if the seeded groups lose FAR_MORE times as much, before exchanges and after. If a law about a distribution asks
for groups of far more than the fewest rows, seeds would search in vain: segments compete with `bottom-up`, and under
t-closeness with groups that are cut fairly (`fair_cuts`). Then SWEEPS sweeps improve the QI groups (`sweeps`), and of
few groups NEAR_SWEEPS more; `options.refine` are thorough ones. The argument, with its sources:
docs/explanation/algorithms.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial

import numpy as np

from streamer.kernels.distributions import CHAIN
from streamer.privacy.compiled import rules_of
from streamer.privacy.distributions import AtMostDistance, Recursive
from streamer.privacy.models import Model
from streamer.progress import OnProgress, part_of, unheard
from streamer.recoding.algorithms.bundles import Bundles, Task, task_of
from streamer.recoding.algorithms.contract import (
    STAYING,
    SUPPRESSED,
    Algorithm,
    Options,
    Recoding,
    local_recoding,
)
from streamer.recoding.algorithms.cut_tree import FINE
from streamer.recoding.algorithms.fair_cuts import fair_groups
from streamer.recoding.algorithms.group_index import groups_of
from streamer.recoding.algorithms.local_recoding import BOTTOM_UP
from streamer.recoding.algorithms.seeding import exchanged, found_in, seeded
from streamer.recoding.algorithms.segments import SHARPNESS, segmented, without_rare_leaves
from streamer.recoding.algorithms.suppression import left_out
from streamer.recoding.algorithms.sweeps import refined
from streamer.table.arrays import Ints
from streamer.table.microdata import INDIVIDUAL, Microdata

Candidate = Callable[[Task], tuple[float, Ints]]
"""The total loss, rows times NCP, and each bundle's QI group, int64 (m,); numbers may have gaps."""

RARE_LEAVES = (2, 4)
"""Leaves with fewer rows than these times the fewest rows of a group are rare."""

SWEEPS, NEAR_SWEEPS, EXCHANGES = 4, 2, 3

FAR_MORE = (1.2, 1.1)
"""Segments are used if seeded groups lose this many times as much: before exchanges, and after. Seeded groups gain more
by moves than segments do, so they win in the end even if they begin with a higher loss."""

SEED_ROOM = 2
"""Seeded groups may come to this multiple of the fewest rows: sweeps cut them where that pays."""

PARTS_OF_DISTANCE = Decimal(1), Decimal("0.85")
"""Of each t, cuts that are not fair may use so much, by start."""

STRATA, TINY = 1, 1e-6
"""Fair cuts of values in their order make this number of strata over t: within one, values are nearer than that."""

SEEDED_UP_TO = 2
"""If segments have more than this multiple of the fewest rows, on average, no seeds are tried."""

LEAVING = 4
"""Rows are left out in this number of turns: after the first, sweeps find groups for the others that need fewer."""

BEGUN = 0.5
"""The share of the work that is done once the best candidate is known, about; the rest is the sweeps."""


SEGMENTED: tuple[Candidate, ...] = tuple(partial(segmented, sharpness=sharpness) for sharpness in SHARPNESS)
OF_ROWS: tuple[Candidate, ...] = (*SEGMENTED, *(partial(without_rare_leaves, times=times) for times in RARE_LEAVES))
"""The candidates if the model counts rows and individuals alone."""

OF_FEW: tuple[Candidate, ...] = (
    *(partial(segmented, sharpness=sharpness) for sharpness in (0, 1, 3, 7)),
    *OF_ROWS[len(SEGMENTED) :],
)
FEW_FROM, FEW_GROUPS, LITTLE_MORE = 2 * FINE, 64, 1.1
"""If groups have FEW_FROM rows they are few, sweeps take little time, and the best start shows only after them:
every one is swept that loses at most LITTLE_MORE times as much as the best. The groups of `bottom-up` are one, too. If
the model counts values, seeds without room are a second start in tables that have room for fewer than FEW_GROUPS, and
`bottom-up` is another one if the first has fewer, which are large: near a table's own shares seeds search in vain."""


def exchanging(task: Task, segments: tuple[float, Ints], on_progress: OnProgress = unheard) -> tuple[float, Ints]:
    """Groups seeded with rare values after exchanges; or the best segments after exchanges, if these lose far less.

    segments: their loss, and each bundle's (m,).
    """
    loss, segment = segments
    lost, start = _seeds(task, FAR_MORE[0] * loss, part_of(on_progress, 0.1, 0.6))
    found = exchanged(task, start, int(start.max()) + 1, EXCHANGES, part_of(on_progress, 0.6, 0.8))
    if lost > FAR_MORE[0] * loss:
        other = exchanged(task, segment, int(segment.max()) + 1, EXCHANGES, part_of(on_progress, 0.8, 1.0))
        return other if found[0] > FAR_MORE[1] * other[0] else found
    return found


def _seeds(task: Task, most: float, on_progress: OnProgress) -> tuple[float, Ints]:
    """Loss and groups (m,), seeded with room; if they lose more than `most`, those without room if these lose less."""
    found = np.inf, np.zeros(0, dtype=np.int64)
    for begun, room in ((0.0, SEED_ROOM), (0.5, 1)):
        start = seeded(task, part_of(on_progress, begun, begun + 0.5), room)
        found = min(found, exchanged(task, start, int(start.max()) + 1, 0), key=lambda one: one[0])
        if found[0] <= most:
            break
    return found


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Anonymizes by ordered segments, under any model."""
    rows, task = task_of(microdata, model, options.rows_per_call)
    beginning = part_of(options.on_progress, 0.0, BEGUN)
    if set(model.subjects) <= {INDIVIDUAL}:
        starts = _starts_of_rows(microdata, model, rows, task, beginning)
    elif _asks_for_large_groups(model, task, segments := segmented(task, SHARPNESS[0]), len(rows)):
        starts = [_start_of_large_groups(microdata, model, rows, task, segments[1], beginning)]
    else:
        starts = [exchanging(task, segments, beginning)[1]]
        if len(rows) < FEW_GROUPS * task.rows_min:
            tight = seeded(task)
            starts.append(exchanged(task, tight, int(tight.max()) + 1, EXCHANGES)[1])
        few = len(np.unique(starts[0]))
        if few < FEW_GROUPS and len(rows) > SEEDED_UP_TO * task.rows_min * few:
            starts.append(_merged(microdata, model, rows, task))
    last, least, best, sweeps = _last_sweeps(task, options.refine), np.inf, starts[0], 0
    rows_max = options.suppressed_max(len(rows))
    turns = len(starts) + any(last) + (rows_max > 0)
    parts = [
        part_of(options.on_progress, *(BEGUN + (1 - BEGUN) * at / turns for at in (i, i + 1))) for i in range(turns)
    ]
    for start, part in zip(starts, parts, strict=False):
        loss, found, done = refined(task, start, len(rows), (SWEEPS,), part)
        if loss < least:
            least, best, sweeps = loss, found, done
    if any(last):
        _, best, done = refined(task, best, len(rows), last, parts[len(starts)])
        sweeps += done
    if microdata.space.is_bounded and options.too_wide != STAYING:
        best = _narrowed(task, best, len(rows))
    if rows_max:
        best = _without_outliers(task, best, rows_max, len(rows), parts[-1])
    return _recoded(microdata, task, rows, best, sweeps)


def _narrowed(task: Task, qi_group: Ints, n_rows: int) -> Ints:
    """The groups (m,) without the rows that make them wider than `coarsest` allows, which are SUPPRESSED."""
    used, number = np.unique(qi_group, return_inverse=True)
    leave, found = left_out(task, number, len(used), n_rows, too_wide=True)
    return np.where(leave, SUPPRESSED, found)


def _without_outliers(task: Task, qi_group: Ints, rows_max: int, n_rows: int, on_progress: OnProgress) -> Ints:
    """The groups (m,) without the rows whose absence lowers the loss of the others most; SUPPRESSED: at most rows_max.

    They leave in LEAVING turns, with sweeps over the others after each. qi_group: some may be SUPPRESSED already.
    """
    found, stay = qi_group.copy(), np.flatnonzero(qi_group != SUPPRESSED)
    some = task._replace(bundles=Bundles(*(column[stay] for column in task.bundles)))
    gone = n_rows - int((some.bundles.end - some.bundles.begin).sum())
    if gone >= rows_max:
        return found
    for turn in range(1, LEAVING + 1):
        used, number = np.unique(found[stay], return_inverse=True)
        begun, left, ended = ((turn - 1 + share) / LEAVING for share in (0, 0.5, 1))
        room = max(rows_max * turn // LEAVING - gone, 0)
        leave, number = left_out(some, number, len(used), room, part_of(on_progress, begun, left))
        gone += int((some.bundles.end - some.bundles.begin)[leave].sum())
        found[stay] = np.where(leave, SUPPRESSED, number)
        stay, some = stay[~leave], some._replace(bundles=Bundles(*(column[~leave] for column in some.bundles)))
        _, found[stay], _ = refined(some, found[stay], n_rows - gone, (SWEEPS,), part_of(on_progress, left, ended))
    return found


def swept(microdata: Microdata, model: Model, qi_group: Ints, options: Options) -> Recoding:
    """Sweeps QI groups (n,) that hold, from 0 without gaps, in which no bundle is torn."""
    rows, task = task_of(microdata, model, options.rows_per_call)
    start = qi_group[rows[task.bundles.begin]]
    sweeps = SWEEPS, *_last_sweeps(task, options.refine)[1:]
    _, found, done = refined(task, start, len(rows), sweeps, options.on_progress)
    return _recoded(microdata, task, rows, found, done)


def _recoded(microdata: Microdata, task: Task, rows: Ints, qi_group: Ints, sweeps: int) -> Recoding:
    """The recoding of the bundles' groups (m,); rows: in the order of the bundles."""
    by_row = np.empty(len(rows), dtype=np.int64)
    by_row[rows] = np.repeat(qi_group, task.bundles.end - task.bundles.begin)
    return local_recoding(microdata, by_row, sweeps=sweeps)


def _starts_of_rows(microdata: Microdata, model: Model, rows: Ints, task: Task, on_progress: OnProgress) -> list[Ints]:
    """The QI groups, (m,), of the candidate of least loss, of equals the first; of few groups all those near it.

    rows: the rows' numbers in the order of the bundles.
    """
    few = task.rows_min >= FEW_FROM
    ways, found = OF_FEW if few else OF_ROWS, list[tuple[float, Ints]]()
    for done, candidate in enumerate(ways, start=1):
        found.append(candidate(task))
        on_progress(done / len(ways))
    if few and not model.subjects:
        joined = _merged(microdata, model, rows, task)
        found.append(found_in(groups_of(task, joined, int(joined.max()) + 1), len(joined)))
    least = min(loss for loss, _ in found)
    if not few:
        return [next(qi_group for loss, qi_group in found if loss == least)]
    # ways that lose exactly the same have found the same groups: one of them is swept
    return list({loss: qi_group for loss, qi_group in found[::-1] if loss <= LITTLE_MORE * least}.values())


def _merged(microdata: Microdata, model: Model, rows: Ints, task: Task, on_progress: OnProgress = unheard) -> Ints:
    """The groups (m,) of `bottom-up`; rows: in the order of the bundles."""
    return BOTTOM_UP.run(microdata, model, Options(on_progress=on_progress)).qi_group[rows[task.bundles.begin]]


def _asks_for_large_groups(model: Model, task: Task, segments: tuple[float, Ints], n_rows: int) -> bool:
    """True if laws about distributions ask for groups of far more than the fewest rows; seeds then search in vain."""
    kinds = any(not isinstance(law, Recursive) for law in model.laws)
    return kinds and n_rows > SEEDED_UP_TO * task.rows_min * (int(segments[1].max()) + 1)


def _start_of_large_groups(
    microdata: Microdata, model: Model, rows: Ints, task: Task, segment: Ints, on_progress: OnProgress
) -> Ints:
    """The best start after exchanges: segments (m,), what `bottom-up` finds, or, if distances count, fair cuts.

    rows: in the order of the bundles. What loses FAR_MORE times as much as another to begin with stays behind it, and
    is not exchanged.
    """
    found = [segment, _merged(microdata, model, rows, task, part_of(on_progress, 0.1, 0.2))]
    t, law = min((float(one.t) if isinstance(one, AtMostDistance) else np.inf, i) for i, one in enumerate(model.laws))
    strata = int(STRATA / max(t, TINY)) if task.rules.laws.kind[law] == CHAIN else 0
    for i, part in enumerate(PARTS_OF_DISTANCE if t < np.inf else ()):
        strict = rules_of(_with_distances(model, part), task.rules.subjects)
        found.append(fair_groups(task, strict, law, strata, part_of(on_progress, 0.2 + 0.2 * i, 0.4 + 0.2 * i)))
    begun = [found_in(groups_of(task, start, int(start.max()) + 1), len(start)) for start in found]
    least = min(loss for loss, _ in begun)
    near, after = [start for loss, start in begun if loss <= FAR_MORE[0] * least], list[tuple[float, Ints]]()
    for i, start in enumerate(near):
        heard = part_of(on_progress, *(0.6 + 0.4 * at / len(near) for at in (i, i + 1)))
        after.append(exchanged(task, start, int(start.max()) + 1, EXCHANGES, heard))
    return min(after, key=lambda one: one[0])[1]


def _with_distances(model: Model, part: Decimal) -> Model:
    """The model with this part of each t."""
    return Model(replace(one, t=one.t * part) if isinstance(one, AtMostDistance) else one for one in model.constraints)


def _last_sweeps(task: Task, refine: int) -> tuple[int, int, int]:
    """The sweeps, by effort, of the best groups that were found: of few groups near ones, then those asked for."""
    return 0, NEAR_SWEEPS if task.rows_min >= FEW_FROM else 0, refine


ORDERED = Algorithm(
    "ordered",
    "cuts a good order of all rows into the best segments",
    "this project; Hansen and Mukherjee 2003 along an order of best cuts",
    run,
    suppresses=True,
    refines=True,
)
