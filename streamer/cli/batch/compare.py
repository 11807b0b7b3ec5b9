"""`streamer compare`: every algorithm on one table (`streamer.recoding.comparison`); writes at most a page."""

from __future__ import annotations

from pathlib import Path

import click

from streamer.cli.batch.reports import compare_report, curves_of, require_report
from streamer.cli.support import options as shared
from streamer.cli.support.next_call import say_next
from streamer.cli.support.outputs import OutputPath, force_option, require_writable
from streamer.cli.support.progress import stages
from streamer.cli.support.signals import interruptible
from streamer.cli.support.tables import show
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM
from streamer.recoding.comparison import compared, lines_of, options_for
from streamer.recoding.frame import checked_options, with_k
from streamer.table.encode import Encoder, without_absent_key
from streamer.table.files import atomic_writers
from streamer.table.microdata import microdata_of_columns
from streamer.table.sources import RowSource
from streamer.table.yaml.loading import files_of, load_table


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
        facts = compared(microdata, options, progress, list(ALGORITHMS.values()), interruptible)
        for file in opened:
            default = ALGORITHMS[DEFAULT_ALGORITHM]
            its_options = options_for(default, options)
            curves = () if no_costs else curves_of(microdata, default, its_options, progress)
            file.write(compare_report(facts, table, data.name, curves))
    show(facts, lines_of(facts))
    able = [one for one in facts["algorithms"] if "measures" in one]
    best = min(able, key=lambda one: one["measures"]["ncp"])["name"]
    once = ["anonymize", "--table", table, *data.words, "-o", "anonymous.csv", "--report", "report.html"]
    say_next([*once, "--algorithm", best])
