"""What a take-over finds, and what it says of it: which standing, or which refusal with which mend."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from streamer.errors import ShardRefused
from streamer.incremental import mends
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.standing import Standing, compare, to_say_again, with_topics
from streamer.incremental.store.base import UNFINISHED, Meta
from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, LIVE, POSITIONS
from streamer.table.schema import Table
from worlds.small_tables import YEARS, table

PEOPLE = table(YEARS, k=2)
IDS = {kind: f"first {kind}" for kind in (CHANGES, LIVE, POSITIONS, DEAD_LETTERS)}
FIVE = Meta(5, 50, 4, 18, digest=7, shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=IDS)
AT_FIVE = Position.of(FIVE)
AT_FOUR = Position(4, 40, 3, 17, 0, 6, live_id=IDS[LIVE])
AT_SEVEN = Position(7, 70, 6, 19, 0, 9, live_id=IDS[LIVE])
INPUT = InputState(IDS, shards=2, earliest=0, end=100, live_begun=True)


def made_anew(*kinds: str) -> InputState:
    return replace(INPUT, topic_ids={**IDS, **{kind: f"second {kind}" for kind in kinds}})


def standing(position: Position | None, found: InputState = INPUT, meta: Meta = FIVE, ours: Table = PEOPLE) -> Standing:
    return compare(ours, 0, meta, position, found)


def kept_by(other: Table) -> Meta:
    return replace(FIVE, fingerprint=other.fingerprint)


def refusal(position: Position | None, found: InputState = INPUT, meta: Meta = FIVE, ours: Table = PEOPLE) -> str:
    with pytest.raises(ShardRefused) as refused:
        standing(position, found, meta, ours)
    return str(refused.value)


def test_a_shard_at_rest_is_level_one_commit_more_is_ahead_and_a_lost_one_behind() -> None:
    assert standing(AT_FIVE) is Standing.LEVEL
    assert standing(AT_FOUR) is Standing.AHEAD
    assert standing(AT_SEVEN) is Standing.BEHIND


def test_a_store_that_lost_a_truncation_alone_is_behind_though_no_message_is_missing() -> None:
    truncated = Position.of(replace(FIVE, commit=6, release=5, digest=0, truncations=1))
    assert standing(truncated) is Standing.BEHIND
    assert standing(truncated, meta=replace(FIVE, commit=7, truncations=0)) is Standing.BEHIND, "in the middle of it"


def test_another_commit_of_the_published_number_is_refused_whichever_is_further() -> None:
    """A failover that lost a fence lets the former owner store a commit of that number once more."""
    for next_ in (40, 60):
        assert "commit 5 is not the same" in refusal(msgspec.structs.replace(AT_FIVE, next=next_))


@pytest.mark.parametrize("position", [AT_FIVE, AT_FOUR])
def test_an_output_that_was_made_anew_needs_the_whole_table(position: Position) -> None:
    assert standing(position, made_anew(LIVE)) is Standing.EMPTIED


def test_where_output_and_positions_are_both_new_the_store_alone_says_what_goes_out() -> None:
    assert standing(None, made_anew(LIVE, POSITIONS)) is Standing.EMPTIED
    assert standing(None, made_anew(LIVE)) is Standing.EMPTIED


def test_an_output_that_was_made_anew_is_not_filled_from_a_store_that_lost_commits() -> None:
    found = made_anew(LIVE)
    emptied = Meta(shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=found.topic_ids)
    for meta in (FIVE, emptied):
        said = refusal(AT_SEVEN, found, meta)
        assert "lost commits" in said
        assert mends.publish_again("people") in said


def test_positions_that_were_made_anew_and_are_empty_are_refused_and_the_output_is_to_go_with_them() -> None:
    said = refusal(None, made_anew(POSITIONS))
    assert "positions was made anew" in said
    assert mends.publish_again("people") in said


def test_a_first_commit_counts_as_published_or_not_only_where_the_positions_are_the_old_ones() -> None:
    first = replace(FIVE, commit=1)
    assert standing(None, meta=first) is Standing.AHEAD
    assert "positions was made anew" in refusal(None, made_anew(POSITIONS), meta=first)


def test_new_positions_that_say_the_same_as_the_store_are_taken() -> None:
    assert standing(AT_FIVE, made_anew(POSITIONS)) is Standing.LEVEL


def test_new_dead_letters_and_topics_not_known_before_change_nothing() -> None:
    assert standing(AT_FIVE, made_anew(DEAD_LETTERS)) is Standing.LEVEL
    assert standing(AT_FIVE, replace(INPUT, topic_ids={**IDS, "control": "first control"})) is Standing.LEVEL


def test_a_broker_that_gives_no_ids_is_not_held_to_any() -> None:
    assert standing(AT_FIVE, replace(INPUT, topic_ids={})) is Standing.LEVEL


def test_an_input_that_was_made_anew_is_refused_and_the_mend_is_to_read_it() -> None:
    said = refusal(AT_FIVE, made_anew(CHANGES))
    assert "made anew" in said
    assert mends.begin_anew("people") in said


def test_a_grown_input_is_refused_and_the_table_begins_anew_from_a_file() -> None:
    said = refusal(AT_FIVE, replace(INPUT, shards=6))
    assert "had 2 partitions and has 6" in said
    assert mends.begin_from_file("people") in said


def test_a_state_of_another_engine_is_refused_by_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: the message said that table.yaml had changed, and it had not."""
    monkeypatch.setattr("streamer.table.schema.ENGINE_VERSION", 1000)
    former = kept_by(replace(PEOPLE))
    also_changed = kept_by(replace(PEOPLE, k=9, recut=False))
    monkeypatch.setattr("streamer.table.schema.ENGINE_VERSION", 1001)
    ours = replace(PEOPLE)
    for meta, also in (
        (former, "another table by it; run"),
        (also_changed, "another table by it; table.yaml has changed, too (privacy, engine); run"),
    ):
        said = refusal(AT_FIVE, meta=meta, ours=ours)
        assert "the state was kept by engine version 1000, and this streamer's is 1001" in said
        assert also in said
        assert f"run the version that kept it, or, {mends.begin_anew('people')}" in said
        assert ("table.yaml" in said) == (meta is also_changed)


