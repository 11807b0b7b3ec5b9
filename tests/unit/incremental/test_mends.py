"""What is advised for topics of unlike numbers of partitions: never to remake what a table stands on."""

from __future__ import annotations

from streamer.incremental import mends

FOUR = {"changes": 4, "live": 4, "positions": 4, "dead-letters": 4, "control": 4}


def test_a_grown_input_has_people_in_the_wrong_shards_and_is_sent_again() -> None:
    said = mends.unlike_counts("t", FOUR | {"changes": 6})
    assert "t.changes 6, t.live 4" in said
    assert said.endswith(mends.send_again("t"))


def test_an_output_with_another_number_is_published_again() -> None:
    assert mends.unlike_counts("t", FOUR | {"live": 1}).endswith(mends.publish_again("t"))
    assert mends.unlike_counts("t", FOUR | {"positions": 1, "dead-letters": 9}).endswith(mends.publish_again("t"))


def test_letters_with_another_number_go_alone() -> None:
    said = mends.unlike_counts("t", FOUR | {"dead-letters": 9, "control": 9})
    assert said.endswith("delete t.control and t.dead-letters and run `streamer topics create`")


def test_without_an_input_everything_begins_anew() -> None:
    assert mends.unlike_counts("t", {"live": 4, "positions": 3}).endswith(mends.send_again("t"))


def test_the_keys_named_are_those_of_the_table_alone() -> None:
    for mend in (mends.read_again("t"), mends.send_again("t")):
        assert "the keys {t:*}:* in Redis" in mend
