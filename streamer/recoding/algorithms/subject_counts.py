"""How often every subject stands in every QI group, while groups change: what one more bundle would do to a group.

`streamer.privacy.compiled` counts one group at a time; filling its scratch costs the rows of the group. Here the counts
of all groups stand in one table with open addressing, so that a question about a large group and a few rows costs as
much as the few rows. A *seat* is a group's number, as in `group_index`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.jit import compiled, inlined
from streamer.privacy.compiled import Rules
from streamer.table.arrays import Ints

PRIME = 2_147_483_629
FACTOR = 2_654_435_761  # both below 2^32, so that no product leaves int64
ROOM = 3


class SubjectCounts(NamedTuple):
    """Counts over g seats and s subjects with c codes in all.

    first (s,): where a subject's codes begin among the c; n_codes (1,): c. place (2^i,): seat * c + code, -1 where
    nothing stands; times (2^i,): rows. top (g, s): the largest count, or more; n_distinct (g, s).
    """

    first: Ints
    n_codes: Ints
    place: Ints
    times: Ints
    top: Ints
    n_distinct: Ints


@compiled
def counts_for(rules: Rules, n_seats: int) -> SubjectCounts:
    """Counts of nothing, with room for all rows."""
    n, s = rules.subjects.shape
    first, n_codes = np.zeros(s, np.int64), 0
    for i in range(s):
        first[i] = n_codes
        n_codes += rules.subjects[:, i].max() + 1
    size = 16
    while size < ROOM * n * s:
        size *= 2
    return SubjectCounts(
        first,
        np.full(1, n_codes, np.int64),
        np.full(size, -1, np.int64),
        np.zeros(size, np.int64),
        np.zeros((n_seats, s), np.int64),
        np.zeros((n_seats, s), np.int64),
    )


@inlined
def _home(place: int, size: int) -> int:
    return ((place % PRIME) * FACTOR >> 15) & (size - 1)


@inlined
def _at(counts: SubjectCounts, seat: int, i: int, code: int) -> int:
    """Where the count stands, or the empty place where it would."""
    place = seat * counts.n_codes[0] + counts.first[i] + code
    size = counts.place.shape[0]
    at = _home(place, size)
    while counts.place[at] >= 0 and counts.place[at] != place:
        at = (at + 1) & (size - 1)
    return at


@inlined
def count_of(counts: SubjectCounts, seat: int, i: int, code: int) -> int:
    """Rows of a seat with a code of subject i."""
    at = _at(counts, seat, i, code)
    return counts.times[at] if counts.place[at] >= 0 else 0


@compiled
def count_row(rules: Rules, counts: SubjectCounts, seat: int, row: int) -> None:
    """Counts a row into a seat."""
    for i in range(rules.distinct.shape[0]):
        code = rules.subjects[row, i]
        if code == rules.uncounted[i]:
            continue
        at = _at(counts, seat, i, code)
        if counts.place[at] < 0:
            counts.place[at] = seat * counts.n_codes[0] + counts.first[i] + code
            counts.times[at] = 0
            counts.n_distinct[seat, i] += 1
        counts.times[at] += 1
        counts.top[seat, i] = max(counts.top[seat, i], counts.times[at])


@compiled
def discount_row(rules: Rules, counts: SubjectCounts, seat: int, row: int) -> None:
    """Takes a row out of a seat; `top` stays, and may then be too large."""
    for i in range(rules.distinct.shape[0]):
        code = rules.subjects[row, i]
        if code == rules.uncounted[i]:
            continue
        at = _at(counts, seat, i, code)
        counts.times[at] -= 1
        if counts.times[at] == 0:
            counts.n_distinct[seat, i] -= 1
            _clear(counts, at)


@compiled
def _clear(counts: SubjectCounts, at: int) -> None:
    """Empties a place, and moves up what was displaced by what stood there."""
    size = counts.place.shape[0]
    hole, here = at, at
    while True:
        here = (here + 1) & (size - 1)
        if counts.place[here] < 0:
            break
        home = _home(counts.place[here], size)
        if ((here - home) & (size - 1)) >= ((here - hole) & (size - 1)):
            counts.place[hole], counts.times[hole] = counts.place[here], counts.times[here]
            hole = here
    counts.place[hole] = -1
