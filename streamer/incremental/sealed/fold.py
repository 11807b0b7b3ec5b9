"""The reader's side of a sealed changelog: records in, the table of all complete epochs out.

* An epoch of a shard becomes visible when its end is read; until then its records wait.
* The table has a row for every published row, ghosts included. Which ones are ghosts, nobody can know: each row of a
  cohort counts as `left / rows` of one. Withheld values are null.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import repeat

import pandas as pd

from streamer.errors import LawViolated
from streamer.incremental.sealed.records import Add, EpochEnd, Live, Retire, SealedRecord
from streamer.table.published.rows import all_box_columns
from streamer.table.schema import Table
from streamer.table.typed_frame import decode_json, typed_frame

COHORT, COHORT_ROWS, COHORT_LEFT, WITHHELD = "_cohort", "_rows", "_left", "_withheld"
"""Columns of the table beside the published ones: the cohort's id, its rows, its people who are left (null if they are
not counted), and whether its values are withheld.
"""


class SealedFold:
    """The table of one sealed changelog, of all its shards."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._cohorts: dict[str, Add] = {}
        self._left: dict[str, int] = {}
        self._waiting: dict[int, list[SealedRecord]] = defaultdict(list)
        self._epochs: dict[int, int] = {}  # the last one of each shard

    def apply(self, shard: int, record: SealedRecord) -> None:
        """Takes the next record of a shard.

        Raises LawViolated if it speaks of a cohort that is not published, or if records before it are missing.
        """
        self._waiting[shard].append(record)
        if isinstance(record, EpochEnd):
            records = self._waiting.pop(shard)
            self._check_whole(shard, records, record)
            for one in records:
                self._show(one)

    def _check_whole(self, shard: int, records: Sequence[SealedRecord], end: EpochEnd) -> None:
        wanted = self._epochs.get(shard, 0) + 1
        counts = Counter(map(type, records))
        if end.epoch != wanted:
            raise LawViolated(f"epoch {end.epoch} follows where epoch {wanted} should: records are missing")
        if (counts[Add], counts[Retire], counts[Live]) != (end.adds, end.retires, end.lives):
            raise LawViolated(f"epoch {end.epoch} has not all the records that it counts")
        self._epochs[shard] = end.epoch

    def _show(self, record: SealedRecord) -> None:
        if isinstance(record, EpochEnd):
            return
        if isinstance(record, Add):
            if record.cohort in self._cohorts:
                raise LawViolated(f"cohort {record.cohort} is published twice")
            self._cohorts[record.cohort], self._left[record.cohort] = record, record.n
        elif record.cohort not in self._cohorts:
            raise LawViolated(f"cohort {record.cohort} is not published, or not any more")
        elif isinstance(record, Retire):
            del self._cohorts[record.cohort], self._left[record.cohort]
        else:
            self._left[record.cohort] = record.live

    def frame(self) -> pd.DataFrame:
        """The table in the types of `streamer.table.typed_frame`, in the order of the cohorts' ids.

        Raises LawViolated for records of other columns than the table's.
        """
        box, kept = all_box_columns(self._table), [column.name for column in self._table.kept]
        columns: dict[str, list[object]] = {name: [] for name in (*box, *kept)}
        cohorts = [self._cohorts[name] for name in sorted(self._cohorts)]
        try:
            for cohort in cohorts:
                ranges = decode_json(cohort.box)
                for values in _rows(cohort, len(kept)):
                    for name in box:
                        columns[name].append(ranges[name])
                    for name, value in zip(kept, values, strict=True):
                        columns[name].append(value)
            frame = typed_frame(self._table, columns)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            raise LawViolated("a cohort does not have the published columns in their types") from None
        of_rows = [cohort for cohort in cohorts for _ in range(cohort.n)]
        frame.insert(0, COHORT, pd.Series([cohort.cohort for cohort in of_rows], dtype="str"))
        frame[COHORT_ROWS] = pd.Series([cohort.n for cohort in of_rows], dtype="int64")
        left = pd.Series([self._left[cohort.cohort] for cohort in of_rows], dtype="int64")
        uncounted = self._table.sealed is not None and not self._table.sealed.counters
        frame[COHORT_LEFT] = pd.Series([pd.NA] * len(of_rows), dtype="Int64") if uncounted else left
        frame[WITHHELD] = pd.Series([cohort.sensitive is None for cohort in of_rows], dtype="bool")
        return frame


def _rows(cohort: Add, n_kept: int) -> Iterator[Sequence[object]]:
    """The kept values of each row of a cohort; None if they are withheld."""
    if cohort.sensitive is None:
        yield from repeat((None,) * n_kept, cohort.n)
    else:
        yield from ([decode_json(text) for text in values] for values in cohort.sensitive)
