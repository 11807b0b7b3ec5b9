"""What a recoding cost and what it risks: tables worked out by hand, and the definitions in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import fsum, log2, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity, r_k
from streamer.recoding.algorithms.contract import Recoding, by_box, local_recoding
from streamer.recoding.algorithms.lossy_join import lossy_join
from streamer.recoding.metrics import risk, utility
from streamer.recoding.metrics.measures import WHAT, WHAT_JOINED, joined_rows, joined_true, measure, measure_joined
from streamer.table.codes import Attribute, CategoricalAttribute, Diversity, NumericAttribute
from streamer.table.microdata import INDIVIDUAL, Microdata
from worlds.microdata import (
    ANCESTORS,
    GROUPS,
    PROBLEMS,
    SEVEN,
    TABLES,
    TEXTS,
    recoded,
    rows_that_may_be_hers,
    some_model,
)

# What a lossy join hides, counted over the joined tables.


@given(given=recoded())
def test_the_joined_rows_are_those_of_the_two_tables_joined_by_hand(given: tuple[Microdata, Recoding]) -> None:
    data, recoding = given
    join = lossy_join(data, recoding)
    joined = [(g, tuple(cells), tuple(values))
        for g, cells in zip(join.qit_group.tolist(), join.qit_cells.tolist(), strict=True)
        for other, values in zip(join.stt_group.tolist(), join.stt_values.tolist(), strict=True)
        if other == g]  # fmt: skip
    source = Counter(
        (g, tuple(cells), tuple(values))
        for g, cells, values in zip(recoding.qi_group.tolist(), data.cells.tolist(), data.values.tolist(), strict=True)
        if g >= 0
    )
    assert joined_rows(join) == len(joined)
    assert source <= Counter(joined)
    assert joined_true(join) == (pytest.approx(source.total() / len(joined)) if joined else None)


def test_a_join_is_measured_by_its_groups_and_by_what_it_hides_and_not_by_boxes() -> None:
    found, boxes = measure_joined(SEVEN, GROUPS, k_anonymity(3)), measure(SEVEN, GROUPS, k_anonymity(3))
    assert list(found) == list(WHAT_JOINED)
    assert {name: found[name] for name in found if name in WHAT} == {
        name: boxes[name] for name in boxes if name in WHAT_JOINED
    }
    assert "ncp" not in found


def test_of_nothing_there_is_no_share() -> None:
    nothing = measure_joined(SEVEN, local_recoding(SEVEN, np.full(7, -1)), k_anonymity(3))
    assert (nothing["quasi_identifiers"], nothing["joined_rows"], nothing["joined_true"]) == (0, 0, None)


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
    # years 0, 0, 2, 5, 5, 9 are ranks 1.5, 1.5, 3, 4.5, 4.5, 6: either group spans 1.5 of 4.5
    "rank_loss": ((3 * 1 / 3 + 3 * 1 / 3 + 1) / 7 + (3 * 3 / 6 + 0 + 1) / 7) / 2,
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


def test_nothing_published_has_lost_everything_and_risks_nothing() -> None:
    found = measure(SEVEN, local_recoding(SEVEN, np.full(7, -1)), k_anonymity(3))
    lost = {"rows": 7, "suppressed": 7, "groups": 0, "dm": 49, "ncp": 1, "rank_loss": 1, "il": 14, "ril": 1,
            "distortion": 1}  # fmt: skip
    assert {name: value for name, value in found.items() if value is not None} == {**lost, "sed_left_out": 0}


def test_a_table_without_rows_has_no_losses_and_no_risks() -> None:
    nobody = SEVEN.rows(np.arange(0))
    found = measure(nobody, local_recoding(nobody, np.arange(0)), k_anonymity(3))
    assert {name for name, value in found.items() if value is not None} == {
        "rows", "suppressed", "groups", "dm", "sed_left_out", "il",
    }  # fmt: skip
    assert utility.ncp_by_attribute(nobody, local_recoding(nobody, np.arange(0))) is None


# --- properties -------------------------------------------------------------------------------------------------------


def counted(data: Microdata, recoding: Recoding) -> dict[str, float | None]:
    """Every measure from its definition, over lists of rows."""
    groups = [np.flatnonzero(recoding.qi_group == group).tolist() for group in range(recoding.n_groups)]
    n, d, suppressed = len(data), data.space.d, int((recoding.qi_group < 0).sum())
    who, what, null = data.subject(INDIVIDUAL).tolist(), data.values[:, 0].tolist(), data.texts[0].index(b"null")
    entropies, volumes, literal_volumes, losses, ranks, ils, heights = [], [], [], [], [], [], []
    attributes = data.table.attributes
    full = [attribute.levels.n_levels - 1 for attribute in attributes]
    for group, members in enumerate(groups):
        alike = Counter(tuple(data.cells[i].tolist()) for i in members).values()
        entropies.append(fsum(count / len(members) * log2(len(members) / count) for count in alike))
        boxes = list(zip(recoding.lo[group].tolist(), recoding.hi[group].tolist(), strict=True))
        volumes.append(prod(hi - lo + 1 for lo, hi in boxes))
        literal_volumes.append(prod(hi - lo for lo, hi in boxes))
        losses.append([lost_by(data, j, lo, hi) for j, (lo, hi) in enumerate(boxes)])
        ranks.append([lost_by_ranks(data, recoding, j, lo, hi) for j, (lo, hi) in enumerate(boxes)])
        heights.append([height_of(attributes[j], lo, hi) for j, (lo, hi) in enumerate(boxes)])
        ils.append([
            heights[-1][j] / max(full[j], 1) if isinstance(attributes[j], CategoricalAttribute) else losses[-1][j]
            for j in range(d)
        ])  # fmt: skip
    sizes, people_in = [len(g) for g in groups], [len({who[i] for i in g}) for g in groups]
    hers = rows_that_may_be_hers(recoding)
    crowds = list(hers.values())
    value_counts = [Counter(what[i] for i in crowd) for crowd in crowds]
    person_counts = [Counter(who[i] for i in crowd) for crowd in crowds]
    chances = {i: 1 / len({who[other] for other in crowd}) for i, crowd in hers.items()}

    said = [float(attribute.weight) for attribute in attributes]
    weights = [weight * d / sum(said) for weight in said]

    def weighted(terms: Sequence[Sequence[float]]) -> float:
        return sum(size * sum(row) for size, row in zip(sizes, terms, strict=True))

    def by_column(terms: Sequence[Sequence[float]]) -> float:
        return weighted([[term * weight for term, weight in zip(row, weights, strict=True)] for row in terms])

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
        "ncp": (by_column(losses) + suppressed * d) / (n * d),
        "rank_loss": (by_column(ranks) + suppressed * d) / (n * d),
        "gcp": by_column(losses) / (published * d) if published else None,
        "il": weighted(ils) + suppressed * d,
        "ril": (weighted(ils) + suppressed * d) / (n * d),
        "distortion": (weighted(heights) + suppressed * sum(full)) / rows if rows else None,
        "k": min(sizes, default=None),
        "k_individuals": min(people_in, default=None),
        "l": min((len(set(c) - {null}) for c in value_counts), default=None),
        "alpha": worst(person_counts),
        "beta": worst(value_counts),
        "risk": worst([Counter(family_of(data, what[i]) for i in crowd) for crowd in crowds]),
        "vulnerable": share(s >= 3 > p for s, p in zip(sizes, people_in, strict=True)),
        "single_value": share(p == 1 for p in people_in),
        "prosecutor_max": max(chances.values(), default=None),
        "prosecutor_mean": sum(chances.values()) / published if published else None,
    }


def share(truths: Iterable[bool]) -> float | None:
    truths = list(truths)
    return sum(truths) / len(truths) if truths else None


def lost_by(data: Microdata, j: int, lo: int, hi: int) -> float:
    """Width of the published value / width of the domain, from the column's own texts of it."""
    attribute = data.table.attributes[j]
    if isinstance(attribute, CategoricalAttribute):
        return 0.0 if lo == hi else (hi - lo + 1) / attribute.hierarchy.n_leaves
    assert isinstance(attribute, NumericAttribute)
    first, last = attribute.interval(lo, hi)
    return float((last - first) / (attribute.domain[1] - attribute.domain[0]))


