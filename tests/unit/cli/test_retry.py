"""Which refused messages an operator's command has tried again."""

from __future__ import annotations

from streamer.cli.letters_seen import Letter
from streamer.cli.retry import chosen_of

LETTERS = [
    Letter("refused", "internal-error", "", 0, 9),
    Letter("refused", "skipped", "", 0, 3),
    Letter("refused", "skipped", "", 0, 4),
    Letter("retried", "retried", "", 0, 4),
    Letter("refused-again", "key-exists", "", 0, 9),
]


def chosen(reason: str | None = None, *offsets: int) -> list[int]:
    return [letter.offset for letter in chosen_of(LETTERS, reason, offsets)]


def test_what_stands_is_chosen_by_its_last_reason_and_by_its_offset() -> None:
    assert chosen() == [3, 9]
    assert chosen("skipped") == [3]
    assert chosen("internal-error") == []
    assert chosen("key-exists") == [9]
    assert chosen(None, 9, 4) == [9]
