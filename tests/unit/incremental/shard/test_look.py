"""The look around before a take-over: what does not fit together is refused, and nobody is shut out for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import pytest

from streamer.errors import ShardRefused
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.look import first_meta, look
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import Commit, Meta, Store
from worlds.small_tables import CITY, YEARS, table

PEOPLE = table(YEARS, k=2)
IDS = {"changes": "first"}
INPUT = InputState(IDS, shards=2, earliest=0, end=100)
AT_FIVE = Meta(5, 50, 4, 18, digest=7, shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=IDS)


@dataclass
class OnlyRead:
    """A store and an outlet in one, which must not be written to; its owner commits while the position is read."""

    metas: list[Meta | None]
    published: Position | None

    def meta(self) -> Meta | None:
        return self.metas.pop(0) if len(self.metas) > 1 else self.metas[0]

    def position(self) -> Position | None:
        return self.published

    def take_over(self, again: bool = False) -> str:
        raise AssertionError("the owner was shut out")

    def fence(self) -> None:
        raise AssertionError("the owner was shut out")

    def commit(self, fence: str, commit_before: int, commit: Commit) -> None:
        raise AssertionError("something was written")

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        raise AssertionError("something was published")


def looked(*metas: Meta | None, position: Position | None, found: InputState = INPUT) -> None:
    both = OnlyRead(list(metas), position)
    look(PEOPLE, 0, cast(Store, both), both, found)


def test_a_shard_that_fits_together_may_be_taken_over() -> None:
    looked(AT_FIVE, position=Position.of(AT_FIVE))


def test_a_shard_that_never_committed_may_be_taken_over() -> None:
    looked(None, position=None)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (replace(INPUT, shards=4), "had 2 partitions and has 4 now"),
        (replace(INPUT, topic_ids={"changes": "second"}), "made anew"),
        (replace(INPUT, earliest=51), "expired"),
        (replace(INPUT, end=49), "lost messages"),
    ],
)
def test_another_kafka_is_refused_while_the_owner_goes_on(found: InputState, says: str) -> None:
    with pytest.raises(ShardRefused, match=says):
        looked(AT_FIVE, position=Position.of(AT_FIVE), found=found)


def test_another_table_yaml_is_refused_while_the_owner_goes_on() -> None:
    other = replace(AT_FIVE, fingerprint=table(YEARS, CITY, k=2).fingerprint)
    with pytest.raises(ShardRefused, match=r"table\.yaml has changed"):
        looked(other, position=Position.of(other))


def test_an_owner_at_work_is_not_taken_for_a_store_that_lost_commits() -> None:
    """Between the two readings it committed and published: the position fits neither."""
    later = replace(AT_FIVE, commit=9, next=90)
    position = Position.of(replace(AT_FIVE, commit=7, next=70))
    looked(AT_FIVE, later, position=position)
    with pytest.raises(ShardRefused, match="commit 9, the output at 7"):
        looked(later, later, position=position)


def test_an_owner_at_work_does_not_hide_that_the_input_is_another_one() -> None:
    with pytest.raises(ShardRefused, match="made anew"):
        looked(AT_FIVE, replace(AT_FIVE, commit=6), position=None, found=replace(INPUT, topic_ids={"changes": "x"}))


def test_a_shard_begins_with_the_topics_and_the_table_that_are_there() -> None:
    assert first_meta(PEOPLE, INPUT) == Meta(shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=IDS)
