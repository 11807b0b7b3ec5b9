"""Tong et al. 2010, figures 1 to 3: what k rows do not protect where people own several, and what k people cost.

Figures 4 to 9, queries, are in `tong_queries`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from benchmarks import adult
from benchmarks.papers import tong_queries
from benchmarks.papers.datasets import INDIVIDUALS, SHARES, heights, several_records
from benchmarks.papers.figures import Check, Figure, Panel, check, curve, falling, law, rising
from benchmarks.papers.runs import Say
from streamer.privacy.models import Model, identity_reserved, k_anonymity
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import Recoding
from streamer.recoding.algorithms.local_recoding import BOTTOM_UP
from streamer.recoding.metrics import risk, utility
from streamer.table.microdata import Microdata

CITES = "Tong, Tao, Tang, Yang: *Identity-Reserved Anonymity in Privacy Preserving Data Publishing*, 2010"
N_FIGURES = 3 + tong_queries.N_FIGURES

KS = (2, 3, 4, 5, 6, 7, 8, 9, 10)
RPIS_OF_DISTORTION = (1.2, 1.4)
RECORDS_MAX = 3
"""Records of one individual at most."""

SMALL_GAP = 0.05
"""A difference of distortion ratios that we call not large."""


def setting() -> str:
    rows = adult.microdata_45222(2)
    unlike = [h for h in heights(rows) if (h.values, h.height) != (h.our_values, h.our_height)]
    said = "; ".join(
        f"{h.attribute}: {h.our_values} values, height {h.our_height} (the paper: {h.values}, {h.height})"
        for h in unlike
    )
    return (
        f"{INDIVIDUALS:,} individuals drawn from Adult's 45,222 by a seed; shares A, B, C of them have 1, 2, 3 records,"
        " as in table 9, whose last row must read A = 0.40 (it prints 0.60, which sums to 1.2). A further record has a"
        " sensitive value drawn from those its owner has not, all as likely. Occupation is sensitive; 8"
        " quasi-identifiers with ARX's hierarchies, whose numbers of values and heights are those of table 8 but for: "
        f"{said or 'none'}. The algorithm is bottom-up local recoding (algorithm 1) throughout; which attribute it"
        " generalizes next is our choice, the paper leaves it open. " + tong_queries.setting()
    )


@cache
def people(rpi: float, quick: bool) -> Microdata:
    """Tong's table."""
    return several_records(adult.microdata_45222(2), rpi, 4_000 if quick else INDIVIDUALS)


def figures(quick: bool, say: Say) -> Iterator[Figure]:
    """Vulnerable groups, single-value groups, distortion; then the queries."""
    ks, rpis = ((2, 4, 7), (1.2, 1.8)) if quick else (KS, tuple(SHARES))
    plain = {(rpi, k): _anonymized(people(rpi, quick), k_anonymity(k), rpi, say) for rpi in rpis for k in ks}
    yield _vulnerable(ks, {rpi: [_vulnerable_ratio(rpi, k, plain, quick) for k in ks] for rpi in rpis}, plain)
    yield _single_value(ks, {rpi: [_single_ratio(rpi, k, plain, quick) for k in ks] for rpi in rpis})
    compared = {}
    for rpi in [rpi for rpi in rpis if rpi in RPIS_OF_DISTORTION]:
        reserved = [_anonymized(people(rpi, quick), identity_reserved(k), rpi, say) for k in ks]
        compared[rpi] = [
            [float(utility.distortion(people(rpi, quick), one) or 0) for one in recodings]
            for recodings in ([plain[rpi, k] for k in ks], reserved)
        ]
    yield _distortion(ks, compared)
    yield from tong_queries.figures(quick, say, lambda rpi: people(rpi, quick))


def _anonymized(rows: Microdata, model: Model, rpi: float, say: Say) -> Recoding:
    say(f"k = {model.rows}, {rpi} records per individual")
    return run(BOTTOM_UP, rows, model)


Recodings = dict[tuple[float, int], Recoding]


def _vulnerable_ratio(rpi: float, k: int, plain: Recodings, quick: bool) -> float:
    return risk.vulnerable(people(rpi, quick), plain[rpi, k], k) or 0.0


def _single_ratio(rpi: float, k: int, plain: Recodings, quick: bool) -> float:
    return risk.single_value(people(rpi, quick), plain[rpi, k]) or 0.0


