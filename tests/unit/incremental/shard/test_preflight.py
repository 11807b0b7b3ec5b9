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
from streamer.incremental.sealed.stored_state import SealedMark
from streamer.incremental.shard.input import InputState, KeptSecret, Message, last_read
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.preflight import (
    Consistency,
    Digested,
    check_secret,
    compare,
    first_meta,
    message_read_last,
    with_topics,
)
from streamer.incremental.shard.ready import Assigned, Inspected, Ready, TakeFence
from streamer.incremental.store.base import UNFINISHED, Meta
from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, LIVE, POSITIONS
from streamer.table.schema import Repair, Table, version_of
from worlds.small_tables import YEARS, as_of_version, table

PEOPLE = table(YEARS, k=2)
OURS = version_of(PEOPLE.fingerprint)
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


def test_another_commit_of_the_published_number_is_refused_whichever_is_further() -> None:
    """A failover that lost a fence lets the former owner store a commit of that number once more."""
    for next_ in (40, 60):
        assert "commit 5 is not the same" in refusal(msgspec.structs.replace(AT_FIVE, next=next_))


def test_positions_that_were_recreated_or_lost_their_end_have_the_whole_table_published() -> None:
    """Nothing says then what of the store is published."""
    assert standing(None, made_anew(POSITIONS)) is Consistency.INCOMPLETE
    assert standing(None, made_anew(POSITIONS), meta=replace(FIVE, commit=1)) is Consistency.INCOMPLETE
    assert standing(msgspec.structs.replace(AT_FOUR, commit=3)) is Consistency.INCOMPLETE
    assert standing(None) is Consistency.INCOMPLETE


AT_SIXTY = msgspec.structs.replace(AT_FIVE, ends={LIVE: 60})


def reaching(begin: int, end: int) -> InputState:
    return replace(INPUT, reach={LIVE: (begin, end)})


def test_an_output_that_ends_before_the_end_of_its_position_has_lost_its_tail() -> None:
    assert standing(AT_SIXTY, reaching(0, 60)) is Consistency.LEVEL
    assert standing(AT_SIXTY, reaching(0, 64)) is Consistency.LEVEL, "markers of transactions have offsets, too"
    assert standing(AT_SIXTY, reaching(0, 59)) is Consistency.INCOMPLETE
    assert standing(AT_FIVE, reaching(0, 0)) is Consistency.LEVEL, "a position of before that says no end"


def test_an_output_whose_beginning_moved_has_lost_records_until_the_whole_table_was_published() -> None:
    assert standing(AT_SIXTY, reaching(7, 60)) is Consistency.INCOMPLETE
    assert standing(AT_SIXTY, reaching(1, 60)) is Consistency.INCOMPLETE
    mended = replace(FIVE, begins={LIVE: 7})
    position = msgspec.structs.replace(Position.of(mended), ends={LIVE: 60})
    assert standing(position, reaching(7, 60), mended) is Consistency.LEVEL
    assert standing(position, reaching(8, 60), mended) is Consistency.INCOMPLETE


def test_a_shard_that_never_committed_has_no_table_that_an_output_could_lack() -> None:
    fresh = Meta(shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=IDS)
    assert standing(None, replace(reaching(7, 60), live_begun=False), fresh) is Consistency.LEVEL
    assert standing(AT_FIVE, reaching(7, 60), fresh) is Consistency.BEHIND


def test_a_whole_table_that_is_stored_is_published_before_what_the_output_lost_is_looked_for_again() -> None:
    whole = replace(FIVE, commit=7, outside=7, whole_at=7)
    assert standing(AT_SIXTY, reaching(0, 3), whole) is Consistency.AHEAD
    assert standing(AT_SIXTY, replace(made_anew(LIVE), reach={LIVE: (0, 0)}), whole) is Consistency.INCOMPLETE


READ = Message(FIVE.next - 1, b"k", b"v", timestamp=1_000)
LAST = last_read(READ, b"secret")
KNOWS = replace(FIVE, read=LAST, secret=b"secret")


