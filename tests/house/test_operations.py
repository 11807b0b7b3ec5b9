"""docs/operations.md says what is: every message an operator may meet has its line, and every line its message."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from docs.generate.sentences import LEFT_OPEN, Sentence, sources
from streamer.incremental import remedies
from streamer.incremental.store.redis_server import REFUSALS
from worlds.checkout import ROOT

OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")

OF_NO_OPERATION = ("streamer/cli/demo/", "streamer/kafka/embedded.py")
"""What is run for a first look has no one to look after it."""

ERRORS = {
    "A shard is refused": ("ShardRefused",),
    "A worker does not start": ("NotDurable",),
    "A worker goes on by itself": ("Fenced", "Conflict"),
    "A server is away": ("ServerUnreachable", "RegistryUnreachable"),
}
"""Which errors stand under which heading."""

NO_LETTERS = {"superseded", "retried", "acknowledged", "rows-left-unchanged"}
"""Reasons that letters have which no refusal gives."""


def sentences(*errors: str) -> list[Sentence]:
    """What the code says with these errors, where it says anything itself."""
    found = [one for one in sources().sentences(*errors) if not one.module.startswith(OF_NO_OPERATION)]
    if "ShardRefused" in errors:
        refused = [text for kind, text in REFUSALS.values() if kind.__name__ == "ShardRefused"]
        found += [Sentence("ShardRefused", "", text, "redis_errors") for text in refused]
    return [one for one in found if re.search(r"[a-z]", one.text.replace(LEFT_OPEN, ""))]


def told_under(heading: str) -> list[str]:
    """The messages in the first column of the table under a heading."""
    section = OPERATIONS.partition(f"\n### {heading}\n")[2].partition("\n##")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.M)


@pytest.mark.parametrize(("heading", "errors"), ERRORS.items())
def test_every_message_that_an_operator_may_meet_has_its_line(heading: str, errors: tuple[str, ...]) -> None:
    told = told_under(heading)
    assert [one.text for one in sentences(*errors) if not any(said in one.text for said in told)] == []


@pytest.mark.parametrize(("heading", "errors"), ERRORS.items())
def test_every_line_is_of_a_message_that_the_code_can_say(heading: str, errors: tuple[str, ...]) -> None:
    said = [one.text for one in sentences(*errors)]
    assert len(said) >= 2
    assert [told for told in told_under(heading) if not any(told in text for text in said)] == []


def test_every_reason_of_a_dead_letter_has_its_remedy() -> None:
    section = OPERATIONS.partition("\n## Dead letters by reason\n")[2]
    told = {
        reason for line in re.findall(r"^\| .* \| (`.*) \|$", section, re.M) for reason in re.findall(r"`(.+?)`", line)
    }
    given = {one.first for one in sentences("EventRefused")} - {LEFT_OPEN}
    assert told == given | NO_LETTERS
    by_line = [frozenset(re.findall(r"`(.+?)`", line)) for line in re.findall(r"^\| .* \| (`.*) \|$", section, re.M)]
    by_remedy: dict[str, set[str]] = defaultdict(set)
    for reason, remedy in remedies.OF_DEAD_LETTERS.items():
        by_remedy[remedy].add(reason)
    assert {*by_line} == {*map(frozenset, by_remedy.values())}, "the page sorts them as the table does"


def test_sentences_are_followed_through_names_and_functions() -> None:
    said = {one.text for one in sentences("ShardRefused", "NotDurable")}
    assert any("it has expired; reload <table> from" in text for text in said)
    assert any("keeps what it confirms by other means" in text for text in said)
