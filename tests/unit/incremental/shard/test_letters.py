"""Dead letters: where the message is, why it was not applied, and nothing of what it says."""

from __future__ import annotations

import json

from streamer.errors import EventRefused
from streamer.incremental.release.records import Entry
from streamer.incremental.shard.letters import Coordinates, partial, refused
from streamer.incremental.topics import DEAD_LETTERS

WHERE = Coordinates("people.changes", 3, 41)
REFUSAL = EventRefused("out-of-domain", "a number outside of the domain", column="age")


def read(letter: Entry) -> dict[str, object]:
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


def test_the_letter_about_one_message_has_one_key_however_often_it_is_written() -> None:
    letters = [refused(WHERE, REFUSAL), partial(WHERE, 1)]
    assert len({letter.key for letter in letters}) == 1
    assert refused(WHERE._replace(offset=42), REFUSAL).key != letters[0].key
