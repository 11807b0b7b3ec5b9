"""What a take-over finds, and what it says of it: which standing, or which refusal with which mend."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from streamer.errors import ShardRefused
from streamer.incremental import remedies
from streamer.incremental.engine.stored_state import QIGroupState
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import PublishedGroup
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.preflight import (
    Consistency,
    Digested,
    compare,
    first_meta,
    to_say_again,
    with_topics,
)
from streamer.incremental.shard.ready import Assigned, Inspected, Ready, TakeFence
from streamer.incremental.store.base import UNFINISHED, Meta
from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, LIVE, POSITIONS
from streamer.table import schema
from streamer.table.schema import Table
from worlds.small_tables import CITY, YEARS, table

PEOPLE = table(YEARS, k=2)
IDS = {kind: f"first {kind}" for kind in (CHANGES, LIVE, POSITIONS, DEAD_LETTERS)}
FIVE = Meta(5, 50, 4, 18, digest=7, shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=IDS)
AT_FIVE = Position.of(FIVE)
AT_FOUR = Position(4, 40, 3, 17, 0, 6, live_id=IDS[LIVE])
AT_SEVEN = Position(7, 70, 6, 19, 0, 9, live_id=IDS[LIVE])
INPUT = InputState(IDS, shards=2, earliest=0, end=100, live_begun=True)


def made_anew(*kinds: str) -> InputState:
    return replace(INPUT, topic_ids={**IDS, **{kind: f"second {kind}" for kind in kinds}})


def standing(
    position: Position | None, found: InputState = INPUT, meta: Meta = FIVE, ours: Table = PEOPLE
) -> Consistency:
    return compare(ours, 0, meta, position, found)


def kept_by(other: Table) -> Meta:
    return replace(FIVE, fingerprint=other.fingerprint)


def refusal(position: Position | None, found: InputState = INPUT, meta: Meta = FIVE, ours: Table = PEOPLE) -> str:
    with pytest.raises(ShardRefused) as refused:
        standing(position, found, meta, ours)
    return str(refused.value)


def test_a_shard_at_rest_is_level_one_commit_more_is_ahead_and_a_lost_one_behind() -> None:
    assert standing(AT_FIVE) is Consistency.LEVEL
    assert standing(AT_FOUR) is Consistency.AHEAD
    assert standing(AT_SEVEN) is Consistency.BEHIND


def test_a_store_that_lost_a_truncation_alone_is_behind_though_no_message_is_missing() -> None:
    truncated = Position.of(replace(FIVE, commit=6, release=5, digest=0, truncations=1))
    assert standing(truncated) is Consistency.BEHIND
    assert standing(truncated, meta=replace(FIVE, commit=7, truncations=0)) is Consistency.BEHIND, "in the middle of it"


def test_another_commit_of_the_published_number_is_refused_whichever_is_further() -> None:
    """A failover that lost a fence lets the former owner store a commit of that number once more."""
    for next_ in (40, 60):
        assert "commit 5 is not the same" in refusal(msgspec.structs.replace(AT_FIVE, next=next_))


@pytest.mark.parametrize("position", [AT_FIVE, AT_FOUR])
def test_an_output_that_was_recreated_needs_the_whole_table(position: Position) -> None:
    assert standing(position, made_anew(LIVE)) is Consistency.EMPTIED


def test_where_output_and_positions_are_both_new_the_store_alone_says_what_goes_out() -> None:
    assert standing(None, made_anew(LIVE, POSITIONS)) is Consistency.EMPTIED
    assert standing(None, made_anew(LIVE)) is Consistency.EMPTIED


def test_an_output_that_was_recreated_is_not_filled_from_a_store_that_lost_commits() -> None:
    found = made_anew(LIVE)
    emptied = Meta(shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=found.topic_ids)
    for meta in (FIVE, emptied):
        said = refusal(AT_SEVEN, found, meta)
        assert "lost commits" in said
        assert remedies.publish_again("people") in said


def test_positions_that_were_recreated_and_are_empty_are_refused_and_the_output_is_to_go_with_them() -> None:
    said = refusal(None, made_anew(POSITIONS))
    assert "positions was recreated" in said
    assert remedies.publish_again("people") in said


def test_a_first_commit_counts_as_published_or_not_only_where_the_positions_are_the_old_ones() -> None:
    first = replace(FIVE, commit=1)
    assert standing(None, meta=first) is Consistency.AHEAD
    assert "positions was recreated" in refusal(None, made_anew(POSITIONS), meta=first)


def test_new_positions_that_say_the_same_as_the_store_are_taken() -> None:
    assert standing(AT_FIVE, made_anew(POSITIONS)) is Consistency.LEVEL


def test_new_dead_letters_and_topics_not_known_before_change_nothing() -> None:
    assert standing(AT_FIVE, made_anew(DEAD_LETTERS)) is Consistency.LEVEL
    assert standing(AT_FIVE, replace(INPUT, topic_ids={**IDS, "control": "first control"})) is Consistency.LEVEL


def test_a_broker_that_gives_no_ids_is_not_held_to_any() -> None:
    assert standing(AT_FIVE, replace(INPUT, topic_ids={})) is Consistency.LEVEL


def test_an_input_that_was_recreated_is_refused_and_the_mend_is_to_read_it() -> None:
    said = refusal(AT_FIVE, made_anew(CHANGES))
    assert "recreated" in said
    assert remedies.reload("people") in said


def test_a_grown_input_is_refused_and_the_table_begins_anew_from_a_file() -> None:
    said = refusal(AT_FIVE, replace(INPUT, shards=6))
    assert "had 2 partitions and has 6" in said
    assert remedies.reload_from_file("people") in said


def test_a_state_of_another_engine_is_refused_by_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: the message said that table.yaml had changed, and it had not."""
    monkeypatch.setattr(schema, "ENGINE_VERSION", 1000)
    former = kept_by(replace(PEOPLE))
    also_changed = kept_by(replace(PEOPLE, k=9, recut=False))
    monkeypatch.setattr(schema, "ENGINE_VERSION", 1001)
    ours = replace(PEOPLE)
    for meta, also in (
        (former, "another table by it; run"),
        (also_changed, "another table by it; table.yaml has changed, too (privacy, engine); run"),
    ):
        said = refusal(AT_FIVE, meta=meta, ours=ours)
        assert "the state was kept by engine version 1000, and this streamer's is 1001" in said
        assert also in said
        assert f"run the version that kept it, or, {remedies.reload('people')}" in said
        assert ("table.yaml" in said) == (meta is also_changed)


