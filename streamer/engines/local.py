"""Large tables on one machine: the steps of `recoding.fragments` by a pool of processes, over a private folder.

read -> plan -> route -> anonymize -> mend, twice -> number -> write -> verify -> the folder gets its name

A full-domain algorithm plans levels instead of fragments, from the counts of the distinct vectors of cells. Then rows
are routed to the files that their QI groups are in, and nothing is left to mend.

No process holds more than a fragment's rows, and this one none at all: it holds the counts that the plan is made from,
and the boxes of the QI groups while they are numbered. The output depends on the rows and the seed alone, not on
the number of processes, on files or on their order.
"""

from __future__ import annotations

import csv
import os
import pickle
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from streamer.engines import alike
from streamer.engines.pool import (
    LOCK,
    CallPool,
    ProcessPool,
    SparkPool,
    appear,
    draft_of,
    forget,
    not_written,
    private_folder,
    whole_file,
    written,
)
from streamer.errors import ConfigError, RowRefused, UsageError
from streamer.progress import OnProgress, Stage, part_of
from streamer.recoding.algorithms.catalog import algorithm_named
from streamer.recoding.algorithms.vectors import Pairs, VectorCounts
from streamer.recoding.fragments import steps
from streamer.recoding.fragments.layout import FilePart, PieceGroups, check_written, files_of, numbers, parts_of
from streamer.recoding.fragments.mending import ROUNDS
from streamer.recoding.fragments.plan import Bins, FragmentPlan, Planner, bins_of, holding, united, united_by_attribute
from streamer.recoding.fragments.rows import KEY, arrow_rows, counted_texts, individual_codes, microdata_of_rows
from streamer.recoding.fragments.steps import AlikeGroups, Piece, Recipe
from streamer.recoding.frame import SEED_BITS
from streamer.recoding.metrics.measures import Measures, measure, with_suppressed
from streamer.recoding.metrics.measures import united as united_measures
from streamer.recoding.metrics.utility import cell_counts
from streamer.recoding.publication import FIRST_NUMBER, published_arrow
from streamer.recoding.report.findings import PublishedPart, published_part
from streamer.recoding.report.tradeoffs import sample_numbers
from streamer.table.arrays import Counted, Ints
from streamer.table.arrow_table import require
from streamer.table.codes import Spellings
from streamer.table.csv_files import csv_chunks
from streamer.table.data_warnings import (
    RefusedRow,
    StandIns,
    most_spellings,
    refused_rows,
    several_spellings,
    stand_ins,
    united_stand_ins,
    unknown_category_rows,
    without_refused,
)
from streamer.table.encode import Encoder
from streamer.table.files import STDIN, atomic_writer, for_owner_alone
from streamer.table.microdata import Microdata
from streamer.table.parquet_files import RowPart, is_parquet_source, parquet_parts, read_part
from streamer.table.published.rows import qi_group_name
from streamer.table.stray_rows import TITLES, judged, suspects_among

CHUNK_ROWS = 250_000
"""Rows that are read, encoded and routed at the same time."""

ROW = "row"
"""The column of the numbers of the source's rows, the first of which is 1."""


@dataclass(frozen=True)
class FragmentJob:
    """One job: its source, its output, and how it is done."""

    source: Path
    out: Path
    recipe: Recipe
    seed: int | None  # None: chance is drawn, and differs in every run
    identity: bytes  # of table.yaml and the options: a killed job goes on only with the same
    spill: Path
    workers: int
    index: Path | None = None  # where to write which source row is in which QI group
    skip_refused: bool = False
    force: bool = False
    spark: Any = None  # a SparkSession, whose executors do the work instead of processes of this machine
    encoding: str | None = None  # of CSV
    report: bool = False  # whether the figures of a report are wanted


class TableWritten(NamedTuple):
    """The outcome of a job."""

    rows: int  # of the source
    refused: list[RefusedRow]
    unlisted: dict[str, int]  # by column, rows with unknown categories
    stand_ins: dict[str, StandIns]
    spelt: dict[str, Spellings]  # by column, of the part of the source that has most
    stray: dict[int, str]  # by number from 0, the rows that seem to be no data
    titles: str  # what is said of titles above the header
    details: dict[str, int | float]  # fragments; counts of a search
    levels: tuple[int, ...] | None  # of every attribute, if all rows are recoded alike
    files: list[Path]
    columns: list[str]
    measures: Measures
    report: alike.ReportFigures
    sample: Microdata | None  # some rows, to try other models on, if a report is wanted


