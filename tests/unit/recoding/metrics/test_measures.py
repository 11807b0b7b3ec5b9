"""What a recoding cost and what it risks: tables worked out by hand, and the definitions in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import fsum, log2, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.adult import microdata as adult_microdata
from streamer.privacy.models import Model, identity_reserved, k_anonymity, r_k
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.recoding.metrics import risk, utility
from streamer.recoding.metrics.measures import WHAT, measure
from streamer.recoding.metrics.tally import tally
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import INDIVIDUAL, Microdata, Subject
from streamer.table.schema import CategoricalAttribute, Diversity, KeptColumn, NumericAttribute, Table
from streamer.table.vectors import row_numbers
from worlds.microdata import ANCESTORS, MODELS, PROBLEMS, TABLES, TEXTS, VALUES, microdata, people
from worlds.small_tables import CITIES, CITY, YEARS

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
ENTROPY = -(2 / 3 * log2(2 / 3) + 1 / 3 * log2(1 / 3))  # in both groups two of three rows are alike

BY_HAND = {
    "rows": 7,
    "suppressed": 1,
    "groups": 2,
    "aes": 6 / 2,
    "dm": 3**2 + 3**2 + 1 * 7,
    "sed": ENTROPY / (3 * 3) + ENTROPY / (5 * 1),
    "sed_literal": ENTROPY / (2 * 2),  # group 1 is constant in city: 4 * 0
    "sed_left_out": 1,
    # years: 2/9 and 4/9 for three rows each and 1 for one; city: 3/6 and 0 for three rows each and 1 for one
    "ncp": ((3 * 2 / 9 + 3 * 4 / 9 + 1) / 7 + (3 * 3 / 6 + 0 + 1) / 7) / 2,
    "gcp": (3 * (2 / 9 + 3 / 6) + 3 * 4 / 9) / (2 * 6),
    "il": 3 * (2 / 9 + 2 / 3) + 3 * (4 / 9 + 0) + 2,
    "ril": (3 * (2 / 9 + 2 / 3) + 3 * (4 / 9 + 0) + 2) / (7 * 2),
    # levels of years: 1, 2, 4, 8 cells, all: 0..2 is within 0..3 (2 of 4), 5..9 within everything (4 of 4)
    "distortion": (3 * (2 + 2) + 3 * (4 + 0) + (4 + 3)) / (7 * (4 + 3)),
    "k": 3,
    "k_individuals": 2,
    "l": 3,
    "alpha": 2 / 3,
    "beta": 1 / 3,
    "risk": 2 / 3,  # flu and cough in group 0
    "vulnerable": 1 / 2,  # group 0: three rows, ann and bob
    "single_value": 0,
    "prosecutor_max": 1 / 2,
    "prosecutor_mean": (3 * 1 / 2 + 3 * 1 / 3) / 6,
}


def test_seven_people_by_hand() -> None:
    assert measure(SEVEN, GROUPS, k_anonymity(3)) == pytest.approx(BY_HAND, rel=1e-12)


def test_every_measure_is_named_explained_and_in_one_order() -> None:
    assert list(measure(SEVEN, GROUPS, k_anonymity(3))) == list(WHAT) == list(BY_HAND)


def test_the_loss_of_every_attribute_by_itself() -> None:
    assert utility.ncp_by_attribute(SEVEN, GROUPS) == pytest.approx([3 / 7, 2.5 / 7])


def test_the_normalized_penalty_is_the_global_one_with_suppressed_rows_lost() -> None:
    n, s, gcp = 7, 1, utility.gcp(SEVEN, GROUPS)
    assert gcp is not None
    assert utility.ncp(SEVEN, GROUPS) == pytest.approx(((n - s) * gcp + s) / n)


def test_a_group_of_equal_rows_adds_no_entropy_density() -> None:
    alike = SEVEN.rows(np.array([0, 2, 3, 5]))
    assert utility.sed(alike, local_recoding(alike, np.array([0, 0, 1, 1]))) == 0


def test_a_spread_group_is_denser_than_a_crowded_one_in_the_same_box() -> None:
    """Yan and Liu 2008, section 3: of two classes with one box, the one with more entropy is safer."""
    table = people(YEARS)

    def sed_of(*years: int) -> float | None:
        n = len(years)
        data = Microdata(table, np.array(years)[:, None], None, np.zeros((n, 1), dtype=np.int64), TEXTS)
        return utility.sed(data, local_recoding(data, np.zeros(n, dtype=np.int64)))

    assert sed_of(0, 1, 2, 3) == 2 / 4  # four values, two bits, four places
    assert sed_of(0, 0, 3, 3) == 1 / 4


def test_volumes_that_no_float_holds_end_in_no_density() -> None:
    wide = [
        NumericAttribute(f"q{j}", (Decimal(0), Decimal(10**9)), Decimal(1), Decimal(1), Decimal(1)) for j in range(40)
    ]
    codes = np.array([[0] * 40, [10**9] * 40])
    data = Microdata(people(*wide), codes, None, np.zeros((2, 1), dtype=np.int64), TEXTS)
    assert utility.sed(data, local_recoding(data, np.array([0, 0]))) == 0


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


def test_tongs_table_5_is_published_as_printed() -> None:
    assert [ZIPS.label(lo, hi) for lo, hi in zip(TABLE_5.lo[:, 0], TABLE_5.hi[:, 0], strict=True)] == [
        "1008*", "1007*", "100**",
    ]  # fmt: skip


def test_tongs_table_5_has_the_individuals_and_heights_of_the_paper() -> None:
    found = measure(TONG, TABLE_5, identity_reserved(2))
    assert (found["k"], found["k_individuals"], found["l"]) == (2, 2, 2)
    assert (found["vulnerable"], found["single_value"]) == (0, 0)
    assert found["distortion"] == (3 * 1 + 4 * 1 + 2 * 2) / (9 * 5)
    # group 1 is 4, 4, 5, 6 and group 0 is 1, 1, 3: at least 3 rows both, fewer than 3 individuals in group 0 alone
    assert risk.vulnerable(TONG, TABLE_5, 3) == 1 / 3


def test_tongs_table_2_has_a_vulnerable_group_of_one_individual() -> None:
    """2-anonymous and 2-diverse, and Mike is the only one in the first group (Tong et al. 2010, section 1)."""
    sexes = CategoricalAttribute("sex", Hierarchy.from_rows([["M", "*"], ["F", "*"]]), Decimal(1))
    data = Microdata(
        replace(TONG.table, attributes=(sexes,)),
        np.array([[0], [0], [1], [0], [1], [1]]),
        numbers_of(["Mike", "Mike", "Emily", "Tim", "Jane", "Ella"]),
        np.array([[4], [3], [0], [2], [2], [1]]),
        TONG.texts,
    )
    found = measure(data, local_recoding(data, np.array([0, 0, 1, 1, 2, 2])), k_anonymity(2))
    assert (found["k"], found["l"]) == (2, 2)
    assert (found["vulnerable"], found["single_value"]) == (1 / 3, 1 / 3)
    assert (found["alpha"], found["prosecutor_max"]) == (1, 1)


def test_risk_follows_the_level_that_the_model_bounds() -> None:
    deep = Hierarchy.from_rows(
        [["flu", "viral", "lung", "*"], ["cough", "other", "lung", "*"], ["ulcer", "acid", "belly", "*"]]
    )
    table = replace(SEVEN.table, kept=(KeptColumn("problem", sensitive=True, type="text", hierarchy=deep),))
    texts = ((b'"cough"', b'"flu"', b'"ulcer"'),)
    data = Microdata(table, SEVEN.codes[:3], INDIVIDUALS[:3], np.array([[0], [1], [2]]), texts)
    together = local_recoding(data, np.array([0, 0, 0]))
    assert risk.risk(data, together, k_anonymity(2)) == pytest.approx(1 / 3)  # level 1: viral, other, acid
    assert risk.risk(data, together, r_k(2, Subject(0, 2), Fraction(1))) == pytest.approx(2 / 3)  # lung, lung, belly
    named = replace(data, table=replace(table, diversity=Diversity(level=2)))
    assert risk.risk(named, together, k_anonymity(2)) == pytest.approx(2 / 3)


def test_a_bound_on_single_values_does_not_change_which_values_are_close() -> None:
    assert risk.risk(SEVEN, GROUPS, r_k(2, VALUES, Fraction(1))) == 2 / 3


def test_the_worst_sensitive_column_counts() -> None:
    kept = (
        KeptColumn("problem", sensitive=True),
        KeptColumn("note", sensitive=False),
        KeptColumn("pay", sensitive=True),
    )
    values = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 1]])
    texts = ((b"0", b"1", b"2"), (b"0",), (b"0", b"1"))
    data = Microdata(replace(SEVEN.table, kept=kept), SEVEN.codes[:3], INDIVIDUALS[:3], values, texts)
    found = measure(data, local_recoding(data, np.array([0, 0, 0])), k_anonymity(2))
    assert (found["l"], found["beta"], found["risk"]) == (2, 2 / 3, 2 / 3)


def test_nothing_published_has_lost_everything_and_risks_nothing() -> None:
    found = measure(SEVEN, local_recoding(SEVEN, np.full(7, -1)), k_anonymity(3))
    lost = {"rows": 7, "suppressed": 7, "groups": 0, "dm": 49, "ncp": 1, "il": 14, "ril": 1, "distortion": 1}
    assert {name: value for name, value in found.items() if value is not None} == {**lost, "sed_left_out": 0}


def test_a_table_without_rows_has_no_losses_and_no_risks() -> None:
    nobody = SEVEN.rows(np.arange(0))
    found = measure(nobody, local_recoding(nobody, np.arange(0)), k_anonymity(3))
    assert {name for name, value in found.items() if value is not None} == {
        "rows", "suppressed", "groups", "dm", "sed_left_out", "il",
    }  # fmt: skip
    assert utility.ncp_by_attribute(nobody, local_recoding(nobody, np.arange(0))) is None


def test_a_table_without_a_sensitive_column_has_no_diversity() -> None:
    harmless = replace(SEVEN.table, kept=(replace(SEVEN.table.kept[0], sensitive=False),))
    found = measure(replace(SEVEN, table=harmless), GROUPS, k_anonymity(3))
    assert {name for name, value in found.items() if value is None} == {"l", "beta", "risk"}


# --- properties -------------------------------------------------------------------------------------------------------

some_table = st.sampled_from(list(TABLES.values()))
some_model = st.sampled_from(list(MODELS.values()))


@st.composite
def recoded(draw: st.DrawFn, lowest: int = -1) -> tuple[Microdata, Recoding]:
    """People in any groups whatever, some of them suppressed."""
    data = draw(microdata(draw(some_table), max_rows=25))
    groups = draw(st.lists(st.integers(lowest, 4), min_size=len(data), max_size=len(data)))
    return data, local_recoding(data, np.array(groups))


def counted(data: Microdata, recoding: Recoding) -> dict[str, float | None]:
    """Every measure from its definition, over lists of rows."""
    groups = [np.flatnonzero(recoding.qi_group == group).tolist() for group in range(recoding.n_groups)]
    n, d, suppressed = len(data), data.space.d, int((recoding.qi_group < 0).sum())
    who, what = data.subject(INDIVIDUAL).tolist(), data.values[:, 0].tolist()
    entropies, volumes, literal_volumes, losses, ils, heights = [], [], [], [], [], []
    attributes = data.table.attributes
    full = [attribute.levels.n_levels - 1 for attribute in attributes]
    for group, members in enumerate(groups):
        alike = Counter(tuple(data.cells[i].tolist()) for i in members).values()
        entropies.append(fsum(count / len(members) * log2(len(members) / count) for count in alike))
        boxes = list(zip(recoding.lo[group].tolist(), recoding.hi[group].tolist(), strict=True))
        volumes.append(prod(hi - lo + 1 for lo, hi in boxes))
        literal_volumes.append(prod(hi - lo for lo, hi in boxes))
        losses.append([lost_by(data, j, lo, hi) for j, (lo, hi) in enumerate(boxes)])
        heights.append([height_of(attributes[j], lo, hi) for j, (lo, hi) in enumerate(boxes)])
        ils.append([
            heights[-1][j] / max(full[j], 1) if isinstance(attributes[j], CategoricalAttribute) else losses[-1][j]
            for j in range(d)
        ])  # fmt: skip
    sizes, people_in = [len(g) for g in groups], [len({who[i] for i in g}) for g in groups]
    value_counts = [Counter(what[i] for i in g) for g in groups]
    person_counts = [Counter(who[i] for i in g) for g in groups]

    def weighted(terms: Sequence[Sequence[float]]) -> float:
        return sum(size * sum(row) for size, row in zip(sizes, terms, strict=True))

    def worst(counts: list[Counter]) -> float | None:
        return max((max(c.values()) / c.total() for c in counts), default=None)

    dense = [e / v for e, v in zip(entropies, literal_volumes, strict=True) if v]
    published, rows = n - suppressed, n * sum(full)
    return {
        "rows": n,
        "suppressed": suppressed,
        "groups": len(groups),
        "aes": published / len(groups) if groups else None,
        "dm": sum(size**2 for size in sizes) + suppressed * n,
        "sed": sum(e / v for e, v in zip(entropies, volumes, strict=True)) if groups else None,
        "sed_literal": sum(dense) if dense else None,
        "sed_left_out": literal_volumes.count(0),
        "ncp": (weighted(losses) + suppressed * d) / (n * d),
        "gcp": weighted(losses) / (published * d) if published else None,
        "il": weighted(ils) + suppressed * d,
        "ril": (weighted(ils) + suppressed * d) / (n * d),
        "distortion": (weighted(heights) + suppressed * sum(full)) / rows if rows else None,
        "k": min(sizes, default=None),
        "k_individuals": min(people_in, default=None),
        "l": min(map(len, value_counts), default=None),
        "alpha": worst(person_counts),
        "beta": worst(value_counts),
        "risk": worst([Counter(family_of(data, what[i]) for i in g) for g in groups]),
        "vulnerable": share(s >= 3 > p for s, p in zip(sizes, people_in, strict=True)),
        "single_value": share(p == 1 for p in people_in),
        "prosecutor_max": max((1 / p for p in people_in), default=None),
        "prosecutor_mean": sum(s / p for s, p in zip(sizes, people_in, strict=True)) / published if published else None,
    }


def share(truths: Iterable[bool]) -> float | None:
    truths = list(truths)
    return sum(truths) / len(truths) if truths else None


def lost_by(data: Microdata, j: int, lo: int, hi: int) -> float:
    """Width of the published value / width of the domain, from the column's own texts of it."""
    attribute = data.table.attributes[j]
    if isinstance(attribute, CategoricalAttribute):
        return 0.0 if lo == hi else (hi - lo + 1) / attribute.hierarchy.n_leaves
    first, last = attribute.interval(lo, hi)
    return float((last - first) / (attribute.domain[1] - attribute.domain[0]))


