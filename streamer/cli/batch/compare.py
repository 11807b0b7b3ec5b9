"""`streamer compare`: every algorithm on one table, side by side; writes at most a page.

Algorithms are in the catalog's order; one that cannot do what table.yaml asks is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from streamer.cli.batch.reports import compare_report, curves_of, require_report
from streamer.cli.support import options as shared
from streamer.cli.support.next_call import say_next
from streamer.cli.support.outputs import OutputPath, force_option, require_writable
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.signals import interruptible
from streamer.cli.support.tables import Line, bare_grid, figure, plural, show
from streamer.privacy.models import Model, model_of, words
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM, objections, require_possible, run
from streamer.recoding.algorithms.contract import Algorithm, Options
from streamer.recoding.frame import checked_options, with_k, without_absent_key
from streamer.recoding.metrics.measures import WHAT, measure
from streamer.table.encode import Encoder
from streamer.table.files import atomic_writers
from streamer.table.microdata import Microdata, microdata_of_columns
from streamer.table.sources import RowSource
from streamer.table.yaml.loading import files_of, load_table

SHOWN_MEASURES = ("groups", "ncp", "dm", "aes", "sed", "ril", "risk", "suppressed")
"""The measures of the table for people; JSON has all of them."""


@shared.command_named(
    "compare", "streamer compare --table mine rows.csv", "streamer compare --table mine rows.csv --report report.html"
)
@shared.table_option
@shared.rows_argument
@click.option("--report", metavar="OUT.html", type=OutputPath(".html"), help="The comparison as a page.")
@shared.no_costs_option
@force_option
@shared.k_option
@shared.suppression_option
@shared.refine_option
@shared.seed_option
@shared.json_option
@shared.reads_rows("data")
def command(
    table: str,
    data: RowSource,
    report: Path | None,
    no_costs: bool,
    force: bool,
    k: int | None,
    suppression: float,
    refine: int,
    seed: int | None,
) -> None:
    """Anonymizes rows by every algorithm and prints what each costs and risks; writes no table.

    --suppression and --refine apply to the algorithms that know them.
    """
    schema = with_k(load_table(table, needs_key=False), k)
    options = checked_options(suppression, refine, seed=seed)
    paths = [] if report is None else [report]
    if paths:
        require_report()
    require_writable(paths, force, [*files_of(table), *data.files])
    with stages() as progress, atomic_writers(paths, text=True) as opened:
        with progress.stage("read"):
            frame = data.rows(schema.named)
            schema = without_absent_key(schema, frame.columns)
        with progress.stage("encode"):
            microdata = microdata_of_columns(schema, Encoder(schema).columns(frame))
        model = model_of(microdata.table)
        require_possible(microdata, model)
        found = list(_compared(microdata, model, options, progress))
        facts = {"table": schema.name, "rows": len(microdata), "model": words(schema, model), "algorithms": found}
        for file in opened:
            default = ALGORITHMS[DEFAULT_ALGORITHM]
            its_options = options_for(default, options)
            curves = () if no_costs else curves_of(microdata, default, its_options, progress)
            file.write(compare_report(facts, table, data.name, curves))
    show(facts, _lines(facts))
    best = min((one for one in found if "measures" in one), key=lambda one: one["measures"]["ncp"])["name"]
    once = ["anonymize", "--table", table, *data.words, "-o", "anonymous.csv", "--report", "report.html"]
    say_next([*once, "--algorithm", best])


def options_for(algorithm: Algorithm, options: Options) -> Options:
    """The options, without those that the algorithm does not know."""
    suppression, refine = options.suppression * algorithm.suppresses, options.refine * algorithm.refines
    return replace(options, suppression=suppression, refine=refine)


def _compared(microdata: Microdata, model: Model, options: Options, progress: Stages) -> Iterator[dict[str, Any]]:
    for algorithm in ALGORITHMS.values():
        its_options = options_for(algorithm, options)
        facts: dict[str, Any] = {"name": algorithm.name, "what": algorithm.what, "source": algorithm.source}
        facts["default"] = algorithm.name == DEFAULT_ALGORITHM
        if found := objections(algorithm, microdata.table, model, its_options):
            yield facts | {"cannot": list(found)}
            continue
        with progress.stage(algorithm.name) as on_progress:
            recoding = interruptible(
                partial(run, algorithm, microdata, model, replace(its_options, on_progress=on_progress))
            )
        with progress.stage("measure"):
            measures = interruptible(partial(measure, microdata, recoding, model))
        yield facts | {
            "seconds": progress.seconds[algorithm.name],
            "details": dict(recoding.details),
            "measures": measures,
        }


def _lines(report: dict[str, Any]) -> Iterator[Line]:
    rows, algorithms = plural(report["rows"], "row"), report["algorithms"]
    yield f"table {report['table']}, {rows}; every QI group has {report['model']}"
    tried = [found for found in algorithms if "measures" in found]
    shown = [name for name in SHOWN_MEASURES if name != "suppressed" or any(found["measures"][name] for found in tried)]
    grid = bare_grid("algorithm", "seconds", *map(_heading, shown))
    for found in tried:
        cells = (figure(found["measures"][name]) for name in shown)
        grid.add_row(found["name"], figure(found["seconds"]), *cells)
    yield grid
    yield from (f"{one['name']} cannot do this: {one['cannot'][0]}" for one in algorithms if "cannot" in one)
    yield from (f"the default is {one['name']}" for one in algorithms if one["default"])
    yield {_heading(name): WHAT[name] for name in shown if name != "groups"}


def _heading(name: str) -> str:
    return {"groups": "QI groups", "risk": name, "suppressed": name}.get(name, name.upper())
