"""The algorithms by name, and the one way to run them.

A table that does not hold the model as one single QI group is refused: no algorithm could help. (All models are closed
under union, so the converse is true too: if any grouping holds, the whole table does.) An algorithm sees the table in
canonical form, so nothing finer than cells, no name and no order of rows affects its answer. Every answer is checked
before it leaves: each row is inside its box, and each QI group holds the model.

The number of a QI group is published beside every row, so it must say nothing that the boxes do not say. QI groups are
numbered in the order of their boxes, those that publish one box by chance. An algorithm's own numbers never leave: they
follow the cells of the rows, which the box hides if it is wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamer.errors import ConfigError, LawViolated, UsageError
from streamer.privacy.models import Model, counted, subject_names
from streamer.progress import OnProgress, unheard
from streamer.recoding.algorithms.contract import (
    LIMITED,
    PLAIN,
    STAYING,
    SUPPRESSED,
    Algorithm,
    Options,
    Recoding,
    apart_by_bounds,
    box_numbers,
    by_box,
    check,
    local_recoding,
    narrow_only,
    require_narrow,
)
from streamer.recoding.algorithms.fuzzy import GDPPR
from streamer.recoding.algorithms.lattice import DEGREE_FIRST, OLA
from streamer.recoding.algorithms.local_recoding import BOTTOM_UP
from streamer.recoding.algorithms.mondrian import EMP, MONDRIAN
from streamer.recoding.algorithms.ordered import ORDERED
from streamer.recoding.algorithms.top_down import TOP_DOWN
from streamer.recoding.algorithms.vectors import VectorCounts
from streamer.table.arrays import Ints, inverse_of
from streamer.table.microdata import Microdata, canonical
from streamer.table.schema import Table
from streamer.table.space import Space


def numbered(recoding: Recoding, chance: np.random.Generator) -> Recoding:
    """The same QI groups, numbered in the order of their boxes, those of one box by chance."""
    order = np.lexsort((chance.permutation(recoding.n_groups), box_numbers(recoding)))
    qi_group = np.append(inverse_of(order), SUPPRESSED)[recoding.qi_group]
    return replace(recoding, qi_group=qi_group, lo=recoding.lo[order], hi=recoding.hi[order])


ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm for algorithm in (MONDRIAN, EMP, OLA, DEGREE_FIRST, GDPPR, BOTTOM_UP, TOP_DOWN, ORDERED)
}

DEFAULT_ALGORITHM = "ordered"


def algorithm_named(name: str) -> Algorithm:
    """Raises UsageError if there is no such algorithm."""
    if name not in ALGORITHMS:
        raise UsageError(f"there is no algorithm {name!r}; there are {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def objections(algorithm: Algorithm, table: Table, model: Model, options: Options = PLAIN) -> Sequence[str]:
    """Why the algorithm cannot do what is asked, one sentence each; empty if it can."""
    said = list(algorithm.objections(table, model, options))
    if options.suppression and not algorithm.suppresses and not table.space.is_bounded:
        said.append("it publishes every row; a share of suppressed rows is for " + _those("suppresses"))
    if options.refine and not algorithm.refines:
        said.append("it has no sweeps that refine; those are for " + _those("refines"))
    return said


def _those(ability: str) -> str:
    return ", ".join(name for name, algorithm in ALGORITHMS.items() if getattr(algorithm, ability))


def run(algorithm: Algorithm, microdata: Microdata, model: Model, options: Options = PLAIN) -> Recoding:
    """Anonymizes the table. QI groups are in the order of their boxes, those of one box as `options.chance` says.

    Raises UsageError if the algorithm objects, ConfigError if the table cannot hold the model in any way, LawViolated
    if the answer is wrong.
    """
    if said := objections(algorithm, microdata.table, model, options):
        raise UsageError(f"{algorithm.name} cannot do this: {said[0]}")
    require_possible(microdata, model)
    chance = np.random.default_rng(options.chance)
    seen = canonical(microdata, chance)
    recoding = _run_without_hopeless(algorithm, seen.microdata, model, options)
    if options.merge_equal_boxes:
        recoding = by_box(recoding)
    if options.too_wide != STAYING:
        recoding = narrow_only(microdata.space, recoding)
    recoding = numbered(recoding, chance)
    check(seen.microdata, model, recoding)
    _require_allowed(algorithm, options, microdata.space, recoding.n_suppressed, len(microdata))
    qi_group = np.empty(len(microdata), dtype=np.int64)
    qi_group[seen.rows] = recoding.qi_group
    return replace(recoding, qi_group=qi_group)


def _run_without_hopeless(algorithm: Algorithm, microdata: Microdata, model: Model, options: Options) -> Recoding:
    """The algorithm's answer for the rows that `coarsest` does not leave alone, in which case the others are out."""
    hopeless = np.zeros(len(microdata), dtype=bool)
    if microdata.space.is_bounded and options.too_wide != STAYING and not algorithm.full_domain:
        apart = apart_by_bounds(microdata.space, microdata.cells)
        hopeless = np.bincount(apart)[apart] < model.rows_min
    rest = microdata.rows(np.flatnonzero(~hopeless)) if hopeless.any() else microdata
    if len(rest) and not model.holds(rest.subjects(model.subjects)):
        hopeless[:], rest = False, microdata  # the others need them: they may be what keeps a share low
    if not len(rest):
        return local_recoding(microdata, np.full(len(microdata), SUPPRESSED, dtype=np.int64))
    room = max(0, options.suppressed_max(len(microdata)) - int(hopeless.sum()))
    asked = replace(options, suppression=room / len(rest)) if hopeless.any() else options
    recoding = algorithm.run(rest, model, asked)
    qi_group = np.full(len(microdata), SUPPRESSED, dtype=np.int64)
    qi_group[~hopeless] = recoding.qi_group
    return replace(recoding, qi_group=qi_group)


