"""A privacy model as arrays, for compiled loops over rows: add one, remove one, ask.

`rules_of` makes `Rules` of a model and the subjects of a table's rows. A `Scratch` has the counts of one QI group at a
time; its user empties it, with `remove` or `clear`, before the next one. The answers are exactly those of
`streamer.privacy.models.Model`; a test compares them. A model without subjects costs one comparison of row counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.kernels.distributions import Laws, settled, shortage
from streamer.kernels.shares import keeps_share
from streamer.privacy.distributions import laws_of
from streamer.privacy.models import Model
from streamer.table.arrays import Ints
from streamer.table.microdata import NULL


class Rules(NamedTuple):
    """A model over n rows with s subjects."""

    rows: int
    subjects: Ints  # (n, s)
    uncounted: Ints  # (s,): the code that does not count, the null's, or -1
    distinct: Ints  # (s,): 0 if not asked
    numerator: Ints  # (s,): 1 of 1 if not asked
    denominator: Ints
    laws: Laws
    lawful: Ints  # (s,): 1 if a law is about the subject


class Scratch(NamedTuple):
    """Counts of one QI group."""

    size: Ints  # (1,)
    counts: Ints  # (s, codes)
    n_distinct: Ints  # (s,)
    top: Ints  # (s,)
    at: Ints  # (s, n + 2): subjects by count
    present: Ints  # (s, codes): the codes that are counted, `n_distinct` of them; of subjects with a law
    place: Ints  # (s, codes): where each stands there


def rules_of(model: Model, subjects: Ints) -> Rules:
    """The model over rows with the given subjects, int64 (n, s), columns as in `model.subjects`."""
    wanted = model.subjects
    shares = [model.shares.get(subject) for subject in wanted]
    return Rules(
        model.rows,
        np.ascontiguousarray(subjects, dtype=np.int64),
        np.array([-1 if subject.null_counts else NULL for subject in wanted], dtype=np.int64),
        np.array([model.distinct.get(subject, 0) for subject in wanted], dtype=np.int64),
        np.array([1 if share is None else share.numerator for share in shares], dtype=np.int64),
        np.array([1 if share is None else share.denominator for share in shares], dtype=np.int64),
        laws_of(model.laws, wanted, len(subjects)),
        np.array([any(law.subject == subject for law in model.laws) for subject in wanted], dtype=np.int64),
    )


def scratch_for(rules: Rules) -> Scratch:
    """Empty counts for the groups of a table."""
    n, s = rules.subjects.shape
    n_codes = int(rules.subjects.max(initial=-1)) + 1
    zeros = np.zeros(s, dtype=np.int64)
    count, at = np.zeros((s, n_codes), dtype=np.int64), np.zeros((s, n + 2 if s else 0), dtype=np.int64)
    listed = np.zeros((2, s, n_codes if rules.lawful.any() else 0), dtype=np.int64)
    return Scratch(np.zeros(1, dtype=np.int64), count, zeros, zeros.copy(), at, listed[0], listed[1])


def add(rules: Rules, scratch: Scratch, row: int) -> None:
    """Counts a row."""
    scratch.size[0] += 1
    for i in range(rules.distinct.shape[0]):
        code = rules.subjects[row, i]
        if code == rules.uncounted[i]:
            continue
        count = scratch.counts[i, code] + 1
        scratch.counts[i, code] = count
        scratch.at[i, count - 1] -= 1
        scratch.at[i, count] += 1
        if count == 1:
            if rules.lawful[i]:
                scratch.present[i, scratch.n_distinct[i]], scratch.place[i, code] = code, scratch.n_distinct[i]
            scratch.n_distinct[i] += 1
        if count > scratch.top[i]:
            scratch.top[i] = count


def remove(rules: Rules, scratch: Scratch, row: int) -> None:
    """Takes back a counted row."""
    scratch.size[0] -= 1
    for i in range(rules.distinct.shape[0]):
        code = rules.subjects[row, i]
        if code == rules.uncounted[i]:
            continue
        count = scratch.counts[i, code] - 1
        scratch.counts[i, code] = count
        scratch.at[i, count + 1] -= 1
        scratch.at[i, count] += 1
        if count == 0:
            scratch.n_distinct[i] -= 1
            if rules.lawful[i]:
                last, place = scratch.present[i, scratch.n_distinct[i]], scratch.place[i, code]
                scratch.present[i, place], scratch.place[i, last] = last, place
        if scratch.at[i, scratch.top[i]] == 0:
            scratch.top[i] -= 1


def holds(rules: Rules, scratch: Scratch) -> bool:
    """True if the counted rows are a group that holds the model."""
    return keeps_counts(rules, scratch) and short_of_laws(rules, scratch) == 0


def keeps_counts(rules: Rules, scratch: Scratch) -> bool:
    """True if the counted rows hold all of the model but its laws."""
    size = scratch.size[0]
    if size < rules.rows:
        return False
    for i in range(rules.distinct.shape[0]):
        if scratch.n_distinct[i] < rules.distinct[i]:
            return False
        if not keeps_share(scratch.top[i], size, rules.numerator[i], rules.denominator[i]):
            return False
    return True


def holds_so_far(rules: Rules, scratch: Scratch, known: Ints) -> bool:
    """The same as `holds`, for rows that are counted one after the other: laws are asked if they may answer otherwise.

    known (2,): whether they hold, and up to how many rows that is known; 1 and -1 before the first row.
    """
    size = scratch.size[0]
    if not keeps_counts(rules, scratch):
        return False
    if size > known[1] and rules.laws.kind.shape[0] > 0:
        known[1] = -1
        for law in range(rules.laws.kind.shape[0]):
            i = rules.laws.subject[law]
            counts, present = scratch.counts[i], scratch.present[i]
            rows = settled(rules.laws, law, counts, present, scratch.n_distinct[i], size)
            known[1] = rows if law == 0 else min(known[1], rows)
        known[0] = 1 if known[1] > 0 else 0
        known[1] = size + abs(known[1]) - 1
    return bool(known[0] == 1)


def short_of_laws(rules: Rules, scratch: Scratch) -> int:
    """By how much what is counted misses the laws of the model, in parts of a row (PER_ROW)."""
    most = 0
    for law in range(rules.laws.kind.shape[0]):
        i = rules.laws.subject[law]
        counts, present = scratch.counts[i], scratch.present[i]
        short = shortage(rules.laws, law, counts, present, scratch.n_distinct[i], scratch.size[0])
        most = max(most, short)
    return most


def clear(rules: Rules, scratch: Scratch, rows: Ints) -> None:
    """Empties the counts, which must be those of exactly `rows`."""
    scratch.size[0] = 0
    for i in range(rules.distinct.shape[0]):
        for row in rows:
            scratch.counts[i, rules.subjects[row, i]] = 0
        scratch.at[i, : scratch.top[i] + 1] = 0
        scratch.top[i] = 0
        scratch.n_distinct[i] = 0


def holds_together(rules: Rules, scratch: Scratch, rows: Ints) -> bool:
    """True if the rows as one group hold the model; the counts are empty before and after."""
    if rows.shape[0] < rules.rows:
        return False
    if rules.distinct.shape[0] == 0:
        return True
    for row in rows:
        add(rules, scratch, row)
    answer = holds(rules, scratch)
    clear(rules, scratch, rows)
    return answer
