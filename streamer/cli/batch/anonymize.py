"""`streamer anonymize`: anonymizes a whole table by any of the algorithms, without a server.

All output files appear together, or none does; one that cannot be written is reported before any work is done. Only
counts and measures are printed. Only --index writes source keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import click

from streamer.cli.batch import reports
from streamer.cli.support import options as shared
from streamer.cli.support import skip_refused
from streamer.cli.support.next_call import say_read
from streamer.cli.support.outputs import (
    CSV,
    OutputPath,
    force_option,
    require_writable,
    words_beside,
)
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.signals import interruptible
from streamer.cli.support.tables import Line, show
from streamer.copies import is_parquet, write_parquet, write_published
from streamer.engines.local import FragmentJob, anonymize_files
from streamer.engines.pool import LOCAL, SPARK
from streamer.errors import RowRefused, UsageError
from streamer.privacy.models import model_of
from streamer.recoding.algorithms.catalog import DEFAULT_ALGORITHM, algorithm_named, objections, run
from streamer.recoding.algorithms.contract import Algorithm, Options, Recoding
from streamer.recoding.fragments.steps import FRAGMENT_ROWS_MIN, Recipe
from streamer.recoding.frame import checked_options, with_k
from streamer.recoding.metrics.measures import measure, measure_joined
from streamer.recoding.publication import group_names, lossy_join_frames, published_arrow, published_frame
from streamer.recoding.report.cautions import cautions
from streamer.recoding.report.findings import drawn_of, findings
from streamer.recoding.report.head import described, head, remarks
from streamer.spark import session
from streamer.table import data_warnings
from streamer.table.codes import Spellings
from streamer.table.csv_files import ESCAPE, write_index
from streamer.table.encode import Encoder, without_absent_key
from streamer.table.files import (
    PARQUET,
    STDIN,
    STDOUT,
    atomic_writers,
    is_stream,
    sha256_by_name,
    sha256_written,
    table_files,
)
from streamer.table.microdata import Microdata, microdata_of_columns
from streamer.table.schema import Table
from streamer.table.sources import RowSource, column_names
from streamer.table.yaml.loading import files_of, load_table

ROWS, LOSSY_JOIN = "rows", "lossy-join"


@shared.command_named(
    "anonymize",
    "streamer anonymize --table mine rows.csv -o anonymous.csv",
    "streamer anonymize --table mine rows.csv -o anonymous.csv --algorithm mondrian --report report.html",
)
@shared.table_option
@shared.rows_argument
@click.option(
    "--algorithm",
    metavar="NAME",
    default=DEFAULT_ALGORITHM,
    show_default=True,
    shell_complete=shared.algorithms,
    help="The algorithm; `compare` lists all.",
)
@click.option(
    "-o",
    "--out",
    metavar="OUT.csv|FOLDER|-",
    required=True,
    type=OutputPath(*CSV, PARQUET, folder=True, stdout=True),
    help="The anonymous table: .csv, .csv.gz or .parquet, - for standard output; a folder with --fragment-rows.",
)
@click.option("--index", metavar="PRIVATE.csv", type=OutputPath(*CSV), help="Which source row is in which QI group.")
@click.option(
    "--report", metavar="OUT.html", type=OutputPath(".html"), help="A page to sign: what is guaranteed, what it cost."
)
@shared.no_costs_option
@force_option
@click.option(
    "--form",
    type=click.Choice((ROWS, LOSSY_JOIN)),
    default=ROWS,
    show_default=True,
    help="lossy-join: exact quasi-identifiers in OUT-qit.csv, sensitive values in OUT-stt.csv, joined by QI group.",
)
@shared.formulas_option(ESCAPE, "OUT.csv")
@skip_refused.skip_refused_option
@shared.k_option
@shared.suppression_option
@shared.refine_option
@shared.keep_boxes_option
@shared.seed_option
@click.option(
    "--fragment-rows",
    metavar="N",
    type=click.IntRange(min=FRAGMENT_ROWS_MIN),
    help="Anonymize fragments of at most N rows in processes of their own, each with about 1 KB a row of memory;"
    " 150000 and more cost hardly any detail.",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="as many as there are processors",
    help="Processes that work at the same time, with --fragment-rows.",
)
@click.option(
    "--engine",
    type=click.Choice((LOCAL, SPARK)),
    default=LOCAL,
    show_default=True,
    help="What does the work of --fragment-rows: processes of this machine, or Spark's executors, which must see all"
    " files of this command under the same paths.",
)
@shared.spark_master_option
@click.option(
    "--spill",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Private folder for rows between the steps, with --fragment-rows; it is removed at the end. If the command is"
    " killed, the next call goes on from there.  [default: .OUT.spill beside OUT]",
)
@shared.json_option
@shared.reads_rows("data")
def command(**given: Any) -> None:
    """Anonymizes rows and writes the published table, with the columns of the live changelog.

    The privacy model is table.yaml's: k, and l, alpha, beta or r if it says so. There is one QI group for each box,
    unless --keep-equal-boxes says otherwise, numbered from 1 in the order of the published values. The order of the
    rows says nothing about whose they are. For programs that read OUT.csv, --formulas keep leaves its texts as they
    are. --index is private: it says the QI group of every row, by the key, or by the number of the row if the data has
    no key column.

    For a table that does not fit into memory, give --fragment-rows, and a folder as OUT: it gets Parquet files.
    """
    asked = GivenOptions(**given)
    chosen = algorithm_named(asked.algorithm)
    options = checked_options(asked.suppression, asked.refine, asked.keep_equal_boxes, asked.seed)
    schema = with_k(load_table(asked.table, needs_key=False), asked.k)
    if asked.form == LOSSY_JOIN and schema.space.is_bounded:
        raise UsageError("--form lossy-join publishes exact quasi-identifiers and no intervals: remove `coarsest`")
    with stages() as progress:
        anonymize = _whole if asked.fragment_rows is None else _by_fragments
        try:
            facts = anonymize(asked, schema, chosen, options, progress) | {"seconds": progress.seconds}
        except RowRefused as refused:
            raise RowRefused(f"{refused}; {skip_refused.WAY_PAST}") from None
    with words_beside(asked.out):
        show(facts, _lines(facts))
    if asked.report is not None:
        say_read(asked.report)


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """The options of the command."""

    table: str
    data: RowSource
    algorithm: str
    out: Path
    index: Path | None
    report: Path | None
    no_costs: bool
    force: bool
    form: str
    formulas: str
    left_out: Path | None
    k: int | None
    suppression: float
    refine: int
    keep_equal_boxes: bool
    seed: int | None
    fragment_rows: int | None
    workers: int
    engine: str
    spark_master: str | None
    spill: Path | None


def _whole(asked: GivenOptions, schema: Table, chosen: Algorithm, options: Options, progress: Stages) -> dict[str, Any]:
    """Anonymizes all rows in one run."""
    index, report, left_out, form = asked.index, asked.report, asked.left_out, asked.form
    if is_folder(asked.out):
        raise UsageError(f"--out {asked.out}: a folder is written with --fragment-rows; else name a file")
    paths = [*(outputs := output_paths(asked.out, form)), *filter(None, (index, report, left_out))]
    require_writable(paths, asked.force, [*files_of(asked.table), *asked.data.files])
    if report is not None:
        reports.require_report()
    with atomic_writers(paths, text=True) as opened:
        files: dict[Path, IO[str]] = dict(zip(paths, opened, strict=True))
        with progress.stage("read"):
            frame = asked.data.rows(schema.named)
            schema = without_absent_key(schema, frame.columns)
            sources = {} if report is None else reports.sources_of(asked.table, asked.data)
            header = list(map(str, frame.columns))
        refused = skip_refused.refused_among(schema, frame, progress) if left_out is not None else []
        skip_refused.require_some_left(refused, len(frame))
        with progress.stage("encode"):
            strays = data_warnings.stray_warnings_of(frame, refused)
            frame = data_warnings.without_refused(frame, refused)
            encoded = Encoder(schema).columns(frame)
            unlisted = data_warnings.unknown_category_rows(schema, frame)
            microdata = microdata_of_columns(schema, encoded)
            model = model_of(microdata.table)
            spelt = data_warnings.several_spellings(schema, frame)
            stood = data_warnings.stand_ins(schema, frame)
            source_keys = [] if index is None else encoded.source_keys.by_row()
            del frame, encoded  # half of the memory
        with progress.stage("anonymize") as on_progress:
            recoding = interruptible(lambda: run(chosen, microdata, model, replace(options, on_progress=on_progress)))
        with progress.stage("measure"):
            measures = interruptible(
                lambda: (measure_joined if form == LOSSY_JOIN else measure)(microdata, recoding, model)
            )
            facts = described(chosen, options, schema, form, measures, recoding.levels, recoding.details)
            n = len(microdata)
            facts |= _about_rows(asked, schema, unlisted, n, n + len(refused), spelt, refused, strays)
            found = findings(microdata, recoding, form, header)
            facts |= cautions(schema, form, found, stood)._asdict()
        wanted = report is not None and form != LOSSY_JOIN and not asked.no_costs
        curves = reports.curves_of(microdata, chosen, options, progress) if wanted else ()
        with progress.stage("write"):
            written = {path: files[path] for path in outputs}
            facts |= {"published": _written(microdata, recoding, form, written, asked.formulas)}
            output = {path.name: sha256_written(file) for path, file in written.items()}
            facts["report"] = report and reports.with_digests(found, sources, output)
            if index is not None:
                write_index(_index_table(source_keys, recoding), files[index])
            if report is not None:
                drawn = drawn_of(microdata, recoding)
                files[report].write(
                    reports.anonymize_report(facts, schema, drawn, asked.table, asked.data.name, curves)
                )
            if left_out is not None:
                skip_refused.write_list(refused, files[left_out])
    return facts | {"files": [str(path) for path in paths]}


def _by_fragments(
    asked: GivenOptions, schema: Table, chosen: Algorithm, options: Options, progress: Stages
) -> dict[str, Any]:
    """Anonymizes a table of any size, fragment by fragment."""
    out, left_out, report = asked.out, asked.left_out, asked.report
    if not is_folder(out):
        raise UsageError(f"--out {out}: --fragment-rows writes a folder of Parquet files: name a folder")
    if asked.form == LOSSY_JOIN:
        raise UsageError("--fragment-rows: --form lossy-join is for a table in one run: leave it out")
    others = [*filter(None, (asked.index, report, left_out))]
    require_writable([out, *others], asked.force, [*files_of(asked.table), *asked.data.files])
    data, encoding = asked.data.file("--fragment-rows"), asked.data.encoding
    if str(data) != STDIN:
        schema = without_absent_key(schema, column_names(data, encoding))
    model = model_of(schema)
    if said := objections(chosen, schema, model, options):
        raise UsageError(f"{chosen.name} cannot do this: {said[0]}")
    recipe = Recipe(schema, model, chosen.name, options, asked.fragment_rows or FRAGMENT_ROWS_MIN)
    same = replace(
        asked, workers=0, engine=LOCAL, spark_master=None, force=False, spill=None
    )  # what may differ when a killed job goes on
    identity = b"".join(path.read_bytes() for path in files_of(asked.table)) + repr((schema.k, same)).encode()
    spill = asked.spill or out.with_name(f".{out.name}.spill")
    if report is not None:
        reports.require_report()
    texts = [path for path in (left_out, report) if path is not None]
    with atomic_writers(texts, text=True) as opened:
        files: dict[Path, IO[str]] = dict(zip(texts, opened, strict=True))
        spark = session(asked.spark_master) if asked.engine == SPARK else None
        how = asked.workers, asked.index, left_out is not None, asked.force, spark, encoding, report is not None
        done = anonymize_files(FragmentJob(data, out, recipe, asked.seed, identity, spill, *how), progress.stage)
        facts = described(chosen, options, schema, ROWS, done.measures, done.levels, done.details)
        strays = data_warnings.stray_warnings(done.stray, done.titles, done.refused)
        about = done.unlisted, done.rows, done.rows, done.spelt, done.refused, strays
        facts |= _about_rows(asked, schema, *about)
        found = done.report.findings(column_names(data, encoding))
        facts |= {"published": {out.name: done.columns}, "report": None}
        facts |= cautions(schema, ROWS, found, done.stand_ins)._asdict()
        if left_out is not None:
            skip_refused.write_list(done.refused, files[left_out])
        if report is not None and done.sample is not None:
            sources = reports.sources_of(asked.table, asked.data)
            facts["report"] = reports.with_digests(found, sources, sha256_by_name(out))
            curves = () if asked.no_costs else reports.curves_of(done.sample, chosen, options, progress)
            page = reports.anonymize_report(facts, schema, done.report.drawn, asked.table, asked.data.name, curves)
            files[report].write(page)
    return facts | {"files": [str(path) for path in (out, *others)]}


def _about_rows(
    asked: GivenOptions, schema: Table, unlisted: Mapping[str, int], rows: int, of: int,
    spelt: Mapping[str, Spellings], refused: Sequence[data_warnings.RefusedRow], strays: list[str],
) -> dict[str, Any]:  # fmt: skip
    """The facts about the rows of a run. rows: that may be unlisted; of: all of the file.

    spelt: of `several_spellings`; strays: of `stray_warnings`.
    """
    warnings = data_warnings.warnings_of_rows(schema, strays, spelt, unlisted, rows)
    left_out = asked.left_out and skip_refused.facts_of(refused, of, asked.left_out)
    return {"unlisted": unlisted, "warnings": warnings, "left_out": left_out}


def is_folder(out: Path) -> bool:
    """True if OUT names a folder."""
    return not is_stream(out) and (out.is_dir() or not out.suffix)


def _written(
    microdata: Microdata, recoding: Recoding, form: str, files: Mapping[Path, Any], formulas: str
) -> dict[str, list[str]]:
    """Writes the published tables; returns the columns of each file."""
    if form == ROWS and (path := next(iter(files))) and is_parquet(path):
        published = published_arrow(microdata, recoding)
        write_parquet(published, files[path])
        return {path.name: published.column_names}
    frames = lossy_join_frames(microdata, recoding) if form == LOSSY_JOIN else [published_frame(microdata, recoding)]
    for (path, file), frame in zip(files.items(), frames, strict=True):
        write_published(microdata.table, frame, path, file, formulas)
    return {path.name: list(frame.columns) for path, frame in zip(files, frames, strict=True)}


def output_paths(out: Path, form: str) -> list[Path]:
    """The files that are written for OUT.csv. Raises UsageError if two tables were to go to stdout."""
    if form == LOSSY_JOIN and out == STDOUT:
        raise UsageError("--out -: a lossy join is two tables: name a file")
    return table_files(out, ("rows",) if form == ROWS else ("qit", "stt"))


def _index_table(source_keys: list[str], recoding: Recoding) -> Iterator[tuple[str, str]]:
    names = [*group_names(recoding), ""]  # SUPPRESSED is -1, which takes the last one
    return ((source_key, names[group]) for source_key, group in zip(source_keys, recoding.qi_group, strict=True))


def _lines(facts: Mapping[str, Any]) -> Iterator[Line]:
    lines = head(facts) | {
        "time": f"{facts['seconds']['anonymize']} s, of {round(sum(facts['seconds'].values()), 3)} s in all",
        "written": ", ".join(facts["files"]),
    }
    if facts["left_out"] is not None:
        lines["left out"] = skip_refused.sentence(facts["left_out"])
    yield lines
    yield from remarks(facts)