def test_a_state_of_before_versions_were_told_is_not_taken_for_another_table_yaml() -> None:
    said = refusal(AT_FIVE, meta=replace(FIVE, fingerprint="0123456789abcdef0123456789abcdef"))
    assert "the state was kept by engine version 5 or a lower one, and this streamer's is 6" in said
    assert "table.yaml" not in said


def test_a_table_that_began_anew_and_is_not_whole_is_nobodys() -> None:
    said = refusal(AT_FIVE, meta=replace(FIVE, fingerprint=UNFINISHED))
    assert "only in part" in said
    assert remedies.reload("people") in said


@pytest.mark.parametrize("next_", [0, 30])
def test_a_table_that_began_anew_waits_to_be_published_whatever_offset_it_goes_on_from(next_: int) -> None:
    begun = replace(FIVE, commit=6, outside=6, next=next_)
    assert standing(AT_FIVE, meta=begun) is Consistency.AHEAD
    assert standing(AT_FIVE, replace(INPUT, end=40), meta=begun) is Consistency.AHEAD, "the input is another one"
    assert standing(AT_FIVE, meta=replace(begun, outside=4)) is Consistency.BEHIND


@pytest.mark.parametrize("found", [INPUT, made_anew(LIVE)])
@pytest.mark.parametrize("next_", [50, 70])
def test_a_store_that_lost_what_did_not_come_from_the_input_is_never_published_from(
    found: InputState, next_: int
) -> None:
    """Wherever the input stands: a table may begin before anything is written to it."""
    said = refusal(Position(7, next_, 6, 19, 7, 9, live_id=IDS[LIVE]), found)
    assert "commit 7 did not come from the input" in said
    assert remedies.reload("people") in said
    assert remedies.publish_again("people") not in said


def test_rows_in_the_output_that_nobody_knows_of_are_not_mixed_with_a_first_table() -> None:
    fresh = Meta(shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=IDS)
    assert standing(None, replace(INPUT, live_begun=False), meta=fresh) is Consistency.LEVEL
    said = refusal(None, meta=fresh)
    assert "the output holds rows" in said
    assert remedies.reload("people") in said


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
    assert any(mend("people") in said for mend in (remedies.publish_again, remedies.reload, remedies.reload_from_file))


def test_answers_are_about_the_control_topic_that_they_were_given_to() -> None:
    asked = replace(FIVE, topic_ids={**IDS, CONTROL: "first control"}, control_next=9)
    same = replace(INPUT, topic_ids={**IDS, CONTROL: "first control"})
    assert with_topics(asked, same) == asked
    assert with_topics(asked, made_anew(LIVE)).control_next == 9
    assert with_topics(asked, made_anew(CONTROL)).control_next == 0


