"""What `streamer erase` concludes from what it sees, and says, without a server."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from streamer.cli.main import main
from streamer.cli.operate import erase
from worlds.checkout import PATIENTS

KEY = "Canary-7316"

DEFAULTS = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "86400000",
    "max.compaction.lag.ms": str((1 << 63) - 1),
    "delete.retention.ms": "86400000",
    "min.cleanable.dirty.ratio": "0.5",
    "segment.ms": "604800000",
    "retention.ms": "-1",
}


def test_a_topic_says_by_when_kafka_compacts_only_if_a_setting_bounds_it() -> None:
    unbounded = erase.compacted("t.live", "a record", DEFAULTS)
    assert unbounded.not_before is not None and unbounded.not_after is None
    assert "min.cleanable.dirty.ratio" in unbounded.remedy
    bounded = erase.compacted("t.live", "a record", DEFAULTS | {"max.compaction.lag.ms": "604800000"})
    assert bounded.not_after is not None and bounded.not_after > str(bounded.not_before)
    assert "7 days after it was written (max.compaction.lag.ms)" in bounded.remedy


def test_an_input_that_is_not_compacted_is_the_operators_to_clean() -> None:
    settings = {"t.changes": DEFAULTS | {"cleanup.policy": "delete"}}
    left = erase.left_in_input("t.changes", settings, 3)
    assert (left.who, left.not_before) == ("you", None)
    assert "3 messages, the deletion included" in left.what and "for ever" in left.what
    settings["t.changes"]["retention.ms"] = "86400000"
    assert "for 1 day" in erase.left_in_input("t.changes", settings, None).what


@pytest.mark.parametrize(
    "words",
    [
        (KEY, "--individual", "x"),
        (KEY, "--reference", KEY),
        ("",),
        (KEY, "--reference", "x" * 201),
        (KEY, "-o", "receipt.pdf"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused_and_does_not_repeat_the_key(words: tuple[str, ...]) -> None:
    said = CliRunner().invoke(main, ["erase", "--table", str(PATIENTS), *words])
    assert said.exit_code == 2
    assert KEY not in said.output
