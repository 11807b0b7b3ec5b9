"""Arrow's types of the published table follow from table.yaml alone, and nothing is rounded on the way."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from streamer.errors import ConfigError, StreamerError
from streamer.incremental.release.arrow import arrow_types, require, to_arrow
from streamer.incremental.release.frames import recorded_frames
from streamer.table.attributes import NumericAttribute
from streamer.table.schema import KeptColumn, Table
from streamer.table.yaml_loading import load_table
from worlds.dated_people import write_table
from worlds.followed_tables import FollowedTable
from worlds.published_groups import FORMS

LONG = NumericAttribute(
    "dose", (Decimal(0), Decimal(10**15)), Decimal("0.25"), Decimal("0.001"), Decimal(2), integer=False
)
PEOPLE = Table("people", ("id",), (LONG,), (KeptColumn("n", False, "integer"), KeptColumn("x", False, "decimal")), k=2)


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_table_and_a_full_one_have_the_same_types(form: str) -> None:
    world = FollowedTable(form, seed=2)
    empty = {name: to_arrow(world.table, frame).schema for name, frame in world.frames().items()}
    world.releases(20)
    assert {name: to_arrow(world.table, frame).schema for name, frame in world.frames().items()} == empty


def test_ends_that_no_float_holds_are_decimals_with_all_their_digits() -> None:
    frame = pd.DataFrame({"dose_lo": pd.Series([Decimal("123456789012345.125")], dtype=object)})
    (found,) = to_arrow(PEOPLE, frame)["dose_lo"].to_pylist()
    assert found == Decimal("123456789012345.125")


def test_days_and_instants_have_arrows_own_types(tmp_path: Path) -> None:
    table = load_table(write_table(tmp_path))
    kinds = {str(kind) for kind in arrow_types(table).values()}
    assert "date32[day]" in kinds
    assert all(
        len(frame.columns) == len(to_arrow(table, frame).column_names) for frame in recorded_frames(table, []).values()
    )


def test_kept_numbers_without_a_type_that_holds_them_are_their_shortest_text() -> None:
    frame = pd.DataFrame({"n": pd.Series([7, None], dtype=object), "x": pd.Series([Decimal("1.50"), 2], dtype=object)})
    found = to_arrow(PEOPLE, frame)
    assert (found["n"].to_pylist(), found["x"].to_pylist()) == ([7, None], ["1.5", "2"])
    assert found["n"].type == pa.int64()


def test_a_whole_number_beyond_64_bits_is_refused_with_the_mend() -> None:
    with pytest.raises(StreamerError, match=r"'n'.*64 bits.*type: text"):
        to_arrow(PEOPLE, pd.DataFrame({"n": pd.Series([1 << 70], dtype=object)}))
    text = replace(PEOPLE, kept=(KeptColumn("n", False, "text"),))
    assert to_arrow(text, pd.DataFrame({"n": pd.Series([1 << 70], dtype=object)}))["n"].to_pylist() == [str(1 << 70)]


def test_a_library_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(ConfigError, match=r"nothing_of_that_name.*streamer\[parquet\]"):
        require("nothing_of_that_name.part", "parquet")
