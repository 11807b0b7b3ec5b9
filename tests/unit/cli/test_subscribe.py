"""`streamer subscribe` prints the published table as it is; the way to Kafka is tested with real servers."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pytest

from streamer.cli.subscribe import _print_tables


def test_a_number_that_no_float_can_hold_is_printed_as_a_number_with_all_its_digits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dose = pd.Series([Decimal("9007199254740993.5"), 7, None], dtype=object)
    _print_tables({"live": pd.DataFrame({"_record": "", "qi_group": ["0-1"] * 3, "dose": dose})}, as_json=True)
    assert '"dose":9007199254740993.5}' in capsys.readouterr().out
