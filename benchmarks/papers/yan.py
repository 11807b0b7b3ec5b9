"""Yan & Liu 2008, figures 2 and 3: entropy-based cuts (EMP) beside Median Mondrian's, on Adult."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks import adult
from benchmarks.papers.figures import Figure, Panel, between, check, curve
from benchmarks.papers.runs import Say
from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import Algorithm
from streamer.recoding.algorithms.entropy import EMP
from streamer.recoding.algorithms.mondrian import MONDRIAN
from streamer.recoding.algorithms.recoding import Recoding
from streamer.recoding.metrics import utility
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata

CITES = "Yan, Liu: *Multidimensional K-anonymity Partition Method Using Entropy*, 2008"
N_FIGURES = 2

SLIGHTLY, FAR = 1.25, 2.0
"""What we call a figure that is slightly, and one that is far above another: at most, and at least, so many times."""


READINGS = ("published boxes", "members' ranges", "members' ranges, constant dimensions left out", "as printed")
"""What HV, the volume of a class, is made of; the paper's max - min makes it 0 for most classes."""


@dataclass(frozen=True)
class Measured:
    """One table: AES; SED under every one of READINGS, None where no class is left; what classes look like."""

    aes: float
    sed: tuple[float | None, ...]
    entropy: float  # mean of the classes, bits
    dimensions: float  # in which a class is not constant, on average
    solid: int  # classes that are constant in no dimension
    groups: int


def setting() -> str:
    return (
        "Adult, 30,162 records, 8 quasi-identifiers (as in the paper), age in single years, categories with ARX's"
        " hierarchies; k = 2 to 10. The paper does not say how its Median Mondrian treats categories: ours cuts along"
        " the order of their leaves and publishes the node that covers a QI group."
    )


def figures(quick: bool, say: Say) -> Iterator[Figure]:
    """AES, then SED."""
    ks = (2, 5, 10) if quick else tuple(range(2, 11))
    microdata = adult.microdata(2)
    emp, mondrian = ([_measured(a, microdata, k, say) for k in ks] for a in (EMP, MONDRIAN))
    yield _aes(ks, emp, mondrian)
    yield _sed(ks, emp, mondrian)


def _measured(algorithm: Algorithm, microdata: Microdata, k: int, say: Say) -> Measured:
    say(f"{algorithm.name}, k = {k}")
    recoding = run(algorithm, microdata, k_anonymity(k))
    lo, hi = ranges(microdata, recoding)
    entropy, width = utility.entropy_by_group(microdata, recoding), (hi - lo).astype(float)
    solid = (width > 0).all(axis=1)
    without_constants = entropy / np.where(width > 0, width, 1).prod(axis=1)
    as_printed = float((entropy[solid] / width[solid].prod(axis=1)).sum()) if solid.any() else None
    inclusively = utility.sed(microdata, recoding), utility.sed(microdata, replace(recoding, lo=lo, hi=hi))
    return Measured(
        aes=float(utility.aes(recoding) or 0),
        sed=(*inclusively, float(without_constants.sum()), as_printed),
        entropy=float(entropy.mean()),
        dimensions=float((width > 0).sum(axis=1).mean()),
        solid=int(solid.sum()),
        groups=recoding.n_groups,
    )


def ranges(microdata: Microdata, recoding: Recoding) -> tuple[Ints, Ints]:
    """Lowest and highest cell of every QI group's members, which is the paper's subspace of a class; int64 (g, d)."""
    lo, hi = recoding.hi.copy(), recoding.lo.copy()
    np.minimum.at(lo, recoding.qi_group, microdata.cells)
    np.maximum.at(hi, recoding.qi_group, microdata.cells)
    return lo, hi


def _aes(ks: Sequence[int], emp: Sequence[Measured], mondrian: Sequence[Measured]) -> Figure:
    ratios = [one.aes / other.aes for one, other in zip(emp, mondrian, strict=True)]
    return Figure(
        "yan-aes",
        "Yan & Liu, figure 2: average size of an equivalence class (AES)",
        "“On Adult, the precision of EMP's partition is slightly below that of Median Mondrian”: its classes are"
        " slightly larger (an AES near k is a precise partition).",
        (_panel(ks, "AES", [one.aes for one in emp], [one.aes for one in mondrian]),),
        (
            check("EMP's AES is above Median Mondrian's", [r > 1 for r in ratios], "k", between(ratios)),
            check(f"It is slightly above: by at most {SLIGHTLY - 1:.0%}", [1 < r <= SLIGHTLY for r in ratios], "k"),
        ),
    )


def _sed(ks: Sequence[int], emp: Sequence[Measured], mondrian: Sequence[Measured]) -> Figure:
    panels, checks, notes = [], [], []
    for i, reading in enumerate(READINGS):
        panels.append(_panel(ks, f"SED, {reading}", [one.sed[i] for one in emp], [one.sed[i] for one in mondrian]))
        pairs = [(one.sed[i], other.sed[i]) for one, other in zip(emp, mondrian, strict=True)]
        ratios = [one / other for one, other in pairs if one and other]
        if ratios:
            checks.append(check(f"EMP's SED ({reading}) is above", [r > 1 for r in ratios], "k", between(ratios)))
            checks.append(check(f"It is far above: at least {FAR:g} times", [r >= FAR for r in ratios], "k"))
        if missing := len(pairs) - len(ratios):
            larger = sum((one or 0) > (other or 0) for one, other in pairs)
            notes.append(
                f"SED {reading} cannot be compared at {missing} of {len(ks)} k: {_solid(emp, mondrian)}. If a table"
                f" without any such class had an SED of 0, EMP's would be the larger at {larger} of {len(ks)} k."
            )
    higher = sum(one.entropy > other.entropy for one, other in zip(emp, mondrian, strict=True))
    return Figure(
        "yan-sed",
        "Yan & Liu, figure 3: sum of entropy densities (SED)",
        "“The sum of entropy densities of EMP's partition is far larger than that of Median Mondrian's.”",
        tuple(panels),
        tuple(checks),
        because=f"EMP's classes have the higher mean entropy at {higher} of {len(ks)} k, but they are not constant in"
        f" {_mean(emp)} dimensions on average and Median Mondrian's in {_mean(mondrian)}, and more dimensions"
        " make more volume",
        notes=(
            "The volume HV of the paper is the product of max - min, which is 0 for a class that is constant in any"
            " dimension; the paper does not say what then. So SED is shown under four readings: ranges counted"
            " inclusively (max - min + 1) of the published boxes and of the members' values, max - min over the"
            " dimensions in which a class is not constant, and as printed, where classes of volume 0 are left out.",
            *notes,
        ),
    )


def _solid(emp: Sequence[Measured], mondrian: Sequence[Measured]) -> str:
    said = [f"{sum(o.solid for o in line):,} of {sum(o.groups for o in line):,}" for line in (emp, mondrian)]
    return f"over all k, {said[0]} of EMP's classes and {said[1]} of Median Mondrian's have a volume"


def _mean(line: Sequence[Measured]) -> str:
    found = sorted(one.dimensions for one in line)
    return f"{found[0]:.1f} to {found[-1]:.1f}"


def _panel(ks: Sequence[int], what: str, emp: Sequence[float | None], mondrian: Sequence[float | None]) -> Panel:
    return Panel("", "k", tuple(ks), what, (curve("EMP", emp), curve("Median Mondrian", mondrian)))