def anonymize_files(job: FragmentJob, stage: Stage) -> TableWritten:
    """Anonymizes a table of any size, by fragments, into a folder of Parquet files.

    The folder appears when all its files have been written and checked, or not at all. Raises ConfigError for data that
    cannot be used, UsageError for a folder that cannot be written, LawViolated if what was written breaks the model.
    """
    require("pyarrow.parquet", "parquet")
    _require_out(job)
    if job.spark is not None:  # executors are in other folders
        index = job.index and job.index.absolute()
        job = replace(
            job, source=job.source.absolute(), out=job.out.absolute(), spill=job.spill.absolute(), index=index
        )
    try:
        with private_folder(job.spill, _identity(job)) as begun, draft_of(job.out, begun) as draft:
            chance = _kept_chance(job.spill / "chance") if job.seed is None else job.seed
            recipe = replace(job.recipe, options=replace(job.recipe.options, chance=chance))
            pool: CallPool
            if job.spark is None:
                pool = ProcessPool(job.spill, job.workers)
            else:
                pool = SparkPool(job.spill, job.spark, [job.source, draft / LOCK])
            with pool:
                return _Steps(job, recipe, pool, draft, stage).done()
    except OSError as error:
        raise not_written(job.spill, error) from None


def _identity(job: FragmentJob) -> bytes:
    """The identity of a job, by its files and options."""
    files = sorted(job.source.rglob("*")) if job.source.is_dir() else [job.source]
    seen = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()]
    about = (seen, job.out.absolute(), job.index, job.seed, job.recipe.fragment_rows, job.skip_refused)
    return sha256(repr(about).encode() + job.identity).hexdigest().encode()


def _kept_chance(path: Path) -> int:
    """Chance of the operating system, the same when a killed job goes on."""
    if not path.exists():
        with whole_file(path) as draft:
            draft.write_text(str(secrets.randbits(SEED_BITS)))
    return int(path.read_text())


# -- the folder that is written ---------------------------------------------------------------------------------------


def _require_out(job: FragmentJob) -> None:
    """Raises UsageError or ConfigError for a source or an output that cannot be used in this way."""
    out, source = job.out, job.source
    if str(source) == STDIN:
        raise UsageError("-: standard input is read once, and fragments need their rows twice: name a file or a folder")
    if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"{out}: lies in the folder that is read; name another folder")
    for path in filter(None, (out, job.index)):
        if not os.access(path.parent, os.W_OK):
            raise ConfigError(f"{path}: cannot be written: {path.parent} is no folder that may be written")
    if out.is_symlink():
        raise UsageError(f"{out}: is a link; name the folder itself")
    if not out.exists():
        return
    if not out.is_dir() or any(not entry.match("part-*.parquet") for entry in out.iterdir()):
        raise UsageError(f"{out}: holds other things than a table that was written here; name another folder")
    if not job.force and any(out.iterdir()):
        raise UsageError(f"{out}: exists already and is not overwritten; name another folder, or give --force")


# -- rows in files ----------------------------------------------------------------------------------------------------


class Batches(NamedTuple):
    """Some batches of an Arrow file; None: all of them."""

    path: Path
    numbers: list[int] | None = None
    dropped: Ints = np.zeros(0, dtype=np.int64)  # numbers of source rows that do not count

    def read(self) -> Any:
        """The rows as a pyarrow.Table over the mapped file."""
        arrow = require("pyarrow", "parquet")
        file = arrow.ipc.open_file(arrow.memory_map(str(self.path)))
        some = range(file.num_record_batches) if self.numbers is None else self.numbers
        rows = arrow.Table.from_batches([file.get_batch(i) for i in some], schema=file.schema)
        if len(self.dropped):
            rows = rows.filter(arrow.array(~np.isin(rows[ROW].to_numpy(), self.dropped)))
        return rows


def _write(path: Path, tables: Iterable[Any]) -> None:
    """Writes tables of one schema, if there are any, as batches of a file."""
    arrow, rest = require("pyarrow", "parquet"), iter(tables)
    if (first := next(rest, None)) is None:
        return
    with whole_file(path) as draft, arrow.ipc.new_file(str(draft), first.schema) as writer:
        for table in chain([first], rest):
            batches = table.combine_chunks().to_batches()
            writer.write_batch(batches[0] if batches else arrow.RecordBatch.from_pylist([], schema=table.schema))


def _write_by(path: Path, rows: Any, number: Ints) -> dict[int, int]:
    """Writes rows with equal numbers as one batch; the batch of each number."""
    order = np.argsort(number, kind="stable")
    begins = np.flatnonzero(np.diff(number[order], prepend=-1))
    ends = np.append(begins, len(number))[1:]
    taken = rows.take(order)
    _write(path, (taken.slice(begin, end - begin) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)))
    return {int(number[order[begin]]): i for i, begin in enumerate(begins.tolist())}


