"""What a user is not authorised to do: said with the command that grants it, and with names of our own topics alone."""

from __future__ import annotations

import pytest

from streamer.errors import OutOfMemory
from streamer.kafka.errors import (
    READ_RIGHT,
    TRANSACTIONAL_ID,
    WRITE,
    Right,
    command_error,
    not_authorised,
    topics_named,
    worker_error,
)


def test_the_mend_is_the_command_that_grants_it() -> None:
    said = not_authorised("Kafka at a:1", Right([READ_RIGHT], ["mine.changes"]), "reader")
    assert said.startswith("Kafka at a:1: this user is not authorised: Read on topic mine.changes.")
    assert "--add --allow-principal User:reader --operation Read --topic mine.changes`" in said


def test_what_begins_with_a_name_is_granted_by_its_beginning() -> None:
    said = not_authorised("x", Right([WRITE, READ_RIGHT], ["mine-shard-"], TRANSACTIONAL_ID, prefixed=True))
    assert "Write and Read on transactional-id mine-shard-*" in said
    assert "User:NAME --operation Write --operation Read --transactional-id mine-shard- --resource-pattern" in said


def test_a_user_that_would_be_more_than_a_word_of_the_command_is_not_put_into_it() -> None:
    assert "User:NAME" in not_authorised("x", Right([READ_RIGHT], ["mine.live"]), "a`; rm")


def test_nothing_but_topics_of_tables_is_taken_from_what_a_client_says() -> None:
    said = "TopicAuthorizationFailed {'mine.dead-letters', 'mine.live'} canary.value canary.live.x 'a.changesx'"
    assert topics_named(said) == ["mine.dead-letters", "mine.live"]


@pytest.mark.parametrize("name", ["NO_ERROR", "_CRIT_SYS_RESOURCE"])
def test_a_client_that_gets_no_thread_is_a_lack_of_memory(name: str) -> None:
    """Before: "Kafka answers NO_ERROR", which a worker took for an outage, for ever."""
    right = Right([READ_RIGHT], ["mine.changes"])
    for error in (command_error("a:1", name, right, name), worker_error("a:1", "reading", name, right, "mine")):
        assert isinstance(error, OutOfMemory)
