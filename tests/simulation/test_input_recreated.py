"""An input that is deleted and made again under a worker, before every step: no message is taken for another."""

from __future__ import annotations

from functools import partial

import pytest

from simulation.simulator import World
from simulation.story import (
    IN_SIXTHS,
    MESSAGES,
    PEOPLE,
    events,
    fold,
    sixth_of,
    steps_of_a_quiet_run,
    table_before,
    tables_by_count,
)
from streamer.errors import ShardRefused
from streamer.incremental.shard.input import Message
from streamer.incremental.topics import CHANGES

OTHERS = events(len(MESSAGES), seed=9)
TABLES, OTHER_TABLES = tables_by_count(MESSAGES), tables_by_count(OTHERS)


def read_until_refused(world: World, batch: int) -> bool:
    """Reads on, with a new worker at the end, which looks once more; whether the shard was refused."""
    try:
        world.run(batch)
        world.run(batch)
    except ShardRefused as error:
        assert "the input topic was recreated" in str(error)
        return True
    return False


def assert_published_from(world: World, messages: list[Message], tables: list[dict[bytes, bytes]]) -> None:
    """Whatever was published is the table of these messages and no others."""
    folded: dict[bytes, bytes] = {}
    for records, position in world.topic.transactions:
        fold(folded, records)
        assert folded == table_before(tables, messages, position.next)


def give_back_the_former(world: World) -> None:
    """For a look at what the store holds: the input is what it was, and read to its end."""
    world.messages, world.topic_ids = list(MESSAGES), {**world.topic_ids, CHANGES: "first changes"}
    world.run(batch=5)


@IN_SIXTHS
@pytest.mark.parametrize("answers_late", [False, True])
@pytest.mark.parametrize("batch", [2, 5])
def test_the_offsets_of_a_new_input_are_never_taken_for_those_of_the_former(
    batch: int, answers_late: bool, sixth: int
) -> None:
    for step in sixth_of(steps_of_a_quiet_run(), sixth, None):
        world = World(PEOPLE, MESSAGES, {})
        world.answers_late = answers_late
        world.happens = {step: partial(world.make_input_anew, OTHERS)}
        if read_until_refused(world, batch):
            assert_published_from(world, MESSAGES, TABLES)
            give_back_the_former(world)
            assert_published_from(world, MESSAGES, TABLES)
            assert world.meta().counts.messages == len(MESSAGES)
        else:  # the shard had committed nothing yet, and began with the new one
            assert_published_from(world, OTHERS, OTHER_TABLES)
            assert world.meta().topic_ids[CHANGES] == "first changes, made anew"