def height_of(attribute: NumericAttribute | CategoricalAttribute, lo: int, hi: int) -> int:
    """The lowest level that makes one value of all cells of the box."""
    for level in range(attribute.levels.n_levels):
        firsts, lasts = attribute.levels.recode(level, np.arange(lo, hi + 1))
        if len({*zip(firsts.tolist(), lasts.tolist(), strict=True)}) == 1 and firsts[0] <= lo and hi <= lasts[0]:
            return level
    raise AssertionError("the top level covers the whole domain")


def family_of(data: Microdata, value: int) -> str | None:
    label = json.loads(data.texts[0][value])
    return None if label is None else PROBLEMS.labels[PROBLEMS.levels[1, PROBLEMS.code_of[label]]]


@given(given=recoded())
def test_measures_are_what_their_definitions_count(given: tuple[Microdata, Recoding]) -> None:
    data, recoding = given
    found, expected = measure(data, recoding, k_anonymity(3)), counted(data, recoding)
    for name, value in expected.items():
        assert found[name] == (None if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)), name


@given(given=recoded(), model=some_model)
def test_measures_are_json_and_never_nan(given: tuple[Microdata, Recoding], model: Model) -> None:
    found = measure(*given, model)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@given(given=recoded(), model=some_model, seed=st.integers(0, 99))
