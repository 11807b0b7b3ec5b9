"""Loads shards: their rows are read and put into QI groups, then the shards are written.

* Nothing is written before all rows are read, checked and put into QI groups: a faulty source is reported while the
  workers still serve the table.
* Then shards are written as `streamer.incremental.shard.bootstrap` says. A command that ends in the middle must be
  called again: until all its shards have their rows, no worker serves one of them, and `status` says why.
* Shards are independent, so some are loaded at once. If one fails, the others finish first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from time import time

from streamer.errors import Conflict
from streamer.grouping import cohort_formation, first_groups
from streamer.incremental.engine.tie_break import seed
from streamer.incremental.sealed.alpha import check_alpha
from streamer.incremental.shard.bootstrap import Begun, reload, whole_table
from streamer.incremental.shard.first_commits import FirstTable, prepare
from streamer.incremental.shard.sealing import check_goes_on
from streamer.incremental.store.redis_lookups import forget_shard
from streamer.incremental.store.redis_server import connect
from streamer.loading.first_tables import Say, first_tables
from streamer.loading.key_form import check_one_form
from streamer.loading.shards import OTHER_TOPICS, Shards
from streamer.loading.waiting_rows import Executors, OwnFile, RowCounts, Spill, WaitingRows
from streamer.progress import OnProgress, unheard
from streamer.table.schema import AVRO, Table
from streamer.table.sources import RowSource

AT_ONCE_MAX = 4
"""Shards in memory at the same time: more threads wait for Python's lock."""

Step = Callable[[str], OnProgress]


def begin(
    shards: Shards,
    source: RowSource | None,
    from_offset: str,
    tell: Say,
    step: Step = lambda _: unheard,
    although_trimmed: bool = False,
    warn: Say = lambda _: None,
    executors: Executors | None = None,
) -> Iterator[Begun]:
    """Loads shards from the source, if this command has claimed them; yields what was done, shard by shard.

    source: None if the input is read again. tell: called with lines about the work; warn: with warnings about the
    source. step: called with the name of each part of the work; returns the callback for its progress.
    although_trimmed: accept an input that has lost its beginning. executors: what reads and groups the rows instead of
    this process, which alone writes to servers. Without claims nothing is written; what would be done is yielded. In
    the end, shards that the input no longer has are removed from Redis.
    """
    table, chosen = shards.settings.table, shards.chosen
    for shard in chosen if shards.claims or table.format != AVRO else ():
        shards.reading(shard).check_format()
    with ExitStack() as closing:
        waiting, prepared = _spills(closing, executors)
        rows = WaitingRows(table, frozenset(chosen), waiting)
        at_once = min(os.cpu_count() or 1, AT_ONCE_MAX)
        threads = closing.enter_context(ThreadPoolExecutor(at_once, thread_name_prefix="shard"))
        step("read")
        first = first_tables(shards, source, from_offset, tell, although_trimmed, warn, rows, executors)
        _check_sealed(shards, rows.counted, warn)
        given = (table, len(shards), rows, prepared)
        if executors is not None:
            calls = [(*given, first[shard], shard) for shard in chosen]
            made = executors.pool.map("prepare", _prepared, calls, step("anonymize"))
        else:
            heard = _for_each(chosen, step("anonymize"))
            made = list(threads.map(lambda shard: _prepared(*given, first[shard], shard, heard[shard]), chosen))
        if not shards.claims:
            yield from made
            return
        step("write")
        with whole_table([(shards.stores[shard], claim) for shard, claim in shards.claims.items()]):
            yield from threads.map(partial(_begun, shards, prepared), chosen)
            check_one_form(shards, first[chosen[0]].key_form)  # another host may have loaded the others meanwhile
    for shard in shards.former():
        forget_shard(connect(shards.settings.redis), table.name, shard)
        tell(f"shard {shard}: removed from Redis, as the input has {len(shards)} partitions")


def _spills(closing: ExitStack, executors: Executors | None) -> tuple[Spill, Spill]:
    """Where rows wait, and where finished shards do."""
    if executors is not None:
        return executors.rows, executors.prepared
    own = OwnFile(), OwnFile()
    for one in own:
        closing.callback(one.close)
    return own


def _prepared(
    table: Table,
    shards: int,
    rows: WaitingRows,
    prepared: Spill,
    first: FirstTable,
    shard: int,
    on_progress: OnProgress = unheard,
) -> Begun:
    """Puts one shard's rows into the QI groups of the default algorithm; what is stored of them waits in `prepared`."""
    whole = replace(first, rows=rows.of(shard))
    whole = replace(whole, qi_groups=first_groups(table, whole.rows, seed(first.secret), on_progress))
    made = prepare(table, shard, shards, whole)
    if table.sealed is None:
        made = replace(made, first=replace(first, qi_groups=()))  # nobody asks for the rows again
    prepared.add(shard, made)
    return Begun(shard, len(made.records), made.n_pending, len(made.qi_groups), 0, 0, first.next)


def _begun(shards: Shards, prepared: Spill, shard: int) -> Begun:
    """One shard, in a thread of its own."""
    state = shards.inputs[shard].state()
    if (state.topic_ids, state.shards) != (shards.states[shard].topic_ids, shards.states[shard].shards):
        raise Conflict(OTHER_TOPICS)
    table, store, secret = shards.settings.table, shards.stores[shard], shards.inputs[shard].secret
    form = cohort_formation(table) if table.sealed is not None else None
    outlet, (made,) = shards.outlet(shard), prepared.of(shard)
    return reload(table, shard, store, outlet, state, made, read_secret=secret, form=form, now=time())


def _check_sealed(shards: Shards, counted: RowCounts, warn: Say) -> None:
    """Raises ConfigError or ShardRefused if these rows cannot be published in sealed cohorts."""
    for shard in shards.chosen:
        check_goes_on(shards.settings.table, shard, shards.stores[shard].meta(), shards.states[shard])
    for warning in check_alpha(shards.settings.table, counted.frequencies):
        warn(warning)


def _for_each(chosen: Sequence[int], on_progress: OnProgress) -> dict[int, OnProgress]:
    """A progress callback for each shard; `on_progress` gets their mean."""
    shares = dict.fromkeys(chosen, 0.0)

    def set_share(shard: int, share: float) -> None:
        shares[shard] = share
        on_progress(sum(shares.values()) / len(shares))

    return {shard: partial(set_share, shard) for shard in chosen}
