"""`streamer subscribe` prints the published table as it is; the way to Kafka is tested with real servers."""

from __future__ import annotations

import re
from decimal import Decimal

import click
import pandas as pd
import pytest

from streamer.cli.stream.subscribe import print_found, print_tables
from streamer.cli.support.options import json_option
from streamer.copies import looked_up
from worlds.published_groups import FollowedTable


def test_a_null_and_no_answer_are_empty_fields_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"_record": "", "qi_group": ["0-1", "0-1"], "problem": ["flu", None], "dose": [None, 1.5]})
    print_tables({"live": frame.assign(days=pd.array([3, None], dtype="Int64"))})
    world = FollowedTable("rows", seed=10)
    print_found(looked_up(world.table, world.frames(), "SELECT 0 / 0 AS rate, NULL AS mean"))
    said = capsys.readouterr().out
    assert "flu" in said
    assert not re.search(r"nan|None|NA", said)


def test_a_number_that_no_float_can_hold_is_printed_as_a_number_with_all_its_digits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dose = pd.Series([Decimal("9007199254740993.5"), 7, None], dtype=object)

    @click.command()
    @json_option
    def command() -> None:
        print_tables({"live": pd.DataFrame({"_record": "", "qi_group": ["0-1"] * 3, "dose": dose})})

    command.main(["--json"], standalone_mode=False)
    assert '"dose":9007199254740993.5}' in capsys.readouterr().out