def test_the_order_of_rows_and_groups_changes_no_measure_by_a_bit(
    given: tuple[Microdata, Recoding], model: Model, seed: int
) -> None:
    data, recoding = given
    rng = np.random.default_rng(seed)
    rows, number = rng.permutation(len(data)), np.append(rng.permutation(recoding.n_groups), -1)
    shuffled = local_recoding(data.rows(rows), number[recoding.qi_group[rows]])
    assert measure(data.rows(rows), shuffled, model) == measure(data, recoding, model)


@given(given=recoded())
def test_losses_lie_between_nothing_and_everything(given: tuple[Microdata, Recoding]) -> None:
    found: dict[str, Any] = measure(*given, k_anonymity(2))
    for name in ("ncp", "gcp", "ril", "distortion", "alpha", "beta", "risk", "prosecutor_max", "prosecutor_mean"):
        assert found[name] is None or 0 <= found[name] <= 1


@given(given=recoded(lowest=0))
def test_merging_groups_costs_more_and_risks_less(given: tuple[Microdata, Recoding]) -> None:
    data, recoding = given
    before: dict[str, Any] = measure(data, recoding, r_k(2, ANCESTORS, Fraction(1)))
    merged = local_recoding(data, np.minimum(recoding.qi_group, 1))
    after: dict[str, Any] = measure(data, merged, r_k(2, ANCESTORS, Fraction(1)))
    for name in ("aes", "dm", "ncp", "gcp", "il", "ril", "distortion", "k", "k_individuals", "l"):
        assert after[name] >= before[name] or after[name] == pytest.approx(before[name])
    for name in ("alpha", "beta", "risk", "prosecutor_max"):
        assert after[name] <= before[name]


