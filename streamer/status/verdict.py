"""Judges a shard, a worker or a whole table: what is wrong, in sentences that say what to do.

`streamer status` judges what Redis and Kafka show of a table, a worker's /health what the worker knows of itself, and a
worker's page both. The rules and their limits are the same; which of them apply depends on what is known.

The rules of this file
----------------------
* Pure: facts in, sentences out. Every sentence names the shard or the server. None holds a value of a row.
* A problem needs somebody to act, or keeps the published table from being current. A warning is what the next worker
  repairs by itself. What passes within seconds is neither.
* A take-over, the computing of a large statement, and the algorithm of a snapshot may take their time. Only the worker
  itself sees whether it computes: from outside, a minute of silence is allowed instead.
* A shard that commits while it is read is judged by one reading. Only the comparison of Redis with Kafka needs a shard
  at rest; it has the rules of a take-over.
* /health is about the worker: whether it is reached, holds its shards and goes on with them. What is in the shards
  (dead letters, failed rebuilds, topics) is for `status` and the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streamer.errors import ShardRefused
from streamer.incremental import remedies
from streamer.incremental.connect.sql_tables import sql_warnings
from streamer.incremental.events.changes import NO_MESSAGES
from streamer.incremental.shard.answers import WAITING_SECONDS_MAX
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.preflight import Consistency, compare, former_version, lost_records, new_topics
from streamer.incremental.shard.rebuild import LOOK_SECONDS, last_rebuild, told
from streamer.incremental.shard.snapshot import holds_back, waits_for
from streamer.incremental.store.base import FAILED, REFUSED, STOPPED, Meta
from streamer.incremental.topics import CHANGES, CONTROL, POSITIONS, live_kinds, topic_name, worker_group
from streamer.privacy.models import model_of, words
from streamer.status.facts import (
    HeldFacts,
    InRedis,
    ServerFacts,
    ShardFacts,
    TableFacts,
    WorkerFacts,
    Workers,
    overdue_seconds,
)
from streamer.table.schema import Table, version_of

SERVER_SILENT_SECONDS_MAX = 10.0  # of a server that does not answer a worker
OUTDATED_SECONDS = 5.0  # after which the last answer of a server, which is asked every two seconds, is shown as old

STILL_SECONDS_MAX = 10.0
"""How long messages may wait while none is applied, and how long errors may follow each other. The time in which the
shard computes, or waits for the compute lock, is allowed in addition."""

STILL_OUTSIDE_SECONDS_MAX = 60.0  # the same if it is not known whether the shard computes
SHARD_CALL_SECONDS_MAX = 120.0
"""How long a call of a shard's thread may take if no message waits, if it loads the shard, or if it computes."""

STANDSTILL_SECONDS_MAX = 600.0  # of a region of a rebuild, or of the algorithm of a first snapshot
UNJOINED_SECONDS_MAX = 60.0  # of a rebalance: Kafka waits for dead workers until their sessions end
TRANSACTION_SECONDS_MAX = 10.0  # for which a producer of the input may leave a transaction open without a word
OVERDUE_SECONDS_MAX = 60.0  # after the time at which an epoch of a sealed changelog should have ended
REFUSED_AGO_SECONDS = 3_600
"""A refusal that is older is said to be."""

REFUSED_NOW_LEAST = 10  # messages of the last minutes: fewer count among the latest ones alone
FAULT_SECONDS = 30.0  # as long a message that could not be applied is reported

REDIS_REFUSES = "workers go on by themselves once it takes writes: is --redis the master? Its log says why it refuses"
GOES_ON = "it goes on by itself once the server does"
REDIS_IS_FULL = "Redis is full, so that no worker can commit: raise its maxmemory"


