"""Tables to measure: seven people worked out by hand, Tong et al. 2010, table 5, and people in any groups whatever."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
from hypothesis import strategies as st

from streamer.recoding.algorithms.contract import Recoding, local_recoding
from streamer.table.attributes import CategoricalAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.schema import KeptColumn, Table
from worlds.microdata import TEXTS, microdata, people, some_table
from worlds.small_tables import CITIES, CITY, YEARS

PROBLEM_NUMBER = {json.loads(text): number for number, text in enumerate(TEXTS[0])}


def numbers_of(names: list[str]) -> np.ndarray:
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


# Seven people; two QI groups and a suppressed row. `problem`: flu and cough are of the lung, ulcer and gastritis of the
# belly, insomnia of the head.
#
# | group | years | city | problem   | ssn | published years | published city                  |
# |-------|-------|------|-----------|-----|-----------------|---------------------------------|
# | 0     | 0     | a1   | flu       | ann | 0..2            | west: 3 of 6 leaves, height 2/3 |
# | 0     | 2     | b1   | cough     | ann | 0..2            | west                            |
# | 0     | 0     | a1   | gastritis | bob | 0..2            | west                            |
# | 1     | 5     | c1   | flu       | cy  | 5..9            | c1: a leaf                      |
# | 1     | 9     | c1   | ulcer     | dee | 5..9            | c1                              |
# | 1     | 5     | c1   | insomnia  | eve | 5..9            | c1                              |
# | -     | 9     | d1   | null      | fay | (suppressed)    |                                 |
ROWS = [
    (0, "a1", "flu", "ann"), (2, "b1", "cough", "ann"), (0, "a1", "gastritis", "bob"),
    (5, "c1", "flu", "cy"), (9, "c1", "ulcer", "dee"), (5, "c1", "insomnia", "eve"),
    (9, "d1", None, "fay"),
]  # fmt: skip
INDIVIDUALS = numbers_of([who for *_, who in ROWS])
SEVEN = Microdata(
    people(YEARS, CITY, individual=True),
    np.array([(years, CITIES.code_of[city]) for years, city, _, _ in ROWS]),
    INDIVIDUALS,
    np.array([[PROBLEM_NUMBER[problem]] for _, _, problem, _ in ROWS]),
    TEXTS,
)
GROUPS = local_recoding(SEVEN, np.array([0, 0, 0, 1, 1, 1, -1]))

# Tong et al. 2010, table 5 (identity-reserved 2-anonymity of table 3): zip by its digits, 5 heights.
ZIPS = Hierarchy.from_rows([[f"100{end}"[: 5 - i] + "*" * i for i in range(6)] for end in (85, 86, 87, 75, 76, 77, 50)])
DISEASES = ["Diabetes", "Flu", "Heart", "Hyperlipemia", "Hypertension"]
PATIENTS = [
    (1, "10085", "Hypertension", 0), (1, "10085", "Hyperlipemia", 0), (2, "10086", "Diabetes", 2),
    (3, "10087", "Heart", 0), (4, "10075", "Hypertension", 1), (4, "10075", "Diabetes", 1), (5, "10076", "Heart", 1),
    (6, "10077", "Flu", 1), (7, "10050", "Heart", 2),
]  # fmt: skip
TONG = Microdata(
    Table(
        "patients", ("no",), (CategoricalAttribute("zip", ZIPS, Decimal(1)),),
        (KeptColumn("disease", sensitive=True),), 2, "id",
    ),
    np.array([[ZIPS.code_of[zip_]] for _, zip_, _, _ in PATIENTS]),
    np.array([who - 1 for who, *_ in PATIENTS]),
    np.array([[DISEASES.index(disease)] for _, _, disease, _ in PATIENTS]),
    (tuple(b'"%b"' % disease.encode() for disease in DISEASES),),
)  # fmt: skip
TABLE_5 = local_recoding(TONG, np.array([group for *_, group in PATIENTS]))


@st.composite
def recoded(draw: st.DrawFn, lowest: int = -1) -> tuple[Microdata, Recoding]:
    """People in any groups whatever, some of them suppressed."""
    data = draw(microdata(draw(some_table), max_rows=25))
    groups = draw(st.lists(st.integers(lowest, 4), min_size=len(data), max_size=len(data)))
    return data, local_recoding(data, np.array(groups))
