"""Small tables of people and models for batch algorithms, and the laws that every algorithm's answer obeys."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st

from streamer.privacy.distributions import AtLeastEntropy, AtMostDistance, Recursive
from streamer.privacy.models import (
    AtLeastDistinct,
    AtLeastRows,
    AtMostShare,
    Model,
    alpha_beta,
    distinct_l,
    identity_reserved,
    k_anonymity,
    k_l,
    r_k,
)
from streamer.recoding.algorithms.catalog import objections, run
from streamer.recoding.algorithms.contract import (
    LEFT_OUT,
    LIMITED,
    PLAIN,
    Algorithm,
    Options,
    Recoding,
    apart_by_bounds,
    local_recoding,
)
from streamer.table.codes import (
    HIERARCHICAL,
    Attribute,
    CategoricalAttribute,
    DistributionDemands,
    KeptColumn,
    NumericAttribute,
    reference_of,
)
from streamer.table.codes.same_text import without_capitals
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import IN_REFERENCE, INDIVIDUAL, NULL, Microdata, Subject, canonical
from streamer.table.schema import Table
from worlds.distributions import law_holds
from worlds.small_tables import AGE, BMI, CITIES, CITY, YEARS

PROBLEMS = Hierarchy.from_rows(
    [
        ["flu", "lung", "*"],
        ["cough", "lung", "*"],
        ["ulcer", "belly", "*"],
        ["gastritis", "belly", "*"],
        ["insomnia", "head", "*"],
    ]
)
OF_PROBLEMS = {None: 1, "flu": 6, "cough": 4, "ulcer": 3, "gastritis": 2, "insomnia": 1}
REFERENCE = reference_of("problem", HIERARCHICAL, OF_PROBLEMS, PROBLEMS, without_capitals)
ASKED = DistributionDemands(distance=HIERARCHICAL, reference=REFERENCE)
"""Nothing: models are given beside the tables."""
PROBLEM = KeptColumn("problem", sensitive=True, type="text", hierarchy=PROBLEMS, distribution=ASKED)
TEXTS = (tuple(sorted([*(b'"%b"' % leaf.encode() for leaf in PROBLEMS.leaves), b"null"])),)
VALUES, ANCESTORS = Subject(0), Subject(0, 1)
WITHOUT_NULL = Subject(0, null_counts=False)


def people(*attributes: Attribute, individual: bool = False) -> Table:
    return Table("people", ("id",), attributes, (PROBLEM,), 2, "ssn" if individual else None)


TABLES = {
    "one number": people(YEARS),
    "one category": people(CITY),
    "coarse number and category": people(AGE, CITY),
    "decimal, number, category": people(BMI, YEARS, CITY),
    "individuals": people(AGE, CITY, individual=True),
    "weights": people(replace(AGE, weight=Decimal(3)), replace(CITY, weight=Decimal("0.25")), YEARS),
    "bounds": people(replace(YEARS, coarsest=Decimal(4)), replace(CITY, coarsest=2, weight=Decimal(2))),
    "a domain of one value": people(YEARS, CategoricalAttribute("all", Hierarchy.from_rows([["x"]]), YEARS.unit)),
}

SEX = CategoricalAttribute("sex", Hierarchy.from_rows([["female", "*"], ["male", "*"]]), Decimal(1))
FLAT = people(SEX, YEARS)
"""A hierarchy whose leaves have the root alone above them."""

MODELS = {
    "k": k_anonymity(3),
    "distinct l": k_anonymity(2) & distinct_l(WITHOUT_NULL, 2),
    "identity-reserved k": identity_reserved(2),
    "(k, l)": k_l(2, VALUES, 3),
    "(alpha, beta)": k_anonymity(2) & alpha_beta(INDIVIDUAL, Fraction(1, 2), VALUES, Fraction(2, 3)),
    "(r, k)": r_k(2, ANCESTORS, Fraction(3, 5)),
    "entropy l": k_anonymity(2) & Model([AtLeastEntropy(WITHOUT_NULL, Decimal("1.8"))]),
    "t": k_anonymity(2) & Model([AtMostDistance(Subject(0, IN_REFERENCE), Decimal("0.45"), HIERARCHICAL, REFERENCE)]),
    "laws and shares": Model(
        [
            AtLeastRows(3),
            AtMostShare(VALUES, Fraction(2, 3)),
            AtLeastEntropy(VALUES, Decimal(2)),
            Recursive(VALUES, Decimal(3), 2),
            AtLeastDistinct(WITHOUT_NULL, 2),
            AtMostDistance(Subject(0, IN_REFERENCE), Decimal("0.6"), HIERARCHICAL, REFERENCE),
        ]
    ),
    "all at once": k_l(3, VALUES, 2) & distinct_l(WITHOUT_NULL, 2) & r_k(3, ANCESTORS, Fraction(3, 4)),
}

FEWER = settings(max_examples=max(5, settings().max_examples // 2))
"""For laws whose every example takes several runs of an algorithm."""

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
some_table = st.sampled_from(list(TABLES.values()))
some_model = st.sampled_from(list(MODELS.values()))


def assert_cities_are_ragged() -> None:
    """The tree of the small tables has leaves at several depths, or the tables would test less than they seem to."""
    assert len({len(set(CITIES.levels[:, leaf])) for leaf in range(CITIES.n_leaves)}) > 1


@st.composite
def microdata(draw: st.DrawFn, small: Table, max_rows: int = 40) -> Microdata:
    """Up to max_rows people in few cells: ties, equal rows and crowded cells are frequent."""
    n = draw(st.integers(1, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    few = draw(st.booleans())
    columns = []
    for attribute in small.attributes:
        columns.append(rng.integers(0, min(n_codes(attribute), 3) if few else n_codes(attribute), n))
    who = rng.integers(0, max(1, n // 2), n) if small.individual else None
    values = rng.integers(0, draw(st.integers(1, len(TEXTS[0]))), (n, 1))
    return Microdata(small, np.stack(columns, axis=1).astype(np.int64), who, values, TEXTS)


def holding(algorithm: Algorithm, data: Microdata, model: Model, options: Options = PLAIN) -> Recoding:
    """The algorithm's answer, checked by `run`; the example is skipped where nothing could hold.

    What a bounded table cannot publish is left out, however much it is, unless the options say otherwise.
    """
    if data.table.space.is_bounded and options.too_wide == LIMITED:
        options = replace(options, too_wide=LEFT_OUT)
    assume(not objections(algorithm, data.table, model, options))
    assume(model.holds(data.subjects(model.subjects)))
    return run(algorithm, data, model, options)


def assert_laws(algorithm: Algorithm, data: Microdata, model: Model, options: Options = PLAIN) -> Recoding:
    """Every law of a recoding, found by plain loops over rows; returns the recoding."""
    recoding = holding(algorithm, data, model, options)
    suppressed = [i for i, group in enumerate(recoding.qi_group.tolist()) if group < 0]
    assert data.table.space.is_bounded or len(suppressed) <= Fraction(str(options.suppression)) * len(data)
    subjects = data.subjects(model.subjects)
    for group in range(recoding.n_groups):
        members = [i for i, g in enumerate(recoding.qi_group.tolist()) if g == group]
        assert len(members) >= model.rows_min
        assert_holds(model, [subjects[i].tolist() for i in members])
        for i in members:
            assert (recoding.lo[group] <= data.cells[i]).all()
            assert (data.cells[i] <= recoding.hi[group]).all()
    assert_publishable(data, recoding)
    return recoding


def assert_holds(model: Model, subjects: list[list[int]]) -> None:
    """The model on one QI group, counted by hand."""
    n = len(subjects)
    assert n >= model.rows
    for column, subject in enumerate(model.subjects):
        codes = [row[column] for row in subjects]
        if not subject.null_counts:
            codes = [code for code in codes if code != NULL]
        assert len(set(codes)) >= model.distinct.get(subject, 0)
        assert Fraction(max(map(codes.count, codes), default=0), n) <= model.shares.get(subject, 1)
        assert all(law_holds(law, codes, PROBLEMS) for law in model.laws if law.subject == subject)


def assert_publishable(data: Microdata, recoding: Recoding) -> None:
    """Boxes are on the grid, inside the domain, and categories are nodes; none is wider than `coarsest` allows."""
    for j, attribute in enumerate(data.table.attributes):
        for lo, hi in zip(recoding.lo[:, j].tolist(), recoding.hi[:, j].tolist(), strict=True):
            if isinstance(attribute, CategoricalAttribute):
                assert attribute.hierarchy.label(lo, hi)
                levels = attribute.hierarchy.levels
                assert attribute.coarsest is None or len({*levels[attribute.coarsest, lo : hi + 1].tolist()}) == 1
                continue
            assert 0 <= lo <= hi < attribute.n_cells
            if isinstance(attribute, NumericAttribute):
                first, last = attribute.interval(lo, hi)
                assert attribute.coarsest is None or last - first <= attribute.coarsest


def canonical_form(data: Microdata) -> Microdata:
    """The table as algorithms see it."""
    return canonical(data, np.random.default_rng(0)).microdata


def permuted(data: Microdata, seed: int) -> Microdata:
    return data.rows(np.random.default_rng(seed).permutation(len(data)))


def renamed(data: Microdata, seed: int) -> Microdata:
    """The same people under other names, which stand in another order."""
    if data.individuals is None:
        return data
    numbers = np.random.default_rng(seed).permutation(int(data.individuals.max()) + 1)
    return replace(data, individuals=numbers[data.individuals])


def moved_in_cells(data: Microdata, seed: int) -> Microdata:
    """Every value somewhere else in its cell."""
    first = data.cells * data.space.codes_per_cell
    end = np.minimum(first + data.space.codes_per_cell, [n_codes(attribute) for attribute in data.table.attributes])
    return replace(data, codes=np.random.default_rng(seed).integers(first, end))


def n_codes(attribute: Attribute) -> int:
    """How many codes the attribute's values have."""
    if isinstance(attribute, CategoricalAttribute):
        return attribute.hierarchy.n_leaves
    return int(attribute.width_codes) + attribute.axis.closed