@dataclass
class Verdict:
    """Problems and warnings, in sentences; `streamer status` ends with 1 if there is a problem."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        """Adds the sentences of another verdict."""
        self.problems += other.problems
        self.warnings += other.warnings


def ago(seconds: float) -> str:
    """A duration, as people say it.

    >>> ago(0.2), ago(59), ago(600), ago(7300), ago(200_000)
    ('0 s', '59 s', '10 min', '2 h', '2 d')
    """
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def share(n: float) -> str:
    """A share as people say it: no digits that mean nothing.

    >>> share(0.1834), share(0.042), share(0.0004), share(0)
    ('18%', '4.2%', '<0.1%', '0%')
    """
    if 0 < n < 0.001:
        return "<0.1%"
    return f"{n:.1%}" if 0 < n < 0.0995 else f"{n:.0%}"


LOSS_UNKNOWN = "the loss is known once a worker holds published rows"
FRESH_UNKNOWN = f"a fresh table: not measured yet (every {LOOK_SECONDS // 60} min, if enough rows have changed)"
FRESH_NOT_MEASURED = "a fresh table: not measured, as `drift` is `never`"


def loss_told(ncp: float | None, fresh: float | None, drift: object) -> str:
    """A loss (`Space.mean_loss`) in words, beside that of a fresh table; None: not known yet. drift: of table.yaml.

    >>> loss_told(0.18, 0.16, 1.2)
    '18% of the detail is given up (a fresh table: 16%)'
    """
    if ncp is None:
        return LOSS_UNKNOWN
    if fresh is not None:
        return f"{share(ncp)} of the detail is given up (a fresh table: {share(fresh)})"
    return f"{share(ncp)} of the detail is given up; {FRESH_UNKNOWN if drift else FRESH_NOT_MEASURED}"


# -- a worker -----------------------------------------------------------------------------------------------------


def worker_problems(facts: WorkerFacts) -> list[str]:
    """The problems of a worker, by what it knows itself."""
    own = {held.shard for held in facts.shards if held.refused}
    others = sorted((number, custody) for number, custody in facts.refused.items() if number not in own)
    refused = (ShardFacts(number, InRedis(custody=custody)) for number, custody in others)
    blocked = any(sentence for server in facts.servers for sentence in _of_server(server))
    return [
        *(sentence for server in facts.servers for sentence in _of_server(server)),
        *_joining(facts),
        *(sentence for shard in refused for sentence in _refused(shard, facts.now, []).problems),
        *(sentence for held in facts.shards for sentence in held_problems(held, facts.worker, blocked)),
    ]


def silent_servers(facts: WorkerFacts) -> list[ServerFacts]:
    """The servers whose last answer is old, although that may be no problem yet."""
    return [server for server in facts.servers if server.silent_seconds > OUTDATED_SECONDS]


def _of_server(server: ServerFacts) -> Iterator[str]:
    if server.silent_seconds > SERVER_SILENT_SECONDS_MAX:
        yield (
            f"{server.name} has not answered for {ago(server.silent_seconds)}: is it running? The worker goes on by "
            "itself once it answers"
        )
    elif server.full:
        yield REDIS_IS_FULL


def _joining(facts: WorkerFacts) -> Iterator[str]:
    if facts.unjoined_seconds > UNJOINED_SECONDS_MAX:
        yield (
            f"Kafka has been giving out shards for {ago(facts.unjoined_seconds)}: a member of the consumer group does "
            "not take part; is it a worker? `kafka-consumer-groups.sh --describe --members --group "
            f"{worker_group(facts.table)}` names them"
        )


def held_problems(held: HeldFacts, worker: str = "", blocked: bool = False) -> list[str]:
    """The problems of one shard, by what its worker knows. blocked: a server is away, so that no restart helps."""
    shard = ShardFacts(held.shard, worker=worker, held=held)
    overdue = held.sealed.overdue_seconds if held.sealed is not None else 0.0
    return [*_stands_still(shard, Workers({}, told=False), 0.0, blocked), *_overdue(shard, overdue, blocked)]


def not_ready(facts: WorkerFacts) -> list[str]:
    """The reasons why a worker is not ready: its assignment is not complete, or it lacks one of its shards."""
    if not facts.joined:
        return ["Kafka has not given shards to this worker yet"]
    return [
        f"shard {one.shard}: "
        f"{'another worker has it' if one.lost else 'is refused' if one.refused else 'is being taken over'}"
        for one in facts.shards
        if one.lost or not one.taken_over
    ]


# -- one shard ----------------------------------------------------------------------------------------------------


def judge_shard(
    table: Table, shard: ShardFacts, workers: Workers, now: float, dead_letters_max: float = 1.0, blocked: bool = False
) -> Verdict:
    """The verdict on one shard.

    dead_letters_max: the allowed share of dead letters among its latest messages. blocked: as of `held_problems`.
    """
    verdict = _standing(table, shard)
    if shard.held is None or not shard.held.taken_over:
        verdict.add(_refused(shard, now, known=verdict.problems))
    verdict.problems += _stands_still(shard, workers, now, blocked)
    verdict.problems += _overdue(shard, overdue_seconds(table, shard.redis.meta, now), blocked)
    verdict.problems += _ahead(table, shard, now)
    verdict.problems += _counts(shard, now, dead_letters_max)
    verdict.problems += _truncations(shard)
    verdict.warnings += _unknown_keys(shard)
    verdict.warnings += _held_back_by_transaction(shard, now)
    verdict.add(_rebuilds(shard, now))
    if held_back := _held_back(shard):
        verdict.warnings.append(held_back)
    elif not shard.redis.sizes.qi_groups and shard.redis.sizes.records:
        verdict.warnings.append(
            f"shard {shard.number}: all its {shard.redis.sizes.records} rows are pending: a QI group needs"
            f" {words(table, model_of(table))}, and together they do not have it"
        )
    elif 0 < shard.redis.sizes.records <= shard.redis.custody.measured.withheld:
        verdict.warnings.append(
            f"shard {shard.number}: all its {shard.redis.sizes.records} rows are withheld: no QI group is as narrow as"
            " `coarsest` in table.yaml asks"
        )
    return verdict


def _stands_still(shard: ShardFacts, workers: Workers, now: float, blocked: bool) -> Iterator[str]:
    """The most telling reason why a shard does not go on, and a recent fault."""
    held, prefix, still = shard.held, f"shard {shard.number}:", shard.still_seconds(now)
    busy = held.busy_seconds if held is not None else 0.0
    look = GOES_ON if blocked else f"look at the log of {shard.worker or 'its worker'}, or start it again"
    if held is not None and held.lost:
        yield (
            f"{prefix} another worker has taken it over, and Kafka has not given it away yet: if that lasts, this "
            "worker ends, to be started again"
        )
    elif held is not None and held.refused:
        whose = shard.worker or "its worker"
        yield f"{prefix} refused by {whose}, which tries it again when something has changed: {held.refused}"
    elif held is not None and held.error and held.error_seconds > STILL_SECONDS_MAX:
        yield f"{prefix} has not gone on for {ago(held.error_seconds)}: {held.error}"
    elif held is None and (waits_since := _abandoned_since(shard, workers)) is not None:
        waited = ago(now - waits_since)
        yield f"{prefix} messages have waited for {waited}, and no worker holds it: start `streamer worker`"
    elif still > _patience(shard):
        call = f", its thread has been in one call for {ago(busy)}" if busy >= 1 else ""
        yield f"{prefix} {shard.lag:,} messages wait, and none was applied for {ago(still)}{call}: {look}"
    elif busy > max(SHARD_CALL_SECONDS_MAX, _patience(shard)):
        yield f"{prefix} its thread has been in one call for {ago(busy)}: {look}"
    if held is not None and held.fault_seconds is not None and held.fault_seconds <= FAULT_SECONDS:
        yield (
            f"{prefix} a message could not be applied {ago(held.fault_seconds)} ago, by an unforeseen error, and was "
            "skipped: `streamer dead-letters` says which"
        )


def _overdue(shard: ShardFacts, seconds: float, blocked: bool) -> Iterator[str]:
    if seconds > OVERDUE_SECONDS_MAX:
        whose = shard.worker or "its worker"
        yield (
            f"shard {shard.number}: an epoch of its sealed changelog should have ended {ago(seconds)} ago, and its"
            f" newcomers are not published: {GOES_ON if blocked else f'is {whose} running? Its log says why it waits'}"
        )


def _ahead(table: Table, shard: ShardFacts, now: float) -> Iterator[str]:
    sealed = None if shard.redis.meta is None else shard.redis.meta.sealed
    if table.sealed is None or table.sealed.epoch.seconds is None or sealed is None:
        return
    if sealed.seconds - now > OVERDUE_SECONDS_MAX:
        yield (
            f"shard {shard.number}: the last epoch of its sealed changelog ended {ago(sealed.seconds - now)} ahead of"
            " Redis' clock, and nobody is published in it until then: was the clock of Redis or of a worker ahead? Set"
            f" the clocks right, and wait; if that is too long, {remedies.under_another_name(table.name)}"
        )


def _held_back_by_transaction(shard: ShardFacts, now: float) -> Iterator[str]:
    first = shard.kafka.held_back
    if first is not None and now - first.since > TRANSACTION_SECONDS_MAX:
        yield (
            f"shard {shard.number}: an open transaction of a producer holds back the input from offset"
            f" {first.offset:,} on, since {ago(now - first.since)}: Kafka shows these messages to nobody until it ends,"
            " by its transaction.timeout.ms at the latest. Look at the producer (`kafka-transactions.sh find-hanging`),"
            " not at the worker"
        )


def _abandoned_since(shard: ShardFacts, workers: Workers) -> float | None:
    """The time since which messages wait that no worker will read; None if one will, or if it is not known."""
    waiting, is_nobodys = shard.kafka.waiting, not shard.worker and workers.told and workers.settled
    return waiting.since if waiting is not None and shard.waits and is_nobodys else None


def _patience(shard: ShardFacts) -> float:
    if shard.releases:
        return STANDSTILL_SECONDS_MAX
    if shard.held is None:
        return STILL_OUTSIDE_SECONDS_MAX
    return min(SHARD_CALL_SECONDS_MAX, STILL_SECONDS_MAX + shard.held.computing_seconds)


def _held_back(shard: ShardFacts) -> str:
    meta = shard.redis.meta
    if meta is None or meta.snapshot is None or not holds_back(meta):
        return ""
    return (
        f"shard {shard.number}: holds back {shard.redis.sizes.records:,} rows of a snapshot, to publish them together; "
        f"{waits_for(meta.snapshot)}; `streamer end-snapshot` publishes them as they are"
    )


def _standing(table: Table, shard: ShardFacts) -> Verdict:
    """Judges whether Redis, the output and the input fit together."""
    number, meta, position = shard.number, shard.redis.meta, shard.kafka.position
    if meta is None:
        lost = position is not None and shard.redis.before is None
        return Verdict([_nothing_in_redis(table, shard, position)] if lost and position else [])
    at_rest = meta == shard.redis.before
    input_state = shard.kafka.input_state
    if not at_rest:
        position = Position.of(meta)
        input_state = replace(input_state, end=max(input_state.end, meta.next), again=())
    if _is_emptied(shard):
        return Verdict([_incomplete(table, shard)])
    try:
        standing = compare(table, number, meta, position, input_state)
    except ShardRefused as refused:
        return Verdict([str(refused)])
    if standing is Consistency.INCOMPLETE:
        return Verdict([_incomplete(table, shard)])
    verdict, kept = Verdict(), former_version(table, meta)
    if kept:
        verdict.warnings.append(
            f"shard {number}: its QI groups were kept by engine version {kept}; the next worker of this version, "
            f"{version_of(table.fingerprint)}, adopts them"
        )
    if standing is Consistency.AHEAD:
        verdict.warnings.append(f"shard {number}: {standing.value}; the next worker publishes it")
    elif standing is Consistency.BEHIND:
        verdict.problems.append(f"shard {number}: {standing.value}; the next worker repeats them from the input")
    elif at_rest and shard.redis.sizes.outbox:
        verdict.warnings.append(
            f"shard {number}: records that are published are still in the outbox; the next worker drops them"
        )
    return verdict


def _incomplete(table: Table, shard: ShardFacts) -> str:
    """Says what the output lacks: all of it, the end of a topic, its beginning, or the positions."""
    kafka, meta = shard.kafka, shard.redis.before or Meta()
    outputs, new = live_kinds(table), new_topics(meta, kafka.input_state)
    recreated = [kind for kind in outputs if kind in new] or (list(outputs) if _is_emptied(shard) else [])
    lost = recreated or lost_records(meta, kafka.position, kafka.input_state)
    names = " and ".join(topic_name(table.name, kind) for kind in lost)
    if recreated:
        what = f"{names} {'were' if len(recreated) > 1 else 'was'} recreated, and readers lack the table"
    elif lost:
        what = f"{names} lost records at the beginning or the end, and the table that readers see may break its promise"
    else:
        what = f"{topic_name(table.name, POSITIONS)} lost its end, and nothing says what is published"
    return f"shard {shard.number}: {what}; start `streamer worker`, which publishes it whole again"


def _nothing_in_redis(table: Table, shard: ShardFacts, position: Position) -> str:
    lost = f"shard {shard.number}: published up to {position.next}, but Redis holds nothing; "
    if position.outside:
        return (
            f"{lost}restore it from a copy not older than commit {position.outside}, which did not come from the "
            f"input, or {remedies.reload(table.name)}"
        )
    ours = version_of(table.fingerprint)
    if position.engine not in ("", ours):
        return (
            f"{lost}restore it from any former copy, and start workers of engine version {position.engine}, which "
            f"decided what is published (this streamer's is {ours}), or {remedies.reload(table.name)}"
        )
    if begins := shard.kafka.input_state.earliest:
        return (
            f"{lost}restore it from a copy that had reached offset {begins}, where the input begins now, or "
            f"{remedies.reload_from_file(table.name)}"
        )
    if _lacks_secret(shard):
        return (
            f"{lost}restore it from any former copy: else the next worker reads the input again from its start, and "
            "refuses the shard if that gives another table, because the shard's secret is lost as well"
        )
    return f"{lost}the next worker reads the input again from its start, and publishes nothing on the way"


def _is_emptied(shard: ShardFacts) -> bool:
    """True if the published records are gone. `compare` knows it by topic ids, which not every broker gives.

    If the positions are gone, too, a shard's second commit shows that its first one was published.
    """
    position, before = shard.kafka.position, shard.redis.before
    if shard.kafka.input_state.live_begun:
        return False
    if position is not None:
        return position.release > 0
    return before is not None and before.commit > 1 and before.release > 0


def _refused(shard: ShardFacts, now: float, known: list[str]) -> Verdict:
    """The reason for which a worker refused the shard; a warning if another worker goes on with it.

    A refusal before the last take-over or commit is past and says nothing. known: problems found before.
    """
    custody, held = shard.redis.custody, shard.held
    refusal = custody.refusal
    if held is not None and held.refused:  # told as what it stands still for
        known[:] = [problem for problem in known if problem != held.refused]
        return Verdict()
    if custody.beginning:
        return Verdict([f"shard {shard.number}: {remedies.PARTLY_LOADED}"])
    if refusal is None or max(custody.taken_at or 0, custody.committed_at or 0) > refusal.at:
        return Verdict()
    sentence = f"shard {shard.number}: refused by {refusal.by or 'a worker'} {ago(now - refusal.at)} ago: "
    if refusal.reason in known:
        known.remove(refusal.reason)
    if shard.worker and shard.worker == custody.owner and refusal.by != custody.owner:
        return Verdict(warnings=[f"{sentence}{refusal.reason} ({custody.owner} holds it and goes on)"])
    return Verdict([sentence + refusal.reason])


def _unknown_keys(shard: ShardFacts) -> Iterator[str]:
    """Changes of rows that the shard did not have, unless there is a harmless reason for each.

    A connector that sends changes again repeats those of rows that were deleted since, which a shard sees itself if
    messages have positions; a refused row is not there when its deletion comes; and rows that a later snapshot reads
    are there again.
    """
    counts = shard.redis.meta.counts if shard.redis.meta else NO_MESSAGES
    if counts.respelt_keys:
        why = f"{counts.respelt_keys:,} of them {remedies.RESPELT_KEYS}"
    elif counts.unknown_keys > counts.explaining + counts.dead_letters:
        why = (
            "more than rows that were deleted before or refused. Did the connector skip its snapshot, so that rows are "
            f"missing? {remedies.READ_AGAIN}"
        )
    else:
        return
    yield (
        f"shard {shard.number}: {counts.unknown_keys:,} captured changes and deletions were about rows that it did not"
        f" have: {why}"
    )


def _rebuilds(shard: ShardFacts, now: float) -> Verdict:
    meta, verdict = shard.redis.meta or Meta(), Verdict()
    running, last = meta.rebuild, last_rebuild(meta.rebuilds)
    if running is not None and now - running.at > STANDSTILL_SECONDS_MAX:
        verdict.problems.append(
            f"shard {shard.number}: its rebuild has stood at {running.done} of {running.total} regions for "
            f"{ago(now - running.at)}: look at the log of {shard.worker or 'its worker'}, start one if there is "
            "none, or `streamer rebuild --cancel`"
        )
    if running is None and last is not None and last.state in (FAILED, STOPPED):
        sentence = f"shard {shard.number}: its last rebuild, {ago(now - last.at)} ago, {told(last)}"
        if last.state == FAILED:
            verdict.problems.append(f"{sentence}; `streamer rebuild` tries again")
        else:
            verdict.warnings.append(sentence)
    verdict.warnings += [
        f"shard {shard.number}: request {one.rebuild.id}, {ago(now - one.at)} ago, {told(one)}"
        for one in meta.rebuilds
        if one.state == REFUSED and now - one.at <= WAITING_SECONDS_MAX
    ]
    return verdict


def _counts(shard: ShardFacts, now: float, dead_letters_max: float) -> Iterator[str]:
    meta = shard.redis.meta or Meta()
    counts = meta.counts
    if counts.messages > meta.next:
        yield (
            f"shard {shard.number}: counts {counts.messages} messages, but only {meta.next} offsets were read: its "
            "counts are wrong, which is a fault of streamer's: please report it"
        )
    kafka, more = shard.kafka, f"more than {dead_letters_max:.0%}: `streamer dead-letters` says why"
    refused, messages = (kafka.refused_lately, kafka.lately) if kafka.lately else (counts.dead_letters, counts.messages)
    if kafka.refused_now >= REFUSED_NOW_LEAST and kafka.refused_now > dead_letters_max * kafka.now:
        yield (
            f"shard {shard.number}: {kafka.refused_now:,} of the {kafka.now:,} messages of the last minutes were "
            f"refused, {more}"
        )
    elif refused > dead_letters_max * messages:
        since = now - kafka.refused_at if kafka.refused_at else 0
        last = f", the last one {ago(since)} ago" if since > REFUSED_AGO_SECONDS else ""
        yield (
            f"shard {shard.number}: {refused:,} of the latest {messages:,} messages were refused{last}, {more}; if "
            "that is put right, `streamer dead-letters acknowledge`"
        )


def _truncations(shard: ShardFacts) -> Iterator[str]:
    if offsets := shard.kafka.truncations:
        yield (
            f"shard {shard.number}: the source has truncated the table (offset {', '.join(map(str, offsets))}), and "
            "the rows of before are still published: `streamer dead-letters` says what to do"
        )


# -- a loss of Redis --------------------------------------------------------------------------------------------------

REPLAYED_PER_SECOND = 5_000  # messages that a worker on two cores applies, when many wait


class RedisLoss(NamedTuple):
    """The cost of a loss of Redis today, if there is no copy of it."""

    messages: int  # read again from the beginning of the input; markers of transactions among them
    reload: str = ""  # why that would not be enough

    def told(self) -> str:
        """The same in words.

        >>> RedisLoss(1_200_000).told()
        'if Redis is lost: 1,200,000 messages are read again from offset 0, about 4 min at 5,000/s'
        """
        if self.reload:
            return f"back up Redis: if it is lost without a copy, the table has to be reloaded, since {self.reload}"
        lasts = ago(self.messages / REPLAYED_PER_SECOND)
        return (
            f"if Redis is lost: {self.messages:,} messages are read again from offset 0, about {lasts} at "
            f"{REPLAYED_PER_SECOND:,}/s"
        )


def if_redis_is_lost(table: Table, facts: TableFacts) -> RedisLoss:
    """Judges by the published positions, by where the inputs begin, and by what the control topic holds."""
    positions = (shard.kafka.position for shard in facts.shards)
    why = (reason for shard in facts.shards if (reason := _why_reload(table, shard)))
    return RedisLoss(sum(one.next for one in positions if one is not None), next(why, ""))


def _why_reload(table: Table, shard: ShardFacts) -> str:
    """The reason why a shard without Redis could not be read again; "" if it could, or has published nothing."""
    position, meta, begins = shard.kafka.position, shard.redis.meta, shard.kafka.input_state.earliest
    outside = max(one.outside if one is not None else 0 for one in (position, meta))
    if outside:
        return (
            f"commit {outside} of shard {shard.number} did not come from the input (a load, a rebuild, a first "
            "snapshot, a recreated output); the copy must be younger"
        )
    if position is not None and begins:
        return f"the input of shard {shard.number} begins at offset {begins}"
    if position is not None and _lacks_secret(shard):
        return f"{topic_name(table.name, CONTROL)} does not have the secret of shard {shard.number}"
    return ""


def _lacks_secret(shard: ShardFacts) -> bool:
    """True if the control topic holds nothing of the shard. Only workers may read what it holds."""
    return not shard.kafka.input_state.control_end


def _secrets_lacking(table: Table, facts: TableFacts) -> Iterator[str]:
    """Shards that a loss of Redis would make a case for a reload, and a worker's next start would not."""
    secret = topic_name(table.name, CONTROL)
    lacking = [str(one.number) for one in facts.shards if _why_reload(table, one).startswith(secret)]
    if lacking:
        yield (
            f"the secret of shard{'s' * (len(lacking) > 1)} {', '.join(lacking)} is in Redis alone, and would be lost "
            f"with it: start the workers again, which write it into {secret}"
        )