def _read_all(sources: Sequence[Batches]) -> Any:
    return require("pyarrow", "parquet").concat_tables([source.read() for source in sources])


def _groups_path(path: Path) -> Path:
    return path.with_suffix(".groups.npz")


def _write_piece(path: Path, piece: Piece) -> None:
    """Writes rows and QI groups of a fragment or region."""
    _write(path, [piece.rows])
    with whole_file(_groups_path(path)) as draft:
        np.savez(draft, **piece.groups._asdict())


def _groups(path: Path) -> PieceGroups:
    with np.load(_groups_path(path)) as found:
        return PieceGroups(found["lo"], found["hi"], found["rows"])


class Regions(Sequence[PieceGroups]):
    """The QI groups of each piece, read when they are asked for."""

    def __init__(self, pieces: Sequence[Path]) -> None:
        self._pieces = pieces

    def __len__(self) -> int:
        return len(self._pieces)

    def __getitem__(self, piece: Any) -> Any:
        return _groups(self._pieces[piece])


# -- what a process does ----------------------------------------------------------------------------------------------


class Encoded(NamedTuple):
    """The facts of an encoded part of the source."""

    rows: int
    refused: list[RefusedRow]
    unlisted: dict[str, int]
    stand_ins: dict[str, StandIns]
    spelt: dict[str, Spellings]
    stray: dict[int, str]  # suspects
    texts: dict[int, set[bytes]]  # of kept columns that the model counts


def _encode(
    recipe: Recipe,
    part: RowPart | Path,
    first_row: int,
    path: Path,
    with_keys: bool,
    skip_refused: bool,
    before: Path | None,
) -> Encoded:
    """Encodes a part of the source, and keeps the hashes of its keys; before: where to keep those of exact values."""
    table, encoder = recipe.table, Encoder(recipe.table)
    arrow = require("pyarrow", "parquet")
    found, unlisted, texts = Encoded(0, [], {}, {}, {}, {}, {}), Counter[str](), dict[int, set[bytes]]()
    tables, hashes, exact, spelt, stood = [], [], [], dict[str, Spellings](), list[dict[str, StandIns]]()
    parts: Iterable[tuple[int, pd.DataFrame]]
    if isinstance(part, RowPart):
        parts = read_part(part, CHUNK_ROWS, table.named)
    else:
        parts = [(first_row, Batches(part).read().to_pandas(types_mapper=pd.ArrowDtype))]
    for first, frame in parts:
        numbers = np.arange(first, first + len(frame))
        found.stray.update(suspects_among(frame, first - 1))
        if skip_refused:
            refused = refused_rows(table, frame)
            found.refused.extend(one._replace(data_row=one.data_row + first - 1) for one in refused)
            frame = without_refused(frame, refused)
            numbers = np.delete(numbers, [one.data_row - 1 for one in refused])
        encoded = encoder.columns(frame, first)
        unlisted.update(unknown_category_rows(table, frame))
        stood.append(stand_ins(table, frame))
        spelt = most_spellings(spelt, several_spellings(table, frame))
        rows = arrow_rows(table, encoded, with_keys).append_column(ROW, arrow.array(numbers))
        for i, some in counted_texts(recipe.model, rows).items():
            texts.setdefault(i, set()).update(some)
        if table.source_key:
            keys = alike.hashes_of_texts(np.array(encoded.source_keys.by_row(), dtype=object))
            hashes.append(np.column_stack([keys, numbers]))
        if before is not None:
            exact.append(np.column_stack([alike.hashes_of_numbers(encoded.codes), numbers, *_who(recipe, rows)]))
        tables.append(rows)
    _write(path, tables)
    if hashes:
        alike.leave(path.with_suffix(".keys.npy"), np.concatenate(hashes))
    if before is not None:
        alike.leave(before, np.concatenate(exact))
    n_rows = sum(rows.num_rows for rows in tables)
    return Encoded(n_rows, found.refused, dict(unlisted), united_stand_ins(stood), spelt, found.stray, texts)


def _who(recipe: Recipe, rows: Any) -> list[Ints]:
    """The codes of the individuals, as a column, if there are any."""
    return [] if recipe.table.individual is None else [individual_codes(rows)]


def _of_rows(step: Callable[..., Any], recipe: Recipe, sources: Sequence[Batches], *more: Any) -> Any:
    """The answer of a step that takes the rows of some files."""
    return step(recipe, _read_all(sources), *more)


