"""What a lossy join hides, counted over the joined tables."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.lossy_join import lossy_join
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.recoding.metrics.join_uncertainty import joined_rows, joined_true
from streamer.recoding.metrics.measures import WHAT, WHAT_JOINED, measure, measure_joined
from streamer.table.microdata import Microdata
from worlds.measured_tables import GROUPS, SEVEN, recoded


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