# -- the whole table ------------------------------------------------------------------------------------------------


def judge(table: Table, facts: TableFacts, dead_letters_max: float) -> tuple[list[Verdict], Verdict]:
    """The verdicts on each shard, and on all together. dead_letters_max: of `judge_shard`."""
    now = facts.redis_now.time
    blocked = facts.redis_now.full or bool(facts.redis_now.refuses)
    of_shards = [judge_shard(table, shard, facts.workers, now, dead_letters_max, blocked) for shard in facts.shards]
    verdict = Verdict()
    for one in (*of_shards, judge_table(table, facts)):
        verdict.add(one)
    return of_shards, verdict


def judge_table(table: Table, facts: TableFacts) -> Verdict:
    """The verdict on the table as a whole."""
    verdict = Verdict(warnings=list(sql_warnings(table)))
    verdict.problems += [*_topic_problems(table, facts), *_key_forms(facts)]
    verdict.warnings += _secrets_lacking(table, facts)
    for number in sorted(set(facts.shards_in_redis) - {shard.number for shard in facts.shards}):
        verdict.problems.append(
            f"Redis holds a shard {number}, but the input has {len(facts.shards)} partitions: its people are not kept "
            f"current; {remedies.reload_from_file(table.name)}"
        )
    if facts.redis_now.full:
        verdict.problems.append(REDIS_IS_FULL)
    elif facts.redis_now.refuses:
        verdict.problems.append(f"{facts.redis_now.refuses}, so that no worker can commit; {REDIS_REFUSES}")
    if not table.durability_stated:
        verdict.warnings += (
            f"{setting}: Redis could lose what it confirms; a worker does not start on it"
            for setting in facts.durability.lax
        )
    if not facts.workers.told:
        if not all(shard.held for shard in facts.shards):  # else the worker that is asked has all
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
    """Each shard learns the form of message keys by itself. Two forms would put one row into two shards."""
    metas = ((shard.number, shard.redis.meta) for shard in facts.shards)
    forms = {number: meta.key_form for number, meta in metas if meta is not None and meta.key_form}
    if len(set(forms.values())) > 1:
        named = ", ".join(f"{number}: {form}" for number, form in forms.items())
        yield (
            f"the shards know different forms of message keys ({named}), so that one row may be in two of them: two "
            "producers began at once; let one of them write, then `streamer produce --truncate` and send all rows again"
        )


def _idle(facts: TableFacts) -> Iterator[str]:
    """Shards without a worker in which no message waits; a waiting message is a problem of the shard."""
    idle = [str(shard.number) for shard in facts.shards if not shard.worker and not shard.waits]
    if idle:
        yield f"no worker holds shard{'s' * (len(idle) > 1)} {', '.join(idle)}: start `streamer worker`"
