"""What is advised for topics of unlike numbers of partitions: never to remake what a table stands on."""

from __future__ import annotations

from streamer.incremental import remedies

FOUR = {"changes": 4, "live": 4, "positions": 4, "dead-letters": 4, "control": 4}


def test_after_growth_of_the_input_the_table_is_reloaded_from_a_file() -> None:
    said = remedies.unequal_partitions("t", FOUR | {"changes": 6})
    assert "t.changes 6, t.live 4" in said
    assert said.endswith(remedies.keep_new_partitions("t"))
    assert remedies.reload_from_file("t") in said


def test_an_output_with_another_number_is_published_again() -> None:
    assert remedies.unequal_partitions("t", FOUR | {"live": 1}).endswith(remedies.publish_again("t"))
    assert remedies.unequal_partitions("t", FOUR | {"positions": 1, "dead-letters": 9}).endswith(
        remedies.publish_again("t")
    )


def test_letters_with_another_number_go_alone() -> None:
    said = remedies.unequal_partitions("t", FOUR | {"dead-letters": 9, "control": 9})
    assert said.endswith("delete t.control and t.dead-letters and run `streamer topics create`")


def test_without_an_input_everything_starts_over() -> None:
    assert remedies.unequal_partitions("t", {"live": 4, "positions": 3}).endswith(remedies.start_over("t"))


def test_the_keys_named_are_those_of_the_table_alone() -> None:
    for mend in (remedies.reset_redis_and_reload("t"), remedies.start_over("t")):
        assert "the keys {t:*}:* in Redis" in mend


def test_the_output_of_a_lossy_join_is_two_topics() -> None:
    said = remedies.publish_again("people", "lossy-join")
    assert "delete the topics people.qit, people.stt and people.positions" in said
    grown = remedies.keep_new_partitions("people", "lossy-join")
    assert "delete the topics people.qit, people.stt, people.positions, people.dead-letters, people.control" in grown
    assert "delete the topics people.live and people.positions" in remedies.publish_again("people")


def test_topics_of_a_lossy_join_with_unlike_partitions_are_named_by_their_own_names() -> None:
    said = remedies.unequal_partitions("t", {"changes": 4, "qit": 4, "stt": 2, "positions": 4, "dead-letters": 4})
    assert said.endswith(remedies.publish_again("t", "lossy-join"))
