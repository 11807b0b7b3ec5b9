"""QI groups that a store hands out are held against the digest of what was published."""

from __future__ import annotations

import pytest

from streamer.errors import ShardRefused
from streamer.incremental.groups.kept import QIGroupState
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.published_group import PublishedGroup
from streamer.incremental.shard.digested import Digested
from streamer.incremental.store.base import Meta
from worlds.small_tables import YEARS, table

FLU, COUGH = (b'"flu"',), (b'"cough"',)
GROUPS = {
    7: QIGroupState((3,), (4,), ("a", "b"), (FLU, COUGH)),
    2: QIGroupState((0,), (1,), ("c", "d"), (FLU, FLU)),
}


def published(state: QIGroupState) -> PublishedGroup:
    return PublishedGroup(state.lo, state.hi, state.slots)


def meta_of(groups: dict[int, QIGroupState]) -> Meta:
    changelog = Changelog(table(YEARS), 0)
    digest = sum(changelog.diff(number, None, published(state))[1] for number, state in groups.items())
    return Meta(commit=5, digest=digest % 2**64)


def check(groups: dict[int, QIGroupState], meta: Meta) -> None:
    handed_out = Digested(iter(groups.items()))
    assert dict(handed_out) == groups
    handed_out.check("people", 3, meta)


def test_what_was_published_is_handed_on_in_any_order() -> None:
    check(GROUPS, meta_of(GROUPS))
    check(dict(reversed(GROUPS.items())), meta_of(GROUPS))
    check({}, Meta())


@pytest.mark.parametrize(
    "groups",
    [{}, {7: GROUPS[7]}, {7: GROUPS[7], 3: GROUPS[2]}, GROUPS | {7: QIGroupState((3,), (5,), ("a", "b"), (FLU, COUGH))},
     GROUPS | {7: QIGroupState((3,), (4,), ("a", "b"), (COUGH, FLU))}],
    ids=["all are lost", "one is lost", "another number", "another box", "slots exchanged"],
)  # fmt: skip
def test_other_qi_groups_are_refused_though_they_may_fit_together(groups: dict[int, QIGroupState]) -> None:
    with pytest.raises(ShardRefused, match="shard 3 of people: the QI groups in the store are not those of commit 5"):
        check(groups, meta_of(GROUPS))