def test_a_control_topic_that_was_recreated_counts_as_new_until_what_it_lacks_is_said() -> None:
    knows = replace(FIVE, shards=3, topic_ids={**IDS, CONTROL: "first control"}, control_next=9)
    now = replace(INPUT, shards=3, topic_ids={**IDS, CONTROL: "second control"})
    assert to_say_again(knows, now) == "second control"
    assert to_say_again(with_topics(knows, now), now) == "second control"
    assert with_topics(knows, now).topic_ids == {**IDS, CONTROL: ""}
    assert to_say_again(replace(knows, topic_ids=now.topic_ids), now) == ""
    assert to_say_again(replace(knows, shards=1), now) == "", "there is nobody else"
    assert to_say_again(replace(knows, commit=0, topic_ids=now.topic_ids), now) == "second control"
    assert to_say_again(knows, replace(now, topic_ids=IDS)) == "", "there is none"


# The inspection before a take-over: what does not fit together is refused before anyone is shut out.

LOOK_IDS = {"changes": "first"}
LOOK_INPUT = InputState(LOOK_IDS, shards=2, earliest=0, end=100)
LOOK_AT_FIVE = Meta(5, 50, 4, 18, digest=7, shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=LOOK_IDS)


def looked(*metas: Meta | None, position: Position | None, found: InputState = LOOK_INPUT) -> None:
    """metas: what the store says before and after the position is read; its owner may commit in between."""
    machine = Machine(PEOPLE, 0, b"")
    machine.handle(Assigned())
    asked = machine.handle(Inspected(metas[0], position, metas[-1], found))
    if asked.stop is not None:
        raise asked.stop
    assert asked == Ready(read=TakeFence(again=False))


def test_a_shard_that_fits_together_may_be_taken_over() -> None:
    looked(LOOK_AT_FIVE, position=Position.of(LOOK_AT_FIVE))


def test_a_shard_that_never_committed_may_be_taken_over() -> None:
    looked(None, position=None)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (replace(LOOK_INPUT, shards=4), "had 2 partitions and has 4 now"),
        (replace(LOOK_INPUT, topic_ids={"changes": "second"}), "recreated"),
        (replace(LOOK_INPUT, earliest=51), "expired"),
        (replace(LOOK_INPUT, end=49), "lost messages"),
    ],
)
def test_another_kafka_is_refused_while_the_owner_goes_on(found: InputState, says: str) -> None:
    with pytest.raises(ShardRefused, match=says):
        looked(LOOK_AT_FIVE, position=Position.of(LOOK_AT_FIVE), found=found)


def test_another_table_yaml_is_refused_while_the_owner_goes_on() -> None:
    other = replace(LOOK_AT_FIVE, fingerprint=table(YEARS, CITY, k=2).fingerprint)
    with pytest.raises(ShardRefused, match=r"table\.yaml has changed"):
        looked(other, position=Position.of(other))


def test_an_owner_at_work_is_not_taken_for_a_store_that_lost_commits() -> None:
    """Between the two readings it committed and published: the position fits neither."""
    later = replace(LOOK_AT_FIVE, commit=9, next=90)
    position = Position.of(replace(LOOK_AT_FIVE, commit=7, next=70))
    looked(LOOK_AT_FIVE, later, position=position)
    with pytest.raises(ShardRefused, match="commit 9, the output at 7"):
        looked(later, later, position=position)


def test_an_owner_at_work_does_not_hide_that_the_input_is_another_one() -> None:
    with pytest.raises(ShardRefused, match="recreated"):
        looked(
            LOOK_AT_FIVE,
            replace(LOOK_AT_FIVE, commit=6),
            position=None,
            found=replace(LOOK_INPUT, topic_ids={"changes": "x"}),
        )


def test_a_shard_begins_with_the_topics_and_the_table_that_are_there() -> None:
    assert first_meta(PEOPLE, LOOK_INPUT) == Meta(shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=LOOK_IDS)


# QI groups that a store hands out are held against the digest of what was published.

FLU, COUGH = (b'"flu"',), (b'"cough"',)
AGREED = {
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
    digested = Digested(iter(groups.items()))
    assert dict(digested) == groups
    digested.check(PEOPLE, 3, meta)


def test_what_was_published_is_handed_on_in_any_order() -> None:
    check(AGREED, meta_of(AGREED))
    check(dict(reversed(AGREED.items())), meta_of(AGREED))
    check({}, Meta())


@pytest.mark.parametrize(
    "groups",
    [{}, {7: AGREED[7]}, {7: AGREED[7], 3: AGREED[2]}, AGREED | {7: QIGroupState((3,), (5,), ("a", "b"), (FLU, COUGH))},
     AGREED | {7: QIGroupState((3,), (4,), ("a", "b"), (COUGH, FLU))}],
    ids=["all are lost", "one is lost", "another number", "another box", "slots exchanged"],
)  # fmt: skip
def test_other_qi_groups_are_refused_though_they_may_fit_together(groups: dict[int, QIGroupState]) -> None:
    with pytest.raises(ShardRefused, match="shard 3 of people: the QI groups in the store are not those of commit 5"):
        check(groups, meta_of(AGREED))
