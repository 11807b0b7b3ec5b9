"""The facts as a page reads them: one JSON object, of the worker's own shards to the second, of others as last seen.

The rules of this file
----------------------
* Pure. Times are ISO 8601 in UTC; what is not known is null. No value of a person, no key of a row.
* NCP is the mean of the published rows. Of a rebuild it is told where this process saw it end with all regions done:
  else its sums are over rows whose number nobody knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agents.web.facts import HeldFacts, WorkerFacts
from agents.web.health import of_shard, reasons
from agents.web.table_look import Seen
from streamer.cli.shard_facts import ShardFacts
from streamer.cli.shard_verdict import lag_of
from streamer.incremental.events.counts import NO_MESSAGES, Counts
from streamer.incremental.store.base import Meta
from streamer.incremental.store.rebuild import Progress
from streamer.privacy.models import model_of, words
from streamer.table.schema import Table
from streamer.table.unlisted import unlisted_sentences

HELD, TAKING_OVER, STANDING_STILL = "held", "taking over", "standing still"
REFUSED_SHARD, ELSEWHERE, NOBODY = "refused", "elsewhere", "nobody"


def page_facts(
    table: Table, facts: WorkerFacts, seen: Seen, history: Sequence[dict[str, Any]], cancelled: Collection[str] = ()
) -> dict[str, Any]:
    """All that a page shows; cancelled: ids of rebuilds that somebody wants to end."""
    held = {shard.shard: shard for shard in facts.shards}
    others = {shard.number: shard for shard in seen.shards}
    told = [
        _of_held(held[number], others.get(number), facts, cancelled)
        if number in held
        else _of_other(others[number], seen.told, cancelled)
        for number in sorted({*held, *others})
    ]
    problems = reasons(facts)
    problems += [problem for problem in seen.verdict.problems if problem not in problems]
    counts = sum((_counts_of(held.get(number), others.get(number)) for number in {*held, *others}), NO_MESSAGES)
    letters = sum((diary.done.reasons for diary in facts.diaries.values()), Counter[str]())
    return {
        "table": facts.table, "version": facts.version, "worker": facts.worker, "now": iso(facts.now),
        "k": table.k, "model": words(table, model_of(table)), "form": table.form,
        "verdict": {"ok": not problems, "problems": problems, "warnings": seen.verdict.warnings},
        "shards": told,
        "dead_letters": dict(sorted(letters.items())),
        "unlisted": list(unlisted_sentences(table, counts.unlisted, counts.applied, "applied messages")),
        "history": list(history),
    }  # fmt: skip


def point(facts: WorkerFacts) -> dict[str, Any]:
    """One point of the history: the worker's shards together."""
    shards = facts.shards
    return {
        "at": iso(facts.now),
        "lag": sum(shard.lag for shard in shards),
        "messages_per_s": round(sum(shard.messages_per_s for shard in shards), 1),
        "records_per_s": round(sum(shard.records_per_s for shard in shards), 1),
        "ncp": _mean([(shard.ncp, shard.rows - shard.pending) for shard in shards]),
        "ncp_fresh": _mean([(shard.ncp_fresh, shard.rows - shard.pending) for shard in shards]),
        "pending": sum(shard.pending for shard in shards),
        "rows": sum(shard.rows for shard in shards),
    }


def _mean(parts: Sequence[tuple[float | None, int]]) -> float | None:
    """The mean over all rows; None where that of some rows is not known."""
    parts = [(value, rows) for value, rows in parts if rows]
    if not parts or any(value is None for value, _ in parts):
        return None
    rows = sum(rows for _, rows in parts)
    return round(sum((value or 0.0) * rows for value, rows in parts) / rows, 6)


