"""What `streamer status` makes of a whole table: what it says of each shard, and what concerns no single one.

Topics that do not fit together, a Redis that is full or could forget, shards that nobody reads any more, shards without
a worker. Where a message waits for a worker, that is a problem of its shard (`streamer.cli.shard_verdict`).
"""

from __future__ import annotations

from collections.abc import Iterator

from streamer.cli.shard_facts import TableFacts
from streamer.cli.shard_verdict import Verdict, judge_shard, waits
from streamer.cli.sql_readers import sql_warnings
from streamer.cli.tables import shards_named
from streamer.incremental import mends
from streamer.incremental.topics import CHANGES, topic_name
from streamer.table.schema import Table


def judge(table: Table, facts: TableFacts, dead_letters_max: float) -> tuple[list[Verdict], Verdict]:
    """What is to be said of each shard, and of all of it together; dead_letters_max: as `judge_shard` takes it."""
    now = facts.redis_now.time
    of_shards = [judge_shard(table, shard, facts.workers, now, dead_letters_max) for shard in facts.shards]
    verdict = Verdict()
    for one in (*of_shards, judge_table(table, facts)):
        verdict.add(one)
    return of_shards, verdict


def judge_table(table: Table, facts: TableFacts) -> Verdict:
    """What concerns no single shard."""
    verdict = Verdict(warnings=list(sql_warnings(table)))
    verdict.problems += [*_topic_problems(table, facts), *_key_forms(facts)]
    for number in sorted(set(facts.shards_in_redis) - {shard.number for shard in facts.shards}):
        verdict.problems.append(
            f"Redis holds a shard {number}, but the input has {len(facts.shards)} partitions: its people are not kept "
            f"current; {mends.begin_from_file(table.name)}"
        )
    if facts.redis_now.full:
        verdict.problems.append("Redis is full, so that no worker can commit: raise its maxmemory")
    if not table.durability_stated:
        verdict.warnings += (
            f"{setting}: Redis could lose what it confirms; a worker does not start on it"
            for setting in facts.durability.lax
        )
    if not facts.workers.told:
        verdict.warnings.append("Kafka does not tell which worker holds which shard")
    elif not facts.workers.settled:
        verdict.warnings.append("Kafka is giving the shards to workers just now: look again in a moment")
    else:
        verdict.warnings += _idle(facts)
    return verdict


def _topic_problems(table: Table, facts: TableFacts) -> Iterator[str]:
    wanted = facts.topics[topic_name(table.name, CHANGES)]
    for topic, partitions in facts.topics.items():
        if not partitions:
            yield f"topic {topic} does not exist: `streamer topics create --shards {wanted}` makes it"
        elif partitions != wanted:
            yield (
                f"topic {topic} has {partitions} partitions and the input {wanted}: a worker refuses every shard; "
                "`streamer topics check` says how they must be"
            )


def _key_forms(facts: TableFacts) -> Iterator[str]:
    """Each shard learns by itself how message keys are written. Two forms put one row into two shards."""
    metas = ((shard.number, shard.redis.meta) for shard in facts.shards)
    forms = {number: meta.key_form for number, meta in metas if meta is not None and meta.key_form}
    if len(set(forms.values())) > 1:
        told = ", ".join(f"{number}: {form}" for number, form in forms.items())
        yield (
            f"the shards know different forms of message keys ({told}), so that one row may be in two of them: two "
            "producers began at once; let one of them write, then `streamer produce --truncate` and send all rows again"
        )


def _idle(facts: TableFacts) -> Iterator[str]:
    """Shards without a worker where no message waits; where one does, it is a problem of the shard."""
    idle = [shard.number for shard in facts.shards if not shard.worker and not waits(shard)]
    if idle:
        yield f"no worker holds {shards_named(idle)}: start `streamer worker`"