def with_k(model: Model, k: int) -> Model:
    return model & k_anonymity(k)


def boxes(recoding: Recoding) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """What the recoding publishes, whatever the order of rows and groups: box and size of every QI group."""
    parts = zip(recoding.lo.tolist(), recoding.hi.tolist(), recoding.sizes.tolist(), strict=True)
    return sorted((tuple(lo), tuple(hi), size) for lo, hi, size in parts)


def unlike(tree: Hierarchy, a: int, b: int) -> Fraction:
    """Height of the lowest common ancestor / height of the hierarchy, by climbing."""
    height = len(tree.levels) - 1
    common = next(level for level in range(height + 1) if tree.levels[level][a] == tree.levels[level][b])
    return Fraction(common, max(height, 1))


CENTS = NumericAttribute("cents", (Decimal(0), Decimal(10**6)), Decimal(1), Decimal(1), Decimal(10**5))
NANOS = NumericAttribute("nanos", (Decimal(0), Decimal(10**11)), Decimal(1), Decimal(1), Decimal(10**10))
WIDE = people(CENTS, NANOS)
"""Cells far sparser than rows, and more of them than four bytes can number."""


def data_of(table: Table, codes: npt.ArrayLike) -> Microdata:
    """Rows by their codes; all have one sensitive value."""
    rows = np.array(codes, dtype=np.int64)
    return Microdata(table, rows, None, np.zeros((len(rows), 1), dtype=np.int64), TEXTS)


