"""What counts as an operator's request, and what does not."""

from __future__ import annotations

import pytest

from streamer.errors import ShardRefused
from streamer.incremental.shard.requests import Skip, epochs_in, read_request, skips_of


def test_a_request_comes_back_as_it_was_written() -> None:
    assert Skip(0, 7).to_json() == b'{"command":"skip","shard":0,"offset":7}'
    assert skips_of([Skip(0, 7).to_json()] * 2, 0) == {7}


def test_a_request_does_not_outlive_the_input_that_it_was_about() -> None:
    """Before: in a recreated input, the message that had the offset was skipped."""
    values = [Skip(0, 7, "first").to_json(), Skip(0, 8, "second").to_json()]
    assert skips_of(values, 0, "second") == {8}


@pytest.mark.parametrize("value", [b'{"command":"skip","shard":0,"offset":7,"format":2}', b'{"format":2,"do":"what?"}'])
def test_a_request_of_a_newer_format_is_refused_and_never_passed_over(value: bytes) -> None:
    said = "a record of the control topic is in format 2, and this streamer reads up to format 1: run the version that"
    for read in (read_request, lambda one: skips_of([one], 0), lambda one: epochs_in([one], 0)):
        with pytest.raises(ShardRefused, match=said):
            read(value)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"\xff",
        b'{"command":"skip","shard":1,"offset":7}',
        b'{"command":"skip","shard":0}',
        b'{"command":"skip","shard":0,"offset":"7"}',
        b'{"command":"rebuild","shard":0,"offset":7}',
        b'{"command":"skip","shard":0,"offset":7,"all":true}',
    ],
)
def test_what_is_no_skip_of_this_shard_passes_nothing_over(value: bytes) -> None:
    assert skips_of([value], 0) == frozenset()
