"""A table begun from its source, all shards: what `start-anew` and `load` have in common.

The rules of this file
----------------------
* Nothing is touched before all rows of all shards are read, checked and put into QI groups: whatever is wrong with the
  source is said while the workers still serve the table.
* Then shard by shard, as `streamer.incremental.shard.anew` says. What ends in the middle is to be called again: until
  all shards have their rows, no worker serves one of them, and `status` says why.
* Shards have nothing to do with each other, so as many are at work as there are cores: the algorithm and the core run
  beside one another, and one shard's rows become bytes while servers answer another's. What a shard comes to does not
  depend on that. Where one fails, those that were begun are ended first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import repeat

from agents.anew.first_rows import Tell, first_tables
from agents.anew.shards import Shards
from streamer.compiling import is_coming, wait_while_coming, warm_in_background
from streamer.errors import Conflict
from streamer.grouping import first_groups
from streamer.incremental.groups.lots import seed
from streamer.incremental.shard.anew import Begun, start_anew
from streamer.incremental.shard.first_commits import FirstTable, Prepared, prepare
from streamer.incremental.store.redis_lookups import forget_shard
from streamer.incremental.store.redis_server import connect
from streamer.progress import OnProgress, unheard
from streamer.table.schema import Table

UNCOMPILED_ROWS_MAX = 5_000
"""More rows are put into the core faster when the core is compiled first."""

Step = Callable[[str], OnProgress]


def begin(
    shards: Shards,
    source: str,
    from_offset: str,
    tell: Tell,
    step: Step = lambda _: unheard,
    although_trimmed: bool = False,
    warn: Tell = lambda _: None,
) -> Iterator[Begun]:
    """Gives every shard its table from the source; yields what was done, shard by shard.

    step: is told which part of the work begins, and answers what to tell of its share. although_trimmed: an input that
    has lost its beginning is taken for all that there is. warn: is told what nobody should overlook in the end.

    In the end Redis forgets the shards that the input has not any more.
    """
    table, n = shards.settings.table, len(shards)
    for shard in range(n):
        shards.reading(shard).check_format()
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="shard") as threads:
        step("read")
        read = first_tables(shards, source, from_offset, tell, although_trimmed, warn)
        first = list(threads.map(partial(_in_groups, table), read, _for_each(read, step("anonymize"))))
        del read
        step("compile")
        _have_compiled(table, sum(len(one.rows.source_keys) for one in first), tell)
        step("load")
        prepared = list(threads.map(partial(prepare, table), range(n), repeat(n), first))
        for store in shards.stores:
            store.tell_beginning()
        step("write")
        begun = threads.map(partial(_begun, shards), range(n), prepared)
        del first, prepared  # each goes with its shard
        yield from begun
    for store in shards.stores:
        store.tell_begun()
    for shard in shards.former():
        forget_shard(connect(shards.settings.redis), table.name, shard)
        tell(f"shard {shard}: removed from Redis, as the input has {n} partitions")


def _begun(shards: Shards, shard: int, prepared: Prepared) -> Begun:
    """One shard, in a thread of its own."""
    state = shards.inputs[shard].state()
    if (state.topic_ids, state.shards) != (shards.states[shard].topic_ids, shards.states[shard].shards):
        raise Conflict("the topics were made anew or have grown since the command began: call it again")
    outlet, reading = shards.outlet(shard), shards.reading(shard)
    return start_anew(shards.settings.table, shard, shards.stores[shard], outlet, reading, state, prepared)


def _for_each(shards: Sequence[FirstTable], on_progress: OnProgress) -> list[OnProgress]:
    """A callback for each shard, which together say how much of all is done."""
    shares = [0.0] * len(shards)

    def told(shard: int, share: float) -> None:
        shares[shard] = share
        on_progress(sum(shares) / len(shares))

    return [partial(told, shard) for shard in range(len(shards))]


def _in_groups(table: Table, first: FirstTable, on_progress: OnProgress) -> FirstTable:
    """The same in the QI groups that the default algorithm makes."""
    return replace(first, qi_groups=first_groups(table, first.rows, seed(first.secret), on_progress))


def _have_compiled(table: Table, n_rows: int, tell: Tell) -> None:
    """Waits until the core is compiled where that is quicker than to go on without."""
    compiler = warm_in_background(table)
    if n_rows > UNCOMPILED_ROWS_MAX and is_coming(table, compiler):
        tell("compiling first: once for a machine and a version of streamer")
        wait_while_coming(table, compiler)
