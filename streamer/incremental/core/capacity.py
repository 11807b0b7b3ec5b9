"""Enlarges a shard's arrays when a compiled function runs out of capacity.

Small arrays double, large ones grow by a quarter; contents keep their indexes. Each function returns a new `Shard`, and
the old one must not be used any more.

A large array stands in memory pages of its own, which the system provides at the first write and takes back when the
array is gone. From the heap of the process, all of it would be zeroed at once, and every growth would leave a hole.
"""

from __future__ import annotations

import mmap
from math import prod
from typing import Any

import numpy as np

from streamer.errors import LawViolated
from streamer.incremental.core import layout
from streamer.incremental.core.layout import Shard, empty_tally
from streamer.incremental.core.model import fill_tally
from streamer.kernels.distributions import BITS, ENTROPY, weights_up_to

DOUBLED_BELOW = 1 << 16

OWN_PAGES_FROM = 1 << 20
"""Bytes of the smallest array in pages of its own."""

JOURNAL_RUNS = {layout.SLOTS_BEFORE: "slots_before", layout.TOUCHED: "touched", layout.GONE: "gone"}


def grow(s: Shard) -> Shard:
    """The shard with more of what `state.short` names, for at least `state.short_by` entries."""
    short, least = int(s.state.short[0]), int(s.state.short_by[0])
    s.state.short = 0
    match short:
        case layout.GROUPS:
            groups, n = s.groups, _more(s.groups.group, least)
            work = s.work._replace(heap=_longer(s.work.heap, 2 * n, axis=1))
            demands = s.demands._replace(reached=_longer(s.demands.reached, 1 + n))
            longer = {name: _longer(getattr(groups, name), n) for name in ("group", "box", "shape", "near")}
            groups = groups._replace(**longer)
            return s._replace(groups=groups, demands=demands, work=work)
        case layout.POOL:
            return s._replace(groups=s.groups._replace(pool=_longer(s.groups.pool, _more(s.groups.pool[0], least), 1)))
        case layout.NODES:
            n = _more(s.tree.node, least)
            return s._replace(tree=type(s.tree)(*(_longer(part, n) for part in s.tree)))
        case layout.MEMBERS:
            n = _more(s.work.ints[0], least)
            ints, tie_hashes = _longer(s.work.ints, n, 1), _longer(s.work.tie_hashes, n, 1)
            work = s.work._replace(ints=ints, tie_hashes=tie_hashes, losses=_longer(s.work.losses, n))
            return s._replace(demands=s.demands._replace(fits=np.zeros(n, np.int8)), work=work)
        case layout.TALLIES:
            tally, old = empty_tally(_more(s.work.tally.n, least)), s.work.tally
            used = np.flatnonzero(old.n)
            fill_tally(tally, old.key[used], old.n[used].astype(np.int64))
            return s._replace(work=s.work._replace(tally=tally))
        case layout.EXPORT:  # its contents are not needed any more
            return s._replace(export=type(s.export)(np.zeros(least, np.int64), np.zeros(least)))
        case layout.ENTRIES:
            n = _more(s.journal.entry, least)
            journal = s.journal._replace(entry=_longer(s.journal.entry, n), box=_longer(s.journal.box, n))
            return s._replace(journal=journal)
        case _ if short in JOURNAL_RUNS:
            name = JOURNAL_RUNS[short]
            old = getattr(s.journal, name)
            return s._replace(journal=s.journal._replace(**{name: _longer(old, _more(old, least))}))
    raise LawViolated(f"the core ran out of capacity and did not say of what ({short})")


def with_capacity(s: Shard, what: int, least: int) -> Shard:
    """The shard with capacity for `least` entries of what `state.short` could name."""
    lengths: dict[int, int] = {
        layout.GROUPS: len(s.groups.group),
        layout.POOL: s.groups.pool.shape[1],
        layout.NODES: len(s.tree.node),
        layout.MEMBERS: s.work.ints.shape[1],
        layout.TALLIES: len(s.work.tally.n),
    }
    if least <= lengths[what]:
        return s
    s.state.short, s.state.short_by = what, least
    return grow(s)


def with_rows(s: Shard, n: int) -> Shard:
    if n <= len(s.rows.row):
        return s
    n = _more(s.rows.row, n)
    s = s._replace(rows=s.rows._replace(row=_longer(s.rows.row, n), cells=_longer(s.rows.cells, n)))
    if (s.demands.laws.kind == ENTROPY).any():
        laws = s.demands.laws._replace(weights=weights_up_to(n, BITS))
        s = s._replace(demands=s.demands._replace(laws=laws))
    return s


def with_individuals(s: Shard, n: int) -> Shard:
    seen = s.work.last_seen
    return s if n <= len(seen) else s._replace(work=s.work._replace(last_seen=_longer(seen, _more(seen, n))))


def with_values(s: Shard, n: int, n_bytes: int) -> Shard:
    """Capacity for n values of n_bytes in all."""
    values = s.values
    if n > len(values.value):
        values = values._replace(value=_longer(values.value, _more(values.value, n)))
    if n_bytes > len(values.text):
        values = values._replace(text=_longer(values.text, _more(values.text, n_bytes)))
    return s._replace(values=values)


def with_subjects(s: Shard, n_values: int, n: int) -> Shard:
    """Capacity for what a privacy model counts of values numbered below n_values, subjects numbered below n."""
    code, seen = s.demands.code, s.demands.seen
    if n_values > len(code):
        code = _longer(code, _more(code, n_values))
    if n > len(seen):
        seen = _longer(seen, _more(seen, n))
    return s._replace(demands=s.demands._replace(code=code, seen=seen))


def with_codes(s: Shard, n_values: int, n: int) -> Shard:
    """Capacity for what laws count of values numbered below n_values, codes below n."""
    demands = s.demands
    if n_values > len(demands.leaf):
        demands = demands._replace(leaf=_longer(demands.leaf, _more(demands.leaf, n_values)))
    if n > demands.counts.shape[1]:
        n = _more(demands.counts[0], n)
        waiting, counts, present = (_longer(old, n, 1) for old in (demands.waiting, demands.counts, demands.present))
        demands = demands._replace(waiting=waiting, counts=counts, present=present)
    return s._replace(demands=demands)


def _more(old: Any, least: int) -> int:
    n = len(old)
    return max(least, 2 * n if n < DOUBLED_BELOW else n + n // 4)


def _longer(old: Any, n: int, axis: int = 0) -> Any:
    """The array with n entries along an axis, the new ones zero."""
    shape = list(old.shape)
    shape[axis] = n
    n_bytes = prod(shape) * old.dtype.itemsize
    if n_bytes < OWN_PAGES_FROM:
        new: Any = np.zeros(shape, old.dtype)
    else:
        pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            pages.madvise(mmap.MADV_HUGEPAGE)  # as numpy does
        new = np.frombuffer(pages, old.dtype).reshape(shape)
    new[tuple(map(slice, old.shape))] = old
    return new.view(np.recarray) if old.dtype.names else new