def run_on_vectors(
    algorithm: Algorithm, table: Table, counts: VectorCounts, model: Model, options: Options
) -> Recoding:
    """The full-domain recoding of a table that is known by its counts: the QI group of each vector, by number.

    Its caller recodes the rows and checks them. Raises as `run` does.
    """
    if algorithm.of_vectors is None:
        raise UsageError(f"{algorithm.name} does not recode all rows alike")
    if said := objections(algorithm, table, model, options):
        raise UsageError(f"{algorithm.name} cannot do this: {said[0]}")
    rows = int(counts.rows.sum())
    _require_none(model.shortfall_of_counts(rows, counts.codes(model.subjects), subject_names(table, model)), table)
    recoding = numbered(algorithm.of_vectors(table, counts, model, options), np.random.default_rng(options.chance))
    suppressed = int(counts.rows[recoding.qi_group == SUPPRESSED].sum())
    _require_allowed(algorithm, options, table.space, suppressed, rows)
    return recoding


def _require_allowed(algorithm: Algorithm, options: Options, space: Space, suppressed: int, rows: int) -> None:
    if space.is_bounded and options.too_wide == LIMITED:
        require_narrow(suppressed, rows, options)
    elif not space.is_bounded and suppressed > options.suppressed_max(rows):
        said = counted(suppressed, "rows")
        raise LawViolated(f"{algorithm.name}: {said} suppressed, more than was allowed")


def require_possible(microdata: Microdata, model: Model) -> None:
    """Raises ConfigError, with the reason, if not even the whole table as one QI group holds the model."""
    if not len(microdata):
        raise ConfigError("the data has no rows")
    _require_none(
        model.shortfall(microdata.subjects(model.subjects), subject_names(microdata.table, model)), microdata.table
    )


def _require_none(reason: str, table: Table) -> None:
    if not reason:
        return
    remedy = "ask for less (`privacy` in table.yaml, or what a column asks itself), or bring more rows"
    if any(column.distribution and column.distribution.reference for column in table.kept):
        remedy += "; if table.yaml's `distribution` is of older rows, `streamer distribution` writes that of these"
    raise ConfigError(f"the privacy model cannot hold on this data, even as one single QI group: {reason}; {remedy}")


def initial_groups(microdata: Microdata, model: Model, seed: int, on_progress: OnProgress = unheard) -> list[Ints]:
    """The QI groups in which a shard publishes its first table: those of the default algorithm.

    Arrays of row numbers, in the order of the QI groups' numbers. Empty if the table does not hold the model: then its
    rows wait, as they would if they came one by one. seed: breaks ties (`contract.Options.chance`).
    """
    if not model.holds(microdata.subjects(model.subjects)):
        return []
    options = Options(chance=seed, too_wide=STAYING, on_progress=on_progress)
    qi_group = run(ALGORITHMS[DEFAULT_ALGORITHM], microdata, model, options).qi_group
    order = np.argsort(qi_group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(qi_group[order])) + 1)