def _deal(recipe: Recipe, pieces: Sequence[Batches], plan: FragmentPlan, leaf: int, fragments: int) -> list[Ints]:
    """By piece, where the rows of a leaf go."""
    parts = [steps.rows_of_leaf(recipe, piece.read(), plan, leaf) for piece in pieces]
    goes = steps.dealt_rows(recipe, require("pyarrow", "parquet").concat_tables(parts), fragments)
    return np.split(goes, np.cumsum([part.num_rows for part in parts])[:-1])


def _route(
    recipe: Recipe, piece: Batches, plan: FragmentPlan, dealt_to: Mapping[int, Ints], path: Path
) -> dict[int, int]:
    rows = piece.read()
    return _write_by(path, rows.drop_columns([ROW]), steps.leaves_of_rows(recipe, rows, plan, dealt_to))


def _make(
    step: Callable[..., Piece], recipe: Recipe, sources: Sequence[Batches], chance: int, path: Path
) -> list[Counted]:
    """Makes the QI groups of a fragment or region by a step."""
    piece = step(recipe, _read_all(sources), chance)
    _write_piece(path, piece)
    return steps.cells_of_centers(piece.groups)


def _center_vectors(path: Path, bins: list[Bins]) -> Counted:
    return steps.vectors_of_centers(_groups(path), bins)


def _route_groups(path: Path, plan: FragmentPlan, source: int, to: Path) -> dict[int, int]:
    rows = steps.with_source(Batches(path).read(), source)
    return _write_by(to, rows, steps.regions_of(_groups(path), plan, source))


def _publish(
    recipe: Recipe, part: FilePart, pieces: Sequence[Path], path: Path, index: Path | None, alike_in: list[Path]
) -> tuple[Measures, list[Counted], PublishedPart]:
    """Writes a published file, and the part of the index that belongs to it; alike_in: as in `leave_published`."""
    found = []
    for of in part.slices:
        groups = _groups(pieces[of.region])
        ends = np.append(0, np.cumsum(groups.rows))
        begin, end = int(ends[of.begin]), int(ends[of.end])
        rows = Batches(pieces[of.region]).read().slice(begin, end - begin)
        found.append(Piece(rows, PieceGroups(*(column[of.begin : of.end] for column in groups))))
    microdata, recoding = steps.recoded(recipe, part, found)
    published = published_arrow(microdata, recoding, FIRST_NUMBER + part.first)
    with whole_file(path) as draft:
        try:
            require("pyarrow.parquet", "parquet").write_table(published, draft)
        except OSError as error:
            raise not_written(path.parent, error, ", or name another OUT") from None
    if index is not None:
        keys = [key.decode() for piece in found for key in piece.rows[KEY].to_pylist()]
        names = [qi_group_name(0, FIRST_NUMBER + part.first + number) for number in range(part.groups)]
        _write_index(index, zip(keys, map(names.__getitem__, recoding.qi_group), strict=True))
    who = _who(recipe, require("pyarrow", "parquet").concat_tables([piece.rows for piece in found]))
    alike.leave_published(microdata, recoding, who, alike_in)
    figures = published_part(microdata, recoding)
    counts = cell_counts(microdata, recoding)
    return measure(microdata, recoding, recipe.model, counts), counts, figures


