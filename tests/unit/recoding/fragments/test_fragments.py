"""A table in fragments obeys every law of a table in one run, and shows nothing of the fragments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.errors import ConfigError, LawViolated
from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.catalog import ALGORITHMS, run
from streamer.recoding.fragments import steps
from streamer.recoding.fragments.layout import PieceGroups, check_written, numbers, parts_of, tokens
from streamer.recoding.fragments.mending import mended
from streamer.recoding.fragments.rows import microdata_of_rows
from streamer.recoding.metrics.measures import WHAT
from streamer.recoding.publication import published_arrow
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.fragments import Written, anonymized, arrow_of, recipe_for
from worlds.microdata import FEWER, MODELS, TABLES, assert_holds, data_of, microdata, permuted, renamed, some_model

INDIVIDUALS = TABLES["individuals"]


def rows_of(written: Written) -> list[dict[str, Any]]:
    return [row for file in written.files for row in file.to_pylist()]


some_table = st.sampled_from([small for small in TABLES.values() if not small.space.is_bounded])


def test_rows_that_coarsest_leaves_out_are_refused_with_what_to_do() -> None:
    rows = data_of(TABLES["bounds"], [[0, 0], [9, 5], [0, 0], [9, 5], [0, 5], [9, 0]])
    with pytest.raises(ConfigError, match=r"2 rows of a part .* take one of these with --suppression, leave out"):
        anonymized(recipe_for(rows, k_anonymity(2), 6, seed=7), [arrow_of(rows)], rows_per_file=1_000)


@given(st.data(), some_table, some_model, st.integers(3, 30), st.integers(1, 4))
def test_every_row_is_published_in_a_group_that_holds(
    data: st.DataObject, small: Table, model: Any, rows_max: int, parts: int
) -> None:
    rows = data.draw(microdata(small, 80))
    assume(model.holds(rows.subjects(model.subjects)))
    some = [rows.rows(part) for part in np.array_split(np.arange(len(rows)), parts) if len(part)]
    written = anonymized(recipe_for(rows, model, rows_max), [arrow_of(part) for part in some])
    assert len(rows_of(written)) == len(rows)
    names = list(dict.fromkeys(row["qi_group"] for row in rows_of(written)))
    assert names == [f"0-{i + 1}" for i in range(len(names))]
    assert all(later <= earlier + 1e-9 for earlier, later in zip(written.losses, written.losses[1:], strict=False))
    assert written.measures["k"] >= model.rows_min


@FEWER
@given(st.data(), some_model, st.integers(5, 30), st.integers(2, 5))
def test_the_same_people_are_published_alike_in_any_order_under_any_names(
    data: st.DataObject, model: Any, rows_max: int, parts: int
) -> None:
    rows = data.draw(microdata(INDIVIDUALS, 60))
    assume(model.holds(rows.subjects(model.subjects)))
    recipe = recipe_for(rows, model, rows_max)
    others = renamed(permuted(rows, 3), 4)
    some = [others.rows(part) for part in np.array_split(np.arange(len(rows)), parts) if len(part)]
    one, many = anonymized(recipe, [arrow_of(rows)]), anonymized(recipe, [arrow_of(part) for part in some])
    assert rows_of(one) == rows_of(many)


@given(st.data(), some_table, some_model, st.booleans())
def test_a_table_of_one_fragment_is_published_as_by_one_run(
    data: st.DataObject, small: Table, model: Any, merge: bool
) -> None:
    rows = data.draw(microdata(small, 40))
    assume(model.holds(rows.subjects(model.subjects)))
    recipe = recipe_for(rows, model, 40, seed=7, merge=merge)
    written, options = anonymized(recipe, [arrow_of(rows)], rows_per_file=1_000), recipe.options
    whole = microdata_of_rows(small, arrow_of(rows))
    recoding = run(ALGORITHMS["ordered"], whole, model, options)
    assert [file.to_pylist() for file in written.files] == [published_arrow(whole, recoding).to_pylist()]


@FEWER
@given(st.data(), some_table, some_model, st.integers(3, 30))
def test_measures_of_the_files_together_are_those_of_the_whole(
    data: st.DataObject, small: Table, model: Any, rows_max: int
) -> None:
    rows = data.draw(microdata(small, 80))
    assume(model.holds(rows.subjects(model.subjects)))
    recipe = recipe_for(rows, model, rows_max)
    many, one = anonymized(recipe, [arrow_of(rows)]), anonymized(recipe, [arrow_of(rows)], rows_per_file=10_000)
    assert len(one.files) == 1
    for name in WHAT:
        assert many.measures[name] == pytest.approx(one.measures[name]), name


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - {"ola", "degree-first", "gdppr"}))
def test_every_algorithm_that_recodes_locally_may_anonymize_fragments(algorithm: str) -> None:
    rows = people(300, 5)
    rounds = 2 * ALGORITHMS[algorithm].refines
    recipe = recipe_for(rows, MODELS["(k, l)"], 60, algorithm=algorithm)
    assert len(rows_of(anonymized(recipe, [arrow_of(rows)], rounds))) == 300


def people(n: int, seed: int) -> Microdata:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, cells, n) for cells in INDIVIDUALS.space.n_cells], axis=1)
    who, values = rng.integers(0, n // 2, n), rng.integers(0, 5, (n, 1))
    texts = (tuple(sorted(b'"%b"' % name for name in (b"cough", b"flu", b"gastritis", b"insomnia", b"ulcer"))),)
    return Microdata(INDIVIDUALS, codes * INDIVIDUALS.space.codes_per_cell, who, values, texts)


def test_an_individual_of_every_fragment_is_counted_once_in_every_group() -> None:
    rows = people(400, 1)
    assert rows.individuals is not None
    rows = replace(rows, individuals=np.where(np.arange(400) % 4 == 0, 0, rows.individuals))
    model = MODELS["identity-reserved k"]
    recipe = recipe_for(rows, model, 50)
    written = anonymized(recipe, [arrow_of(rows)])
    assert written.fragments > 4
    assert written.measures["k_individuals"] >= 2


def test_mending_does_not_depend_on_the_numbers_of_groups_or_the_order_of_rows() -> None:
    rows, model = people(200, 2), MODELS["(k, l)"]
    options = recipe_for(rows, model, 200).options
    start = run(ALGORITHMS["mondrian"], replace(rows, individuals=None), MODELS["k"], options).qi_group
    rows = replace(rows, individuals=None)
    order = np.random.default_rng(5).permutation(200)
    shuffled = np.random.default_rng(6).permutation(int(start.max()) + 1)[start]
    one = mended(rows, MODELS["k"], start, options)
    other = mended(rows.rows(order), MODELS["k"], shuffled[order], options)
    assert (one.lo.tolist(), one.hi.tolist(), one.sizes.tolist()) == (
        other.lo.tolist(), other.hi.tolist(), other.sizes.tolist(),
    )  # fmt: skip


# -- numbers and files ------------------------------------------------------------------------------------------------

some_groups = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=8),
    min_size=1,
    max_size=4,
).map(lambda regions: [in_order(groups) for groups in regions])


def in_order(groups: list[tuple[int, int, int]]) -> PieceGroups:
    lo, width, rows = (np.array(column, dtype=np.int64)[:, None] for column in zip(*sorted(groups), strict=True))
    return PieceGroups(lo, lo + width, rows[:, 0])


@given(some_groups, st.integers(0, 5), st.booleans())
def test_groups_are_numbered_by_their_boxes_alone(regions: list[PieceGroups], chance: int, merge: bool) -> None:
    number, box, _ = numbers(regions, chance, merge, range_groups=3)
    assert [of.tolist() for of in number] == [of.tolist() for of in numbers(regions, chance, merge).number]
    assert [of.tolist() for of in box] == [of.tolist() for of in numbers(regions, 0, True).number]
    every = sorted(
        (int(n), int(lo[0]), int(hi[0]))
        for of, groups in zip(number, regions, strict=True)
        for n, lo, hi in zip(of, groups.lo, groups.hi, strict=True)
    )
    assert [(lo, hi) for _, lo, hi in every] == sorted((lo, hi) for _, lo, hi in every)
    used = [n for n, _, _ in every]
    assert sorted(set(used)) == list(range(max(used) + 1))
    assert all((np.diff(of) >= 0).all() for of in number)
    if merge:
        assert len(set(used)) == len({(lo, hi) for _, lo, hi in every})
    else:
        assert len(set(used)) == len(used)


def test_groups_with_one_box_are_ordered_by_chance() -> None:
    regions = [in_order([(0, 0, 3)] * 4) for _ in range(2)]
    found = {tuple(np.argsort(np.concatenate(numbers(regions, chance, False).number)).tolist()) for chance in range(50)}
    assert len(found) > 20  # of 70 ways to mix two rows of four
    assert (np.diff(tokens(1, 0, regions[0])) >= 0).all()


@given(some_groups, st.integers(1, 40), st.booleans())
def test_files_hold_every_group_once_and_tear_no_box(
    regions: list[PieceGroups], rows_per_file: int, merge: bool
) -> None:
    numbered = numbers(regions, 1, merge)
    number, parts = numbered.number, parts_of(numbered, rows_per_file)
    assert sum(part.rows for part in parts) == sum(int(groups.rows.sum()) for groups in regions)
    assert [part.first for part in parts] == np.cumsum([0, *(part.groups for part in parts[:-1])]).tolist()
    file_of_box: dict[tuple[int, int], set[int]] = {}
    for file, part in enumerate(parts):
        for of in part.slices:
            groups = regions[of.region]
            for i in range(of.begin, of.end):
                box = int(groups.lo[i, 0]), int(groups.hi[i, 0])
                file_of_box.setdefault(box, set()).add(file)
            assert of.number.tolist() == number[of.region][of.begin : of.end].tolist()
            assert part.first <= of.number.min() <= of.number.max() < part.first + part.groups
    assert all(len(files) == 1 for files in file_of_box.values())


def written_file() -> tuple[Table, Any, Any]:
    rows = people(60, 9)
    written = anonymized(recipe_for(rows, MODELS["(k, l)"], 60), [arrow_of(rows)], rows_per_file=1_000)
    return rows.table, written.files[0], written.parts[0]


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (lambda file: file.slice(0, file.num_rows - 1), "rows too many or too few"),
        (lambda file: file.take([*range(file.num_rows - 1, -1, -1)]), "out of order"),
        (lambda file: changed(file, "qi_group", 0, "0-2"), "lacks a QI group|out of order"),
        (lambda file: changed(file, "city", 0, "nowhere"), "two values of city"),
        (lambda file: changed(file, "problem", None, "flu"), "do not hold the privacy model"),
    ],
)
def test_a_file_that_does_not_say_what_it_should_is_found(broken: Any, complaint: str) -> None:
    table, file, part = written_file()
    check_written(table, MODELS["(k, l)"], file, part)
    with pytest.raises(LawViolated, match=complaint):
        check_written(table, MODELS["(k, l)"], broken(file), part)


def changed(file: Any, column: str, row: int | None, value: str) -> Any:
    cells = file[column].to_pylist()
    cells = [value] * len(cells) if row is None else [*cells[:row], value, *cells[row + 1 :]]
    return file.set_column(file.column_names.index(column), column, pa.array(cells, type=file[column].type))


def test_the_files_hold_by_hand() -> None:
    rows, model = people(300, 3), MODELS["(k, l)"]
    written = anonymized(recipe_for(rows, model, 40), [arrow_of(rows)])
    groups: dict[str, list[str]] = {}
    for row in rows_of(written):
        groups.setdefault(row["qi_group"], []).append(row["problem"])
    about_values = MODELS["distinct l"]
    for values in groups.values():
        codes = {value: i + 1 for i, value in enumerate(sorted(set(values)))}
        assert_holds(about_values, [[codes[value]] for value in values])


def test_a_region_is_some_whole_groups() -> None:
    rows = people(300, 4)
    recipe = recipe_for(rows, MODELS["k"], 1_000)
    piece = steps.anonymized(recipe, arrow_of(rows), 1)
    numbered = steps.with_source(piece.rows, 5)[steps.GROUP_COLUMN].to_numpy()
    assert (numbered >> 32 == 5).all()
    assert np.bincount(numbered & 0xFFFFFFFF).tolist() == piece.groups.rows.tolist()
