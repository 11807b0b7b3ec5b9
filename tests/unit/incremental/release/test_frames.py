"""A folded table as DataFrames: the published columns of its form, and counts that add up to its rows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

from streamer.errors import ConfigError, LawViolated, StreamerError, UsageError
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.fold import Fold
from streamer.incremental.release.frames import frame_names, frames, recorded_frames
from streamer.incremental.release.records import PublishedGroup
from streamer.table.arrow_table import arrow_types, require, to_arrow
from streamer.table.codes import KeptColumn, NumericAttribute
from streamer.table.row import Values
from streamer.table.schema import GROUPS, LOSSY_JOIN, Table
from streamer.table.yaml.loading import load_table
from worlds.dates import write_table
from worlds.published_groups import ALL_KINDS, FORMS, SONG, VALUES_OF_TWO, FollowedTable, boxes, of_form, table_of

GROUP = PublishedGroup((4, 2), (4, 3), ((b'"flu"',), (b'"flu"',), (b"null",)), ((4, 2), (4, 3)))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_its_frames(form: str) -> None:
    assert tuple(frames(of_form(form), {}.items())) == frame_names(of_form(form))


def test_a_qi_group_published_whole_is_a_row_for_every_combination_of_values() -> None:
    song = replace(SONG, form=GROUPS)
    stored = applied_to(song)
    (frame,) = frames(song, stored).values()
    assert list(frame.columns) == ["qi_group", "age_lo", "age_hi", "zip_lo", "zip_hi", "problem", "count"]
    assert frame[["problem", "count"]].values.tolist() == [["flu", 2], [None, 1]]
    assert (str(frame["count"].dtype), str(frame["age_lo"].dtype)) == ("int64", "int64")


def test_a_lossy_join_is_two_frames_and_asking_for_one_is_refused() -> None:
    song = replace(SONG, form=LOSSY_JOIN)
    qit, stt = frames(song, applied_to(song)).values()
    assert qit.values.tolist() == [["0-17", 21, 25, 11000, 15000], ["0-17", 21, 25, 16000, 20000]]
    assert stt.values.tolist() == [["0-17", "flu", 2], ["0-17", None, 1]]
    with pytest.raises(UsageError, match="qit and stt"):
        Fold(song).to_frame()


def applied_to(song: Table) -> list[tuple[bytes, bytes]]:
    return [(entry.key, entry.value or b"") for entry in Changelog(song, 0).diff(17, None, GROUP)[0]]


@given(box=boxes(), values=VALUES_OF_TWO)
def test_all_forms_say_the_same_values(box: tuple[tuple[int, ...], tuple[int, ...]], values: Values) -> None:
    group = PublishedGroup(*box, (values, values), (box[0],))
    said = [list(frames(of_form(form), table_of(group, form).items()).values())[-1] for form in FORMS]
    kept = [column.name for column in ALL_KINDS.kept]
    pd.testing.assert_frame_equal(said[0][kept].head(1), said[1][kept])
    pd.testing.assert_frame_equal(said[1][kept], said[2][kept])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [b"{", b'{"canary":1}', b"[]", b'{"qi_group":"3-17","values":7}'])
def test_what_is_not_of_the_form_is_refused_without_its_values(form: str, value: bytes) -> None:
    (key, _), *_ = table_of(PublishedGroup((0,) * 4, (0,) * 4, ((b"null", b"1"),), ((0,) * 4,)), form).items()
    with pytest.raises(LawViolated) as told:
        frames(of_form(form), [(key, value)])
    assert "canary" not in str(told.value)


# Arrow's types of the published table follow from table.yaml alone, and nothing is rounded on the way.

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
