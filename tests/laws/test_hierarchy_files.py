"""Any legal hierarchy file serves any algorithm, and the order of its lines decides nothing that is published."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.catalog import ALGORITHMS, run
from streamer.recoding.algorithms.contract import Recoding
from streamer.recoding.metrics.measures import measure
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from worlds.microdata import MODELS, TEXTS, assert_laws, people
from worlds.people_files import CRAFTS, Lines, arx_files
from worlds.small_tables import CITY, YEARS

every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)
FULL_DOMAIN = ("ola", "degree-first")


def workers(lines: Lines, leaves: list[str], years: list[int]) -> Microdata:
    """People by the leaf of their work's hierarchy and their years; every third has another problem."""
    tree = Hierarchy.from_rows(lines)
    table = people(replace(CITY, name="work", hierarchy=tree), YEARS)
    codes = np.array([[tree.code_of[leaf], year] for leaf, year in zip(leaves, years, strict=True)], dtype=np.int64)
    return Microdata(table, codes, None, np.arange(len(leaves))[:, None] % 3, TEXTS)


@st.composite
def some_workers(draw: st.DrawFn) -> tuple[Lines, list[str], list[int]]:
    lines = draw(arx_files() | st.permutations(CRAFTS))
    n = draw(st.integers(2, 24))
    leaf = st.sampled_from(sorted({line[0] for line in lines}))
    return (
        lines,
        draw(st.lists(leaf, min_size=n, max_size=n)),
        draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)),
    )


def published(data: Microdata, recoding: Recoding) -> list[tuple[frozenset[str], tuple[int, int], tuple[int, ...]]]:
    """Leaves, years and members of every QI group, sorted: nothing of them is a number of the coding."""
    leaves = data.table.attributes[0].hierarchy.leaves  # type: ignore[union-attr]
    found = []
    for group, (lo, hi) in enumerate(zip(recoding.lo.tolist(), recoding.hi.tolist(), strict=True)):
        members = tuple(np.flatnonzero(recoding.qi_group == group).tolist())
        found.append((frozenset(leaves[lo[0] : hi[0] + 1]), (lo[1], hi[1]), members))
    return sorted(found, key=lambda each: each[2])


@every_algorithm
@given(rows=some_workers(), model=st.sampled_from(list(MODELS.values())))
def test_every_file_that_is_read_can_be_anonymized(
    name: str, rows: tuple[Lines, list[str], list[int]], model: object
) -> None:
    assert_laws(ALGORITHMS[name], workers(*rows), model)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FULL_DOMAIN)
@given(rows=some_workers(), data=st.data(), k=st.integers(2, 4))
def test_full_domain_recoding_does_not_see_the_order_of_the_lines(
    name: str, rows: tuple[Lines, list[str], list[int]], data: st.DataObject, k: int
) -> None:
    """Levels, QI groups and measures; only the numbers of the QI groups follow the file."""
    lines, leaves, years = rows
    assume(len(leaves) >= k)
    one, other = workers(lines, leaves, years), workers(data.draw(st.permutations(lines)), leaves, years)
    first, second = (run(ALGORITHMS[name], each, k_anonymity(k)) for each in (one, other))
    assert first.levels == second.levels
    assert published(one, first) == published(other, second)
    assert measure(one, first, k_anonymity(k)) == pytest.approx(measure(other, second, k_anonymity(k)), nan_ok=True)


@every_algorithm
def test_a_level_whose_values_nest_is_no_fault(name: str) -> None:
    """Three bakers, three smiths and three of unknown work: a level up, the unknown are published as everything."""
    leaves = ["baker"] * 3 + ["unknown"] * 3 + ["smith"] * 3
    for lines in (CRAFTS, CRAFTS[::-1], [CRAFTS[1], CRAFTS[0], CRAFTS[2]]):
        data = workers(lines, leaves, [0] * 9)
        run(ALGORITHMS[name], data, k_anonymity(4))
