"""What counts as an operator's request, and what does not."""

from __future__ import annotations

import pytest

from streamer.incremental.shard.requests import Skip, skips_of


def test_a_request_comes_back_as_it_was_written() -> None:
    assert Skip(0, 7).to_json() == b'{"command":"skip","shard":0,"offset":7}'
    assert skips_of([Skip(0, 7).to_json()] * 2, 0) == {7}


def test_a_request_does_not_outlive_the_input_that_it_was_about() -> None:
    """Before: in an input that was made anew, whatever message had the offset was passed over."""
    values = [Skip(0, 7, "first").to_json(), Skip(0, 8, "second").to_json()]
    assert skips_of(values, 0, "second") == {8}


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
