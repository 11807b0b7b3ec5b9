"""Remedies for an operator whose shard or message is refused: each is said once here and quoted elsewhere.

A refused shard is not repaired by itself, because each remedy gives something up. `publish_again` trusts Redis and
gives up what the output holds. `reload` gives up what Redis holds and trusts the source (a file or the input);
readers of the output go on. `start_over` gives up everything except the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, POSITIONS, QIT, SEALED, outputs_of, topic_name
from streamer.table.schema import LOSSY_JOIN, ROWS

SOME_TABLE = "<table>"
"""Stands for a table's name that is not known."""

PARTLY_LOADED = (
    "the table is not loaded in all its shards yet: wait for the `streamer load` or `streamer reload` that is running, "
    "or run it again if it was stopped before its end, then start the workers"
)
"""If rows were to be loaded into all shards at once, and some shards may have them and others not."""


def reload(table_name: str = SOME_TABLE) -> str:
    """If the stored state is of no use, and the source can be read again: from a file or from the input."""
    return (
        f"reload {table_name} from its source: stop all workers, run `streamer reload --from-source` with a file of "
        "all rows, or with `topic` if the input still holds them, start the workers"
    )


def reload_from_file(table_name: str) -> str:
    """If the input has lost messages, or holds them in other shards than their rows."""
    return (
        f"reload {table_name} from its source: stop all workers, run `streamer reload --from-source` with a file of "
        "all rows, start the workers"
    )


def reset_redis_and_reload(table_name: str = SOME_TABLE) -> str:
    """If a stored value that says what the others are cannot be read."""
    return f"delete the keys {_keys(table_name)} in Redis, then {reload(table_name)}"


RESPELT_KEYS = (
    "name keys of its rows in another spelling, such as 1.0 for 1, 007 for 7, or with blanks: the file of the first "
    "table writes keys otherwise than the messages, so people who were deleted stay published. Write the file's keys "
    "as the messages do, stop all workers, run `streamer reload --from-source` with it, start the workers"
)
"""If changes name rows that are there under a key in another spelling."""


def publish_again(table_name: str, form: str = ROWS) -> str:
    """If the output is lost or does not fit, and the state in Redis is sound."""
    return (
        f"publish the whole table again from Redis: stop all workers, delete the topics {_output(table_name, form)}, "
        "run `streamer topics create`, start the workers"
    )


def in_several_releases(table_name: str, outputs: Sequence[str]) -> str:
    """If one release of the whole table is too large for Kafka. outputs: the kinds of topics with published rows."""
    *first, last = (topic_name(table_name, kind) for kind in (*outputs, POSITIONS))
    return (
        f"publish the table in several releases: stop all workers, delete the topics {', '.join(first)} and {last}, "
        "run `streamer topics create`, run `streamer reload --from-source` with a file of all rows, or with `topic` if "
        "the input still holds them, start the workers"
    )


def whole_table_again(table_name: str, form: str = ROWS) -> str:
    """If the output has lost records, as a reader finds."""
    return (
        f"restart the workers of {table_name}: they publish the whole table again where its output has lost records; "
        f"then start this reader again. If it is refused still, {publish_again(table_name, form)}"
    )


def under_another_name(table_name: str) -> str:
    """If a table is to be published in sealed cohorts that cannot follow those that are published."""
    return (
        f"publish under another name: write a new name into a copy of table.yaml, run `streamer topics create` and "
        f"`streamer load` by it, and tell the readers of {topic_name(table_name, SEALED)}"
    )


def sealed_is_lost(table_name: str) -> str:
    """If the topic of cohorts was recreated, or has lost records: nobody may be published a second time."""
    return (
        f"{topic_name(table_name, SEALED)} was recreated or has lost cohorts, and what was published there cannot be "
        "published again without telling more about people: restore the topic from a mirror with the same offsets, or, "
        f"{under_another_name(table_name)}. If only `live` is to go on, take `sealed` out of table.yaml and "
        f"{reload(table_name)}"
    )


def recreate_control(table_name: str = SOME_TABLE) -> str:
    """If this version cannot read a record of the control topic."""
    return (
        f"give up the records of this topic: stop all workers, delete {topic_name(table_name, CONTROL)}, "
        "run `streamer topics create`, start the workers"
    )


