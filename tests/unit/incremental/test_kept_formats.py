"""What is kept says in which format: a newer one than is known is refused, and both numbers are told."""

from __future__ import annotations

import msgspec
import pytest

from streamer.errors import ShardRefused
from streamer.incremental.kept_formats import check_format, unread


@pytest.mark.parametrize("text", [b"{}", b'{"format":1}', b'{"commit":7,"format":3}'])
def test_what_is_known_or_says_nothing_is_read(text: bytes) -> None:
    check_format(text, 3, "the thing", "mend it")


def test_a_newer_format_is_refused_with_both_numbers_and_the_mend() -> None:
    with pytest.raises(ShardRefused) as refused:
        check_format(b'{"format":4,"who":"canary"}', 3, "the thing", "mend it")
    assert str(refused.value) == (
        "the thing is in format 4, and this streamer reads up to format 3: run the version that wrote it, or, mend it"
    )


@pytest.mark.parametrize("text", [b"", b"null", b"[4]", b'{"format":"4"}', b"\xff"])
def test_what_is_no_object_with_a_number_is_none(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        check_format(text, 3, "the thing", "mend it")


def test_an_older_format_that_is_not_read_any_more_is_told_as_such() -> None:
    assert unread(3, 5, "mend it") == (
        "is in format 3, and this streamer reads format 5: run the version that wrote it, or, mend it"
    )
