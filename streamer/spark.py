"""A Spark DataFrame of people, anonymized in fragments by the session's executors.

The executors do the steps of `streamer.engines.local`, over a folder that the driver and all of them see under one path
(a network file system, a mounted bucket, a volume). Spark runs the steps, and makes those again whose executor dies.
Rows go through files in that folder, by the same functions as on one machine. So the bytes are the same as there, and
no plan, log or page of Spark holds a value of a row. `streamer` must be installed where the executors run.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from secrets import token_bytes
from typing import Any, NamedTuple
from warnings import warn

from streamer.engines.local import FragmentJob, anonymize_files
from streamer.engines.pool import private_folder
from streamer.errors import ConfigError, PrivacyWarning, UsageError, needs_extra
from streamer.privacy.models import model_of
from streamer.progress import unheard
from streamer.recoding.algorithms.catalog import DEFAULT_ALGORITHM
from streamer.recoding.fragments.steps import FRAGMENT_ROWS_MIN, Recipe
from streamer.recoding.frame import checked_options, with_k
from streamer.recoding.metrics.measures import Measures
from streamer.recoding.report.cautions import cautions
from streamer.table.encode import without_absent_key
from streamer.table.schema import ROWS
from streamer.table.yaml.loading import Named, table_of
from streamer.uninterrupted import cleaned_up

FRAGMENT_ROWS = 250_000
SOURCE = "source"  # the folder of the rows


class AnonymizedFrames(NamedTuple):
    """The published table; index: key and QI group of every row, private, if it was asked for."""

    published: Any  # a DataFrame, over the files of `out`
    index: Any
    measures: Measures


def session(master: str | None = None) -> Any:
    """The Spark session of this program, which is made if there is none.

    master: None: what spark-submit or Spark's own configuration says, else this machine. Executors run this Python,
    unless PYSPARK_PYTHON names another one.
    """
    with needs_extra("spark"):
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("streamer")
    try:
        return (builder if master is None else builder.master(master)).getOrCreate()
    except Exception as error:  # Java's own, too, through py4j
        if not isinstance(error, PySparkException | OSError) and type(error).__name__ != "Py4JJavaError":
            raise
        what = f"Spark could not be started ({type(error).__name__})"
        raise ConfigError(f"{what}: is Java 17 installed, and is the address of its master right?") from None


def anonymize(
    frame: Any,
    table: Named,
    out: str | Path,
    *,
    index: str | Path | None = None,
    fragment_rows: int = FRAGMENT_ROWS,
    algorithm: str = DEFAULT_ALGORITHM,
    k: int | None = None,
    suppression: float = 0.0,
    keep_equal_boxes: bool = False,
    seed: int | None = None,
    spill: str | Path | None = None,
) -> AnonymizedFrames:
    """Anonymizes a DataFrame into a folder of Parquet files, `out`, which must not be there yet.

    out, index and spill: paths that driver and executors see alike. The columns that the table names are written to
    the spill folder first, which is its owner's alone and is removed at the end. Raises ConfigError, UsageError and
    LawViolated as `streamer anonymize --fragment-rows` does.
    """
    if fragment_rows < FRAGMENT_ROWS_MIN:
        raise UsageError(f"fragment_rows={fragment_rows}: at least {FRAGMENT_ROWS_MIN:,}")
    schema = without_absent_key(with_k(table_of(table, needs_key=False), k), frame.columns)
    place = Path(out)
    private = Path(spill) if spill is not None else place.with_name(f".{place.name}.spill")
    source = private.with_name(f"{private.name}.rows")
    with cleaned_up(), private_folder(source, token_bytes(16)):  # one that a killed job has left is emptied
        frame.select(*(f"`{name}`" for name in schema.named)).write.parquet(f"file://{(source / SOURCE).resolve()}")
        options = checked_options(suppression, 0, keep_equal_boxes, seed)
        recipe = Recipe(schema, model_of(schema), algorithm, options, fragment_rows)
        spark, where = frame.sparkSession, None if index is None else Path(index)
        job = FragmentJob(source / SOURCE, place, recipe, seed, b"spark", private, 1, where, spark=spark)
        done = anonymize_files(job, lambda _: nullcontext(unheard))
    for sentence in cautions(schema, ROWS, done.report.findings(schema.named), done.stand_ins).cautions:
        warn(sentence, PrivacyWarning, stacklevel=2)
    pairs = None if where is None else spark.read.csv(f"file://{where.resolve()}", header=True)
    return AnonymizedFrames(spark.read.parquet(f"file://{place.resolve()}"), pairs, done.measures)
