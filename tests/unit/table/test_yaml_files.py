"""What a variable says instead of table.yaml, and what it may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.errors import ConfigError
from streamer.table.yaml_files import settings_by_variable
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS


def test_a_variable_wins_over_the_file_and_leaves_its_neighbours(tmp_path: Path) -> None:
    text = (PATIENTS / "table.yaml").read_text() + "\nlimits: {batch_ms_max: 40, batch_events_max: 300}\n"
    (tmp_path / "table.yaml").write_text(text.replace("hierarchy: ", f"hierarchy: {PATIENTS}/"))
    limits = load_table(tmp_path, {"STREAMER_LIMITS_BATCH_MS_MAX": "20"}).limits
    assert (limits.batch_ms_max, limits.batch_events_max) == (20, 300)


def test_a_variable_sets_what_the_file_does_not_name() -> None:
    rebuilding = load_table(PATIENTS, {"STREAMER_REBUILD_EVERY": "1d", "STREAMER_REBUILD_DRIFT": "1.5"}).rebuilding
    assert (rebuilding.every, str(rebuilding.drift)) == (86_400, "1.5")


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("STREAMER_LIMITS_BATCH_MS_MAX", "soon", r"limits.batch_ms_max \(STREAMER_LIMITS_BATCH_MS_MAX\): must be"),
        (
            "STREAMER_LIMITS_BATCHES",
            "3",
            r"limits.batches \(STREAMER_LIMITS_BATCHES\): is no setting",
        ),
        ("STREAMER_PRIVACY_K", "2", "STREAMER_PRIVACY_K: what a table says of people stands in table.yaml alone"),
        ("STREAMER_PUBLISH_LIVE", "rows", "stands in table.yaml alone; variables can set limits and rebuild"),
    ],
)
def test_what_a_variable_may_not_say_is_refused_by_its_name(variable: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_table(PATIENTS, {variable: value})


def test_variables_that_are_others_are_let_be() -> None:
    others = {
        "STREAMER_SERVICE_HOST": "10.0.0.1",
        "STREAMER_TABLE": "here",
        "STREAMER_LIMITS_BATCH_MS_MAX": "",
        "K": "2",
    }
    assert settings_by_variable(others) == {}
