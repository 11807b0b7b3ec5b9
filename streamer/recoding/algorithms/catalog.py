"""The algorithms by name, and the one way to run them.

A table that does not hold the model as one single QI group is refused: no algorithm could help. (All models are closed
under union, so the converse is true too: if any grouping holds, the whole table does.) An algorithm sees the
table in canonical form, so that nothing finer than cells, no name and no order of rows has a part in its answer. Every
answer is checked before it is handed out: each row inside its box, each QI group holding the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamer.errors import ConfigError, LawViolated, UsageError
from streamer.privacy.models import Model, subject_names
from streamer.recoding.algorithms.contract import PLAIN, Algorithm, Options
from streamer.recoding.algorithms.entropy import EMP
from streamer.recoding.algorithms.fuzzy import GDPPR
from streamer.recoding.algorithms.lattice import DEGREE_FIRST, OLA
from streamer.recoding.algorithms.local_recoding import BOTTOM_UP
from streamer.recoding.algorithms.mondrian import MONDRIAN
from streamer.recoding.algorithms.numbering import merged_by_box, numbered
from streamer.recoding.algorithms.ordered import ORDERED
from streamer.recoding.algorithms.recoding import Recoding, check
from streamer.recoding.algorithms.top_down import TOP_DOWN
from streamer.table.canonical import canonical
from streamer.table.microdata import Microdata
from streamer.table.schema import Table

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm for algorithm in (MONDRIAN, EMP, OLA, DEGREE_FIRST, GDPPR, BOTTOM_UP, TOP_DOWN, ORDERED)
}

DEFAULT = "ordered"


def algorithm_named(name: str) -> Algorithm:
    """Raises UsageError if there is no such algorithm."""
    if name not in ALGORITHMS:
        raise UsageError(f"there is no algorithm {name!r}; there are {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def objections(algorithm: Algorithm, table: Table, model: Model, options: Options = PLAIN) -> Sequence[str]:
    """Why the algorithm cannot do what is asked, one sentence each; empty if it can."""
    said = list(algorithm.objections(table, model, options))
    if options.suppression and not algorithm.suppresses:
        said.append("it publishes every row; a share of suppressed rows is for " + _those("suppresses"))
    if options.refine and not algorithm.refines:
        said.append("it has no sweeps that refine; those are for " + _those("refines"))
    return said


def _those(ability: str) -> str:
    return ", ".join(name for name, algorithm in ALGORITHMS.items() if getattr(algorithm, ability))


def run(algorithm: Algorithm, microdata: Microdata, model: Model, options: Options = PLAIN) -> Recoding:
    """Anonymizes the table; QI groups stand in the order of their boxes, those of one box as `options.chance` says.

    Raises UsageError if the algorithm objects, ConfigError if the table cannot hold the model in any way, LawViolated
    if the answer is wrong.
    """
    if said := objections(algorithm, microdata.table, model, options):
        raise UsageError(f"{algorithm.name} cannot do this: {said[0]}")
    require_possible(microdata, model)
    chance = np.random.default_rng(options.chance)
    seen = canonical(microdata, chance)
    recoding = algorithm.run(seen.microdata, model, options)
    if options.merge_equal_boxes:
        recoding = merged_by_box(recoding)
    recoding = numbered(recoding, chance)
    check(seen.microdata, model, recoding)
    if recoding.n_suppressed > options.suppressed_max(len(microdata)):
        raise LawViolated(f"{algorithm.name}: {recoding.n_suppressed} rows are suppressed, more than was allowed")
    qi_group = np.empty(len(microdata), dtype=np.int64)
    qi_group[seen.rows] = recoding.qi_group
    return replace(recoding, qi_group=qi_group)


def require_possible(microdata: Microdata, model: Model) -> None:
    """Raises ConfigError, with the reason, if not even the whole table as one QI group holds the model."""
    if not len(microdata):
        raise ConfigError("the data has no rows")
    reason = model.shortfall(microdata.subjects(model.subjects), subject_names(microdata.table, model))
    if reason:
        raise ConfigError(
            f"the privacy model cannot hold on this data, even as one single QI group: {reason}; "
            "ask for less (`privacy` in table.yaml), or bring more rows"
        )
