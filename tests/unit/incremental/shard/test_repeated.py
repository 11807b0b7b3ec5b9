"""Where a shard stands on the way through a replay, and at its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.errors import ShardRefused
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.repeated import replayed
from streamer.incremental.store.base import Meta
from worlds.small_tables import YEARS, table

PEOPLE = table(YEARS)
PUBLISHED = Position(commit=9, next=200, release=5, qi_group_next=7, outside=2, digest=77, skipped=(120,))
REBUILT = Meta(commit=4, next=200, release=3, qi_group_next=7, digest=77, skipped=(120,))


def test_on_the_way_no_commit_has_a_number_that_is_published() -> None:
    assert replayed(PEOPLE, 0, replace(REBUILT, next=150), PUBLISHED).commit == 10
    assert replayed(PEOPLE, 0, replace(REBUILT, next=150, commit=14), PUBLISHED).commit == 14


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