@given(given=recoded(), model=some_model)
def test_what_is_achieved_is_what_the_model_asks_where_it_holds(
    given: tuple[Microdata, Recoding], model: Model
) -> None:
    data, recoding = given
    if (
        recoding.n_groups
        and model.holds_by_group(recoding.qi_group, recoding.n_groups, data.subjects(model.subjects)).all()
    ):
        found: dict[str, Any] = measure(data, recoding, model)
        assert found["k"] >= model.rows
        for subject, n in model.distinct.items():
            assert found["k_individuals" if subject == INDIVIDUAL else "l"] >= n
        for subject, bound in model.shares.items():
            name = "alpha" if subject == INDIVIDUAL else "risk" if subject.level else "beta"
            assert found[name] <= float(bound)


@given(given=recoded(), level=st.integers(0, 6))
def test_full_domain_recoding_has_the_height_of_its_level_or_of_a_lower_one_that_publishes_the_same(
    given: tuple[Microdata, Recoding], level: int
) -> None:
    data, _ = given
    attributes = data.table.attributes
    levels = [min(level, attribute.levels.n_levels - 1) for attribute in attributes]
    ends = [a.levels.recode(at, data.cells[:, j]) for j, (a, at) in enumerate(zip(attributes, levels, strict=True))]
    boxes = np.array(ends).transpose(2, 0, 1)  # (n, d, 2)
    distinct, qi_group = np.unique(boxes, axis=0, return_inverse=True)
    recoding = Recoding(qi_group.ravel(), distinct[..., 0], distinct[..., 1], tuple(levels))
    for group, found in enumerate(utility.heights(data, recoding).tolist()):
        for j, height in enumerate(found):
            assert height <= levels[j]
            again = attributes[j].levels.recode(height, recoding.lo[group, j])
            assert again == (recoding.lo[group, j], recoding.hi[group, j])


