"""The columns of what is published, as others need them: names, types, and what none of them can be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.errors import ConfigError, UsageError
from streamer.table.published import published_columns
from streamer.table.published_group import group_columns
from streamer.table.published_types import (
    BOOLEAN,
    DECIMAL,
    FLOAT,
    INTEGER,
    TEXT,
    PublishedColumn,
    all_columns,
    kept_column,
    left_out,
    record_key_columns,
    record_value_columns,
    sink_table,
    temporal_columns,
    view_name,
)
from streamer.table.schema import GROUPS, LOSSY_JOIN, KeptColumn
from worlds.published_forms import TABLE, published_as
from worlds.small_tables import BMI, CITIES, table


def test_every_published_column_has_its_type_and_only_kept_values_can_be_null() -> None:
    assert record_value_columns(TABLE) == (
        PublishedColumn("qi_group", TEXT),
        PublishedColumn("age_lo", INTEGER),
        PublishedColumn("age_hi", INTEGER),
        PublishedColumn("bmi_lo", DECIMAL, whole_digits=2, scale=1),
        PublishedColumn("bmi_hi", DECIMAL, whole_digits=2, scale=1),
        PublishedColumn("city", TEXT),
        PublishedColumn("problem", TEXT, nullable=True),
        PublishedColumn("cost", FLOAT, nullable=True),
        PublishedColumn("visits", INTEGER, nullable=True),
        PublishedColumn("smokes", BOOLEAN, nullable=True),
    )


def test_names_and_order_are_those_of_the_changelog() -> None:
    assert tuple(column.name for column in record_value_columns(TABLE)) == published_columns(TABLE)
    groups = published_as(GROUPS)
    assert tuple(column.name for column in record_value_columns(groups)) + left_out(groups) == group_columns(groups)
    assert left_out(TABLE) == ()


def test_the_key_tells_rows_by_slot_and_whole_groups_by_their_name() -> None:
    assert [column.name for column in record_key_columns(TABLE)] == ["qi_group", "slot"]
    assert [column.name for column in record_key_columns(published_as(GROUPS))] == ["qi_group"]
    assert [column.name for column in all_columns(TABLE)][:3] == ["qi_group", "slot", "age_lo"]


def test_edges_of_cells_have_the_scale_of_what_they_are_made_of() -> None:
    _, lo, hi, _ = record_value_columns(replace(table(BMI), kept=(KeptColumn("x", True, "text"),)))
    assert (lo.type, lo.whole_digits, lo.scale) == (hi.type, hi.whole_digits, hi.scale) == (DECIMAL, 2, 1)


@pytest.mark.parametrize("kind", [None, "moon-phase"])
def test_a_kept_column_of_any_type_or_an_unknown_one_is_refused_with_the_mend(kind: str | None) -> None:
    with pytest.raises(ConfigError, match=r"columns\.problem: .*give it a hierarchy, or one of the types text"):
        kept_column(KeptColumn("problem", sensitive=True, type=kind))


def test_a_kept_column_with_a_hierarchy_is_a_text_whatever_else() -> None:
    assert kept_column(KeptColumn("city", sensitive=True, hierarchy=CITIES)).type == TEXT


@pytest.mark.parametrize("kind", ["date", "timestamp", "local-timestamp"])
def test_dates_and_times_are_texts_on_the_other_side(kind: str) -> None:
    column = KeptColumn("admitted", sensitive=True, type=kind)
    assert kept_column(column) == PublishedColumn("admitted", TEXT, nullable=True)
    assert temporal_columns(replace(TABLE, kept=(column, *TABLE.kept))) == ["admitted"]


def test_a_category_is_no_time_though_it_is_a_text() -> None:
    assert temporal_columns(TABLE) == []


@pytest.mark.parametrize("columns", [record_key_columns, record_value_columns])
def test_a_lossy_join_is_refused_with_what_to_do_instead(columns: object) -> None:
    with pytest.raises(UsageError, match=r"may be of two moments.*subscribe --csv"):
        columns(published_as(LOSSY_JOIN))  # type: ignore[operator]


def test_the_sink_s_names_are_plain_words() -> None:
    named = replace(TABLE, name="ward-7.people")
    assert (sink_table(named), view_name(named)) == ("ward_7_people_live", "ward_7_people_anonymous")
