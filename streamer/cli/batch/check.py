"""`streamer check`: what a table.yaml means, and what it would do to a data file (`streamer.checking`)."""

from __future__ import annotations

from pathlib import Path

import click

from streamer.checking import describe, lines_of, try_data
from streamer.cli.support.next_call import say_next
from streamer.cli.support.options import ROWS_OR_URL, command_named, json_option, reads_rows, table_option
from streamer.cli.support.outputs import force_option, require_writable
from streamer.cli.support.progress import stages
from streamer.cli.support.skip_refused import skip_refused_option, write_list
from streamer.cli.support.tables import show
from streamer.errors import UsageError
from streamer.table.files import atomic_writer
from streamer.table.sources import RowSource
from streamer.table.yaml.loading import files_of, load_table


@command_named("check", "streamer check --table mine", "streamer check --table mine --data mine/rows.csv")
@table_option
@click.option(
    "--data",
    metavar=ROWS_OR_URL,
    help="Rows to try, of a file or a database: which columns are published, which rows are refused.",
)
@click.option("--no-costs", is_flag=True, help="With --data: do not try other k and grids.")
@skip_refused_option
@force_option
@json_option
@reads_rows("data")
def command(table: str, data: RowSource | None, no_costs: bool, left_out: Path | None, force: bool) -> None:
    """Validates TABLE and says what it means: roles, cells, the privacy model and which algorithms can satisfy it, what
    a published row looks like, what is never published.

    With --data it also counts the rows of a file that would be refused, by reason and column, without their values;
    --skip-refused lists them. It then tries what other k and other grids would cost, which may take minutes for a large
    file; --no-costs leaves this out; `streamer forecast` says what a live table costs.
    If the file has no key column, rows are told apart by their numbers, as in `anonymize`.
    Exit code 2 if TABLE or the rows cannot be used at all.
    """
    if left_out is not None and data is None:
        raise UsageError("--skip-refused lists rows of a data file: give one by --data")
    if no_costs and data is None:
        raise UsageError("--no-costs leaves out what is tried with a data file: give one by --data")
    if left_out is not None and data is not None:
        require_writable([left_out], force, [*files_of(table), *data.files])
    schema = load_table(table, needs_key=False)
    report = describe(schema)
    if data is not None:
        with stages() as progress:
            with progress.stage("read"):
                frame = data.rows(schema.named)
            report["data"], refused = try_data(schema, frame, no_costs, progress.stage)
            if left_out is not None:
                with atomic_writer(left_out, text=True) as file:
                    write_list(refused, file)
    is_usable = data is None or report["data"]["accepted"] > 0
    show({"ok": is_usable, **report}, lines_of(report))
    if not is_usable:
        click.get_current_context().exit(UsageError.exit_code)
    if data is None:
        say_next(["check", "--table", table, "--data", "ROWS.csv"])
    else:
        skips = ["--skip-refused", "left-out.csv"] * bool(report["data"]["refused"])
        once = ["anonymize", "--table", table, *data.words, "-o", "anonymous.csv", "--report", "report.html", *skips]
        say_next(once if skips else ["compare", "--table", table, *data.words], ["topics", "create", "--table", table])
