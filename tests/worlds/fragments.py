"""The steps of a large table one after the other in one process, over several parts of a table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import Options
from streamer.recoding.fragments import steps
from streamer.recoding.fragments.layout import FilePart, check_written, numbers, parts_of
from streamer.recoding.fragments.plan import FragmentPlan, Planner, bins_of, holding, united
from streamer.recoding.fragments.rows import arrow_rows, counted_texts
from streamer.recoding.fragments.steps import Piece, Recipe
from streamer.recoding.metrics.measures import Measures, measure
from streamer.recoding.metrics.measures import united as united_measures
from streamer.recoding.metrics.utility import cell_counts
from streamer.recoding.publication import FIRST_NUMBER, published_arrow
from streamer.table.encode import Coded, EncodedColumns
from streamer.table.microdata import Microdata


class Written(NamedTuple):
    """What the steps came to."""

    files: list[Any]
    parts: list[FilePart]
    fragments: int
    measures: Measures
    losses: list[float]  # rows times NCP, of the fragments and after every round of mending


def arrow_of(data: Microdata) -> Any:
    """People as the steps take them, with their numbers for keys."""
    n = len(data)
    who = data.individuals
    return arrow_rows(
        data.table,
        EncodedColumns(
            Coded(np.arange(n), [str(i) for i in range(n)]),
            data.codes,
            [Coded(data.values[:, i], list(texts)) for i, texts in enumerate(data.texts)],
            [],
            None if who is None else Coded(who, [f"name {i}" for i in range(int(who.max(initial=-1)) + 1)]),
            {},
        ),
        with_keys=True,
    )


def recipe_for(
    data: Microdata, model: Model, rows: int, seed: int = 0, algorithm: str = "ordered", merge: bool = True
) -> Recipe:
    return Recipe(data.table, model, algorithm, Options(chance=seed, merge_equal_boxes=merge), rows)


def planned(recipe: Recipe, tables: Sequence[Any]) -> tuple[FragmentPlan, dict[int, list[Any]]]:
    """The plan of a table in several parts."""
    texts = {i: sorted(set().union(*(counted_texts(recipe.model, t)[i] for t in tables)))
             for i in counted_texts(recipe.model, tables[0])}  # fmt: skip
    plan, heavy, dealt_to = FragmentPlan(), [0], dict[int, list[Any]]()
    while heavy and sum(t.num_rows for t in tables) > recipe.fragment_rows:
        counts = [steps.cells_of_leaves(recipe, t, plan, heavy) for t in tables]
        cells = {leaf: [united(list(c)) for c in zip(*(of[leaf] for of in counts), strict=True)] for leaf in heavy}
        bins = {leaf: [bins_of(column) for column in columns] for leaf, columns in cells.items()}
        vectors = [steps.vectors_of_leaves(recipe, t, plan, bins, texts) for t in tables]
        heavy = []
        for leaf, of_leaf in bins.items():
            planner = Planner(recipe.table.space, recipe.model, recipe.fragment_rows)
            plan, larger = planner.grown(plan, leaf, united([of[leaf] for of in vectors]), of_leaf)
            if leaf in larger:
                parts = [steps.rows_of_leaf(recipe, t, plan, leaf) for t in tables]
                fragments = -(-sum(part.num_rows for part in parts) // recipe.fragment_rows)
                goes = steps.dealt_rows(recipe, pa.concat_tables(parts), fragments)
                dealt_to[leaf] = np.split(goes, np.cumsum([part.num_rows for part in parts])[:-1])
                plan = plan.with_dealt(leaf, fragments)
            else:
                heavy += larger
    return plan, dealt_to


def fragments_of(recipe: Recipe, tables: Sequence[Any]) -> tuple[FragmentPlan, list[Any]]:
    """The plan and the rows of each fragment."""
    plan, dealt_to = planned(recipe, tables)
    leaf = [
        steps.leaves_of_rows(recipe, t, plan, {one: goes[i] for one, goes in dealt_to.items()})
        for i, t in enumerate(tables)
    ]
    whole, every = pa.concat_tables(tables), np.concatenate(leaf)

    def rows_of(leaves: list[int]) -> Any:
        return whole.take(np.flatnonzero(np.isin(every, leaves)))

    some = holding(plan, lambda leaves: steps.holds_of(recipe, rows_of(leaves)))
    return plan, [rows_of(leaves) for leaves in some]


def anonymized(recipe: Recipe, tables: Sequence[Any], rounds: int = 2, rows_per_file: int = 7) -> Written:
    """All steps; every file is checked as it is written."""
    plan, fragments = fragments_of(recipe, tables)
    made = [steps.anonymized(recipe, rows, recipe.options.chance + i) for i, rows in enumerate(fragments)]
    losses = [lost(recipe, made)]
    for turn in range(1, rounds + 1 if len(made) > 1 else 1):
        plan, made = mended_once(recipe, plan, made, turn)
        losses.append(lost(recipe, made))
    number = numbers([piece.groups for piece in made], recipe.options.chance, recipe.options.merge_equal_boxes)
    parts = parts_of(number, rows_per_file)
    files, measures, cells = [], [], []
    for part in parts:
        pieces = []
        for of in part.slices:
            rows, groups = made[of.region]
            ends = np.append(0, np.cumsum(groups.rows))
            begin, end = int(ends[of.begin]), int(ends[of.end])
            some = type(groups)(*(column[of.begin : of.end] for column in groups))
            pieces.append(Piece(rows.slice(begin, end - begin), some))
        microdata, recoding = steps.recoded(recipe, part, pieces)
        files.append(published_arrow(microdata, recoding, FIRST_NUMBER + part.first))
        measures.append(measure(microdata, recoding, recipe.model))
        cells.append(cell_counts(microdata, recoding))
        check_written(recipe.table, recipe.model, files[-1], part)
    ranks = {"rank_loss": steps.rank_loss(recipe.table.space, [piece.groups for piece in made], cells)}
    return Written(files, parts, len(fragments), united_measures(measures) | ranks, losses)


def mended_once(recipe: Recipe, plan: FragmentPlan, made: list[Piece], turn: int) -> tuple[FragmentPlan, list[Piece]]:
    """One round of mending."""
    counts = [steps.cells_of_centers(piece.groups) for piece in made]
    bins = [bins_of(united(list(column))) for column in zip(*counts, strict=True)]
    vectors = united([steps.vectors_of_centers(piece.groups, bins) for piece in made])
    planner = Planner(recipe.table.space, None, recipe.fragment_rows, elsewhere_than=plan)
    regions, heavy = planner.grown(FragmentPlan(), 0, vectors, bins)
    for leaf in heavy:
        regions = regions.with_dealt(leaf, len(made))
    region = np.concatenate([steps.regions_of(piece.groups, regions, i) for i, piece in enumerate(made)])
    whole = pa.concat_tables([steps.with_source(piece.rows, i) for i, piece in enumerate(made)])
    leaves = [leaf for leaf in regions.leaves_below(0) if (region == leaf).any()]
    return regions, [
        steps.improved(recipe, whole.take(np.flatnonzero(region == leaf)), recipe.options.chance + turn + leaf)
        for leaf in leaves
    ]


def lost(recipe: Recipe, made: Sequence[Piece]) -> float:
    """Rows times NCP."""
    space = recipe.table.space
    return float(
        sum((p.groups.rows * space.ncp(p.groups.lo.astype(np.int64), p.groups.hi.astype(np.int64))).sum() for p in made)
    )
