"""The table that readers of a sealed changelog see."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from streamer.errors import LawViolated
from streamer.incremental.sealed.fold import COHORT, COHORT_LEFT, COHORT_ROWS, WITHHELD, SealedFold
from streamer.incremental.sealed.records import Add, EpochEnd, Live, Retire, SealedRecord, SensitiveTexts
from worlds.sealed_people import sealed_table

ONE, OTHER = "0" * 31 + "1", "0" * 31 + "2"


def add(cohort: str, low: int, high: int, *values: str) -> Add:
    shown: SensitiveTexts | None = tuple((msgspec.Raw(msgspec.json.encode(value)),) for value in sorted(values)) or None
    return Add(cohort, 1, len(values) or 2, msgspec.Raw(b'{"age_lo":%d,"age_hi":%d}' % (low, high)), shown)


def end(epoch: int, *records: SealedRecord, shard: int = 0) -> EpochEnd:
    """The end of an epoch with these records."""
    n = Counter(map(type, records))
    return EpochEnd(epoch, shard, "2026-11-26T10:00:00Z", n[Add], n[Retire], n[Live], 2, "0.5", 1)


def fold_of(*epochs: list[SealedRecord]) -> SealedFold:
    fold = SealedFold(sealed_table())
    for number, records in enumerate(epochs, start=1):
        for record in (*records, end(number, *records)):
            fold.apply(0, record)
    return fold


def test_every_row_of_a_cohort_is_a_row_of_the_table_and_withheld_values_are_null() -> None:
    frame = fold_of([add(ONE, 20, 22, "flu", "cold"), add(OTHER, 30, 31)]).frame()
    assert frame.columns.tolist() == [COHORT, "age_lo", "age_hi", "problem", COHORT_ROWS, COHORT_LEFT, WITHHELD]
    assert frame.values.tolist() == [
        [ONE, 20, 22, "cold", 2, 2, False],
        [ONE, 20, 22, "flu", 2, 2, False],
        [OTHER, 30, 31, None, 2, 2, True],
        [OTHER, 30, 31, None, 2, 2, True],
    ]


def test_those_who_left_are_counted_and_a_retired_cohort_is_gone() -> None:
    fold, second = fold_of([add(ONE, 20, 22, "flu", "cold"), add(OTHER, 30, 31)]), (Live(ONE, 2, 1), Retire(OTHER, 2))
    for record in second:
        fold.apply(0, record)
    assert len(fold.frame()) == 4, "the epoch is not over"
    fold.apply(0, end(2, *second))
    assert fold.frame()[[COHORT, COHORT_LEFT]].values.tolist() == [[ONE, 1], [ONE, 1]]


def test_who_is_left_is_null_if_nobody_counts() -> None:
    fold = SealedFold(sealed_table(counters=False))
    for record in (add(ONE, 20, 22, "flu", "cold"), end(1, add(ONE, 20, 22, "flu", "cold"))):
        fold.apply(0, record)
    assert fold.frame()[COHORT_LEFT].isna().all()


def test_shards_have_epochs_of_their_own() -> None:
    fold = SealedFold(sealed_table())
    fold.apply(0, add(ONE, 20, 22, "flu", "cold"))
    fold.apply(1, add(OTHER, 30, 31))
    fold.apply(1, end(1, add(OTHER, 30, 31), shard=1))
    assert set(fold.frame()[COHORT]) == {OTHER}


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([add(ONE, 20, 22), add(ONE, 20, 22)], "published twice"),
        ([Live(ONE, 1, 1)], "is not published"),
        ([add(ONE, 20, 22), Retire(ONE, 1), Live(ONE, 1, 1)], "or not any more"),
    ],
)
def test_a_log_that_speaks_of_cohorts_that_are_not_there_is_refused(
    records: list[Add | Live | Retire], says: str
) -> None:
    with pytest.raises(LawViolated, match=says):
        fold_of([*records])


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (end(3), "epoch 3 follows where epoch 2 should: records are missing"),
        (end(1), "epoch 1 follows where epoch 2 should"),
        (end(2, Retire(ONE, 2)), "epoch 2 has not all the records that it counts"),
    ],
)
def test_a_log_that_has_lost_records_is_refused(last: EpochEnd, says: str) -> None:
    fold = fold_of([add(ONE, 20, 22)])
    with pytest.raises(LawViolated, match=says):
        fold.apply(0, last)
    assert len(fold.frame()) == 2


def test_a_cohort_of_another_table_is_refused_without_its_values() -> None:
    fold = fold_of([Add(ONE, 1, 1, msgspec.Raw(b'{"zip":"secret"}'), None)])
    with pytest.raises(LawViolated, match="published columns") as raised:
        fold.frame()
    assert "secret" not in str(raised.value)


def test_a_table_without_cohorts_has_its_columns() -> None:
    assert SealedFold(sealed_table()).frame().columns.tolist()[1:3] == ["age_lo", "age_hi"]
