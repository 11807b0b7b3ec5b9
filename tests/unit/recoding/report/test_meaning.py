"""What measures mean to a layman: a sentence for every one that is measured, and for no other."""

from __future__ import annotations

import pytest

from streamer.recoding.metrics.measures import WHAT, WHAT_JOINED
from streamer.recoding.report.meaning import MEANING


@pytest.mark.parametrize("name", sorted({*WHAT, *WHAT_JOINED}))
def test_every_measure_has_a_plain_sentence(name: str) -> None:
    assert MEANING[name].endswith(".")


def test_nothing_is_explained_that_is_not_measured() -> None:
    assert set(MEANING) == {*WHAT, *WHAT_JOINED}