def _vulnerable(ks: Sequence[int], ratios: dict[float, list[float]], plain: Recodings) -> Figure:
    near = [_rows_over_k(plain, k) for k in (ks[0], ks[-1])]
    return Figure(
        "tong-vulnerable",
        "Tong et al., figure 1: vulnerable groups of plain k-anonymity",
        "A vulnerable group has at least k records but fewer than k individuals. “When k grows or the records per"
        " individual (rpi) become fewer, a QI group has more records and more different individuals, so the share of"
        " vulnerable groups falls.”",
        (_panel(ks, "vulnerable groups / all QI groups", ratios),),
        (
            _falls_with_k(ratios),
            _rises_with_rpi(ratios),
        ),
        because=f"a QI group of bottom-up recoding has {near[0]} k rows on average at k = {ks[0]} and {near[1]} k at"
        f" k = {ks[-1]}: a larger k makes groups larger, but asks for as many more people",
    )


def _single_value(ks: Sequence[int], ratios: dict[float, list[float]]) -> Figure:
    beyond = [one == 0 for line in ratios.values() for k, one in zip(ks, line, strict=True) if k > RECORDS_MAX]
    return Figure(
        "tong-single-value",
        "Tong et al., figure 2: single-value groups of plain k-anonymity",
        "A single-value group has exactly one individual. “Only where k is not greater than the most records of one"
        " individual can there be single-value groups”; like figure 1, the share changes with k and falls with fewer"
        " records per individual. (The text says that it grows with k, which contradicts the sentence before and"
        " “similar to figure 1”; we take it as a slip.)",
        (_panel(ks, "single-value groups / all QI groups", ratios),),
        (
            law(f"There are none for k above {RECORDS_MAX}", beyond, "points"),
            _falls_with_k(ratios),
            _rises_with_rpi(ratios),
        ),
    )


def _panel(ks: Sequence[int], what: str, ratios: dict[float, list[float]]) -> Panel:
    return Panel("", "k", tuple(ks), what, tuple(curve(f"rpi {rpi}", line) for rpi, line in ratios.items()))


def _rows_over_k(plain: Recodings, k: int) -> str:
    """Rows of a QI group on average, in k, over the tables."""
    found = sorted((utility.aes(recoding) or 0) / k for (_, its_k), recoding in plain.items() if its_k == k)
    return f"{found[0]:.2f} to {found[-1]:.2f}"


def _falls_with_k(ratios: dict[float, list[float]]) -> Check:
    return check("The share falls as k grows", [step for line in ratios.values() for step in falling(line)], "steps")


def _rises_with_rpi(ratios: dict[float, list[float]]) -> Check:
    by_k = zip(*ratios.values(), strict=True)
    return check("It falls as rpi falls", [step for line in by_k for step in rising(line)], "steps")


def _distortion(ks: Sequence[int], compared: dict[float, list[list[float]]]) -> Figure:
    gaps = {rpi: [b - a for a, b in zip(*lines, strict=True)] for rpi, lines in compared.items()}
    every = [gap for line in gaps.values() for gap in line]
    last = list(gaps.values())
    curves = []
    for rpi, (plain, reserved) in compared.items():
        curves += [curve(f"k rows, rpi {rpi}", plain), curve(f"k individuals, rpi {rpi}", reserved)]
    grows = [one <= other for one, other in zip(last[0], last[-1], strict=True)] if len(last) > 1 else []
    return Figure(
        "tong-distortion",
        "Tong et al., figure 3: distortion of k rows and of k individuals",
        "“Common k-anonymity reaches a somewhat lower distortion ratio, but the difference is not large, and it grows"
        " with rpi.”",
        (Panel("", "k", tuple(ks), "distortion ratio", tuple(curves)),),
        (
            check("k rows are distorted no more than k individuals", [gap >= 0 for gap in every], "points"),
            check(f"The difference is at most {SMALL_GAP}", [gap <= SMALL_GAP for gap in every], "points", _gap(every)),
            *([check("It is larger at the larger rpi", grows, "k")] if grows else []),
        ),
    )


def _gap(gaps: Sequence[float]) -> str:
    return f"{min(gaps):.4f} to {max(gaps):.4f}"
