"""Loads shards: their rows are read and put into QI groups, then the shards are written.

* Nothing is written before all rows are read, checked and put into QI groups: a faulty source is reported while the
  workers still serve the table.
* Then shards are written as `streamer.incremental.shard.bootstrap` says. A command that ends in the middle must be
  called again: until all its shards have their rows, no worker serves one of them, and `status` says why.
* Shards are independent, so some are loaded at once. If one fails, the others finish first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from streamer.errors import Conflict
from streamer.grouping import cohort_formation, first_groups
from streamer.incremental.engine.tie_break import seed
from streamer.incremental.sealed.alpha import check_alpha
from streamer.incremental.shard.bootstrap import Begun, Claimed, reload, whole_table
from streamer.incremental.shard.first_commits import FirstTable, prepare
from streamer.incremental.shard.sealing import check_goes_on
from streamer.incremental.store.redis_lookups import forget_shard, server_now
from streamer.incremental.store.redis_server import connect
from streamer.loading.first_tables import Say, WantedRows, first_tables
from streamer.loading.key_form import check_one_form
from streamer.loading.shards import OTHER_TOPICS, Shards
from streamer.loading.waiting_rows import RowCounts, Spill, WaitingRows, Workplace, this_process
from streamer.progress import OnProgress, unheard
from streamer.table.schema import AVRO

AT_ONCE_MAX = 4  # shards in memory at the same time: more threads wait for Python's lock


WRITE_STEP = "write"
"""The step that changes Redis and the output; those before it only read."""


def begin(shards: Shards, wanted: WantedRows, executors: Workplace | None = None) -> Iterator[Begun]:
    """Loads shards, and yields what was done, shard by shard; without claims, what would be done: nothing is written.

    In the end, shards that the input no longer has are removed from Redis.
    """
    table, chosen, step = shards.settings.table, shards.chosen, wanted.step
    for shard in chosen if shards.claims or table.format != AVRO else ():
        shards.reading(shard).check_format()
    at_once = min(os.cpu_count() or 1, AT_ONCE_MAX)
    with (
        this_process() if executors is None else nullcontext(executors) as place,
        ThreadPoolExecutor(at_once, thread_name_prefix="shard") as threads,
    ):
        rows = WaitingRows(table, frozenset(chosen), place.rows)
        step("read")
        first = first_tables(shards, wanted, rows, place.executors)
        _check_sealed(shards, rows.counted, wanted.warn)
        calls = [(rows, place.prepared, len(shards), shard, first[shard]) for shard in chosen]
        if place.executors is not None:
            made = place.executors.map("prepare", _prepared, calls, step("anonymize"))
        else:
            heard = _for_each(len(calls), step("anonymize"))
            made = list(threads.map(_prepared, *zip(*calls, strict=True), heard))
        if not shards.claims:
            yield from made
            return
        step(WRITE_STEP)
        name = f"shard {{}} of {table.name}".format
        with whole_table(
            [Claimed(name(n), shards.stores[n], claim, shards.metas[n]) for n, claim in shards.claims.items()]
        ):
            yield from threads.map(partial(_begun, shards, place.prepared), chosen)
            check_one_form(shards, first[chosen[0]].key_form)  # another host may have loaded the others meanwhile
    for shard in shards.former():
        forget_shard(connect(shards.settings.redis), table.name, shard)
        wanted.tell(f"shard {shard}: removed from Redis, as the input has {len(shards)} partitions")


def _prepared(
    rows: WaitingRows, prepared: Spill, shards: int, shard: int, first: FirstTable, on_progress: OnProgress = unheard
) -> Begun:
    """Puts one shard's rows into the QI groups of the default algorithm; the result waits in `prepared`."""
    table, whole = rows.table, replace(first, rows=rows.of(shard))
    whole = replace(whole, qi_groups=first_groups(table, whole.rows, seed(first.secret), on_progress))
    made = prepare(table, shard, shards, whole)
    if table.sealed is None:
        made = replace(made, first=replace(first, qi_groups=()))  # nobody asks for the rows again
    prepared.add(shard, made)
    return Begun(shard, len(made.records), made.n_pending, len(made.qi_groups), 0, 0, first.next, 0, 0)


def _begun(shards: Shards, prepared: Spill, shard: int) -> Begun:
    state = shards.inputs[shard].state()
    if (state.topic_ids, state.shards) != (shards.states[shard].topic_ids, shards.states[shard].shards):
        raise Conflict(OTHER_TOPICS)
    table, store, secret = shards.settings.table, shards.stores[shard], shards.inputs[shard].secret
    form = cohort_formation(table) if table.sealed is not None else None
    outlet, (made,) = shards.outlet(shard), prepared.of(shard)
    now = server_now(connect(shards.settings.redis)).time
    return reload(table, shard, store, outlet, state, made, read_secret=secret, form=form, now=now)


def _check_sealed(shards: Shards, counted: RowCounts, warn: Say) -> None:
    """Raises ConfigError or ShardRefused if these rows cannot be published in sealed cohorts."""
    for shard in shards.chosen:
        check_goes_on(shards.settings.table, shard, shards.metas[shard], shards.states[shard])
    for warning in check_alpha(shards.settings.table, counted.frequencies):
        warn(warning)


def _for_each(n: int, on_progress: OnProgress) -> list[OnProgress]:
    """A callback for each of n parts of the work; `on_progress` gets their mean."""
    shares = [0.0] * n

    def set_share(part: int, share: float) -> None:
        shares[part] = share
        on_progress(sum(shares) / n)

    return [partial(set_share, part) for part in range(n)]