@pytest.mark.parametrize(
    "other",
    [
        None,
        Message(READ.offset, b"k", b"another", 1_000),
        Message(READ.offset, b"another", b"v", 1_000),
        Message(READ.offset, b"k", b"v", 1_001),
    ],
    ids=["none", "another value", "another key", "another time"],
)
def test_an_input_that_holds_another_message_where_the_last_was_read_is_refused(other: Message | None) -> None:
    """The broker lost the end of the log, and new messages have covered the place."""
    position = Position.of(KNOWS)
    assert standing(position, replace(INPUT, again=(READ,)), KNOWS) is Consistency.LEVEL
    said = refusal(position, replace(INPUT, again=(other,)), KNOWS)
    assert "another message" in said
    assert remedies.reload_from_file("people") in said


def test_of_what_store_and_output_say_the_later_message_is_the_one_that_was_read_last() -> None:
    earlier, later = (last_read(Message(offset, b"k", b"v"), b"secret") for offset in (3, 20))
    for of_store, of_output in ((earlier, later), (later, earlier), (None, later), (later, None)):
        position = msgspec.structs.replace(AT_FIVE, read=of_output)
        assert message_read_last(replace(FIVE, read=of_store), position) == later
    assert message_read_last(None, None) is None


def test_a_table_that_began_anew_does_not_ask_what_its_former_input_held() -> None:
    former = msgspec.structs.replace(AT_FIVE, read=LAST)
    assert message_read_last(replace(FIVE, commit=6, outside=6), former) is None
    assert message_read_last(replace(FIVE, commit=6, outside=4), former) == LAST
    assert message_read_last(replace(FIVE, commit=7, outside=7), former) == LAST


def test_where_the_last_message_has_expired_nothing_is_compared() -> None:
    assert standing(Position.of(KNOWS), replace(INPUT, again=()), KNOWS) is Consistency.LEVEL


def test_an_emptied_store_compares_the_time_of_the_message_that_the_position_names() -> None:
    empty = Meta(shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=IDS, secret=b"another")
    assert standing(Position.of(KNOWS), replace(INPUT, again=(READ,)), empty) is Consistency.BEHIND
    later = msgspec.structs.replace(READ, timestamp=1_001)
    assert "another message" in refusal(Position.of(KNOWS), replace(INPUT, again=(later,)), empty)


@pytest.mark.parametrize("lacks", [{"retried": ((50, 3),)}, {"sealed": SealedMark(3)}], ids=["a retry", "an epoch"])
def test_a_store_that_lacks_a_retried_message_or_an_epoch_alone_is_behind(lacks: dict[str, object]) -> None:
    assert standing(msgspec.structs.replace(AT_FIVE, commit=6, **lacks)) is Consistency.BEHIND


def test_the_secret_is_that_of_the_control_topic_where_both_have_one() -> None:
    meta = replace(FIVE, secret=b"secret")
    for held, kept in ((None, KeptSecret(b"other")), (meta, None), (meta, KeptSecret()), (meta, KeptSecret(b"secret"))):
        check_secret(PEOPLE, 0, held, kept)
    with pytest.raises(ShardRefused, match="Redis has another secret than the control topic"):
        check_secret(PEOPLE, 0, meta, KeptSecret(b"other"))


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


# Other versions of the engine: 1 is older than ours, 1000 newer.


def kept_by_version(version: str, ours: Table = PEOPLE) -> Meta:
    return kept_by(as_of_version(version, ours))


def test_a_price_of_local_repair_has_a_version_of_its_own_and_tables_with_it_are_adopted_too() -> None:
    repaired = replace(PEOPLE, repair=Repair(0.05))
    ours = version_of(repaired.fingerprint)
    former = kept_by_version(ours.split(".")[0] + ".1", repaired)
    assert standing(Position.of(former), meta=former, ours=repaired) is Consistency.LEVEL
    assert "is older" in refusal(AT_FIVE, meta=kept_by_version(ours + "1", repaired), ours=repaired)


@pytest.mark.parametrize("other", [replace(PEOPLE, k=9, recut=False), replace(PEOPLE, k=2, recut=False)])
def test_a_state_of_an_older_engine_and_another_table_yaml_is_refused_for_table_yaml_alone(other: Table) -> None:
    said = refusal(AT_FIVE, meta=kept_by_version("1", other))
    assert "table.yaml has changed since this state was written" in said
    assert "engine version" not in said


