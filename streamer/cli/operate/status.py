"""`streamer status`: the state of every shard of a table, its owner, and what is inconsistent.

messages = applied + ignored + dead letters, and every message has an offset below `next`. Offsets without a message are
markers of Kafka's transactions, in which statements are sent. The text fits 80 columns; --json has more.

What a worker measures (the loss, that of a fresh table, published records per message) it leaves in Redis every few
seconds. The counts begin with the worker that holds the shard, and the loss of a fresh table with its first look for
drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import click
import msgspec
from rich.table import Table as Grid

from streamer.cli.support.options import command_named, json_option, kafka_option, redis_option, table_option
from streamer.cli.support.tables import Line, plural, show
from streamer.errors import EXIT_LAW
from streamer.incremental.events.changes import NO_MESSAGES
from streamer.incremental.shard.rebuild import described as rebuild_described
from streamer.incremental.shard.rebuild import last_rebuild, told
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import Measured
from streamer.incremental.store.redis_server import Durability, Kind
from streamer.kafka.access import kafka_settings
from streamer.status.collect import look
from streamer.status.facts import ShardFacts, TableFacts, of_table
from streamer.status.verdict import Verdict, ago, if_redis_is_lost, judge, loss_told
from streamer.table.data_warnings import unknown_category_warnings
from streamer.table.schema import Table
from streamer.table.space import Space
from streamer.table.yaml.loading import load_table

COUNTED_FACTS = ("lag", "rows", "pending", "qi_groups", "outbox", "messages", "applied", "ignored", "dead_letters")
SHOWN_FACTS = {"lag": "lag", "rows": "rows", "qi_groups": "QI groups", "messages": "read", "dead_letters": "dead"}
"""The counts in the table for people, and the headings of their columns."""

LEGEND = "dead: dead letters; over fresh: loss over a fresh table's; records /event: published for each; -: unknown"

OLD_SECONDS = 60.0  # a worker measures every few seconds: an older measure is not of now


@command_named("status", "streamer status --table mine", "streamer status --table mine --json")
@table_option
@kafka_option
@redis_option
@click.option(
    "--dead-letters-max",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    help="Largest share of dead letters among a shard's latest 10,000 messages [default: table.yaml's].",
)
@json_option
@click.pass_context
def command(ctx: click.Context, table: str, kafka: str, redis: str, dead_letters_max: float | None) -> None:
    """Shows the state of every shard of a table, which worker holds it since when, and what is wrong.

    Ends with 1 if an operator has to act: a worker refused a shard, messages wait and no worker applies them, too many
    became dead letters, Redis is full, or Redis and Kafka are inconsistent. The loss now, over a fresh table's, and the
    published records per event are as the running workers measured them.
    """
    schema = load_table(table)
    facts = look(schema, kafka, redis)
    share_max = schema.limits.dead_letters_share_max if dead_letters_max is None else dead_letters_max
    of_shards, verdict = judge(schema, facts, share_max)
    shards = [_described(shard, of, schema.space) for shard, of in zip(facts.shards, of_shards, strict=True)]
    total: dict[str, Any] = {name: sum(shard[name] for shard in shards) for name in (*COUNTED_FACTS, "offsets_read")}
    total["measured"] = _measured(of_table(facts.shards))
    not_used = kafka_settings().not_used
    report = {
        "ok": not verdict.problems,
        "table": schema.name,
        "shards": shards,
        "total": total,
        "workers": shards_by(shard.worker for shard in facts.shards),
        "redis_masters": shards_by(shard.redis.master for shard in facts.shards),
        "if_redis_is_lost": if_redis_is_lost(schema, facts)._asdict(),
        "redis": {**asdict(facts.durability), "kind": facts.durability.kind.name.lower()},
        "client_properties_not_used": not_used,
        **asdict(verdict),
    }
    lines = _lines(schema, facts, shards, total)
    unused = [f"not used of the file in KAFKA_CONFIG: {', '.join(not_used)}"] if not_used else []
    show(report, chain(lines, unused, _verdict_lines(verdict)))
    if verdict.problems:
        ctx.exit(EXIT_LAW)


def _described(shard: ShardFacts, verdict: Verdict, space: Space) -> dict[str, Any]:
    meta, sizes, position = shard.redis.meta or Meta(), shard.redis.sizes, shard.kafka.position
    custody, waiting = shard.redis.custody, shard.kafka.waiting
    return {
        "shard": shard.number,
        "worker": shard.worker or None,
        "owner": custody.owner or None,
        "taken_over": _time(custody.taken_at),
        "last_commit": _time(custody.committed_at),
        "refused": custody.refusal and custody.refusal.reason,
        "waiting_since": _time(waiting.since if waiting else None),
        "stored": shard.redis.meta and {"commit": meta.commit, "next": meta.next, "release": meta.release},
        "published": position and {"commit": position.commit, "next": position.next, "release": position.release},
        "input_end": shard.kafka.input_state.end,
        "lag": shard.lag,
        "rows": sizes.records,
        "pending": min(sizes.records, sizes.pending + custody.measured.withheld),  # the latter is seconds old
        "qi_groups": sizes.qi_groups,
        "outbox": sizes.outbox,
        "measured": _measured(custody.measured),
        "snapshot": meta.snapshot and {**msgspec.structs.asdict(meta.snapshot), "holds_back": meta.snapshot.holds},
        "rebuild": meta.rebuild and rebuild_described(meta.rebuild, space),
        "rebuilds": [rebuild_described(one, space) for one in meta.rebuilds],
        "sealed": meta.sealed and {"epoch": meta.sealed.epoch, "time": _epoch_time(meta)},
        "adopted": [msgspec.structs.asdict(one) for one in meta.adopted],
        "offsets_read": meta.next,
        "messages": meta.counts.messages,
        **msgspec.structs.asdict(meta.counts),
        **asdict(verdict),
    }


def _measured(one: Measured) -> dict[str, Any]:
    """The measures of a worker; null: not measured yet."""
    return {
        "at": _time(one.at or None),
        "ncp": one.ncp,
        "ncp_fresh": one.ncp_fresh,
        "over_fresh": one.over_fresh,
        "messages": one.messages,
        "records": one.records,
        "records_per_event": one.records_per_event,
    }


def _epoch_time(meta: Meta) -> str | None:
    """The time of the last epoch's end; None before the first one."""
    return _time(meta.sealed.seconds) if meta.sealed is not None and meta.sealed.epoch else None


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _lines(schema: Table, facts: TableFacts, shards: list[dict[str, Any]], total: dict[str, Any]) -> Iterator[Line]:
    grid = Grid(title=schema.name, box=None, padding=(0, 1, 0, 0))
    grid.add_column("shard", justify="right")
    grid.add_column("held by", overflow="fold")  # the only column that shrinks on a narrow terminal
    for heading in ("since", *SHOWN_FACTS.values(), "over\nfresh", "records\n/event"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for shard, described in zip(facts.shards, shards, strict=True):
        grid.add_row(str(shard.number), *_holder(shard, facts), *_counted(described, shard.redis.custody.measured))
    grid.add_row("all", "", "", *_counted(total, of_table(facts.shards)))
    now = facts.redis_now.time
    yield grid
    yield LEGEND
    yield _account(total)
    yield measured_line(of_table(facts.shards), now, schema.rebuilding.drift)
    yield from _spread_lines(facts)
    yield from unlisted_lines(schema, [shard.redis.meta or Meta() for shard in facts.shards])
    yield from redis_lines(facts.durability)
    yield if_redis_is_lost(schema, facts).told()
    for lines_of in (_rebuild_lines, _adoption_lines, _sealed_lines):
        for shard in facts.shards:
            yield from lines_of(shard, now)


def _counted(described: dict[str, Any], measured: Measured) -> Iterator[str]:
    """The cells of a row of the table; "-": not measured yet."""
    yield from (f"{described[name]:,}" for name in SHOWN_FACTS)
    yield "-" if measured.over_fresh is None else f"{measured.over_fresh - 1:+.1%}"
    yield "-" if measured.records_per_event is None else f"{measured.records_per_event:.2f}"


def measured_line(of: Measured, now: float, drift: object) -> str:
    """The workers' measures of the whole table in a sentence; with their age, if a worker reports no more.

    now: by Redis' clock; drift: of table.yaml.
    """
    records = "known after a worker's next message" if of.records_per_event is None else f"{of.records_per_event:.2f}"
    since = f", as of {ago(now - of.at)} ago" if of.at and now - of.at > OLD_SECONDS else ""
    return f"{loss_told(of.ncp, of.ncp_fresh, drift)}; published records per event: {records}{since}"


def _rebuild_lines(shard: ShardFacts, now: float) -> Iterator[str]:
    """The running rebuild, else the last one."""
    meta = shard.redis.meta or Meta()
    last = last_rebuild(meta.rebuilds)
    if meta.rebuild is not None:
        running = meta.rebuild
        yield (
            f"rebuild of shard {shard.number}, by {running.rebuild.algorithm} ({running.why}), started "
            f"{ago(now - running.began)} ago: {told(running)}"
        )
    elif last is not None:
        by = f"by {last.rebuild.algorithm} ({last.why})"
        yield f"last rebuild of shard {shard.number}, {by}, {ago(now - last.at)} ago: {told(last)}"


def _sealed_lines(shard: ShardFacts, now: float) -> Iterator[str]:
    meta = shard.redis.meta or Meta()
    if meta.sealed is not None and meta.sealed.epoch:
        since = ago(now - meta.sealed.seconds)
        yield f"sealed changelog of shard {shard.number}: epoch {meta.sealed.epoch} was over {since} ago"
    elif meta.sealed is not None:
        yield f"sealed changelog of shard {shard.number}: no epoch is over yet"


def _adoption_lines(shard: ShardFacts, _now: float) -> Iterator[str]:
    """The last time that a new version of the engine adopted the QI groups of an older one."""
    for one in (shard.redis.meta or Meta()).adopted[-1:]:
        groups = plural(one.qi_groups, "QI group")
        yield f"shard {shard.number} adopted {groups} that engine version {one.version} kept, in commit {one.commit}"


def _holder(shard: ShardFacts, facts: TableFacts) -> tuple[str, str]:
    """The worker that holds a shard, and for how long if the same worker has written that to Redis."""
    custody = shard.redis.custody
    worker = shard.worker if facts.workers.told else custody.owner
    if not worker:
        return ("no worker" if facts.workers.settled else "(assigning)"), "-"
    if worker != custody.owner or custody.taken_at is None:
        return worker, "-"
    return worker, ago(facts.redis_now.time - custody.taken_at)


def shards_by(names: Iterable[str]) -> dict[str, list[int]]:
    """The shards of each worker, or of each master of a Redis Cluster; names: by shard, "" for none."""
    found: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        if name:
            found.setdefault(name, []).append(number)
    return dict(sorted(found.items()))


def _spread_lines(facts: TableFacts) -> Iterator[str]:
    names = {
        "worker": (one.worker for one in facts.shards),
        "master of Redis": (one.redis.master for one in facts.shards),
    }
    for what, of in names.items():
        if len(found := shards_by(of)) > 1:
            yield f"shards per {what}: {', '.join(f'{name} {len(shards)}' for name, shards in found.items())}"


def _account(total: dict[str, Any]) -> str:
    without = total["offsets_read"] - total["messages"]
    verdict = "ok" if without >= 0 else "DOES NOT ADD UP"
    others = "; {:,} more offsets hold no message (transaction markers, or what a loaded file has replaced)"
    return (
        f"messages in: {total['messages']:,} = applied {total['applied']:,} + ignored {total['ignored']:,} + dead "
        f"letters {total['dead_letters']:,}: {verdict}{others.format(without) if without > 0 else ''}"
    )


def unlisted_lines(schema: Table, metas: Sequence[Meta]) -> Iterator[str]:
    """Categories in the applied messages of all shards that table.yaml does not list."""
    counts = sum((meta.counts for meta in metas), NO_MESSAGES)
    return unknown_category_warnings(schema, counts.unlisted, counts.applied, "applied messages")


def redis_lines(found: Durability) -> Iterator[str]:
    """The kind of Redis, and whether it keeps what it confirms."""
    masters = f" of {found.masters} masters" if found.kind is Kind.CLUSTER else ""
    keeps = "could lose what it confirms" if found.lax else "keeps what it confirms"
    yield f"Redis: {found.kind.value}{masters}, {keeps if found.shown else 'does not show its settings'}"
    if found.kind is not Kind.SERVER:
        wanted = f" (min-replicas-to-write: {found.replicas_min})" if found.shown else ""
        yield f"what a failover loses is noticed and read again{wanted}"


def _verdict_lines(verdict: Verdict) -> Iterator[Line]:
    yield from ((f"PROBLEM  {problem}", 9) for problem in verdict.problems)
    yield from ((f"warning  {warning}", 9) for warning in verdict.warnings)
    if not verdict.problems:
        yield "no other problem" if verdict.warnings else "everything fits together"