def test_a_state_of_before_versions_were_told_is_not_taken_for_another_table_yaml() -> None:
    said = refusal(AT_FIVE, meta=replace(FIVE, fingerprint="0123456789abcdef0123456789abcdef"))
    assert "the state was kept by engine version 5 or a lower one, and this streamer's is 6" in said
    assert "table.yaml" not in said


def test_a_table_that_began_anew_and_is_not_whole_is_nobodys() -> None:
    said = refusal(AT_FIVE, meta=replace(FIVE, fingerprint=UNFINISHED))
    assert "not whole" in said
    assert mends.begin_anew("people") in said


@pytest.mark.parametrize("next_", [0, 30])
def test_a_table_that_began_anew_waits_to_be_published_whatever_offset_it_goes_on_from(next_: int) -> None:
    begun = replace(FIVE, commit=6, outside=6, next=next_)
    assert standing(AT_FIVE, meta=begun) is Standing.AHEAD
    assert standing(AT_FIVE, replace(INPUT, end=40), meta=begun) is Standing.AHEAD, "the input is another one"
    assert standing(AT_FIVE, meta=replace(begun, outside=4)) is Standing.BEHIND


@pytest.mark.parametrize("found", [INPUT, made_anew(LIVE)])
@pytest.mark.parametrize("next_", [50, 70])
def test_a_store_that_lost_what_did_not_come_from_the_input_is_never_published_from(
    found: InputState, next_: int
) -> None:
    """Wherever the input stands: a table may begin before anything is written to it."""
    said = refusal(Position(7, next_, 6, 19, 7, 9, live_id=IDS[LIVE]), found)
    assert "commit 7 did not come from the input" in said
    assert mends.begin_anew("people") in said
    assert mends.publish_again("people") not in said


def test_rows_in_the_output_that_nobody_knows_of_are_not_mixed_with_a_first_table() -> None:
    fresh = Meta(shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=IDS)
    assert standing(None, replace(INPUT, live_begun=False), meta=fresh) is Standing.LEVEL
    said = refusal(None, meta=fresh)
    assert "the output holds rows" in said
    assert mends.begin_anew("people") in said


@pytest.mark.parametrize(
    ("position", "found", "meta", "says"),
    [
        (
            AT_FIVE,
            INPUT,
            kept_by(replace(PEOPLE, k=9)),
            "table.yaml has changed since this state was written (privacy)",
        ),
        (AT_FIVE, replace(INPUT, earliest=51), FIVE, "begins at 51: it has expired"),
        (AT_FIVE, replace(INPUT, end=49), FIVE, "the input ends at 49"),
        (None, INPUT, FIVE, "positions were lost"),
        (Position(5, 50, 4, 18, 0, 8, live_id=IDS[LIVE]), INPUT, FIVE, "not the same"),
        (Position(7, 70, 6, 19, 6, 9, live_id=IDS[LIVE]), INPUT, FIVE, "commit 6 did not come from the input"),
    ],
)
def test_every_refusal_names_a_mend(position: Position | None, found: InputState, meta: Meta, says: str) -> None:
    said = refusal(position, found, meta)
    assert says in said
    assert any(mend("people") in said for mend in (mends.publish_again, mends.begin_anew, mends.begin_from_file))


def test_answers_are_about_the_control_topic_that_they_were_given_to() -> None:
    asked = replace(FIVE, topic_ids={**IDS, CONTROL: "first control"}, control_next=9)
    same = replace(INPUT, topic_ids={**IDS, CONTROL: "first control"})
    assert with_topics(asked, same) == asked
    assert with_topics(asked, made_anew(LIVE)).control_next == 9
    assert with_topics(asked, made_anew(CONTROL)).control_next == 0


def test_a_control_topic_that_was_made_anew_counts_as_new_until_what_it_lacks_is_said() -> None:
    knows = replace(FIVE, shards=3, topic_ids={**IDS, CONTROL: "first control"}, control_next=9)
    now = replace(INPUT, shards=3, topic_ids={**IDS, CONTROL: "second control"})
    assert to_say_again(knows, now) == "second control"
    assert to_say_again(with_topics(knows, now), now) == "second control"
    assert with_topics(knows, now).topic_ids == {**IDS, CONTROL: ""}
    assert to_say_again(replace(knows, topic_ids=now.topic_ids), now) == ""
    assert to_say_again(replace(knows, shards=1), now) == "", "there is nobody else"
    assert to_say_again(replace(knows, commit=0, topic_ids=now.topic_ids), now) == "second control"
    assert to_say_again(knows, replace(now, topic_ids=IDS)) == "", "there is none"
