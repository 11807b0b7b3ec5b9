"""The one way to run an algorithm: what cannot be done is said before anything runs."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.errors import ConfigError, UsageError
from streamer.recoding.algorithms.catalog import ALGORITHMS, algorithm_named, run
from streamer.recoding.algorithms.contract import Options
from streamer.table.microdata import Microdata
from worlds.microdata import (
    MODELS,
    TABLES,
    TEXTS,
)

PLAIN, PEOPLE = TABLES["one number"], TABLES["individuals"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("k", "fewer than k = 3"),
        ("distinct l", "distinct values of problem other than null are fewer than 2"),
        (
            "(alpha, beta)",
            "one of the values of problem has 2 of 2 rows (1.000); the largest share allowed is 0.666667",
        ),
    ],
)
def test_a_model_that_no_grouping_can_hold_is_refused_with_the_reason(name: str, reason: str) -> None:
    data = microdata_of_two_alike()
    with pytest.raises(ConfigError, match="cannot hold on this data") as caught:
        run(ALGORITHMS["mondrian"], data, MODELS[name])
    assert reason in str(caught.value)


def microdata_of_two_alike() -> Microdata:
    return Microdata(PLAIN, np.zeros((2, 1), np.int64), None, np.zeros((2, 1), np.int64), TEXTS)


def test_data_without_rows_is_refused() -> None:
    with pytest.raises(ConfigError, match="no rows"):
        run(ALGORITHMS["mondrian"], microdata_of_two_alike().rows(np.array([], dtype=np.int64)), MODELS["k"])


def test_what_an_algorithm_cannot_do_is_said_before_it_runs() -> None:
    for options, reason in ((Options(suppression=0.1), "suppressed rows"), (Options(refine=1), "sweeps")):
        with pytest.raises(UsageError, match=reason):
            run(ALGORITHMS["mondrian"], microdata_of_two_alike(), MODELS["k"], options)
    with pytest.raises(UsageError, match="there is no algorithm 'magic'; there are mondrian"):
        algorithm_named("magic")
