"""What a recoding cost: by hand, and at the ends of the scale."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.adult import microdata as adult_microdata
from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.contract import Recoding, local_recoding
from streamer.recoding.metrics import utility
from streamer.recoding.metrics.measures import measure
from streamer.table.arrays import row_numbers
from streamer.table.codes import NumericAttribute
from streamer.table.microdata import Microdata
from worlds.microdata import GROUPS, SEVEN, SEX, TABLE_5, ZIPS, data_of, people, recoded
from worlds.small_tables import YEARS


def test_the_loss_of_every_attribute_by_itself() -> None:
    assert utility.ncp_by_attribute(SEVEN, GROUPS) == pytest.approx([3 / 7, 2.5 / 7])


def test_the_normalized_penalty_is_the_global_one_with_suppressed_rows_lost() -> None:
    n, s, gcp = 7, 1, utility.gcp(SEVEN, GROUPS)
    assert gcp is not None
    assert utility.ncp(SEVEN, GROUPS) == pytest.approx(((n - s) * gcp + s) / n)


def test_one_extreme_income_makes_the_penalty_small_and_leaves_the_loss_by_ranks_large() -> None:
    """399 incomes near 28,000 and one of ten million, in cells of 500,000: published is nearly nothing."""
    income = NumericAttribute("income", (Decimal(0), Decimal(10**7)), Decimal(500_000), Decimal(1), Decimal(1))
    data = data_of(people(income), np.append(np.arange(28_000, 28_399), 10**7)[:, None])
    together = local_recoding(data, np.append(np.zeros(399, dtype=np.int64), -1))
    assert utility.ncp(data, together) == pytest.approx((399 * 0.05 + 1) / 400, rel=1e-4)
    assert utility.rank_loss(data, together) == 1


def test_the_root_of_a_hierarchy_of_one_level_is_a_whole_loss() -> None:
    """Gui et al. 2020, equation 6: height of the published node / height of the hierarchy, here 1 / 1."""
    data = data_of(people(SEX), np.array([[0], [1]]))
    assert utility.il(data, local_recoding(data, np.array([0, 0]))) == 2
    assert utility.il(data, local_recoding(data, np.array([0, 1]))) == 0


def test_a_group_of_equal_rows_adds_no_entropy_density() -> None:
    alike = SEVEN.rows(np.array([0, 2, 3, 5]))
    assert utility.sed(alike, local_recoding(alike, np.array([0, 0, 1, 1]))) == 0


def test_a_spread_group_is_denser_than_a_crowded_one_in_the_same_box() -> None:
    """Yan and Liu 2008, section 3: of two classes with one box, the one with more entropy is safer."""
    table = people(YEARS)

    def sed_of(*years: int) -> float | None:
        n = len(years)
        data = data_of(table, np.array(years)[:, None])
        return utility.sed(data, local_recoding(data, np.zeros(n, dtype=np.int64)))

    assert sed_of(0, 1, 2, 3) == 2 / 4  # four values, two bits, four places
    assert sed_of(0, 0, 3, 3) == 1 / 4


def test_volumes_that_no_float_holds_end_in_no_density() -> None:
    wide = [
        NumericAttribute(f"q{j}", (Decimal(0), Decimal(10**9)), Decimal(1), Decimal(1), Decimal(1)) for j in range(40)
    ]
    codes = np.array([[0] * 40, [10**9] * 40])
    data = data_of(people(*wide), codes)
    assert utility.sed(data, local_recoding(data, np.array([0, 0]))) == 0


def test_tongs_table_5_is_published_as_printed() -> None:
    assert [ZIPS.label(lo, hi) for lo, hi in zip(TABLE_5.lo[:, 0], TABLE_5.hi[:, 0], strict=True)] == [
        "1008*", "1007*", "100**",
    ]  # fmt: skip


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


def test_adult_in_one_group_has_lost_everything_and_in_groups_of_equal_rows_nothing(adult: Path) -> None:
    data = adult_microdata(5)
    everyone = measure(data, local_recoding(data, np.zeros(len(data), dtype=np.int64)), k_anonymity(5))
    assert [everyone[name] for name in ("ncp", "ril", "distortion")] == pytest.approx([1, 1, 1])
    assert (everyone["k"], everyone["dm"]) == (30_162, 30_162**2)
    apart = measure(data, local_recoding(data, row_numbers(data.cells)), k_anonymity(5))
    assert [apart[name] for name in ("sed", "ncp", "gcp", "il", "ril", "distortion")] == [0] * 6
