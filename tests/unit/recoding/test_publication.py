"""A recoding as the table that is published: the changelog's own columns, and nothing of the source in its order."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.fold import Fold
from streamer.incremental.release.records import PublishedGroup
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM
from streamer.recoding.algorithms.contract import STAYING, SUPPRESSED, Options, Recoding, local_recoding
from streamer.recoding.algorithms.lossy_join import lossy_join
from streamer.recoding.publication import lossy_join_frames, published_frame
from streamer.table.codes import KeptColumn, NumericAttribute
from streamer.table.csv_files import write_rows
from streamer.table.microdata import INDIVIDUAL, Microdata
from streamer.table.schema import Table
from worlds.microdata import MODELS, holding, microdata, some_table

AGE = NumericAttribute("age", (Decimal(0), Decimal(99)), Decimal(10), Decimal(1), Decimal(20))


def folded(data: Microdata, recoding: Recoding) -> pd.DataFrame:
    """The twin: what the live changelog's writer and reader make of the same QI groups."""
    changelog, fold = Changelog(data.table, 0), Fold(data.table)
    for group in range(recoding.n_groups):
        rows = data.values[recoding.qi_group == group].tolist()
        slots = sorted(tuple(texts[value] for texts, value in zip(data.texts, row, strict=True)) for row in rows)
        box = tuple(recoding.lo[group].tolist()), tuple(recoding.hi[group].tolist())
        records, _ = changelog.diff(group + 1, None, PublishedGroup(*box, tuple(slots)))
        for record in records:
            fold.apply(0, 0, 0, record.key, record.value)
    fold.finish()
    return fold.to_frame()


@given(data=st.data(), small=some_table)
def test_the_published_table_is_what_the_changelog_would_fold_into(data: st.DataObject, small: Table) -> None:
    model = data.draw(st.sampled_from(list(MODELS.values())))
    rows = data.draw(microdata(small))
    recoding = holding(ALGORITHMS[DEFAULT_ALGORITHM], rows, model)
    pd.testing.assert_frame_equal(published_frame(rows, recoding), folded(rows, recoding))


def test_rows_of_a_group_are_sorted_by_the_first_kept_column_then_by_the_others() -> None:
    kept = (KeptColumn("problem", sensitive=True), KeptColumn("ward", sensitive=False), KeptColumn("bed", False))
    table = Table("people", ("id",), (AGE,), kept, k=2)
    values = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 1, 1]])
    rows = Microdata(table, np.zeros((5, 1), dtype=np.int64), None, values, ((b'"a"', b'"b"'),) * 3)
    recoding = local_recoding(rows, np.zeros(5, dtype=np.int64))
    frame = published_frame(rows, recoding)
    assert ["".join(row) for row in frame[["problem", "ward", "bed"]].to_numpy()] == ["aaa", "aab", "aba", "abb", "baa"]
    pd.testing.assert_frame_equal(frame, folded(rows, recoding))


@given(data=st.data(), small=some_table)
def test_suppressed_rows_are_left_out_of_both_forms(data: st.DataObject, small: Table) -> None:
    rows = data.draw(microdata(small))
    recoding = holding(ALGORITHMS[DEFAULT_ALGORITHM], rows, MODELS["k"])
    dropped = int(recoding.qi_group[0])
    fewer = Recoding(np.where(recoding.qi_group == dropped, SUPPRESSED, recoding.qi_group), recoding.lo, recoding.hi)
    left = len(rows) - int((recoding.qi_group == dropped).sum())
    _, stt = lossy_join_frames(rows, fewer)
    for frame in (published_frame(rows, fewer), stt):
        assert len(frame) == left
        assert f"0-{dropped + 1}" not in set(frame["qi_group"])


@given(data=st.data(), small=some_table)
def test_a_lossy_join_writes_the_rows_own_cells(data: st.DataObject, small: Table) -> None:
    rows = data.draw(microdata(small))
    recoding = holding(ALGORITHMS[DEFAULT_ALGORITHM], rows, MODELS["k"], Options(too_wide=STAYING))
    qit, stt = lossy_join_frames(rows, recoding)
    alone = Recoding(np.arange(len(rows)), rows.cells, rows.cells)  # every row published by itself
    exact = published_frame(rows, alone).drop(columns="qi_group")
    columns = [name for name in qit.columns if name != "qi_group"]
    assert set(qit[columns].itertuples(index=False)) == set(exact[columns].itertuples(index=False))
    assert not qit.duplicated().any()
    assert (stt.groupby("qi_group")["individual"].min() == 1).all()
    there = set(zip(recoding.qi_group.tolist(), rows.subject(INDIVIDUAL).tolist(), strict=True))
    assert len(stt[["qi_group", "individual"]].drop_duplicates()) == len(there)
    assert len(stt) == len(lossy_join(rows, recoding).stt_group) == len(rows)


@given(data=st.data(), small=some_table, seed=st.integers(0, 99))
def test_the_bytes_of_a_lossy_join_say_nothing_of_the_order_or_the_names_in_the_source(
    data: st.DataObject, small: Table, seed: int
) -> None:
    rows = data.draw(microdata(small))
    rng = np.random.default_rng(seed)
    recoding = local_recoding(rows, rng.integers(0, 2, len(rows)))
    order = rng.permutation(len(rows))
    other = rows.rows(order)
    if other.individuals is not None:
        names = rng.permutation(int(other.individuals.max()) + 1)
        other = replace(other, individuals=names[other.individuals])
    moved = Recoding(recoding.qi_group[order], recoding.lo, recoding.hi)
    assert list(map(csv_of, lossy_join_frames(rows, recoding))) == list(map(csv_of, lossy_join_frames(other, moved)))
    assert csv_of(published_frame(rows, recoding)) == csv_of(published_frame(other, moved))


def csv_of(frame: pd.DataFrame) -> str:
    text = StringIO()
    write_rows(frame, text)
    return text.getvalue()


def test_a_kept_column_called_like_the_individuals_of_a_lossy_join_is_refused() -> None:
    table = Table("people", ("id",), (AGE,), (KeptColumn("individual", True), KeptColumn("ward", False)), k=2)
    one = np.zeros((2, 1), dtype=np.int64)
    rows = Microdata(table, one, None, np.zeros((2, 2), dtype=np.int64), ((b'"flu"',), (b'"east"',)))
    with pytest.raises(ConfigError, match="rename the kept one"):
        lossy_join_frames(rows, Recoding(np.zeros(2, dtype=np.int64), one[:1], one[:1]))
