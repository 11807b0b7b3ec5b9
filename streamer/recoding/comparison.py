"""Every algorithm on one table, side by side: `streamer compare`, and `compare` from Python.

Algorithms are in the catalog's order; one that cannot do what the table asks is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pandas as pd

from streamer.errors import A_TEXT, NUMBER, UsageError, require_type
from streamer.privacy.models import model_of, words
from streamer.progress import Stopwatch
from streamer.recoding.algorithms.catalog import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    algorithm_named,
    objections,
    require_possible,
    run,
)
from streamer.recoding.algorithms.contract import LEFT_OUT, Algorithm, Options
from streamer.recoding.frame import checked_options, with_k
from streamer.recoding.metrics.measures import WHAT, measure
from streamer.shown import Grid, Shape, Shown, figure, plural
from streamer.table.encode import Encoder, require_frame, with_index, without_absent_key
from streamer.table.microdata import Microdata, microdata_of_columns
from streamer.table.yaml.loading import Named, table_of

SHOWN_MEASURES = ("groups", "ncp", "dm", "aes", "sed", "ril", "risk", "suppressed")
"""The measures of the table for people; JSON has all of them."""


@dataclass(frozen=True, repr=False)
class Compared(Shown):
    """What each algorithm costs and risks; facts: as `streamer compare --json` prints them.

    frame: by algorithm every measure, the seconds that it took, and why it cannot do this, None: it can.
    """

    facts: Mapping[str, Any]
    frame: pd.DataFrame

    def lines(self) -> Iterator[Shape]:
        return lines_of(self.facts)


def compare(
    frame: pd.DataFrame,
    table: Named,
    *,
    k: int | None = None,
    algorithms: Sequence[str] | None = None,
    suppression: float | Decimal = 0.0,
) -> Compared:
    """What each algorithm would make of a DataFrame of people, as `streamer compare` says it; publishes nothing.

    table: a Table, a table.yaml, a directory that holds one, or a dict of its settings, such as `init` drafts. k:
    instead of the table's own. algorithms: their names; None: all. suppression: for those that know it. The answer
    prints the command's table; its `frame` is a DataFrame with every measure by algorithm.

    Raises ConfigError for a table or data that cannot be used, or a privacy model that cannot hold; UsageError for an
    argument of the wrong type or value.
    """
    require_frame("compare", frame)
    require_type("suppression", suppression, NUMBER)
    if algorithms is not None and (not isinstance(algorithms, list | tuple) or not algorithms):
        raise UsageError("algorithms must be a list of names, such as ['ordered', 'mondrian'], or None for all")
    for name in algorithms or ():
        require_type("algorithms", name, A_TEXT)
    chosen = list(ALGORITHMS.values()) if algorithms is None else list(map(algorithm_named, algorithms))
    schema, options = with_k(table_of(table, needs_key=False), k), checked_options(suppression)
    people = with_index(frame, schema)
    schema = without_absent_key(schema, people.columns)
    facts = compared(microdata_of_columns(schema, Encoder(schema).columns(people)), options, Stopwatch(), chosen)
    columns = ["algorithm", *WHAT, "seconds", "cannot"]
    rows = [one | one.get("measures", {}) | {"algorithm": one["name"]} for one in facts["algorithms"]]
    rows = [one | {"cannot": one.get("cannot", [None])[0]} for one in rows]
    return Compared(facts, pd.DataFrame(rows, columns=columns).set_index("algorithm"))


def compared(
    microdata: Microdata,
    options: Options,
    progress: Stopwatch,
    algorithms: Sequence[Algorithm],
    call: Callable[[Callable[[], Any]], Any] = lambda work: work(),
) -> dict[str, Any]:
    """The facts of a comparison, as plain values; call: calls work that may take long. Raises ConfigError."""
    table, model, found = microdata.table, model_of(microdata.table), list[dict[str, Any]]()
    require_possible(microdata, model)
    for algorithm in algorithms:
        its_options = options_for(algorithm, options)
        found.append({"name": algorithm.name, "what": algorithm.what, "source": algorithm.source})
        found[-1]["default"] = algorithm.name == DEFAULT_ALGORITHM
        if said := objections(algorithm, table, model, its_options):
            found[-1]["cannot"] = list(said)
            continue
        with progress.stage(algorithm.name) as on_progress:
            recoding = call(partial(run, algorithm, microdata, model, replace(its_options, on_progress=on_progress)))
        with progress.stage("measure"):
            measures = call(partial(measure, microdata, recoding, model))
        seconds, details = progress.seconds[algorithm.name], dict(recoding.details)
        found[-1] |= {"seconds": seconds, "details": details, "measures": measures}
    return {"table": table.name, "rows": len(microdata), "model": words(table, model), "algorithms": found}


def options_for(algorithm: Algorithm, options: Options) -> Options:
    """The options, without those that the algorithm does not know; rows that `coarsest` leaves out are counted."""
    suppression, refine = options.suppression * algorithm.suppresses, options.refine * algorithm.refines
    return replace(options, suppression=suppression, refine=refine, too_wide=LEFT_OUT)


def lines_of(report: Mapping[str, Any]) -> Iterator[Shape]:
    """The same for people."""
    rows, algorithms = plural(report["rows"], "row"), report["algorithms"]
    yield f"table {report['table']}, {rows}; every QI group has {report['model']}"
    tried = [found for found in algorithms if "measures" in found]
    shown = [name for name in SHOWN_MEASURES if name != "suppressed" or any(found["measures"][name] for found in tried)]
    grid = Grid("algorithm", "seconds", *map(_heading, shown), bare=True)
    for found in tried:
        cells = (figure(found["measures"][name]) for name in shown)
        grid.add_row(found["name"], figure(found["seconds"]), *cells)
    yield grid
    yield from (f"{one['name']} cannot do this: {one['cannot'][0]}" for one in algorithms if "cannot" in one)
    yield from (f"the default is {one['name']}" for one in algorithms if one["default"])
    yield {_heading(name): WHAT[name] for name in shown if name != "groups"}


def _heading(name: str) -> str:
    return {"groups": "QI groups", "risk": name, "suppressed": name}.get(name, name.upper())