def not_alone(data: Microdata, model: Model) -> list[int]:
    """The rows that `coarsest` lets be in a group of enough rows; all if the model does not hold for these together."""
    apart = apart_by_bounds(data.space, data.cells).tolist()
    rows = [i for i, number in enumerate(apart) if apart.count(number) >= model.rows_min]
    holds = data.space.is_bounded and (not rows or model.holds(data.subjects(model.subjects)[rows]))
    return rows if holds else list(range(len(data)))


def narrow(data: Microdata, groups: list[list[int]]) -> list[list[int]]:
    """The groups of rows whose boxes `coarsest` does not forbid."""
    return [rows for rows in groups if rows and not data.space.too_wide(*data.space.box_of_cells(data.cells[rows]))]


def groups_of(recoding: Recoding) -> list[list[int]]:
    """The rows of every QI group, each ascending, in the order of their first row."""
    numbers = recoding.qi_group.tolist()
    return sorted([i for i, number in enumerate(numbers) if number == group] for group in range(recoding.n_groups))


TENS = NumericAttribute("tens", (Decimal(0), Decimal(9)), Decimal(1), Decimal(1), Decimal(2))


def numbers(cells: list[int], values: list[int] | None = None, who: list[int] | None = None) -> Microdata:
    """People with one number from 0 to 9."""
    n = len(cells)
    table = people(TENS, individual=who is not None)
    sensitive = np.array(values or [0] * n, dtype=np.int64)[:, None]
    named = None if who is None else np.array(who, dtype=np.int64)
    return Microdata(table, np.array(cells, dtype=np.int64)[:, None], named, sensitive, TEXTS)


