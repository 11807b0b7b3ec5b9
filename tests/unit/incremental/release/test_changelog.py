"""What a published QI group looks like as bytes, and which records turn one into another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.published_group import PublishedGroup
from worlds.published_groups import ALL_KINDS, FORMS, SONG, VALUES_OF_TWO, applied, boxes, of_form, table_of

QG1 = PublishedGroup((4, 2), (4, 3), ((b'"flu"',), (b'"gastritis"',)))


FEW_BOXES = st.sampled_from([((0, 0, 0, 0), (1, 1, 0, 3)), ((0, 0, 0, 0), (1, 1, 0, 4))])
GROUPS = st.none() | st.builds(
    lambda box, slots: PublishedGroup(box[0], box[1], tuple(slots)),
    FEW_BOXES | boxes(),
    st.lists(VALUES_OF_TWO, min_size=1),
)


@pytest.mark.parametrize("form", FORMS)
@given(before=GROUPS, after=GROUPS)
def test_a_diff_turns_the_one_group_into_the_other_and_writes_nothing_twice_or_in_vain(
    form: str, before: PublishedGroup | None, after: PublishedGroup | None
) -> None:
    old, new = table_of(before, form), table_of(after, form)
    records, _ = Changelog(of_form(form), 3).diff(17, before, after)
    assert applied(old, records) == new
    assert len({record.key for record in records}) == len(records)
    assert all(old.get(record.key) != record.value for record in records)


@given(before=GROUPS, after=GROUPS)
def test_the_digest_is_that_of_the_published_group_whatever_the_way_to_it(
    before: PublishedGroup | None, after: PublishedGroup | None
) -> None:
    log = Changelog(ALL_KINDS, 3)
    digest = log.diff(17, None, before)[1] + log.diff(17, before, after)[1]
    assert digest % 2**64 == log.diff(17, None, after)[1]


@given(one=GROUPS, other=GROUPS)
def test_two_tables_have_one_digest_where_their_rows_are_the_same_and_only_there(
    one: PublishedGroup | None, other: PublishedGroup | None
) -> None:
    log = Changelog(ALL_KINDS, 3)
    digests = [log.diff(17, None, group)[1] for group in (one, other)]
    assert (digests[0] == digests[1]) == (table_of(one) == table_of(other))


def test_the_digest_of_two_groups_of_the_same_rows_tells_their_numbers() -> None:
    log = Changelog(SONG, 0)
    assert log.diff(17, None, QG1)[1] != log.diff(18, None, QG1)[1]