@given(
    rows=st.lists(st.tuples(*[st.one_of(st.integers(0, 2), st.integers(0, 2**61))] * 3), min_size=1, max_size=20),
    many=st.booleans(),
)
def test_rows_get_one_number_each_however_wide_their_columns(rows: list[tuple[int, ...]], many: bool) -> None:
    numbers = row_numbers(np.array(rows, dtype=np.int64)).tolist()
    assert min(numbers) >= 0
    assert len(set(zip(numbers, rows, strict=True))) == len(set(numbers)) == len(set(rows))


@given(given=recoded(), stride=st.sampled_from([1, 2**20, 2**60]))
def test_tallies_count_values_of_any_size(given: tuple[Microdata, Recoding], stride: int) -> None:
    data, recoding = given
    values = data.values[:, 0] * stride
    pairs = zip(recoding.qi_group.tolist(), values.tolist(), strict=True)
    expected = sorted(Counter(pair for pair in pairs if pair[0] >= 0).items())
    found = tally(recoding, values)
    assert [((g, v), c) for g, v, c in zip(*(part.tolist() for part in found), strict=True)] == expected


def test_adult_in_one_group_has_lost_everything_and_in_groups_of_equal_rows_nothing(adult: Path) -> None:
    data = adult_microdata(5)
    everyone = measure(data, local_recoding(data, np.zeros(len(data), dtype=np.int64)), k_anonymity(5))
    assert [everyone[name] for name in ("ncp", "ril", "distortion")] == pytest.approx([1, 1, 1])
    assert (everyone["k"], everyone["dm"]) == (30_162, 30_162**2)
    nobody = measure(data, local_recoding(data, row_numbers(data.cells)), k_anonymity(5))
    assert [nobody[name] for name in ("sed", "ncp", "gcp", "il", "ril", "distortion")] == [0] * 6
