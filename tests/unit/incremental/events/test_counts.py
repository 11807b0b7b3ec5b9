"""Every message is counted once: applied, ignored or a dead letter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.events.counts import APPLIED, DEAD, IGNORED, NO_MESSAGES, Counts

UNLISTED = st.dictionaries(st.sampled_from(["job", "city", "sex"]), st.integers(1, 9))
COUNTS = st.builds(Counts, *[st.integers(0, 10**9)] * 4, UNLISTED)


@given(COUNTS, COUNTS, COUNTS)
def test_sums_do_not_depend_on_how_the_messages_were_cut_into_batches(one: Counts, other: Counts, last: Counts) -> None:
    assert (one + other) + last == one + (other + last)
    assert one + NO_MESSAGES == one
    assert (one + other).messages == one.messages + other.messages


def test_categories_that_are_not_listed_add_up_by_column_and_are_no_messages() -> None:
    both = Counts(applied=1, unlisted={"job": 1}) + Counts(applied=1, unlisted={"job": 2, "city": 1})
    assert (both.unlisted, both.messages) == ({"job": 3, "city": 1}, 2)


def test_one_message_of_each_kind_counts_one() -> None:
    assert [counts.messages for counts in (APPLIED, IGNORED, DEAD)] == [1, 1, 1]
    assert Counts(1, 1, 1) == APPLIED + IGNORED + DEAD
