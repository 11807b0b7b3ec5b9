"""A folded table as DataFrames: the published columns of its form, and counts that add up to its rows."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given

from streamer.errors import LawViolated, UsageError
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.fold import Fold
from streamer.incremental.release.frames import frame_names, frames
from streamer.incremental.release.published_group import PublishedGroup
from streamer.table.row import Values
from streamer.table.schema import GROUPS, LOSSY_JOIN, Table
from worlds.published_groups import ALL_KINDS, FORMS, SONG, VALUES_OF_TWO, boxes, of_form, table_of

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
