"""What counts as an operator's request, and what does not."""

from __future__ import annotations

from typing import get_args

import pytest

from streamer.errors import ShardRefused
from streamer.incremental.shard.requests import (
    CarriedTruncation,
    EpochOver,
    FullRebuild,
    PlacedTruncation,
    Request,
    Retry,
    Secret,
    Skip,
    epochs_in,
    read_request,
    secrets_in,
    skips_of,
)


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


def test_of_all_records_those_of_the_shard_are_taken_in_their_order() -> None:
    epochs = [EpochOver(shard, epoch, 60 * epoch, 5, 0, 0) for shard, epoch in ((0, 2), (1, 1), (0, 3))]
    secrets = [Secret(1, b"other"), Secret(0, b"plain"), Secret(0, encrypted="e")]
    values = [one.to_json() for one in (*epochs, *secrets, Skip(0, 7))]
    assert epochs_in(values, 0) == [epochs[0], epochs[2]]
    assert secrets_in(values, 0) == secrets[1:]


def test_what_a_former_version_said_of_truncations_is_known_whatever_it_said() -> None:
    for command, kind in ((b"truncate", CarriedTruncation), (b"truncated", PlacedTruncation)):
        said = read_request(b'{"command":"%b","shard":2,"log":"postgresql","place":[90],"at":5}' % command)
        assert said == kind(2)


@pytest.mark.parametrize(
    ("id_", "at", "offsets", "is_read"),
    [
        ("a", 0, 1, True),
        ("a" * 64, 2**40 - 1, 1_000, True),
        ("", 0, 1, False),
        ("a" * 65, 0, 1, False),
        ("a", -1, 1, False),
        ("a", 2**40, 1, False),
        ("a", 0, 0, False),
        ("a", 0, 1_001, False),
    ],
)
def test_a_request_has_a_short_name_a_time_and_at_most_a_thousand_offsets(
    id_: str, at: int, offsets: int, is_read: bool
) -> None:
    request = Retry(0, id_, at, tuple(range(offsets)))
    assert read_request(request.to_json()) == (request if is_read else None)


@pytest.mark.parametrize("length", [64, 65])
def test_an_algorithm_has_a_short_name_too(length: int) -> None:
    assert (read_request(FullRebuild(0, "a", 0, "x" * length).to_json()) is not None) == (length == 64)


@pytest.mark.parametrize("kind", get_args(Request), ids=lambda kind: kind.__name__)
def test_a_request_is_changed_by_nobody(kind: type[Skip]) -> None:
    assert kind.__struct_config__.frozen


def test_a_secret_is_in_no_text() -> None:
    assert "canary" not in repr(Secret(0, b"canary", "canary"))
