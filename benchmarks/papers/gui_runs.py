"""Gui et al. 2020: which runs are made, and what is kept of each.

Mondrian holds k alone, as in the paper. Beside it stands Mondrian under GDPPR's own model, (r, k): without it no one
could tell the algorithm's part from the model's. The paper's hierarchy of occupations is not known. ARX's has few
parents, so the paper's r = 0.25 cannot hold at its level 1 whatever is published: no r below the largest parent's
share of all rows can. Level 1 is run with R_PARENTS, and r = 0.25 is run at level 0, where every occupation stands for
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from benchmarks.papers.runs import timed
from streamer.privacy.models import Model, k_anonymity, r_k
from streamer.recoding.algorithms.contract import Algorithm
from streamer.recoding.algorithms.fuzzy import GDPPR
from streamer.recoding.algorithms.mondrian import MONDRIAN
from streamer.recoding.metrics import risk, utility
from streamer.table.microdata import Microdata, Subject

R_PAPER, R_PARENTS = Fraction(1, 4), Fraction(2, 5)
PARENTS, OCCUPATIONS = Subject(0, 1), Subject(0, 0)
QI, QI_OF_K = (3, 4, 5, 6, 7, 8), (4, 8)
KS, KS_OF_QI = (6, 12, 18, 24), (6, 12)


@dataclass(frozen=True)
class Point:
    """One run: RIL; risk at the level of parents and of occupations; time in sorts of the table.

    unplaced: share of the rows that fit no cluster, and were placed by the repair; 0 where there are no clusters.
    """

    ril: float
    risk_parents: float
    risk_occupations: float
    time: float
    unplaced: float


@dataclass(frozen=True)
class Way:
    """One line of the plots: an algorithm and what it has to hold."""

    name: str
    algorithm: Algorithm
    r: Fraction | None = None
    subject: Subject = PARENTS

    def model(self, k: int) -> Model:
        return k_anonymity(k) if self.r is None else r_k(k, self.subject, self.r)


WAYS = (
    Way("Mondrian", MONDRIAN),
    Way(f"GDPPR, r = {float(R_PAPER):.2f}, level 0", GDPPR, R_PAPER, OCCUPATIONS),
    Way(f"Mondrian, r = {float(R_PAPER):.2f}, level 0", MONDRIAN, R_PAPER, OCCUPATIONS),
    Way(f"GDPPR, r = {float(R_PARENTS):.2f}, level 1", GDPPR, R_PARENTS),
    Way(f"Mondrian, r = {float(R_PARENTS):.2f}, level 1", MONDRIAN, R_PARENTS),
)
PLAIN, LEVEL_0, SAME_LEVEL_0, LEVEL_1, SAME_LEVEL_1 = WAYS
OURS = ((LEVEL_0, SAME_LEVEL_0), (LEVEL_1, SAME_LEVEL_1))
"""GDPPR, and Mondrian under the same model."""

Points = dict[tuple[Way, int, int], Point]
Settings = Sequence[tuple[int, int]]
"""(|QI|, k)."""


@dataclass(frozen=True)
class Shape:
    """Which points are run: |QI| from qi at ks_of_qi, and k from ks at qi_of_k."""

    qi: tuple[int, ...]
    ks_of_qi: tuple[int, ...]
    ks: tuple[int, ...]
    qi_of_k: tuple[int, ...]

    def wanted(self) -> list[tuple[int, int]]:
        """(|QI|, k), each once."""
        over_qi = {(m, k) for m in self.qi for k in self.ks_of_qi}
        return sorted(over_qi | {(m, k) for m in self.qi_of_k for k in self.ks})


def point_of(way: Way, rows: Microdata, k: int) -> Point:
    recoding, time = timed(way.algorithm, rows, way.model(k))
    return Point(
        ril=float(utility.ril(rows, recoding) or 0),
        risk_parents=float(risk.share_by_group(rows, recoding, PARENTS).max()),
        risk_occupations=float(risk.share_by_group(rows, recoding, OCCUPATIONS).max()),
        time=time,
        unplaced=recoding.details.get("unplaced", 0) / len(rows),
    )
