"""Where a shard stands on the way through a replay, and at its end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from streamer.errors import ShardRefused
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.repeated import is_repeated, replayed
from streamer.incremental.store.base import Meta
from worlds.small_tables import YEARS, table

PEOPLE = table(YEARS)
PUBLISHED = Position(commit=9, next=200, release=5, qi_group_next=7, outside=2, digest=77, skipped=(120,))
REBUILT = Meta(commit=4, next=200, release=3, qi_group_next=7, digest=77, skipped=(120,))


def test_on_the_way_no_commit_has_a_number_that_is_published() -> None:
    assert replayed(PEOPLE, 0, replace(REBUILT, next=150), PUBLISHED).commit == 10
    assert replayed(PEOPLE, 0, replace(REBUILT, next=150, commit=14), PUBLISHED).commit == 14


def test_a_truncation_that_is_still_to_be_placed_is_on_the_way_though_all_messages_are_read() -> None:
    target = replace_struct(PUBLISHED, truncations=2)
    assert not is_repeated(replace(REBUILT, truncations=1), target)
    assert replayed(PEOPLE, 0, replace(REBUILT, truncations=1), target).commit == 10
    assert Position.of(replayed(PEOPLE, 0, replace(REBUILT, truncations=2), target)) == target


def test_at_its_end_it_stands_where_the_output_stands() -> None:
    assert Position.of(replayed(PEOPLE, 0, REBUILT, PUBLISHED)) == PUBLISHED


@pytest.mark.parametrize(
    "other",
    [replace(REBUILT, digest=78), replace(REBUILT, qi_group_next=8), replace(REBUILT, skipped=())],
    ids=["another table", "other numbers", "another message passed over"],
)
def test_what_differs_from_the_published_table_is_refused(other: Meta) -> None:
    with pytest.raises(ShardRefused, match="does not give the published table of commit 9"):
        replayed(PEOPLE, 0, other, PUBLISHED)