def lost_by_ranks(data: Microdata, recoding: Recoding, j: int, lo: int, hi: int) -> float:
    """How far apart the middle ranks of exact values are; of intervals, the share of the rows between the ends."""
    attribute = data.table.attributes[j]
    if isinstance(attribute, CategoricalAttribute):
        return lost_by(data, j, lo, hi)
    assert isinstance(attribute, NumericAttribute)
    cells = sorted(data.cells[recoding.qi_group >= 0, j].tolist())
    inside = [cell for cell in cells if lo <= cell <= hi]
    if len({*attribute.interval(lo, lo)}) == 2:
        return len(inside) / len(cells)

    def rank(value: int) -> float:
        at = [i for i, cell in enumerate(cells) if cell == value]
        return sum(at) / len(at)

    apart = rank(cells[-1]) - rank(cells[0])
    return (rank(inside[-1]) - rank(inside[0])) / apart if apart else 0.0


def height_of(attribute: Attribute, lo: int, hi: int) -> int:
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
    for name in (
        "ncp", "rank_loss", "gcp", "ril", "distortion", "alpha", "beta", "risk", "prosecutor_max", "prosecutor_mean",
    ):  # fmt: skip
        assert found[name] is None or 0 <= found[name] <= 1 + 1e-12


@given(given=recoded(lowest=0))
def test_merging_groups_costs_more_and_risks_less(given: tuple[Microdata, Recoding]) -> None:
    data, recoding = given[0], by_box(given[1])
    before: dict[str, Any] = measure(data, recoding, r_k(2, ANCESTORS, Fraction(1)))
    merged = local_recoding(data, np.minimum(recoding.qi_group, 1))
    after: dict[str, Any] = measure(data, merged, r_k(2, ANCESTORS, Fraction(1)))
    for name in ("aes", "dm", "ncp", "gcp", "il", "ril", "distortion", "k", "k_individuals", "l"):
        assert after[name] >= before[name] or after[name] == pytest.approx(before[name])
    for name in ("alpha", "beta", "risk", "prosecutor_max"):
        assert after[name] <= before[name]


def test_a_null_is_one_of_the_distinct_values_only_where_the_table_says_so() -> None:
    values = np.array([[TEXTS[0].index(text)] for text in (b'"flu"', b"null", b"null")])
    data = Microdata(TABLES["one number"], np.zeros((3, 1), dtype=np.int64), None, values, TEXTS)
    together = local_recoding(data, np.zeros(3, dtype=np.int64))
    assert risk.l_distinct(data, together) == 1
    counting = replace(data.table, diversity=Diversity(l=2, null_counts=True))
    assert risk.l_distinct(replace(data, table=counting), together) == 2
    assert risk.beta(data, together) == 2 / 3


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
            if subject == INDIVIDUAL or not subject.null_counts:
                assert found["k_individuals" if subject == INDIVIDUAL else "l"] >= n
        for subject, bound in model.shares.items():
            name = "alpha" if subject == INDIVIDUAL else "risk" if subject.level else "beta"
            assert found[name] <= float(bound)