def _write_index(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Writes a part of the index: keys and QI groups, sorted."""
    with whole_file(path) as draft, open(draft, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(sorted(pairs))


def _verify(recipe: Recipe, part: FilePart, path: Path) -> None:
    check_written(recipe.table, recipe.model, require("pyarrow.parquet", "parquet").read_table(path), part)


# -- what a process does for a full-domain algorithm ------------------------------------------------------------------


def _count(recipe: Recipe, piece: Batches, texts: Mapping[int, list[bytes]], path: Path) -> None:
    """Counts the distinct vectors of a piece."""
    counts = steps.vectors_of_rows(recipe, piece.read(), texts)
    arrays = {f"{i}-{name}": column for i, pairs in enumerate(counts.subjects) for name, column in
              pairs._asdict().items()}  # fmt: skip
    with whole_file(path) as draft, open(draft, "wb") as file:
        np.savez(file, cells=counts.cells.astype(np.int32), rows=counts.rows, **arrays)


def _counted(path: Path) -> VectorCounts:
    with np.load(path) as found:
        subjects = range((len(found.files) - 2) // len(Pairs._fields))
        pairs = tuple(Pairs(*(found[f"{i}-{name}"] for name in Pairs._fields)) for i in subjects)
        return VectorCounts(found["cells"].astype(np.int64), found["rows"], pairs)


def _search(recipe: Recipe, paths: Sequence[Path], path: Path) -> None:
    """The best levels, by the counts of all pieces; the answer goes to a file that later steps read."""
    written(path, steps.alike_groups(recipe, steps.united_vectors(recipe, map(_counted, paths))))


def _found(path: Path) -> AlikeGroups:
    return pickle.loads(path.read_bytes())  # type: ignore[no-any-return]


def _route_alike(recipe: Recipe, piece: Batches, found: Path, begins: Ints, path: Path) -> dict[int, int]:
    """Sends rows to the fragment of their QI group, the first of which are `begins`; leaf 0: the suppressed rows."""
    rows = piece.read()
    number = steps.groups_of_rows(recipe, rows, _found(found))
    return _write_by(
        path, steps.with_groups(rows.drop_columns([ROW]), number), np.searchsorted(begins, number, side="right")
    )


def _recode_alike(recipe: Recipe, sources: Sequence[Batches], found: Path, first: int, end: int, path: Path) -> None:
    """Recodes the rows of the QI groups first to end - 1."""
    some = PieceGroups(*(column[first:end] for column in _found(found).groups))
    _write_piece(path, steps.recoded_alike(recipe, _read_all(sources), some, first))


def _list_suppressed(sources: Sequence[Batches], path: Path) -> None:
    """The part of the index that names the suppressed rows, which have no QI group."""
    _write_index(path, ((key.decode(), "") for source in sources for key in source.read()[KEY].to_pylist()))


# -- the whole --------------------------------------------------------------------------------------------------------


def _taken(path: Path, numbers: Ints) -> Any:
    return Batches(path).read().take(numbers)


def _texts_of(encoded: Sequence[Encoded]) -> dict[int, list[bytes]]:
    """All texts of the kept columns that the model counts."""
    return {i: sorted(set().union(*(one.texts.get(i, set()) for one in encoded))) for i in encoded[0].texts}


class _Made(NamedTuple):
    """Pieces that hold all QI groups, and how they came to be."""

    pieces: list[Path]
    details: dict[str, int | float]
    levels: tuple[int, ...] | None = None
    suppressed: int = 0
    listed: Path | None = None  # the part of the index that names the suppressed rows


class _Steps:
    """One job: its steps, in order."""

    def __init__(self, job: FragmentJob, recipe: Recipe, pool: CallPool, draft: Path, stage: Stage) -> None:
        self._job, self._recipe, self._pool, self._draft, self._stage = job, recipe, pool, draft, stage
        self._folder, self._titles = job.spill, ""

    def done(self) -> TableWritten:
        encoded, dropped = self._encoded()
        pieces = [Batches(self._made("pieces", i), None, dropped) for i in range(len(encoded))]
        rows, sample = sum(one.rows for one in encoded) - len(dropped), self._sampled(encoded)
        if algorithm_named(self._recipe.algorithm).full_domain:
            made = self._recoded_alike(pieces, encoded)
        else:
            made = self._in_fragments(pieces, encoded, rows)
        measures, files, parts = self._written(made)
        with self._stage("count"):
            about = self._folder / "alike", self._recipe.table, parts, dropped, made.suppressed, self._job.report
            figures = alike.figures_of(self._pool, *about)
        self._appear(made, len(files))  # after the last step: executors look for the draft in each
        refused = sorted(row for one in encoded for row in one.refused)
        unlisted = Counter[str]()
        for one in encoded:
            unlisted.update(one.unlisted)
        refused += [RefusedRow(int(row), "key-exists", ", ".join(self._recipe.table.source_key)) for row in dropped]
        schema = require("pyarrow.parquet", "parquet").read_schema(self._job.out / files[0])
        return TableWritten(
            rows + len(refused),
            sorted(refused),
            dict(unlisted),
            united_stand_ins([one.stand_ins for one in encoded]),
            most_spellings(*(one.spelt for one in encoded)),
            judged(dict(chain.from_iterable(one.stray.items() for one in encoded)), rows + len(refused)),
            self._titles,
            made.details,
            made.levels,
            [self._job.out / name for name in files],
            schema.names,
            measures,
            figures,
            sample,
        )

    def _in_fragments(self, pieces: list[Batches], encoded: list[Encoded], rows: int) -> _Made:
        """QI groups that are made fragment by fragment, and mended where these meet."""
        with self._stage("plan") as on_progress:
            plan, dealt_to = self._plan(pieces, encoded, rows, on_progress)
        with self._stage("route") as on_progress:
            calls = [
                (self._recipe, piece, plan, {leaf: goes[i] for leaf, goes in dealt_to.items()}, self._made("leaves", i))
                for i, piece in enumerate(pieces)
            ]
            routed = self._pool.map("route", _route, calls, on_progress)
            self._let_go("pieces")
        with self._stage("anonymize") as on_progress:
            fragments = self._fragments(plan, routed, bool(dealt_to))
            made, centers = self._each("fragments", 0, steps.anonymized, fragments, on_progress)
            self._let_go("leaves")
        turns = ROUNDS if len(fragments) > 1 and algorithm_named(self._recipe.algorithm).refines else 0
        for turn in range(1, turns + 1):
            with self._stage(f"mend {turn}") as on_progress:
                plan, made, centers = self._mended(turn, plan, made, centers, on_progress)
        return _Made(made, {"fragments": len(fragments)})

    def _recoded_alike(self, pieces: list[Batches], encoded: list[Encoded]) -> _Made:
        """QI groups of one level for every attribute, of all rows."""
        recipe, found_in = self._recipe, self._folder / "counts" / "found"
        with self._stage("plan") as on_progress:
            counts = [self._made("counts", i) for i in range(len(pieces))]
            calls: list[tuple[Any, ...]] = [
                (recipe, piece, _texts_of(encoded), path) for piece, path in zip(pieces, counts, strict=True)
            ]
            self._pool.map("count", _count, calls, part_of(on_progress, 0, 0.5))
            self._pool.map("search", _search, [(recipe, counts, found_in)])
        found = _found(found_in)
        begins = files_of(found.groups.rows, recipe.fragment_rows)
        with self._stage("route") as on_progress:
            calls = [(recipe, piece, found_in, begins, self._made("leaves", i)) for i, piece in enumerate(pieces)]
            routed = self._pool.map("route", _route_alike, calls, on_progress)
            self._let_go("pieces")
        with self._stage("anonymize") as on_progress:
            made = [self._made("fragments", i) for i in range(len(begins))]
            ends = [*begins[1:].tolist(), len(found.groups.rows)]
            calls = [
                (recipe, self._rows_of([i + 1], routed), found_in, int(begins[i]), ends[i], path)
                for i, path in enumerate(made)
            ]
            self._pool.map("fragments", _recode_alike, calls, on_progress)
            listed = self._folder / "index" / "suppressed.csv" if self._job.index else None
            if listed is not None:
                call = (self._rows_of([0], routed), listed)  # leaf 0: the suppressed rows
                self._pool.map("suppressed", _list_suppressed, [call])
            self._let_go("leaves")
        return _Made(made, dict(found.details), found.node, found.suppressed, listed)

    def _made(self, kind: str, number: int) -> Path:
        return self._folder / kind / f"{number:06}.arrow"

    def _let_go(self, kind: str) -> None:
        """Removes files that no later step reads."""
        shutil.rmtree(self._folder / kind, ignore_errors=True)

    def _encoded(self) -> tuple[list[Encoded], Ints]:
        """The encoded parts of the source, and the rows with a key that an earlier row has, if these are left out."""
        job, skip = self._job, self._job.skip_refused
        with self._stage("read") as on_progress:
            parts = self._parts()

            def before(part: int) -> Path | None:
                return alike.path_of(self._folder / "alike", alike.BEFORE, part) if job.report else None

            calls = [
                (self._recipe, part, first, self._made("pieces", i), job.index is not None, skip, before(i))
                for i, (part, first) in enumerate(parts)
            ]
            encoded = self._pool.map("read", _encode, calls, part_of(on_progress, 0, 0.9))
            self._let_go("source")
            rows, dropped = sum(one.rows for one in encoded), np.zeros(0, dtype=np.int64)
            if not rows:
                refused = sum(len(one.refused) for one in encoded)
                raise ConfigError(f"no row is left: all {refused:,} are refused" if refused else "the data has no rows")
            if self._recipe.table.source_key:
                paths = [self._made("pieces", i).with_suffix(".keys.npy") for i in range(len(calls))]
                ranges = [(paths, low, high) for low, high in alike.ranges(rows)]
                found = self._pool.map("keys", alike.repeated, ranges, part_of(on_progress, 0.9, 1))
                dropped = np.sort(np.concatenate(found))
            if len(dropped) and not skip:
                key = ", ".join(self._recipe.table.source_key)
                raise RowRefused(f"data row {dropped[0]}: an earlier row has the same key ({key})")
        return encoded, dropped

    def _parts(self) -> list[tuple[RowPart | Path, int]]:
        """The parts of the source, and the number of the first row of each; CSV is copied part by part first."""
        if is_parquet_source(self._job.source):
            return [(part, part.first_row) for part in parquet_parts(self._job.source, CHUNK_ROWS)]
        arrow, found, first = require("pyarrow", "parquet"), list[tuple[RowPart | Path, int]](), 1
        for frame in csv_chunks(self._job.source, CHUNK_ROWS, self._job.encoding):
            path = self._made("source", len(found))
            _write(path, [arrow.table({name: arrow.array(frame[name], arrow.large_string()) for name in frame})])
            self._titles = self._titles or frame.attrs.get(TITLES, "")
            found.append((path, first))
            first += len(frame)
        return found

    def _plan(
        self, pieces: list[Batches], encoded: list[Encoded], rows: int, on_progress: OnProgress
    ) -> tuple[FragmentPlan, dict[int, list[Ints]]]:
        """The fragments, and of those that are dealt where the rows of each piece go."""
        recipe, plan, heavy, turn = self._recipe, FragmentPlan(), [0], 0
        dealt_to: dict[int, list[Ints]] = {}
        texts = _texts_of(encoded)
        planner = Planner(recipe.table.space, recipe.model, recipe.fragment_rows)
        while heavy and rows > recipe.fragment_rows:
            calls: list[tuple[Any, ...]]
            calls = [(steps.cells_of_leaves, recipe, [piece], plan, heavy) for piece in pieces]
            counts = self._pool.map(f"cells-{turn}", _of_rows, calls, part_of(on_progress, 0, 0.5))
            cells = {leaf: united_by_attribute([of[leaf] for of in counts]) for leaf in heavy}
            bins = {leaf: [bins_of(column) for column in columns] for leaf, columns in cells.items()}
            calls = [(steps.vectors_of_leaves, recipe, [piece], plan, bins, texts) for piece in pieces]
            vectors = self._pool.map(f"vectors-{turn}", _of_rows, calls, part_of(on_progress, 0.5, 1))
            heavy = []
            for leaf, of_leaf in bins.items():
                plan, larger = planner.grown(plan, leaf, united([of[leaf] for of in vectors]), of_leaf)
                if leaf in larger:  # not even by bins of its own
                    fragments = -(-int(cells[leaf][0].rows.sum()) // recipe.fragment_rows)
                    (dealt_to[leaf],) = self._pool.map(f"deal-{leaf}", _deal, [(recipe, pieces, plan, leaf, fragments)])
                    plan = plan.with_dealt(leaf, fragments)
                else:
                    heavy += larger
            turn += 1
        return plan, dealt_to

    def _fragments(self, plan: FragmentPlan, routed: Sequence[Mapping[int, int]], dealt: bool) -> list[list[Batches]]:
        """Where the rows of each fragment are."""
        recipe = self._recipe
        leaves = plan.leaves_below(0)
        if not dealt and recipe.table.individual is None:
            return [self._rows_of([leaf], routed) for leaf in leaves]
        calls = [(steps.holds_of, recipe, self._rows_of([leaf], routed)) for leaf in leaves]
        ok: dict[int, bool] = dict(zip(leaves, self._pool.map("holds", _of_rows, calls), strict=True))

        def holds(some: list[int]) -> bool:
            """Models are closed under union: what holds leaf by leaf holds together."""
            if len(some) == 1 or all(ok[leaf] for leaf in some):
                return ok[some[0]]
            call = (steps.holds_of, recipe, self._rows_of(some, routed))
            return bool(self._pool.map(f"holds-{some[0]}-{len(some)}", _of_rows, [call])[0])

        return [self._rows_of(some, routed) for some in holding(plan, holds)]

    def _rows_of(
        self, leaves: Iterable[int], routed: Sequence[Mapping[int, int]], kind: str = "leaves"
    ) -> list[Batches]:
        found = [[of[leaf] for leaf in leaves if leaf in of] for of in routed]
        return [Batches(self._made(kind, i), numbers) for i, numbers in enumerate(found) if numbers]

    def _each(
        self, kind: str, turn: int, step: Callable[..., Piece], sources: list[list[Batches]], heard: OnProgress
    ) -> tuple[list[Path], list[Counted]]:
        """Makes the QI groups of fragments or regions; their files, and how many rows have which centers."""
        made = [self._made(kind, i) for i in range(len(sources))]
        chances = [steps.chance_of(self._recipe, turn, i) for i in range(len(sources))]
        if len(sources) == 1:
            chances = [self._recipe.options.chance]  # as one run has it
        calls = [(step, self._recipe, *one) for one in zip(sources, chances, made, strict=True)]
        counts = self._pool.map(kind, _make, calls, heard)
        return made, united_by_attribute(counts)

    def _mended(
        self, turn: int, plan: FragmentPlan, made: list[Path], centers: list[Counted], heard: OnProgress
    ) -> tuple[FragmentPlan, list[Path], list[Counted]]:
        """One round of mending: QI groups in other regions than before, improved there."""
        recipe, bins = self._recipe, [bins_of(column) for column in centers]
        vectors = self._pool.map(f"vectors-{turn}-mend", _center_vectors, [(path, bins) for path in made])
        planner = Planner(recipe.table.space, None, recipe.fragment_rows, elsewhere_than=plan)
        regions, heavy = planner.grown(FragmentPlan(), 0, united(vectors), bins)
        for leaf in heavy:  # each group stays with those of its fragment: so no region is larger than one
            regions = regions.with_dealt(leaf, len(made))
        calls = [(path, regions, i, self._made(f"routed-{turn}", i)) for i, path in enumerate(made)]
        routed = self._pool.map(f"route-{turn}", _route_groups, calls, part_of(heard, 0, 0.1))
        leaves = [leaf for leaf in regions.leaves_below(0) if any(leaf in of for of in routed)]
        sources = [self._rows_of([leaf], routed, f"routed-{turn}") for leaf in leaves]
        mended, centers = self._each(f"regions-{turn}", turn, steps.improved, sources, part_of(heard, 0.1, 1))
        self._let_go(f"routed-{turn}")
        self._let_go("fragments" if turn == 1 else f"regions-{turn - 1}")
        return regions, mended, centers

    def _written(self, made: _Made) -> tuple[Measures, list[str], list[PublishedPart]]:
        """Writes and verifies what is published."""
        recipe, job = self._recipe, self._job
        with self._stage("write") as on_progress:
            groups = Regions(made.pieces)
            numbered = numbers(groups, recipe.options.chance, recipe.options.merge_equal_boxes)
            parts = parts_of(numbered, recipe.fragment_rows)
            del numbered
            names = [f"part-{i:05}.parquet" for i in range(len(parts))]
            index = self._index_parts(len(parts)) if job.index else [None] * len(parts)
            calls: list[tuple[Any, ...]] = [
                (recipe, part, made.pieces, self._draft / name, of_index, self._alike_in(i))
                for i, (part, name, of_index) in enumerate(zip(parts, names, index, strict=True))
            ]
            for i, name in enumerate(names):  # a killed job may have published its files already
                if not (self._draft / name).exists():
                    forget(self._folder, "write", i)
                    forget(self._folder, "verify", i)
            done = self._pool.map("write", _publish, calls, on_progress)
            published = united_measures([of_part for of_part, _, _ in done])
            published["rank_loss"] = steps.rank_loss(recipe.table.space, groups, [cells for _, cells, _ in done])
            measures = with_suppressed(published, made.suppressed, recipe.table.space.d)
            figures = [of_part for _, _, of_part in done]
        with self._stage("verify") as on_progress:
            calls = [(recipe, part, self._draft / name) for part, name in zip(parts, names, strict=True)]
            self._pool.map("verify", _verify, calls, on_progress)
        return measures, names, figures

    def _index_parts(self, n: int) -> list[Path]:
        """The parts of the index, by published file."""
        return [self._folder / "index" / f"{i:06}.csv" for i in range(n)]

    def _appear(self, made: _Made, n: int) -> None:
        """Gives n published files, and the index, their names."""
        job = self._job
        if job.index is None:
            appear(self._draft, job.out)
            return
        try:
            with atomic_writer(job.index, text=True) as file:
                for_owner_alone(file)
                file.write("key,qi_group\r\n")
                for path in filter(None, (*self._index_parts(n), made.listed)):
                    file.write(path.read_bytes().decode())  # line ends stay as they are
                file.flush()
                appear(self._draft, job.out)
        except OSError as error:
            raise not_written(job.index, error, ", or name another --index") from None

    # -- what a report counts ------------------------------------------------------------------------------------------

    def _alike_in(self, part: int) -> list[Path]:
        """Where a published part leaves what its rows may be alike in."""
        names = (*range(len(self._recipe.table.kept)), *[alike.ALL_KEPT] * self._job.report)
        return [alike.path_of(self._folder / "alike", name, part) for name in names]

    def _sampled(self, encoded: Sequence[Encoded]) -> Microdata | None:
        """The rows that one run would try other models on."""
        if not self._job.report:
            return None
        with self._stage("sample"):
            ends = np.cumsum([0, *(one.rows for one in encoded)])
            drawn = sample_numbers(int(ends[-1]))
            calls = [
                (self._made("pieces", i), drawn[np.searchsorted(drawn, low) : np.searchsorted(drawn, high)] - low)
                for i, (low, high) in enumerate(pairwise(ends.tolist()))
            ]
            rows = self._pool.map("sample", _taken, calls)
        return microdata_of_rows(self._recipe.table, require("pyarrow", "parquet").concat_tables(rows))