def test_a_state_of_a_newer_engine_is_refused_by_both_versions_and_the_newer_streamer_is_to_run() -> None:
    for meta, also in (
        (kept_by_version("1000"), "does not read it; run"),
        (kept_by_version("1000", replace(PEOPLE, k=9)), "does not read it; table.yaml has changed, too (privacy); run"),
    ):
        said = refusal(AT_FIVE, meta=meta)
        assert f"the state was kept by engine version 1000, and this streamer's is {OURS}, which is older" in said
        assert also in said
        assert f"run the newer streamer, or {remedies.reload('people')}" in said


def test_a_state_that_does_not_say_of_which_table_yaml_it_is_is_not_adopted() -> None:
    said = refusal(AT_FIVE, meta=replace(FIVE, fingerprint="0123456789abcdef0123456789abcdef"))
    assert f"the state was kept by engine version 5 or a lower one, and this streamer's is {OURS}, and the" in said
    assert "does not say of which table.yaml; run the version that kept it, or" in said


@pytest.mark.parametrize(
    "meta", [kept_by_version("1"), first_meta(PEOPLE, INPUT)], ids=["some are left", "all are lost"]
)
def test_lost_commits_of_an_older_engine_are_that_versions_to_read_again(meta: Meta) -> None:
    """Else a store that lost everything would be read again to the end, and then be another table than is published."""
    said = refusal(msgspec.structs.replace(AT_SEVEN, engine="1"), meta=meta)
    assert f"the store has lost commits that engine version 1 decided, and this streamer's is {OURS}" in said
    assert f"run version 1 until it has read them again, then this one, or {remedies.reload('people')}" in said


def test_lost_commits_of_a_newer_engine_are_not_repeated_by_this_one() -> None:
    said = refusal(msgspec.structs.replace(AT_SEVEN, engine="1000"), meta=first_meta(PEOPLE, INPUT))
    assert "has lost commits that engine version 1000 decided" in said


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
        (Position(6, 50, 4, 18, 0, 8, live_id=IDS[LIVE]), INPUT, FIVE, "restored from an earlier copy"),
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


def test_in_a_control_topic_that_was_recreated_no_request_has_its_answer() -> None:
    knows = replace(FIVE, shards=3, topic_ids={**IDS, CONTROL: "first control"}, control_next=9)
    now = replace(INPUT, shards=3, topic_ids={**IDS, CONTROL: "second control"})
    assert with_topics(knows, now) == replace(knows, topic_ids=now.topic_ids, control_next=0)


# The inspection before a take-over: what does not fit together is refused before anyone is shut out.


def looked(*metas: Meta | None, position: Position | None, found: InputState = INPUT) -> None:
    """metas: what the store says before and after the position is read; its owner may commit in between."""
    machine = Machine(PEOPLE, 0, b"")
    machine.handle(Assigned())
    asked = machine.handle(Inspected(metas[0], position, metas[-1], found))
    if asked.stop is not None:
        raise asked.stop
    assert asked == Ready(read=TakeFence(again=False))


def test_an_owner_at_work_is_not_taken_for_a_store_that_lost_commits() -> None:
    """Between the two readings it committed and published: the position fits neither."""
    later = replace(FIVE, commit=3, next=50)
    position = Position.of(replace(FIVE, commit=7, next=50))
    looked(FIVE, later, position=position)
    with pytest.raises(ShardRefused, match="commit 3, the output at 7"):
        looked(later, later, position=position)


def test_an_owner_at_work_does_not_hide_that_the_input_is_another_one() -> None:
    with pytest.raises(ShardRefused, match="recreated"):
        looked(
            FIVE,
            replace(FIVE, commit=6),
            position=None,
            found=replace(INPUT, topic_ids={"changes": "x"}),
        )


def test_a_shard_begins_with_the_topics_and_the_table_that_are_there() -> None:
    assert first_meta(PEOPLE, INPUT) == Meta(shards=2, fingerprint=PEOPLE.fingerprint, topic_ids=IDS)


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
