"""`streamer forecast`: what it says of changes, shards and loss, of refused and of too few rows; it shows no value."""

from __future__ import annotations

from collections import Counter
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from streamer.cli.batch import forecast as command
from streamer.incremental import forecast
from streamer.incremental.events.key_form import shard_of
from worlds.calls import answer, streamer
from worlds.checkout import PATIENTS
from worlds.forecasts import many_patients

ROWS = PATIENTS / "rows.csv"


@pytest.fixture(autouse=True)
def _few_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "SINGLE_CHANGES", 40)
    monkeypatch.setattr(forecast, "CHANGES_TOGETHER", 40)


def foretold(*words: str | Path) -> dict[str, Any]:
    return answer("forecast", "--table", PATIENTS, *words)


def said(*words: str | Path) -> Result:
    return streamer("forecast", "--table", PATIENTS, *words)


def written(folder: Path, rows: int) -> Path:
    many_patients(rows).to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def test_shards_follow_from_events_per_second_and_not_from_rows() -> None:
    report = foretold(ROWS, "--events-per-second", "2.5")
    assert (report["shards"], report["events_per_second"]["shards"]) == (1, 1)
    capacity = report["events_per_second"]["of_a_shard"]
    wanted = 4 * capacity
    many = foretold(ROWS, "--events-per-second", str(wanted))["events_per_second"]
    assert many["shards"] == ceil(2 * wanted / many["of_a_shard"])


def test_shards_cost_what_a_run_over_the_rows_of_each_costs() -> None:
    report = foretold(ROWS, "--shards", "2")
    one, two, twenty = report["losses"]
    sizes = Counter(shard_of(str(number).encode(), 2) for number in range(1, 41)).values()
    assert (one["shards"], two["shards"], twenty["shards"]) == (1, 2, 20)
    assert two["rows"] == {"min": min(sizes), "max": max(sizes)}
    assert two["waiting"] == {"shards": 0, "rows": 0}
    assert two["ncp"] > one["ncp"] > 0
    assert twenty["waiting"]["rows"] > 0
    assert report["rows_of_a_shard"] == 20


def test_a_large_shard_is_foreseen_from_two_samples_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SHARD_ROWS_MAX", 80)
    monkeypatch.setattr(command, "LOSS_ROWS_MAX", 80)
    rows = written(tmp_path, 400)
    report = foretold(rows)
    assert report["foreseen"]
    assert [0.8 * n <= tried <= n for n, tried in zip((20, 80), report["rows_tried"], strict=True)] == [True, True]
    assert [line["foreseen"] for line in report["losses"]] == [True, False]
    text = said(rows).stdout
    assert "foreseen for a shard of 400 rows from samples of" in text
    sizes = report["redis"]
    assert sizes["bytes"]["max"] == pytest.approx(400 * sizes["bytes_of_a_row"]["max"])


def test_rows_that_are_refused_are_left_out_and_counted_by_reason(tmp_path: Path) -> None:
    rows = many_patients(60)
    rows.loc[[3, 5], "age"] = "canary"
    rows.to_csv(tmp_path / "rows.csv", index=False)
    report = foretold(tmp_path / "rows.csv")
    assert (report["rows"], report["accepted"]) == (60, 58)
    assert [(line["column"], line["rows"]) for line in report["refused"]] == [("age", 2)]
    result = said(tmp_path / "rows.csv")
    assert "left out: 2 refused rows (wrong-type, age)" in result.stdout
    assert "canary" not in result.output


def test_a_table_of_fewer_rows_than_k_is_warned_of(tmp_path: Path) -> None:
    report = foretold(written(tmp_path, 2))
    assert any("do not hold the model: nothing would be published" in warning for warning in report["warnings"])


@pytest.mark.parametrize("rows", [0, 1])
def test_rows_that_cannot_come_and_go_are_refused(tmp_path: Path, rows: int) -> None:
    refused = said(written(tmp_path, rows))
    assert (refused.exit_code, "a forecast needs two at least" in refused.output) == (2, True)


def test_rows_without_the_key_are_numbered(tmp_path: Path) -> None:
    many_patients(40).drop(columns="id").to_csv(tmp_path / "rows.csv", index=False)
    assert foretold(tmp_path / "rows.csv")["changes"][0]["alone"]["records"] > 0