def _of_held(
    shard: HeldFacts, seen: ShardFacts | None, facts: WorkerFacts, cancelled: Collection[str]
) -> dict[str, Any]:
    diary = facts.diaries[shard.shard]
    wrong = of_shard(shard)
    state = STANDING_STILL if wrong else HELD if shard.taken_over else TAKING_OVER
    refusal = seen.redis.custody.refusal if seen is not None and not shard.taken_over else None
    committed_at = shard.committed_at or (seen.redis.custody.committed_at if seen is not None else None)
    return {
        "shard": shard.shard, "worker": facts.worker, "here": True,
        "state": REFUSED_SHARD if refusal else state, "since": iso(shard.since),
        "lag": shard.lag, "rows": shard.rows, "pending": shard.pending, "pending_oldest": iso(shard.pending_since),
        "qi_groups": shard.qi_groups, **_counted(shard.counts),
        "messages_per_s": round(shard.messages_per_s, 1), "records_per_s": round(shard.records_per_s, 1),
        "merges": diary.done.merges, "splits": diary.done.splits,
        "release": shard.release or None, "last_commit": iso(committed_at),
        "ncp": _rounded(shard.ncp), "ncp_fresh": _rounded(shard.ncp_fresh),
        "reason": refusal.reason if refusal else "; ".join(wrong) or None,
        "rebuild": _running(shard.rebuild, cancelled),
        "rebuilds": _ended(shard.rebuilds, diary.rows_rebuilt),
    }  # fmt: skip


def _of_other(shard: ShardFacts, told: bool, cancelled: Collection[str]) -> dict[str, Any]:
    meta, sizes, custody = shard.redis.meta or Meta(), shard.redis.sizes, shard.redis.custody
    worker = shard.worker if told else custody.owner
    return {
        "shard": shard.number, "worker": worker or None, "here": False,
        "state": REFUSED_SHARD if custody.refusal else ELSEWHERE if worker else NOBODY,
        "since": iso(custody.taken_at) if worker and worker == custody.owner else None,
        "lag": lag_of(shard), "rows": sizes.records, "pending": sizes.pending, "pending_oldest": None,
        "qi_groups": sizes.qi_groups, **_counted(meta.counts),
        "messages_per_s": 0.0, "records_per_s": 0.0, "merges": 0, "splits": 0,
        "release": meta.release or None, "last_commit": iso(custody.committed_at),
        "ncp": None, "ncp_fresh": None, "reason": custody.refusal.reason if custody.refusal else None,
        "rebuild": _running(meta.rebuild, cancelled),
        "rebuilds": _ended(meta.rebuilds, {}),
    }  # fmt: skip


def _counts_of(held: HeldFacts | None, other: ShardFacts | None) -> Counts:
    """What a shard has counted, of all times: by itself where it is here, else as last seen."""
    if held is not None:
        return held.counts
    return NO_MESSAGES if other is None or other.redis.meta is None else other.redis.meta.counts


def _counted(counts: Counts) -> dict[str, int]:
    return {
        "messages": counts.messages,
        "applied": counts.applied,
        "ignored": counts.ignored,
        "dead_letters": counts.dead_letters,
    }


def _running(rebuild: Progress | None, cancelled: Collection[str]) -> dict[str, Any] | None:
    if rebuild is None:
        return None
    return {
        "algorithm": rebuild.rebuild.algorithm,
        "why": rebuild.why,
        "began": iso(rebuild.began),
        "done": rebuild.done,
        "of": rebuild.total,
        "cancelling": rebuild.rebuild.id in cancelled,
    }


def _ended(rebuilds: Sequence[Progress], rows: Mapping[str, int]) -> list[dict[str, Any]]:
    """Those that were rebuilds, newest first; rows: published when one ended, by its id, where that is known."""
    return [
        {
            "algorithm": one.rebuild.algorithm,
            "why": one.why,
            "at": iso(one.at),
            "ended": one.state,
            "ncp_before": _of_rebuild(one, one.ncp_before, rows),
            "ncp_after": _of_rebuild(one, one.ncp_now, rows),
            "rows_published": one.rows_published_again,
        }
        for one in reversed(rebuilds)
        if not one.is_answer
    ]


def _of_rebuild(rebuild: Progress, loss: float, rows: Mapping[str, int]) -> float | None:
    published = rows.get(rebuild.rebuild.id, 0)
    return _rounded(loss / published) if published and rebuild.done == rebuild.total else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def iso(seconds: float | None) -> str | None:
    """A time in seconds since 1970, for programs.

    >>> iso(0)
    '1970-01-01T00:00:00.000Z'
    """
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
