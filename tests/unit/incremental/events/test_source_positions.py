"""Where messages stand in the log of their source, as each of Debezium's connectors says it."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.incremental.events.source_positions import DAY_MS, SourcePosition, flattened_position, position_of

POSTGRES = {"connector": "postgresql", "name": "clinic", "db": "db"}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"lsn": 150}, {"lsn": 310}),
        ({"lsn": "150"}, {"lsn": 310}),  # of a connector that writes numbers as texts
        ({"lsn": 310, "sequence": '[null,"310"]'}, {"lsn": 300, "sequence": '["320","300"]'}),  # committed late
        ({"file": "binlog.000009", "pos": 900}, {"file": "binlog.000010", "pos": 4}),
        ({"file": "bin.000009", "pos": 4, "snapshot": "true"}, {"file": "bin.000009", "pos": 900, "row": 1}),
        ({"commit_lsn": "00000027:00000ac0:0002"}, {"commit_lsn": "00000027:00000ac0:000a"}),
        ({"commit_lsn": "9"}, {"commit_lsn": "10"}),
        ({"scn": "900"}, {"scn": "700", "commit_scn": "1000"}),
    ],
)
def test_positions_of_each_connector_are_in_the_order_of_its_log(older: dict[str, Any], newer: dict[str, Any]) -> None:
    first, second = position_of(POSTGRES | older), position_of(POSTGRES | newer)
    assert first is not None
    assert second is not None
    assert (first.is_before(second), second.is_before(first), first.is_before(first)) == (True, False, False)
    row = {"id": 7, **{f"__source_{name}": value for name, value in (POSTGRES | older).items()}, "__op": "r"}
    assert flattened_position(row) == first


@pytest.mark.parametrize(
    "source",
    [
        *(
            None,
            "lsn",
            {},
            {"lsn": None},
            {"lsn": True},
            {"lsn": -1},
            {"lsn": 1 << 63},
            {"lsn": "x"},
            {"lsn": "9" * 5000},
        ),
        *({"file": "", "pos": 0}, {"file": 7, "pos": 7}, {"pos": 7}, {"commit_lsn": "zz:1"}, {"commit_lsn": None}),
    ],
)
def test_a_source_that_says_none_has_none(source: object) -> None:
    assert position_of(source) is None


def test_positions_of_different_logs_are_not_compared_nor_those_of_a_source_that_was_replaced() -> None:
    here, later = SourcePosition("a", (9,), 5), SourcePosition("b", (10,), 5)
    assert not here.is_before(later)
    assert SourcePosition("b", (9,), 4 + DAY_MS).is_before(later)  # clocks and time zones differ
    assert not SourcePosition("b", (9,), 5 + DAY_MS).is_before(later)
