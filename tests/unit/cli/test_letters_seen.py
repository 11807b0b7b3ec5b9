"""What dead letters come to as they are read back, and how many there were lately."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamer.cli.letters_seen import LATEST_OFFSETS, Letter, Tallies, refused_lately, row_of, standing_refused


def letter(offset: int, kind: str = "refused", reason: str = "wrong-type", shard: int = 0) -> Letter:
    return Letter(kind, reason, "what is wrong", shard, offset, "age")


def test_letters_are_counted_by_kind_reason_and_column_with_their_times_and_shards() -> None:
    tallies = Tallies()
    for one, at in ((letter(5, shard=3), 2_000), (letter(9), 1_000), (letter(2, reason="off-the-step"), 5_000)):
        tallies.add(one, at)
    first, second = tallies.most_common()
    assert (tallies.total, first.letters, first.shards, second.reason) == (3, 2, [0, 3], "off-the-step")
    assert (first.first, first.last) == ("1970-01-01T00:00:01+00:00", "1970-01-01T00:00:02+00:00")
    assert first.example == {"partition": 3, "offset": 5}


def test_a_line_of_a_file_has_the_time_and_the_letter() -> None:
    assert row_of(letter(5), 0) == {
        "at": "1970-01-01T00:00:00+00:00",
        **{"kind": "refused", "reason": "wrong-type", "detail": "what is wrong", "partition": 0, "offset": 5},
        **{"column": "age", "rows": None},
    }


def test_a_letter_stands_until_its_message_was_applied_or_superseded() -> None:
    letters = [letter(1), letter(2), letter(3), letter(4, kind="partial")]
    letters += [letter(1, kind="retried"), letter(2, kind="superseded"), letter(3, "refused-again", "key-exists")]
    assert {offset: one.reason for offset, one in standing_refused(letters).items()} == {3: "key-exists"}


@pytest.mark.parametrize("n_before", [0, 100, 5_000])
def test_the_latest_letters_are_counted_by_their_offsets_however_far_back_they_lie(n_before: int) -> None:
    reached = 50_000
    written: Sequence[Letter] = [
        *(letter(offset) for offset in range(n_before)),
        *(letter(offset) for offset in range(reached - LATEST_OFFSETS - 1, reached, 5)),
        letter(3, kind="refused-again"),
        letter(reached - 1, kind="retried"),
    ]
    first = 7
    read = refused_lately(reached, first, first + len(written), lambda start: written[start - first :])
    assert read == LATEST_OFFSETS // 5 - 1  # 40,004, 40,009 ... 49,994
