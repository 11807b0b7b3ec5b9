"""Tong et al. 2010, section 3, word for word: tables 3 to 7, and section 1's group of Mike's.

The paper prints table 6 as 1: 10085, 10086; 2: 10087, 10075, 10076; 3: 10077, 10050. That contradicts table 5, from
which it is made: there 10087 (individual 3) is in group 1, 10077 (individual 6) in group 2, 10086 (individual 2) in
group 3. The tests hold what follows from table 5; the number of rows, seven, is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from streamer.privacy.models import Model, alpha_beta, identity_reserved, k_anonymity, k_l
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import Recoding
from streamer.recoding.algorithms.local_recoding import BOTTOM_UP, Labelling
from streamer.recoding.algorithms.lossy_join import lossy_join
from streamer.recoding.algorithms.top_down import TOP_DOWN
from streamer.table.codes import CategoricalAttribute, KeptColumn
from streamer.table.encode import EncodedRows
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import INDIVIDUAL, Microdata, Subject, canonical, microdata_of
from streamer.table.schema import Table
from worlds.microdata import canonical_form

ZIPS = ["10085", "10086", "10087", "10075", "10076", "10077", "10050"]
ZIP = CategoricalAttribute("zip", Hierarchy.from_rows([zip, zip[:4] + "*", zip[:3] + "**"] for zip in ZIPS), Decimal(1))
SEX = CategoricalAttribute("sex", Hierarchy.from_rows([["M", "*"], ["F", "*"]]), Decimal(1))
DISEASE = KeptColumn("disease", sensitive=True)
DISEASES = Subject(0)
HALF = Fraction(1, 2)

TABLE_3 = [
    ("1", "10085", "Hypertension"),
    ("1", "10085", "Hyperlipemia"),
    ("2", "10086", "Diabetes"),
    ("3", "10087", "Heart"),
    ("4", "10075", "Hypertension"),
    ("4", "10075", "Diabetes"),
    ("5", "10076", "Heart"),
    ("6", "10077", "Flu"),
    ("7", "10050", "Heart"),
]

TABLE_5 = [
    (1, "1", "1008*", "Hypertension"),
    (1, "1", "1008*", "Hyperlipemia"),
    (1, "3", "1008*", "Heart"),
    (2, "4", "1007*", "Hypertension"),
    (2, "4", "1007*", "Diabetes"),
    (2, "5", "1007*", "Heart"),
    (2, "6", "1007*", "Flu"),
    (3, "7", "100**", "Heart"),
    (3, "2", "100**", "Diabetes"),
]


def patients(rows: Sequence[tuple[str, ...]] = TABLE_3) -> Microdata:
    """Rows of individual, quasi-identifiers, disease."""
    attributes = (ZIP,) if len(rows[0]) == 3 else (SEX, ZIP)
    table = Table("patients", ("no",), attributes, (DISEASE,), 2, "id")
    codes = [[a.hierarchy.code_of[v] for a, v in zip(attributes, row[1:-1], strict=True)] for row in rows]
    values: list[tuple[bytes, ...]] = [(b'"%b"' % row[-1].encode(),) for row in rows]
    keys = [str(number) for number in range(len(rows))]
    return microdata_of(table, EncodedRows(keys, np.array(codes), values, [()] * len(rows), [r[0] for r in rows]))


def table_5(data: Microdata) -> Recoding:
    """Bottom-up's answer with the paper's numbers: by our boxes 100** stands before 1007*."""
    recoding = run(BOTTOM_UP, data, identity_reserved(2))
    printed = np.array([0, 2, 1])
    return replace(recoding, qi_group=printed[recoding.qi_group], lo=recoding.lo[printed], hi=recoding.hi[printed])


def published(recoding: Recoding) -> list[tuple[int, str, str, str]]:
    """Group from 1, individual, label, disease, row by row of table 3."""
    out = []
    for (individual, _, disease), group in zip(TABLE_3, recoding.qi_group.tolist(), strict=True):
        label = ZIP.hierarchy.label(int(recoding.lo[group, 0]), int(recoding.hi[group, 0]))
        out.append((group + 1, individual, label, disease))
    return out


def test_no_row_is_labelled_before_the_first_generalization() -> None:
    data = patients()
    labelling = Labelling(canonical_form(data), identity_reserved(2))
    assert labelling.n_unlabelled == 9


def test_table_4_is_table_3_generalized_once_and_leaves_one_orphan() -> None:
    data = patients()
    seen = canonical(data, np.random.default_rng(0))
    labelling = Labelling(seen.microdata, identity_reserved(2))
    labelling.step()
    group = np.empty(9, dtype=np.int64)
    group[seen.rows] = labelling.qi_group
    assert (group + 1).tolist() == [1, 1, 1, 1, 2, 2, 2, 2, 0]
    labels = [ZIP.hierarchy.label(*ends) for ends in zip(labelling.lo[1][:, 0], labelling.hi[1][:, 0], strict=True)]
    assert labels == ["1008*", "1007*"]
    assert not labelling.goes_on()


def test_table_5_individual_2_moves_to_the_orphan() -> None:
    recoding = table_5(patients())
    assert sorted(published(recoding)) == sorted(TABLE_5)
    assert recoding.details == {"orphans": 1, "moved": 1}


def test_under_a_half_of_each_nothing_can_be_spared_and_the_orphan_merges_into_group_1() -> None:
    model = alpha_beta(INDIVIDUAL, HALF, DISEASES, HALF)
    recoding = run(BOTTOM_UP, patients(), model)
    assert [(group, label) for group, _, label, _ in published(recoding)] == [
        *[(1, "100**")] * 4,
        *[(2, "1007*")] * 4,
        (1, "100**"),
    ]
    assert recoding.details == {"orphans": 1, "moved": 0}


def test_a_single_row_could_be_spared_if_individuals_did_not_move_whole() -> None:
    """Why the paper's example needs the rule: without record 1 its group holds (0.5, 0.5), and so would 7 with it."""
    data, model = patients(), alpha_beta(INDIVIDUAL, HALF, DISEASES, HALF)
    subjects = data.subjects(model.subjects)
    assert model.holds(subjects[[1, 2, 3]])
    assert model.holds(subjects[[0, 8]])


