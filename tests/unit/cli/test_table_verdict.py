"""What `streamer status` says of a table beside its shards: one fault at a time, over facts that are made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streamer.cli.shard_facts import TableFacts, Workers
from streamer.cli.shard_verdict import Verdict
from streamer.cli.table_verdict import judge_table
from streamer.incremental.store.redis_lookups import RedisNow
from streamer.incremental.store.redis_server import Durability
from streamer.incremental.store.redis_url import Kind
from streamer.incremental.topics import topic_name, topics_of
from worlds.patient_facts import BY_ALICE, META, NOW, TABLE, shard

KEEPS = Durability(Kind.SERVER, masters=1)


def seen(**more: Any) -> TableFacts:
    topics = {topic.name: 2 for topic in topics_of(TABLE.name, TABLE.form)}
    shards = [shard(), replace(shard(), number=1)]
    return replace(TableFacts(shards, BY_ALICE, topics, [0, 1], RedisNow(NOW), KEEPS), **more)


def test_a_table_whose_topics_and_workers_are_there_is_well() -> None:
    assert judge_table(TABLE, seen()) == Verdict()


def test_shards_without_a_worker_and_without_lag_are_one_warning() -> None:
    shards = [replace(one, worker="") for one in seen().shards]
    verdict = judge_table(TABLE, seen(shards=shards, workers=Workers({})))
    assert verdict == Verdict(warnings=["no worker holds shards 0, 1: start `streamer worker`"])


def test_a_topic_that_is_missing_or_has_another_number_of_partitions_is_a_problem() -> None:
    live, letters = topic_name(TABLE.name, "live"), topic_name(TABLE.name, "dead-letters")
    problems = judge_table(TABLE, seen(topics={**seen().topics, live: 0, letters: 3})).problems
    assert problems[0] == f"topic {live} does not exist: `streamer topics create --shards 2` makes it"
    assert f"topic {letters} has 3 partitions and the input 2" in problems[1]


def test_a_full_redis_and_shards_that_nobody_reads_are_problems() -> None:
    problems = judge_table(TABLE, seen(redis_now=RedisNow(NOW, full=True), shards_in_redis=[0, 1, 5])).problems
    assert any("raise its maxmemory" in problem for problem in problems)
    assert any("Redis holds a shard 5" in problem for problem in problems)


def test_a_redis_that_could_lose_what_it_confirms_is_warned_of_unless_somebody_vouches_for_it() -> None:
    facts = seen(durability=replace(KEEPS, lax=("Redis a:1: appendonly is no",)))
    (warning,) = judge_table(TABLE, facts).warnings
    assert warning.startswith("Redis a:1: appendonly is no: Redis could lose")
    assert judge_table(replace(TABLE, durability_stated=True), facts) == Verdict()


def test_with_individuals_readers_by_sql_are_warned_of() -> None:
    (warning,) = judge_table(replace(TABLE, individual="ssn"), seen()).warnings
    assert "`HAVING count(*) >= k` in SQL counts rows" in warning


def test_shards_that_know_different_key_forms_are_a_problem() -> None:
    forms = ["bare", 'json:{"id":number}']
    shards = [replace(shard(replace(META, key_form=form)), number=number) for number, form in enumerate(forms)]
    (problem,) = judge_table(TABLE, seen(shards=shards)).problems
    assert "one row may be in two of them" in problem
    shards[0] = shard(replace(META, key_form=""))  # a shard that has not read anything yet
    assert judge_table(TABLE, seen(shards=shards)) == Verdict()
