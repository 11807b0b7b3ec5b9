"""What steps did, in numbers that add up."""

from __future__ import annotations

from collections import Counter

from streamer.incremental.events.counts import APPLIED, DEAD, IGNORED, UNKNOWN_KEY, Counts
from streamer.incremental.shard.steps import PHASES, StepReport, Tally


def test_a_commit_counts_what_was_applied_since_the_one_before() -> None:
    report = StepReport()
    report.committed(Tally(next=3, key_form="", counts=APPLIED + DEAD), published=7)
    report.committed(Tally(next=4, key_form="", counts=IGNORED + UNKNOWN_KEY), published=0)
    assert report.counts == Counts(applied=1, ignored=1, dead_letters=1, unknown_keys=1)
    assert (report.counts.messages, report.published, report.commits) == (3, 7, 2)


def test_reasons_of_dead_letters_add_up_over_commits_and_steps() -> None:
    one, other = StepReport(), StepReport(reasons=Counter({"key-exists": 4}))
    for reasons in ({"key-exists": 1}, {"key-exists": 1, "no-json": 1}):
        one.committed(Tally(next=3, key_form="", reasons=Counter(reasons)), published=0)
    one.add(other)
    assert one.reasons == {"key-exists": 6, "no-json": 1}


def test_steps_add_up_in_every_number_and_every_phase() -> None:
    one = StepReport(APPLIED, 1, 2, 3, 4, ["a fault"], dict.fromkeys(PHASES, 0.5))
    one.add(StepReport(DEAD, 10, 20, 30, 40, ["another"], dict.fromkeys(PHASES, 0.25)))
    assert one == StepReport(APPLIED + DEAD, 11, 22, 33, 44, ["a fault", "another"], dict.fromkeys(PHASES, 0.75))


def test_two_reports_share_nothing() -> None:
    first, second = StepReport(), StepReport()
    first.faults.append("a fault")
    first.seconds["commit"] += 1
    assert second == StepReport()