def test_table_6_has_every_zip_of_a_group_once() -> None:
    data = patients()
    join = lossy_join(data, table_5(data))
    zips = [(g + 1, ZIPS[cell]) for g, cell in zip(join.qit_group.tolist(), join.qit_cells[:, 0].tolist(), strict=True)]
    assert zips == [
        (1, "10085"), (1, "10087"),
        (2, "10075"), (2, "10076"), (2, "10077"),
        (3, "10086"), (3, "10050"),
    ]  # fmt: skip


def test_table_7_keeps_what_one_individual_has_together_and_links_two_individuals_to_a_zip() -> None:
    data = patients()
    join = lossy_join(data, table_5(data))
    texts = [text.decode().strip('"') for text in data.texts[0]]
    rows = list(zip(join.stt_group.tolist(), join.stt_individual.tolist(), join.stt_values[:, 0].tolist(), strict=True))
    assert sorted((g + 1, texts[v]) for g, _, v in rows) == sorted((g, disease) for g, _, _, disease in TABLE_5)
    by_individual = {frozenset((g + 1, texts[v]) for g, i, v in rows if (g, i) == who) for who in {r[:2] for r in rows}}
    printed = {frozenset((g, d) for g, i, _, d in TABLE_5 if i == who) for who in "1234567"}
    assert by_individual == printed
    assert len({i for g, i, _ in rows if g == 0}) == 2
    assert len({v for g, _, v in rows if g == 0}) == 3


def test_top_down_takes_back_one_row_for_the_same_orphan() -> None:
    """The twin of table 5: 1005* does not hold; the remainder takes back a row of the first of its larger siblings."""
    recoding = run(TOP_DOWN, patients(), identity_reserved(2))
    assert [(label, individual) for _, individual, label, _ in published(recoding) if label == "100**"] == [
        ("100**", "1"),
        ("100**", "7"),
    ]
    assert sorted(recoding.sizes.tolist()) == [2, 3, 4]


TABLE_1 = [
    ("Mike", "M", "10085", "Hypertension"),
    ("Mike", "M", "10085", "Hyperlipemia"),
    ("Emily", "F", "10075", "Diabetes"),
    ("Tim", "M", "10075", "Heart"),
    ("Jane", "F", "10086", "Cancer"),
    ("Ella", "F", "10087", "Flu"),
]
TABLE_2 = np.array([0, 0, 1, 1, 2, 2])


def test_table_2_is_2_anonymous_and_2_diverse_but_its_first_group_is_mike_alone() -> None:
    data = patients(TABLE_1)
    plain = replace(data.table, individual=None)
    rows = Microdata(plain, data.codes, None, data.values, data.texts)
    diverse = k_anonymity(2) & k_l(1, DISEASES, 2)
    assert diverse.holds_by_group(TABLE_2, 3, rows.subjects(diverse.subjects)).tolist() == [True, True, True]
    reserved = identity_reserved(2)
    assert reserved.holds_by_group(TABLE_2, 3, data.subjects(reserved.subjects)).tolist() == [False, True, True]


def test_mike_alone_has_the_whole_of_his_group() -> None:
    data, model = patients(TABLE_1), alpha_beta(INDIVIDUAL, HALF, DISEASES, HALF)
    assert model.holds_by_group(TABLE_2, 3, data.subjects(model.subjects)).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("model", "holds"),
    [
        (identity_reserved(2), [True, True, True]),
        (identity_reserved(3), [False, True, False]),
        (k_l(2, DISEASES, 2), [True, True, True]),
        (k_l(2, DISEASES, 3), [True, True, False]),
        (k_l(3, DISEASES, 4), [False, True, False]),
        (alpha_beta(INDIVIDUAL, HALF, DISEASES, HALF), [False, True, True]),
        (alpha_beta(INDIVIDUAL, Fraction(2, 3), DISEASES, HALF), [True, True, True]),
        (alpha_beta(INDIVIDUAL, Fraction(2, 3), DISEASES, Fraction(1, 3)), [True, True, False]),
    ],
)
def test_definitions_2_to_4_on_the_groups_of_table_5(model: Model, holds: list[bool]) -> None:
    data = patients()
    group = table_5(data).qi_group
    assert model.holds_by_group(group, 3, data.subjects(model.subjects)).tolist() == holds


def test_bottom_up_gives_mike_company() -> None:
    recoding = run(BOTTOM_UP, patients(TABLE_1), identity_reserved(2))
    mikes = int(recoding.qi_group[0])
    assert recoding.qi_group[1] == mikes
    assert len({row[0] for row, g in zip(TABLE_1, recoding.qi_group.tolist(), strict=True) if g == mikes}) > 1
