"""What an operator can do where a shard is refused: the steps in words, said here once and quoted by every refusal.

Nothing mends a refused shard by itself, because each way gives something up. `publish_again` trusts Redis and gives up
what the output holds; `begin_anew` gives up what Redis holds and trusts the source, a file or the input: readers of the
output go on. `send_again` gives up everything but the source.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, POSITIONS, QIT, outputs_of, topic_name
from streamer.table.schema import LOSSY_JOIN, ROWS

SOME_TABLE = "<table>"
"""In place of a table's name if it is not known."""


BEGUN_IN_PART = (
    "the table has not begun in all its shards yet: wait for the `streamer load` or `streamer reload` that is at "
    "it, or, where it was ended before its end, call it again, then start the workers"
)
"""For rows that were to come into all shards at once, and may be in some of them alone."""


def begin_anew(table_name: str = SOME_TABLE) -> str:
    """For a state that is of no use any more, in front of a source that can be had: as a file, or in the input."""
    return (
        f"to reload {table_name} from its source: stop all workers, run `streamer reload --from-source` with a "
        "file of all rows, or with `topic` where the input still holds them, start the workers"
    )


def begin_from_file(table_name: str) -> str:
    """For an input that has lost messages, or has them where their rows do not belong any more."""
    return (
        f"to reload {table_name} from its source: stop all workers, run `streamer reload --from-source` with a "
        "file of all rows, start the workers"
    )


def begin_without_redis(table_name: str = SOME_TABLE) -> str:
    """For a store whose first value cannot be read, so that nobody can tell what it holds."""
    return f"delete the keys {_keys(table_name)} in Redis, then, {begin_anew(table_name)}"


def publish_again(table_name: str, form: str = ROWS) -> str:
    """For an output that is lost or does not fit, behind a sound state in Redis."""
    return (
        f"to publish the whole table anew from Redis: stop all workers, delete the topics {_output(table_name, form)}, "
        "run `streamer topics create`, start the workers"
    )


def new_control(table_name: str = SOME_TABLE) -> str:
    """For a record of the control topic that nobody here may read."""
    return (
        f"to do without what stands there: stop all workers, delete the topic {topic_name(table_name, CONTROL)}, run "
        "`streamer topics create`, start the workers"
    )


def send_again(table_name: str) -> str:
    """For other topics in place of all that there are."""
    return (
        f"to start again from the source: stop all workers, delete all topics {table_name}.* of the table and the keys "
        f"{_keys(table_name)} in Redis, run `streamer topics create`, start the workers, let the source send all rows "
        "again"
    )


def after_growth(table_name: str, form: str = ROWS) -> str:
    """For an input that has another number of partitions than the rest: its rows belong to other shards now."""
    others = ", ".join(topic_name(table_name, kind) for kind in (*outputs_of(form), POSITIONS, DEAD_LETTERS, CONTROL))
    return (
        f"to go on with the partitions that {topic_name(table_name, CHANGES)} has: stop all workers, delete the topics "
        f"{others}, run `streamer topics create`, then, {begin_from_file(table_name)}"
    )


def unlike_counts(table_name: str, counts: Mapping[str, int]) -> str:
    """What is wrong with topics of unlike numbers of partitions, and what mends it. counts: by kind.

    The input's number is the right one unless it stands alone with it: then the input has grown.
    """
    form = LOSSY_JOIN if QIT in counts else ROWS
    listed = ", ".join(f"{topic_name(table_name, kind)} {count}" for kind, count in counts.items())
    odd = {kind for kind, count in counts.items() if count != counts.get(CHANGES)}
    if odd <= {DEAD_LETTERS, CONTROL}:
        names = " and ".join(topic_name(table_name, kind) for kind in sorted(odd))
        mend = f"delete {names} and run `streamer topics create`"
    elif CHANGES in counts and odd != counts.keys() - {CHANGES}:
        mend = publish_again(table_name, form)
    else:
        mend = after_growth(table_name, form) if CHANGES in counts else send_again(table_name)
    return f"the topics must have the same number of partitions, but have: {listed}; {mend}"


def _output(table_name: str, form: str) -> str:
    *first, last = (topic_name(table_name, kind) for kind in (*outputs_of(form), POSITIONS))
    return f"{', '.join(first)} and {last}"


def _keys(table_name: str) -> str:
    return f"{{{table_name}:*}}:*"
