"""What `streamer status` makes of what it sees of one shard: problems, that somebody has to mend, and warnings.

The rules of this file
----------------------
* A shard that moves while it is looked at is judged by all that one reading shows: whether it belongs to this
  table.yaml and these topics, whether a worker refused it or nobody holds it, what its counts say. Only what compares
  Redis with Kafka needs a shard at rest, and is then held to the very rules of a worker that takes it over.
* Every sentence names the shard and what to do. None holds a value of anybody's row.
* What the next worker mends by itself is a warning; everything else that keeps the published table from being the
  table is a problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from streamer.cli.letters_seen import LATEST_OFFSETS
from streamer.cli.shard_facts import ShardFacts, Workers
from streamer.errors import ShardRefused
from streamer.incremental import mends
from streamer.incremental.shard.answers import WAITING_SECONDS_MAX
from streamer.incremental.shard.holding_back import holds_back, waits_for
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.rebuild_reports import last_rebuild, told
from streamer.incremental.shard.standing import Standing, compare
from streamer.incremental.store.base import Meta
from streamer.incremental.store.rebuild import FAILED, REFUSED, STOPPED
from streamer.incremental.topics import outputs_of, topic_name
from streamer.privacy.models import model_of, words
from streamer.table.schema import Table

SILENCE_SECONDS_MAX = 60.0
"""How long a shard with a worker may leave a message waiting without a commit."""

STANDSTILL_SECONDS_MAX = 600.0
"""How long a region of a rebuild may take, or all rows of a first snapshot."""


@dataclass
class Verdict:
    """Problems and warnings, in sentences; the command ends with 1 where there is a problem."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        """Adds another one's sentences to these."""
        self.problems += other.problems
        self.warnings += other.warnings


def ago(seconds: float) -> str:
    """A time that has passed, as people say it.

    >>> ago(0.2), ago(59), ago(600), ago(7300), ago(200_000)
    ('0 s', '59 s', '10 min', '2 h', '2 d')
    """
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def waits(shard: ShardFacts) -> bool:
    """Whether a message waits; offsets below the end of the input may hold none."""
    waiting, meta = shard.kafka.waiting, shard.redis.meta
    return waiting is not None and waiting.offset >= (meta.next if meta else 0)


def lag_of(shard: ShardFacts) -> int:
    """Offsets that a shard has not read; none where no message waits in them."""
    next_ = shard.redis.meta.next if shard.redis.meta else 0
    return max(0, shard.kafka.input_state.end - next_) if waits(shard) else 0


def judge_shard(
    table: Table, shard: ShardFacts, workers: Workers, now: float, dead_letters_max: float = 1.0
) -> Verdict:
    """What concerns one shard; dead_letters_max: the largest share of its latest messages that may be dead letters."""
    verdict = Verdict()
    verdict.add(_standing(table, shard))
    verdict.add(_refused(shard, now, known=verdict.problems))
    verdict.problems += _silence(shard, workers, now)
    verdict.problems += _counts(shard, dead_letters_max)
    verdict.warnings += _unknown_keys(shard)
    verdict.add(_rebuilds(shard, now))
    if held := _held_back(shard):
        verdict.warnings.append(held)
    elif not shard.redis.sizes.qi_groups and shard.redis.sizes.records:
        verdict.warnings.append(
            f"shard {shard.number}: all its {shard.redis.sizes.records} rows are pending: a QI group needs"
            f" {words(table, model_of(table))}, and together they do not have it"
        )
    return verdict


def _held_back(shard: ShardFacts) -> str:
    """That the shard holds back a snapshot, and until when; "" where it does not."""
    meta = shard.redis.meta
    if meta is None or meta.snapshot is None or not holds_back(meta):
        return ""
    return (
        f"shard {shard.number}: holds back {shard.redis.sizes.records:,} rows of a snapshot, to publish them together; "
        f"{waits_for(meta.snapshot)}; `streamer end-snapshot` publishes them as they are"
    )


def _standing(table: Table, shard: ShardFacts) -> Verdict:
    """Whether Redis, the output and the input fit together, as far as it can be told."""
    number, meta, position = shard.number, shard.redis.meta, shard.kafka.position
    if meta is None:
        lost = position is not None and shard.redis.before is None
        return Verdict([_nothing_in_redis(table, number, position)] if lost and position else [])
    at_rest = meta == shard.redis.before
    input_state = shard.kafka.input_state
    if not at_rest:
        position = Position.of(meta)
        input_state = replace(input_state, end=max(input_state.end, meta.next))
    if _is_emptied(shard):
        return Verdict([_emptied(table, number)])
    try:
        standing = compare(table, number, meta, position, input_state)
    except ShardRefused as refused:
        return Verdict([str(refused)])
    if standing is Standing.EMPTIED:
        return Verdict([_emptied(table, number)])
    verdict = Verdict()
    if standing is Standing.AHEAD:
        verdict.warnings.append(f"shard {number}: {standing.value}; the next worker publishes it")
    elif standing is Standing.BEHIND:
        verdict.problems.append(f"shard {number}: {standing.value}; the next worker repeats them from the input")
    elif at_rest and shard.redis.sizes.outbox:
        verdict.warnings.append(
            f"shard {number}: {shard.redis.sizes.outbox} records are published and still in the outbox; "
            "the next worker drops them"
        )
    return verdict