def start_over(table_name: str) -> str:
    """If all topics have to be recreated."""
    return (
        f"start over from the source: stop all workers, delete all topics {table_name}.* of the table and the keys "
        f"{_keys(table_name)} in Redis, run `streamer topics create`, start the workers, let the source send all rows "
        "again"
    )


def keep_new_partitions(table_name: str, form: str = ROWS) -> str:
    """If the input has more partitions than the other topics: its rows belong to other shards now."""
    others = ", ".join(topic_name(table_name, kind) for kind in (*outputs_of(form), POSITIONS, DEAD_LETTERS, CONTROL))
    return (
        f"keep the partitions of {topic_name(table_name, CHANGES)}: stop all workers, delete the topics {others}, run "
        f"`streamer topics create`, then {reload_from_file(table_name)}"
    )


def unequal_partitions(table_name: str, counts: Mapping[str, int]) -> str:
    """The problem and its remedy if topics have different numbers of partitions. counts: by kind.

    The input's number is the right one, unless no other topic has it: then the input has grown.
    """
    form = LOSSY_JOIN if QIT in counts else ROWS
    listed = ", ".join(f"{topic_name(table_name, kind)} {count}" for kind, count in counts.items())
    odd = {kind for kind, count in counts.items() if count != counts.get(CHANGES)}
    if odd <= {DEAD_LETTERS, CONTROL}:
        names = " and ".join(topic_name(table_name, kind) for kind in sorted(odd))
        remedy = f"delete {names} and run `streamer topics create`"
    elif CHANGES in counts and odd != counts.keys() - {CHANGES}:
        remedy = publish_again(table_name, form)
    else:
        remedy = keep_new_partitions(table_name, form) if CHANGES in counts else start_over(table_name)
    return f"the topics must have the same number of partitions, but have: {listed}; {remedy}"


# -- dead letters -----------------------------------------------------------------------------------------------------

READ_AGAIN = (
    "have Debezium read all rows again by a row `execute-snapshot` in its table of signals, which `streamer connect "
    "source --sql` prints; or `streamer reload --from-source`"
)
"""If the source is right, and rows of it are missing here. Rows that were deleted meanwhile go by a reload only."""

RETRY = "`streamer dead-letters retry` applies them, once a version runs that can: report the fault"
RETRY_LATER = "`streamer dead-letters retry` again, in a moment"

_REASONS_BY_REMEDY = {
    "correct the rows at the source, which sends them again; or widen table.yaml, and `streamer reload`": (
        "out-of-domain off-the-step unknown-category wrong-type null-not-allowed row-too-large oversized"
    ),
    f"bring back the column that the source or its connector lacks, then {READ_AGAIN}": (
        "missing-column missing-individual"
    ),
    "if the source has the row, send it as an `upsert`; if not, nothing": "key-exists key-unknown",
    "send a deletion of the former row, then the row as it is": "individual-changed key-changed",
    "set the producer, its converter or the registry as the letters say, and send the rows again": (
        "missing-key missing-row message-key-missing message-key-form message-key-unreadable message-key-of-other-row "
        "wrong-partition ambiguous-decimal unknown-type unavailable-value unknown-op malformed-json malformed-avro "
        "not-an-object schema-registry unknown-schema"
    ),
    "`streamer produce --truncate`, then let the source send the present rows": "truncate-one-shard",
    "send corrected statements": "bad-statement bad-result statement-too-large rows-left-unchanged",
    RETRY: "internal-error skipped",
    "let the source send the present rows": "message-gone statement before-a-statement",
    RETRY_LATER: "not-read-yet",
    "nothing: later messages count, they are applied, or an operator has seen to them": (
        "superseded retried acknowledged"
    ),
}

OF_DEAD_LETTERS: Mapping[str, str] = {
    reason: remedy for remedy, reasons in _REASONS_BY_REMEDY.items() for reason in reasons.split()
}
"""Remedies for dead letters, by their reason. Only if a retry can help do they name `dead-letters retry`."""


def _output(table_name: str, form: str) -> str:
    *first, last = (topic_name(table_name, kind) for kind in (*outputs_of(form), POSITIONS))
    return f"{', '.join(first)} and {last}"


def _keys(table_name: str) -> str:
    return f"{{{table_name}:*}}:*"
