"""The two tables of a lossy join: what is in them, and what their order and numbers do not tell."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.recoding.algorithms.contract import Recoding, local_recoding
from streamer.recoding.algorithms.lossy_join import LossyJoin, lossy_join
from streamer.table.microdata import INDIVIDUAL, Microdata
from streamer.table.schema import Table
from worlds.microdata import TABLES, microdata, people, permuted, renamed, some_table
from worlds.small_tables import YEARS


@st.composite
def recoded(draw: st.DrawFn, small: Table) -> tuple[Microdata, Recoding]:
    """Any groups, some rows suppressed: what is joined is not the lossy join's affair."""
    data = draw(microdata(small))
    group = draw(st.lists(st.integers(-1, 4), min_size=len(data), max_size=len(data)))
    return data, local_recoding(data, np.array(group, dtype=np.int64))


def qit_of(join: LossyJoin) -> list[tuple[int, ...]]:
    return [(g, *cells) for g, cells in zip(join.qit_group.tolist(), join.qit_cells.tolist(), strict=True)]


def stt_of(join: LossyJoin) -> list[tuple[int, ...]]:
    columns = (join.stt_group.tolist(), join.stt_values.tolist(), join.stt_individual.tolist())
    return [(g, *values, who) for g, values, who in zip(*columns, strict=True)]


@given(data=st.data(), small=some_table)
def test_qit_has_the_cells_of_every_published_row_once_and_no_others(data: st.DataObject, small: Table) -> None:
    rows, recoding = data.draw(recoded(small))
    wanted = {(g, *cells) for g, cells in zip(recoding.qi_group.tolist(), rows.cells.tolist(), strict=True) if g >= 0}
    assert qit_of(lossy_join(rows, recoding)) == sorted(wanted)


@given(data=st.data(), small=some_table)
def test_stt_has_the_sensitive_values_of_every_published_row(data: st.DataObject, small: Table) -> None:
    rows, recoding = data.draw(recoded(small))
    published = zip(recoding.qi_group.tolist(), rows.values.tolist(), strict=True)
    assert Counter(row[:-1] for row in stt_of(lossy_join(rows, recoding))) == Counter(
        (g, *values) for g, values in published if g >= 0
    )


@given(data=st.data(), small=some_table)
def test_stt_keeps_together_what_one_individual_has_and_nothing_else(data: st.DataObject, small: Table) -> None:
    rows, recoding = data.draw(recoded(small))
    source: dict[tuple[int, int], Counter] = {}
    individuals = rows.subject(INDIVIDUAL).tolist()
    for g, values, who in zip(recoding.qi_group.tolist(), rows.values.tolist(), individuals, strict=True):
        if g >= 0:
            source.setdefault((g, who), Counter())[tuple(values)] += 1
    published: dict[tuple[int, int], Counter] = {}
    for g, *values, who in stt_of(lossy_join(rows, recoding)):
        published.setdefault((g, who), Counter())[tuple(values)] += 1
    assert Counter((g, frozenset(c.items())) for (g, _), c in source.items()) == Counter(
        (g, frozenset(c.items())) for (g, _), c in published.items()
    )


@given(data=st.data(), small=some_table)
def test_stt_is_sorted_by_group_and_values_and_numbers_individuals_of_a_group_as_they_occur(
    data: st.DataObject, small: Table
) -> None:
    stt = stt_of(lossy_join(*data.draw(recoded(small))))
    assert [row[:-1] for row in stt] == sorted(row[:-1] for row in stt)
    for group in {row[0] for row in stt}:
        there = list(dict.fromkeys(row[-1] for row in stt if row[0] == group))
        assert there == list(range(len(there)))


TWENTY, SIXTY = 0, 1
FLU, HIV = 0, 1


def test_somebody_known_to_be_in_two_groups_is_not_singled_out_by_being_in_both() -> None:
    """Person 0 was there at 20 and at 60, among two others each time. Both groups hold 3 individuals."""
    ages = np.array([[TWENTY], [TWENTY], [TWENTY], [SIXTY], [SIXTY], [SIXTY]])
    who = np.array([0, 1, 2, 0, 3, 4])
    values = np.array([[HIV], [FLU], [FLU], [HIV], [FLU], [FLU]])
    data = Microdata(people(YEARS, individual=True), ages, who, values, ((b'"flu"', b'"HIV"'),))
    stt = stt_of(lossy_join(data, local_recoding(data, np.array([0, 0, 0, 1, 1, 1]))))
    in_both = {row[-1] for row in stt if row[0] == 0} & {row[-1] for row in stt if row[0] == 1}
    assert len(in_both) == 3


@given(data=st.data())
def test_nothing_tells_whether_the_individuals_of_two_groups_are_the_same(data: st.DataObject) -> None:
    rows, recoding = data.draw(recoded(TABLES["individuals"]))
    who = rows.subject(INDIVIDUAL)
    apart = who + (int(who.max()) + 1) * (recoding.qi_group + 1)
    strangers = Microdata(rows.table, rows.codes, apart, rows.values, rows.texts)
    assert stt_of(lossy_join(strangers, recoding)) == stt_of(lossy_join(rows, recoding))


@given(data=st.data(), small=some_table, seed=st.integers(0, 99))
def test_neither_order_nor_names_in_the_source_change_a_row(data: st.DataObject, small: Table, seed: int) -> None:
    rows, recoding = data.draw(recoded(small))
    order = np.random.default_rng(seed).permutation(len(rows))
    shuffled = permuted(renamed(rows, seed), seed)
    other = Recoding(recoding.qi_group[order], recoding.lo, recoding.hi)
    one, two = lossy_join(rows, recoding), lossy_join(shuffled, other)
    assert (qit_of(one), stt_of(one)) == (qit_of(two), stt_of(two))
