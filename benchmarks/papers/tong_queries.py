"""Tong et al. 2010, figures 4 to 9: COUNT queries on the generalized table and on the lossy join of the same groups.

Both forms publish the QI groups of one run of bottom-up local recoding, and answer the same queries. The paper leaves
open how many quasi-identifiers a query names in figures 4 to 8, and how many values it wants: here QD of them, and
values as in `benchmarks.papers.queries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from benchmarks.papers import queries
from benchmarks.papers.datasets import with_attributes
from benchmarks.papers.figures import Check, Figure, Panel, check, curve, falling, rising
from benchmarks.papers.runs import Say
from streamer.privacy.models import Model, alpha_beta, identity_reserved, k_l
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.local_recoding import BOTTOM_UP
from streamer.recoding.algorithms.lossy_join import lossy_join
from streamer.table.microdata import INDIVIDUAL, Microdata, Subject

N_FIGURES = 6
N_QUERIES, QD = 1_000, 2
RPI, K = 1.2, 7
OCCUPATION = Subject(0)

KS, LS = (2, 3, 5, 7, 10, 15), (2, 3, 4, 5, 6, 7)
SHARES = ("0.15", "0.2", "0.3", "0.4", "0.5")
HALF = Fraction(1, 2)
QI, QDS = (2, 3, 4, 5, 6, 7, 8), (1, 2, 3, 4, 5, 6, 7, 8)

Pair = tuple[float, float]
"""Relative correctness: generalization, lossy join."""


def setting() -> str:
    return (
        f"Queries: {N_QUERIES:,} a point, about {QD} quasi-identifiers and occupation where the paper does not say how"
        f" many; k = {K} and {RPI} records per individual where it does not say, as in its figure 9. A query wants so"
        f" many values that it matches about {queries.SELECTIVITY:.0%} of the rows if attributes were independent (the"
        " paper does not say how many)."
    )


def figures(quick: bool, say: Say, people: Callable[[float], Microdata]) -> Iterator[Figure]:
    """Correctness over k, l, β, α, the number of quasi-identifiers, and the dimensions of the query."""
    rows, n = people(RPI), 100 if quick else N_QUERIES
    every = 3 if quick else 1

    def pair(model: Model, qi: int = 8, qd: int = QD) -> Pair:
        say(f"queries about {qd} of {qi} quasi-identifiers")
        return _correctness(with_attributes(rows, qi), model, qd, n)

    yield _over("4", "k", "k", KS[::every], [pair(identity_reserved(k)) for k in KS[::every]], CLAIM_K, falls=True)
    yield _over(
        "5", "l", f"l (k = {K})", LS[::every], [pair(k_l(K, OCCUPATION, l_)) for l_ in LS[::every]], CLAIM_L, falls=True
    )
    shares = [Fraction(share) for share in SHARES[::every]]
    at = tuple(float(share) for share in shares)
    beta = [pair(alpha_beta(INDIVIDUAL, HALF, OCCUPATION, share)) for share in shares]
    alpha = [pair(alpha_beta(INDIVIDUAL, share, OCCUPATION, HALF)) for share in shares]
    yield _over("6", "beta", "β (α = 0.5)", at, beta, CLAIM_BETA, falls=False, more=_stronger(beta, alpha))
    yield _over("7", "alpha", "α (β = 0.5)", at, alpha, CLAIM_ALPHA, falls=False)
    sizes = [pair(identity_reserved(K), qi) for qi in QI[::every]]
    yield _over("8", "qi", "quasi-identifiers", QI[::every], sizes, CLAIM_QI, falls=True)
    dimensions = [pair(identity_reserved(K), 8, qd) for qd in QDS[::every]]
    yield _over(
        "9",
        "dimensions",
        "quasi-identifiers of the query",
        QDS[::every],
        dimensions,
        CLAIM_QD,
        falls=False,
    )


CLAIM_K = "“When k grows, the relative correctness of both ways falls. Lossy join's is higher.”"
CLAIM_L = (
    "“When l grows, the relative correctness of both falls. Lossy join keeps the original values, so its correctness is"
    " comparatively high and changes little.”"
)
CLAIM_BETA = (
    "“When β (or α) grows, relative correctness rises. Where they are small, β's effect is plainly larger than α's;"
    " where they are large, both effects are small and correctness is high. Lossy join is more correct.”"
)
CLAIM_ALPHA = "As for β (figure 6): “when α grows, relative correctness rises. Lossy join is more correct.”"
CLAIM_QI = (
    "“When there are more quasi-identifiers, the relative correctness of both falls. Lossy join is more correct.”"
)
CLAIM_QD = (
    "“When the query has more dimensions, the correctness of generalization rises somewhat. Lossy join's is"
    " comparatively high and changes little.”"
)
LITTLE = 0.05
"""A difference of correctness that we call little."""


def _correctness(rows: Microdata, model: Model, qd: int, n: int) -> Pair:
    recoding = run(BOTTOM_UP, rows, model)
    asked = queries.random_queries(rows, n, qd, OCCUPATION.column, seed=0)
    act = queries.actual(rows, asked)
    general = queries.relative_correctness(act, queries.from_boxes(rows, recoding, asked))
    joined = queries.from_lossy_join(lossy_join(rows, recoding), asked)
    lossy = queries.relative_correctness(act, joined)
    return float(general or 0), float(lossy or 0)


def _over(
    number: str, slug: str, x_label: str, x: Sequence[float], pairs: Sequence[Pair], claim: str, *, falls: bool,
    more: Sequence[Check] = (),
) -> Figure:  # fmt: skip
    general, lossy = ([pair[i] for pair in pairs] for i in (0, 1))
    curves = (curve("generalization", general), curve("lossy join", lossy))
    return Figure(
        f"tong-queries-{slug}",
        f"Tong et al., figure {number}: correctness of queries over {x_label}",
        claim,
        (Panel("", x_label, tuple(x), "relative correctness", curves),),
        (
            check(
                "Lossy join is more correct than generalization",
                [one < other for one, other in pairs],
                "points",
                f"generalization {_span(general)}, lossy join {_span(lossy)}",
            ),
            *_trend(slug, general, lossy, falls=falls),
            *more,
        ),
    )


def _trend(slug: str, general: Sequence[float], lossy: Sequence[float], *, falls: bool) -> Iterator[Check]:
    step = falling if falls else rising
    word = "falls" if falls else "rises"
    yield check(f"Generalization's correctness {word}", step(general), "steps")
    if slug in ("l", "dimensions"):
        said = f"Lossy join's changes little: by at most {LITTLE} between any two points"
        yield check(said, [max(lossy) - min(lossy) <= LITTLE], "curves")
    if slug != "dimensions":
        yield check(f"Lossy join's correctness {word}", step(lossy), "steps")


def _stronger(beta: Sequence[Pair], alpha: Sequence[Pair]) -> tuple[Check, ...]:
    """β's effect against α's where both are small: from the first point to the last."""
    effects = [(abs(beta[-1][i] - beta[0][i]), abs(alpha[-1][i] - alpha[0][i])) for i in (0, 1)]
    return (
        check(
            "From the smallest value to the largest, β changes correctness more than α (figure 7)",
            [by_beta > by_alpha for by_beta, by_alpha in effects],
            "ways of publishing",
            "; ".join(f"{by_beta:.3f} against {by_alpha:.3f}" for by_beta, by_alpha in effects),
        ),
    )


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.3f} to {max(values):.3f}"