def _emptied(table: Table, number: int) -> str:
    outputs = [topic_name(table.name, kind) for kind in outputs_of(table.form)]
    made = f"{' and '.join(outputs)} {'were' if len(outputs) > 1 else 'was'} made anew"
    return (
        f"shard {number}: {made}, and readers lack the table; start `streamer worker`, which publishes it whole again"
    )


def _nothing_in_redis(table: Table, number: int, position: Position) -> str:
    lost = f"shard {number}: published up to {position.next}, but Redis holds nothing; restore it from"
    if position.outside:
        return (
            f"{lost} a copy not older than commit {position.outside}, which did not come from the input, or, "
            f"{mends.begin_anew(table.name)}"
        )
    return (
        f"{lost} any former copy: "
        "else the next worker reads the input again from its start, publishing nothing on the way, and refuses the "
        "shard where that gives another table, because the secret of the shard's chances is lost as well"
    )


def _is_emptied(shard: ShardFacts) -> bool:
    """Whether nothing is left of what was published: told so where the broker gives no ids, by which `compare` tells.

    Where the positions are gone as well, the second commit of a shard tells that its first one was published.
    """
    position, before = shard.kafka.position, shard.redis.before
    if shard.kafka.input_state.live_begun:
        return False
    if position is not None:
        return position.release > 0
    return before is not None and before.commit > 1 and before.release > 0


def _refused(shard: ShardFacts, now: float, known: list[str]) -> Verdict:
    """Why a worker refused the shard. Harmless where the one who holds it is another and went on."""
    custody = shard.redis.custody
    refusal = custody.refusal
    if custody.beginning:
        return Verdict([f"shard {shard.number}: {mends.BEGUN_IN_PART}"])
    if refusal is None:
        return Verdict()
    sentence = f"shard {shard.number}: refused by {refusal.by or 'a worker'} {ago(now - refusal.at)} ago: "
    if refusal.reason in known:
        known.remove(refusal.reason)
    if shard.worker and shard.worker == custody.owner and refusal.by != custody.owner:
        return Verdict(warnings=[f"{sentence}{refusal.reason} ({custody.owner} holds it and goes on)"])
    return Verdict([sentence + refusal.reason])


def _silence(shard: ShardFacts, workers: Workers, now: float) -> Iterator[str]:
    waiting, custody = shard.kafka.waiting, shard.redis.custody
    if waiting is None or not waits(shard):
        return
    if workers.told and workers.settled and not shard.worker:
        yield (
            f"shard {shard.number}: messages wait since {ago(now - waiting.since)}, and no worker holds it: "
            "start `streamer worker`"
        )
        return
    heard = max(waiting.since, custody.taken_at or 0, custody.committed_at or 0)
    releases = shard.redis.meta is not None and holds_back(shard.redis.meta)  # by an algorithm, which may take long
    if now - heard > (STANDSTILL_SECONDS_MAX if releases else SILENCE_SECONDS_MAX):
        yield (
            f"shard {shard.number}: messages wait, and {shard.worker or 'its worker'} has committed nothing for "
            f"{ago(now - heard)}: look at its log, or start it again"
        )


def _unknown_keys(shard: ShardFacts) -> Iterator[str]:
    unknown = shard.redis.meta.counts.unknown_keys if shard.redis.meta else 0
    if unknown:
        yield (
            f"shard {shard.number}: {unknown:,} captured changes and deletions were about rows that it did not have: "
            "did the connector skip its snapshot, or write a row's changes to several partitions?"
        )


def _rebuilds(shard: ShardFacts, now: float) -> Verdict:
    """Whether a rebuild stands still or the last one came to nothing; requests that were refused a short time ago."""
    meta, verdict = shard.redis.meta or Meta(), Verdict()
    running, last = meta.rebuild, last_rebuild(meta.rebuilds)
    if running is not None and now - running.at > STANDSTILL_SECONDS_MAX:
        verdict.problems.append(
            f"shard {shard.number}: its rebuild stands at {running.done} of {running.total} regions since "
            f"{ago(now - running.at)}: look at the log of {shard.worker or 'its worker'}, start one where there is "
            "none, or `streamer rebuild --cancel`"
        )
    if running is None and last is not None and last.state in (FAILED, STOPPED):
        sentence = f"shard {shard.number}: its last rebuild, {ago(now - last.at)} ago, {told(last)}"
        (verdict.problems if last.state == FAILED else verdict.warnings).append(sentence)
    verdict.warnings += [
        f"shard {shard.number}: request {one.rebuild.id}, {ago(now - one.at)} ago, {told(one)}"
        for one in meta.rebuilds
        if one.state == REFUSED and now - one.at <= WAITING_SECONDS_MAX
    ]
    return verdict


def _counts(shard: ShardFacts, dead_letters_max: float) -> Iterator[str]:
    meta = shard.redis.meta or Meta()
    counts = meta.counts
    if counts.messages > meta.next:
        yield (
            f"shard {shard.number}: counts {counts.messages} messages, but only {meta.next} offsets were read: its "
            "counts are wrong, which is a fault of streamer's: please report it"
        )
    refused, messages, which = counts.dead_letters, counts.messages, ""
    if messages > LATEST_OFFSETS:
        refused, messages, which = shard.kafka.refused_lately, LATEST_OFFSETS, "the latest "
    if refused > dead_letters_max * messages:
        yield (
            f"shard {shard.number}: {refused:,} of {which}{messages:,} messages are dead letters, more than "
            f"{dead_letters_max:.0%}: `streamer dead-letters` says why"
        )
