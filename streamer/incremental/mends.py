"""What an operator can do where a shard is refused: the steps in words, said here once and quoted by every refusal.

Nothing mends a refused shard by itself, because each way gives something up. `publish_again` trusts Redis and gives up
what the output holds; `read_again` gives up both and trusts the input; `send_again` gives up everything but the source.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, LIVE, POSITIONS, topic_name

SOME_TABLE = "<table>"
"""In place of a table's name where it is not known."""


def publish_again(table_name: str) -> str:
    """For an output that is lost or does not fit, behind a sound state in Redis."""
    return (
        f"to publish the whole table anew from Redis: stop all workers, delete the topics {_output(table_name)}, run "
        "`streamer topics create`, start the workers"
    )


def read_again(table_name: str = SOME_TABLE) -> str:
    """For a state that is of no use any more, behind an input that holds every change."""
    return (
        f"to read the input again from its beginning: stop all workers, delete the topics {_output(table_name)} and "
        f"the keys {_keys(table_name)} in Redis, run `streamer topics create`, start the workers; where "
        f"{table_name}.changes does not hold every change any more, delete it too and let the source send all rows anew"
    )


def send_again(table_name: str) -> str:
    """For an input that has lost messages or has them in the wrong partitions."""
    return (
        f"to begin anew from the source: stop all workers, delete all topics {table_name}.* of the table and the keys "
        f"{_keys(table_name)} in Redis, run `streamer topics create`, start the workers, let the source send all rows "
        "again"
    )


def unlike_counts(table_name: str, counts: Mapping[str, int]) -> str:
    """What is wrong with topics of unlike numbers of partitions, and what mends it. counts: by kind.

    The input's number is the right one unless it stands alone with it: then the input has grown.
    """
    listed = ", ".join(f"{topic_name(table_name, kind)} {count}" for kind, count in counts.items())
    odd = {kind for kind, count in counts.items() if count != counts.get(CHANGES)}
    if odd <= {DEAD_LETTERS, CONTROL}:
        names = " and ".join(topic_name(table_name, kind) for kind in sorted(odd))
        mend = f"delete {names} and run `streamer topics create`"
    elif CHANGES in counts and odd != counts.keys() - {CHANGES}:
        mend = publish_again(table_name)
    else:
        mend = send_again(table_name)
    return f"the topics must have the same number of partitions, but have: {listed}; {mend}"


def _output(table_name: str) -> str:
    return f"{topic_name(table_name, LIVE)} and {topic_name(table_name, POSITIONS)}"


def _keys(table_name: str) -> str:
    return f"{{{table_name}:*}}:*"
