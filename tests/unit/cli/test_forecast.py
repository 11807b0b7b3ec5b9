"""What is said of an algorithm's time before it starts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streamer.cli import forecast
from streamer.cli.forecast import CostsForecast, announce, costs_expected, seconds_expected, sentence, spread
from streamer.cli.progress import stages
from streamer.privacy.models import AtMostShare, Model, k_anonymity
from streamer.recoding.algorithms.catalog import ALGORITHMS
from streamer.recoding.algorithms.contract import PLAIN, Algorithm
from streamer.table.microdata import Microdata
from streamer.table.schema import Diversity
from worlds.microdata import TEXTS, VALUES, people
from worlds.small_tables import YEARS

GDPPR = ALGORITHMS["gdppr"]


def some_people(n: int) -> Microdata:
    """n people of 10 years; one of four in the first half has another problem, and nobody in the second."""
    values = np.arange(n)[:, None] % 4 == 0
    values[n // 2 :] = False
    return Microdata(people(YEARS), np.arange(n)[:, None] % 10, None, values.astype(np.int64), TEXTS)


def clocked(monkeypatch: pytest.MonkeyPatch, asked: list[int]) -> Algorithm:
    """An algorithm that takes a thousandth of a second for every row, by a clock that only it moves."""
    now = [0.0]

    def run(microdata: Microdata, *rest: Any) -> Any:
        asked.append(len(microdata))
        now[0] += len(microdata) / 1000
        return GDPPR.run(microdata, *rest)

    monkeypatch.setattr(forecast, "perf_counter", lambda: now[0])
    return replace(GDPPR, run=run)


def test_the_time_of_some_rows_counts_times_the_square_of_how_many_times_more_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forecast, "TRIED_MAX", 100)
    asked: list[int] = []
    algorithm = clocked(monkeypatch, asked)
    assert seconds_expected(algorithm, some_people(600), k_anonymity(2), PLAIN) == pytest.approx(0.1 * 36)
    assert asked == [200, 100]
    assert seconds_expected(algorithm, some_people(120), k_anonymity(2), PLAIN) == pytest.approx(0.06 * 4)


def test_rows_that_do_not_hold_the_model_by_themselves_tell_nothing() -> None:
    quarter = k_anonymity(2) & Model([AtMostShare(VALUES, Fraction(1, 4))])
    assert seconds_expected(GDPPR, some_people(3), k_anonymity(2), PLAIN) is None
    assert seconds_expected(GDPPR, some_people(40), quarter, PLAIN) is None
    assert "cannot tell" in sentence("gdppr", 3, None)


def test_it_is_said_of_algorithms_whose_time_grows_with_the_square_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with stages(as_json=True) as progress:
        for algorithm in ALGORITHMS.values():
            announce(algorithm, some_people(20), k_anonymity(2), PLAIN, progress)
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("gdppr: 20 rows, about ")
    assert line.endswith("its time grows with the square of the rows")


def test_the_rows_tried_are_spread_over_the_table() -> None:
    assert len(spread(some_people(5), 9)) == 5
    assert spread(some_people(9), 3).codes.ravel().tolist() == [0, 4, 8]


# -- what k and grids cost ------------------------------------------------------------------------------------------


def sorting(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """A clock by which the sorts of a table take so long, one after the other."""
    times = [time for second in seconds for time in (0.0, second)]
    monkeypatch.setattr(forecast, "perf_counter", iter(times).__next__)


def test_trying_k_and_grids_takes_as_long_as_sorts_of_the_table_by_the_machines_own_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forecast, "SORTS", 100)
    data = replace(some_people(600), table=replace(people(YEARS), diversity=Diversity()))
    sorting(monkeypatch, 0.02, 0.01, 0.5)  # the least: the others waited for something else
    rows_alone = costs_expected(data)
    assert (rows_alone.rows, rows_alone.runs["ordered"]) == (600, 6)
    assert rows_alone.seconds == pytest.approx(6 * 100 * 0.01, abs=0.1)
    sorting(monkeypatch, 0.01, 0.01, 0.01)
    of_values = costs_expected(replace(data, table=replace(data.table, diversity=Diversity(l=2))))
    assert of_values.seconds == pytest.approx(2 * rows_alone.seconds, abs=0.1)


def test_the_forecast_is_a_sentence_that_says_how_good_it_is() -> None:
    said = str(CostsForecast({"ordered": 11, "degree-first": 5}, 100_000, 41.2))
    runs = "11 runs of ordered and 5 runs of degree-first over 100,000 rows"
    assert said == f"{runs}, about 41 s, or half or twice as long"
