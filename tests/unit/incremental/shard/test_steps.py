"""What steps did, in numbers that add up."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from streamer.errors import Conflict, EventRefused, Fenced, GroupTooLarge, LawViolated, ServerUnreachable, ShardRefused
from streamer.incremental.engine.engine import Engine, Outcome
from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.engine.stored_state import Origin, SimilarityList
from streamer.incremental.events.changes import APPLIED, DEAD, IGNORED, NO_MESSAGES, UNKNOWN_KEY, Counts, Delete, Insert
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.sealed.stored_state import SealedChanges, SealedMark
from streamer.incremental.shard.input import Message, last_read
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.requests import EpochOver
from streamer.incremental.shard.sealing import SealedPart
from streamer.incremental.shard.steps import (
    IN_A_ROW_MAX,
    Coordinates,
    Repetition,
    Skipped,
    StepReport,
    StepTally,
    Unforeseen,
    counts_of,
    next_commit,
    not_retried,
    partial,
    refused,
    similarity_of,
    told,
    unforeseen,
)
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import DEAD_LETTERS
from streamer.table.row import Row
from worlds.small_tables import YEARS, table

# Dead letters: where the message is, why it was not applied, and nothing of what it says.

WHERE = Coordinates("people.changes", 3, 41)
REFUSAL = EventRefused("out-of-domain", "a number outside of the domain", column="age")


def read(letter: OutboxEntry) -> dict[str, object]:
    assert letter.topic == DEAD_LETTERS
    content: dict[str, object] = json.loads(letter.value or b"")
    return content


def test_a_refused_message_is_found_by_its_coordinates_and_explained_by_its_reason() -> None:
    assert read(refused(WHERE, REFUSAL)) == {
        **{"kind": "refused", "reason": "out-of-domain", "detail": "a number outside of the domain", "column": "age"},
        **{"topic": "people.changes", "partition": 3, "offset": 41},
    }


def test_a_statement_that_left_rows_as_they_were_says_how_many() -> None:
    letter = read(partial(WHERE, 12))
    assert (letter["kind"], letter["reason"], letter["rows"]) == ("partial", "rows-left-unchanged", 12)


@pytest.mark.parametrize(("reason", "kind"), [("superseded", "superseded"), ("key-exists", "refused-again")])
def test_a_retry_that_failed_says_whether_another_message_stands_or_the_same_is_wrong(reason: str, kind: str) -> None:
    letter = read(not_retried(WHERE, EventRefused(reason, "why")))
    assert (letter["kind"], letter["reason"], letter["detail"]) == (kind, reason, "why")


def test_the_letter_about_one_message_has_one_key_however_often_it_is_written() -> None:
    letters = [refused(WHERE, REFUSAL), partial(WHERE, 1)]
    assert len({letter.key for letter in letters}) == 1
    assert refused(WHERE._replace(offset=42), REFUSAL).key != letters[0].key


def test_a_commit_counts_what_was_applied_since_the_one_before() -> None:
    report = StepReport.of_commit(StepTally(next=3, key_form="", counts=APPLIED + DEAD), 7, 0.0, 0.0)
    report += StepReport.of_commit(StepTally(next=4, key_form="", counts=IGNORED + UNKNOWN_KEY), 0, 0.0, 0.0)
    assert report.counts == Counts(applied=1, ignored=1, dead_letters=1, unknown_keys=1)
    assert (report.counts.messages, report.published, report.commits) == (3, 7, 2)
    assert (report.merges, report.splits, report.faults) == (0, 0, ())
    assert StepReport() == StepReport(NO_MESSAGES, 0, 0, 0, 0, (), 0.0, 0.0, Counter())


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (Outcome(applied=True), Counts(applied=1)),
        (Outcome(applied=False), Counts(ignored=1)),
        (Outcome(applied=False, old_read=True), Counts(ignored=1, old_reads=1)),
        (Outcome(applied=True, explains=True), Counts(applied=1, explaining=1)),
        (Outcome(applied=False, unknown_key=True), Counts(ignored=1, unknown_keys=1)),
        (Outcome(False, unknown_key=True, respelt_key=True), Counts(ignored=1, unknown_keys=1, respelt_keys=1)),
    ],
)
def test_a_message_counts_as_what_became_of_it(outcome: Outcome, counts: Counts) -> None:
    assert counts_of(outcome) == counts


def test_no_message_is_in_the_text_of_what_was_applied() -> None:
    text = repr(StepTally(3, "", read=Message(2, None, b""), letters=[LETTER]))
    assert "Message" not in text and "OutboxEntry" not in text


def test_reasons_of_dead_letters_add_up_over_commits_and_steps() -> None:
    one = StepReport(reasons=Counter({"key-exists": 4}))
    for reasons in ({"key-exists": 1}, {"key-exists": 1, "no-json": 1}):
        one += StepReport.of_commit(StepTally(next=3, key_form="", reasons=Counter(reasons)), 0, 0.0, 0.0)
    assert one.reasons == {"key-exists": 6, "no-json": 1}


def test_steps_add_up_in_every_number_and_every_phase() -> None:
    one = StepReport(APPLIED, 1, 2, 3, 4, ["a fault"], 0.5, 2.0)
    other = StepReport(DEAD, 10, 20, 30, 40, ["another"], 0.25, 4.0)
    assert one + other == StepReport(APPLIED + DEAD, 11, 22, 33, 44, ("a fault", "another"), 0.75, 6.0)


# The commit after the last one: counted on, with the records by QI group and the dead letters behind them.

SMALL = table(YEARS, k=2)
META = Meta(commit=4, next=10, release=3, outside=2, skipped=(5,), secret=b"kept")
LETTER = OutboxEntry("dead-letters", b"{}", b"{}")


def drained(*years: int) -> Drained:
    engine = Engine(SMALL)
    for year in years:
        engine.apply(Insert(f"p{year}", Row((year,), (b'"flu"',))))
    return engine.drain()


def test_a_commit_goes_on_where_the_last_one_ended() -> None:
    tally = StepTally(next=14, key_form="bare", counts=APPLIED, letters=[LETTER], skipped=[12])
    commit = next_commit(META, drained(1, 2, 8, 9), tally, Changelog(SMALL, 0))
    meta = commit.meta
    assert (meta.commit, meta.next, meta.release, meta.qi_group_next) == (5, 14, 4, 3)
    assert (meta.outside, meta.skipped, meta.key_form, meta.secret) == (2, (5, 12), "bare", b"kept")
    assert meta.counts == APPLIED
    assert meta.digest != META.digest
    names = [entry.key for entry in commit.outbox]
    assert names[:4] == [b'{"qi_group":"0-%d","slot":%d}' % (group, slot) for group in (1, 2) for slot in (0, 1)]
    assert commit.outbox[4:] == [LETTER]
    assert set(commit.records) == {"p1", "p2", "p8", "p9"}


def test_a_commit_knows_the_last_message_that_was_read_and_where_the_cohorts_stand() -> None:
    message, none = Message(13, None, b"{}", 1_000), drained(1)
    read = next_commit(META, none, StepTally(14, "", read=message), Changelog(SMALL, 0)).meta
    assert (read.read, read.sealed) == (last_read(message, b"kept"), None)
    changes = SealedChanges(SealedMark(3), {}, {})
    after = next_commit(read, none, StepTally(15, ""), Changelog(SMALL, 0), SealedPart(changes=changes)).meta
    assert (after.read, after.sealed) == (read.read, SealedMark(3))


def test_a_digest_has_sixty_four_bits() -> None:
    full = replace(META, digest=2**64 - 1)
    sums = [
        next_commit(meta, drained(1, 2), StepTally(14, ""), Changelog(SMALL, 0)).meta.digest for meta in (META, full)
    ]
    assert sums[1] == (sums[0] - 1) % 2**64


def test_similarity_lists_are_of_the_commit_and_none_of_groups_that_have_none_any_more() -> None:
    found = replace(drained(1), similarity={1: ((2, 0.5),), 4: None})
    assert similarity_of(found, 5) == {1: SimilarityList(((2, 0.5),), 5), 4: None}


def test_a_commit_tells_how_groups_came_to_be_and_which_are_gone() -> None:
    engine = Engine(SMALL)
    for year in (1, 2, 8, 9):
        engine.apply(Insert(f"p{year}", Row((year,), (b'"flu"',))))
    split = next_commit(META, engine.drain(), StepTally(next=14, key_form=""), Changelog(SMALL, 0))
    assert split.origins == dict.fromkeys((1, 2), Origin("split", 5))
    engine.apply(Delete("p9"))
    merged = next_commit(split.meta, engine.drain(), StepTally(next=15, key_form=""), Changelog(SMALL, 0))
    (stays,) = (number for number, state in merged.qi_groups.items() if state)
    assert merged.origins == {stays: Origin("merged", 6), 3 - stays: None}


def test_a_commit_in_which_readers_see_nothing_is_no_release() -> None:
    commit = next_commit(META, drained(1), StepTally(next=11, key_form=""), Changelog(SMALL, 0))
    assert (commit.meta.commit, commit.meta.release, commit.meta.digest, commit.outbox) == (5, 3, 0, [])


# Which messages are passed over, and when a shard stops instead.

NAME = "shard 0 of people"
PASSED_OVER_META = Meta(commit=3, next=100)
CANARY = "canary"


def reason(passed_over: Skipped, offset: int) -> str | None:
    refusal = passed_over.refusal(offset)
    return None if refusal is None else refusal.reason


def test_skips_of_what_is_not_decided_yet_are_heeded() -> None:
    passed_over = Skipped(NAME, PASSED_OVER_META, [7, 100, 250])
    assert [reason(passed_over, offset) for offset in (7, 99, 100, 101, 250)] == [
        None,
        None,
        "skipped",
        None,
        "skipped",
    ]


def test_who_is_passed_over_is_refused_and_counted() -> None:
    passed_over, tally = Skipped(NAME, PASSED_OVER_META, [101]), StepTally(100, "")
    passed_over.check(100, tally)
    with pytest.raises(EventRefused) as refused:
        passed_over.check(101, tally)
    assert (refused.value.reason, tally.skipped) == ("skipped", [101])


def test_a_message_that_failed_is_passed_over_and_the_letter_says_where_the_code_failed() -> None:
    passed_over = Skipped(NAME, PASSED_OVER_META)
    told_to_log = passed_over.failed(Unforeseen("KeyError in engine.py, line 7", 120), 119, 20, PASSED_OVER_META)
    refusal = passed_over.refusal(120)
    assert refusal is not None
    assert (refusal.reason, refusal.detail) == (
        "internal-error",
        "applying it failed: KeyError in engine.py, line 7",
    )
    assert told_to_log == "offset 120 is passed over: KeyError in engine.py, line 7"


def test_a_broken_engine_does_not_turn_its_input_into_dead_letters() -> None:
    passed_over = Skipped(NAME, PASSED_OVER_META)
    for offset in range(100, 100 + IN_A_ROW_MAX - 1):
        passed_over.failed(Unforeseen("KeyError", offset), offset - 1, 1, PASSED_OVER_META)
    with pytest.raises(
        ShardRefused, match=r"10 messages in a row.*offset 109: KeyError; the fault is not theirs; run a"
    ):
        passed_over.failed(Unforeseen("KeyError", 109), 108, 1, PASSED_OVER_META)


def test_a_message_that_could_be_applied_ends_a_row() -> None:
    passed_over = Skipped(NAME, PASSED_OVER_META)
    for offset in range(100, 200, 2):
        passed_over.failed(Unforeseen("KeyError", offset), offset - 1, 1, PASSED_OVER_META)
        passed_over.applied(offset + 1)


def test_only_a_message_behind_the_last_one_that_failed_ends_a_row_and_once() -> None:
    passed_over = Skipped(NAME, PASSED_OVER_META)
    assert not passed_over.applied(100)
    passed_over.failed(Unforeseen("KeyError", 101), 100, 1, PASSED_OVER_META)
    assert [passed_over.applied(offset) for offset in (100, 101, 102, 103)] == [False, False, True, False]
    for offset in range(110, 119):
        passed_over.failed(Unforeseen("KeyError", offset), offset - 1, 1, PASSED_OVER_META)
    with pytest.raises(ShardRefused, match="10 messages in a row"):
        passed_over.failed(Unforeseen("KeyError", 119), 118, 1, PASSED_OVER_META)


def test_a_shard_does_not_pass_over_more_than_a_thousand() -> None:
    meta = Meta(next=5_000, skipped=tuple(range(999)))
    passed_over = Skipped(NAME, meta)
    passed_over.failed(Unforeseen("KeyError", 5_000), -1, 0, meta)
    with pytest.raises(ShardRefused, match="999 before were passed over"):
        passed_over.failed(Unforeseen("KeyError", 5_001), -1, 0, meta)
    with pytest.raises(ShardRefused, match="1000 before were passed over"):
        Skipped(NAME, meta).failed(Unforeseen("KeyError", 5_000), -1, 0, replace(meta, skipped=tuple(range(1_000))))


def test_a_fault_of_several_is_looked_for_one_by_one_up_to_the_last_of_them() -> None:
    passed_over = Skipped(NAME, PASSED_OVER_META)
    assert not passed_over.goes_alone(0)
    said = passed_over.failed(Unforeseen("KeyError", None), last=119, n_messages=2, meta=PASSED_OVER_META)
    assert said == "the messages up to offset 119 are committed one by one: KeyError"
    assert [passed_over.goes_alone(offset) for offset in (100, 119, 120)] == [True, True, False]
    said = passed_over.failed(Unforeseen("KeyError", None), last=107, n_messages=1, meta=PASSED_OVER_META)
    assert said == "offset 107 is passed over: KeyError"
    said = passed_over.failed(Unforeseen("KeyError", 110), last=109, n_messages=2, meta=PASSED_OVER_META)
    assert said == "offset 110 is passed over: KeyError"


def test_what_is_decided_is_not_passed_over_and_a_replay_passes_over_what_was() -> None:
    replay = Skipped(NAME, PASSED_OVER_META, [150, 200], replay_to=PUBLISHED)
    assert [reason(replay, offset) for offset in (119, 120, 150, 199, 200)] == [None, "skipped", None, None, "skipped"]
    for passed_over, decided in ((replay, 199), (Skipped(NAME, PASSED_OVER_META), 99)):
        with pytest.raises(ShardRefused, match=f"offset {decided} has been decided and cannot be repeated: KeyError"):
            passed_over.failed(Unforeseen("KeyError", decided), decided, 1, PASSED_OVER_META)
    assert "is passed over" in replay.failed(Unforeseen("KeyError", 201), 201, 1, PASSED_OVER_META)


def test_where_a_message_that_is_passed_over_fails_again_the_fault_is_elsewhere() -> None:
    passed_over = Skipped(NAME, PASSED_OVER_META, [100])
    with pytest.raises(ShardRefused, match="the fault is not theirs"):
        passed_over.failed(Unforeseen("LawViolated", None), last=100, n_messages=1, meta=PASSED_OVER_META)


@pytest.mark.parametrize(
    "error",
    [ServerUnreachable("x"), Fenced("x"), Conflict("x"), MemoryError(), OSError("a socket could not be opened")],
)
def test_what_is_no_fault_of_a_message_goes_its_way(error: Exception) -> None:
    with pytest.raises(type(error)), unforeseen(7):
        raise error


@pytest.mark.parametrize("error", [KeyError(CANARY), LawViolated("QI group 7 holds 1 of the k = 3 it needs")])
def test_what_a_message_may_have_caused_is_told_without_its_text(error: Exception) -> None:
    with pytest.raises(Unforeseen, match=r"in test_steps\.py, line \d+") as caught, unforeseen(7):
        raise error
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert CANARY not in told(error)


def test_an_error_is_told_by_the_line_that_raised_it() -> None:
    try:
        json.loads("{")
    except ValueError as error:
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        assert told(error) == f"JSONDecodeError in decoder.py, line {line}"


def test_a_group_that_is_too_large_for_its_message_is_told_as_that() -> None:
    said = "a QI group of 62 rows does not fit into one message"
    with pytest.raises(Unforeseen, match=said), unforeseen(7):
        raise GroupTooLarge(said)


# Where a shard stands on the way through a replay, and at its end.

PEOPLE = table(YEARS)
PUBLISHED = Position(commit=9, next=200, release=5, qi_group_next=7, outside=2, digest=77, skipped=(120,))
REBUILT = Meta(commit=4, next=200, release=3, qi_group_next=7, digest=77, skipped=(120,))


def numbered(meta: Meta, to: Position = PUBLISHED) -> Meta:
    return Repetition(to).numbered(PEOPLE, 0, meta)


def test_on_the_way_no_commit_has_a_number_that_is_published() -> None:
    assert numbered(replace(REBUILT, next=150)).commit == 10
    assert numbered(replace(REBUILT, next=150, commit=14)).commit == 14


def test_at_its_end_it_stands_where_the_output_stands() -> None:
    assert Position.of(numbered(REBUILT)) == PUBLISHED


@pytest.mark.parametrize(
    "other",
    [replace(REBUILT, digest=78), replace(REBUILT, qi_group_next=8), replace(REBUILT, skipped=())],
    ids=["another table", "other numbers", "another message passed over"],
)
def test_what_differs_from_the_published_table_is_refused(other: Meta) -> None:
    with pytest.raises(ShardRefused, match="does not give the published table of commit 9"):
        numbered(other)


def test_a_replay_is_over_when_all_messages_retries_and_epochs_have_come_again() -> None:
    replay = Repetition(replace_struct(PUBLISHED, retried=((150, 30),), sealed=SealedMark(epoch=2)))
    again = replace(REBUILT, retried=((150, 30),), sealed=SealedMark(epoch=2))
    assert replay.is_over(again)
    for lacks in ({"next": 199}, {"retried": ()}, {"sealed": SealedMark(epoch=1)}):
        assert not replay.is_over(replace(again, **lacks))
    assert replay.retry_due(again) is None


def test_a_replay_stops_at_a_retry_at_the_end_of_an_epoch_and_at_its_end() -> None:
    to = replace_struct(PUBLISHED, retried=((150, 30), (180, 40)))
    replay = Repetition(to, (EpochOver(0, epoch=1, seconds=60, next=160, retried=1, truncations=3),))
    assert (replay.stops_at(REBUILT), replay.retry_due(REBUILT)) == (150, (150, 30))
    once = replace(REBUILT, next=150, retried=((150, 30),))
    assert (replay.stops_at(once), replay.epoch_due(once)) == (160, None)
    due = replace(once, next=160)
    assert replay.epoch_due(due) == replay.epochs[0]
    assert replay.epoch_due(replace(due, retried=())) is None, "a retry came before it"
    assert replay.epoch_due(replace(due, sealed=SealedMark(epoch=1))) is None, "it has ended again"
    assert Repetition(to).stops_at(once) == 180
    assert Repetition(to).stops_at(replace(once, retried=to.retried)) == 200