PROBLEM_NUMBER = {json.loads(text): number for number, text in enumerate(TEXTS[0])}


def numbers_of(names: list[str]) -> np.ndarray:
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


# Seven people; two QI groups and a suppressed row. `problem`: flu and cough are of the lung, ulcer and gastritis of the
# belly, insomnia of the head.
#
# | group | years | city | problem   | ssn | published years | published city                  |
# |-------|-------|------|-----------|-----|-----------------|---------------------------------|
# | 0     | 0     | a1   | flu       | ann | 0..2            | west: 3 of 6 leaves, height 2/3 |
# | 0     | 2     | b1   | cough     | ann | 0..2            | west                            |
# | 0     | 0     | a1   | gastritis | bob | 0..2            | west                            |
# | 1     | 5     | c1   | flu       | cy  | 5..9            | c1: a leaf                      |
# | 1     | 9     | c1   | ulcer     | dee | 5..9            | c1                              |
# | 1     | 5     | c1   | insomnia  | eve | 5..9            | c1                              |
# | -     | 9     | d1   | null      | fay | (suppressed)    |                                 |
ROWS = [
    (0, "a1", "flu", "ann"), (2, "b1", "cough", "ann"), (0, "a1", "gastritis", "bob"),
    (5, "c1", "flu", "cy"), (9, "c1", "ulcer", "dee"), (5, "c1", "insomnia", "eve"),
    (9, "d1", None, "fay"),
]  # fmt: skip
INDIVIDUALS = numbers_of([who for *_, who in ROWS])
SEVEN = Microdata(
    people(YEARS, CITY, individual=True),
    np.array([(years, CITIES.code_of[city]) for years, city, _, _ in ROWS]),
    INDIVIDUALS,
    np.array([[PROBLEM_NUMBER[problem]] for _, _, problem, _ in ROWS]),
    TEXTS,
)
GROUPS = local_recoding(SEVEN, np.array([0, 0, 0, 1, 1, 1, -1]))

# Tong et al. 2010, table 5 (identity-reserved 2-anonymity of table 3): zip by its digits, 5 heights.
ZIPS = Hierarchy.from_rows([[f"100{end}"[: 5 - i] + "*" * i for i in range(6)] for end in (85, 86, 87, 75, 76, 77, 50)])
DISEASES = ["Diabetes", "Flu", "Heart", "Hyperlipemia", "Hypertension"]
PATIENTS = [
    (1, "10085", "Hypertension", 0), (1, "10085", "Hyperlipemia", 0), (2, "10086", "Diabetes", 2),
    (3, "10087", "Heart", 0), (4, "10075", "Hypertension", 1), (4, "10075", "Diabetes", 1), (5, "10076", "Heart", 1),
    (6, "10077", "Flu", 1), (7, "10050", "Heart", 2),
]  # fmt: skip
TONG = Microdata(
    Table(
        "patients", ("no",), (CategoricalAttribute("zip", ZIPS, Decimal(1)),),
        (KeptColumn("disease", sensitive=True),), 2, "id",
    ),
    np.array([[ZIPS.code_of[zip_]] for _, zip_, _, _ in PATIENTS]),
    np.array([who - 1 for who, *_ in PATIENTS]),
    np.array([[DISEASES.index(disease)] for _, _, disease, _ in PATIENTS]),
    (tuple(b'"%b"' % disease.encode() for disease in DISEASES),),
)  # fmt: skip
TABLE_5 = local_recoding(TONG, np.array([group for *_, group in PATIENTS]))


@st.composite
def recoded(draw: st.DrawFn, lowest: int = -1) -> tuple[Microdata, Recoding]:
    """People in any groups whatever, some of them suppressed."""
    data = draw(microdata(draw(some_table), max_rows=25))
    groups = draw(st.lists(st.integers(lowest, 4), min_size=len(data), max_size=len(data)))
    return data, local_recoding(data, np.array(groups))


def rows_that_may_be_hers(recoding: Recoding) -> dict[int, list[int]]:
    """Of each published row: all rows that publish the same box. Nobody can know which group with it is hers."""
    boxes = {
        i: (*recoding.lo[group].tolist(), *recoding.hi[group].tolist())
        for i, group in enumerate(recoding.qi_group.tolist())
        if group >= 0
    }
    return {i: [other for other, its_box in boxes.items() if its_box == box] for i, box in boxes.items()}
