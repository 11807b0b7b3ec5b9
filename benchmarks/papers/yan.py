"""Yan & Liu 2008, figures 2 and 3: entropy-based cuts (EMP) beside Median Mondrian's, on Adult."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks import adult
from benchmarks.papers.figures import Check, Figure, Panel, between, check, curve
from benchmarks.papers.runs import Say
from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms import contract as laws
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import Recoding, local_recoding
from streamer.recoding.algorithms.mondrian import EMP, MONDRIAN, leaf_numbers, median_tree
from streamer.recoding.metrics import utility
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata, canonical
from streamer.table.space import Axis, Space

CITES = "Yan, Liu: *Multidimensional K-anonymity Partition Method Using Entropy*, 2008"
N_FIGURES = 2

SLIGHTLY, FAR = 1.25, 2.0
"""A figure is slightly above another up to the first ratio, and far above it from the second ratio on."""


READINGS = (
    "as printed",
    "of the published boxes",
    "of members' ranges",
    "of members' ranges, constant dimensions left out",
)
"""What HV, the volume of a class, is made of; the paper's max - min makes it 0 for most classes."""

BY_RANGE, BY_SHARE = "Median Mondrian, widest range", "Median Mondrian, widest share"
"""Which dimension is cut: that of the widest range of values, as the paper says of its K-d tree, or that of the widest
share of its domain (LeFevre et al. 2006; the algorithm of this project's catalogue)."""


@dataclass(frozen=True)
class Measured:
    """One table: AES; SED under every one of READINGS, None where no class is left; what classes look like."""

    aes: float
    sed: tuple[float | None, ...]
    entropy: float  # mean of the classes, bits
    dimensions: float  # in which a class is not constant, on average
    solid: int  # classes that are constant in no dimension
    groups: int


Lines = dict[str, list[Measured]]
"""By name of the algorithm, k by k."""


def setting() -> str:
    return (
        "Adult, 30,162 records, 8 quasi-identifiers (as in the paper), age in single years, categories with ARX's"
        " hierarchies; k = 2 to 10. The paper does not say how its Median Mondrian treats categories: ours cuts along"
        " the order of their leaves and publishes the node that covers a QI group. It does say that the K-d tree cuts"
        " the dimension of widest range, where LeFevre et al. take the range's share of the domain: both are run, the"
        " range counted in values (leaves of a category)."
    )


def figures(quick: bool, say: Say) -> Iterator[Figure]:
    """AES, then SED."""
    ks = (2, 5, 10) if quick else tuple(range(2, 11))
    microdata = canonical(adult.microdata(2), np.random.default_rng(0)).microdata
    lines: Lines = {"EMP": [], BY_RANGE: [], BY_SHARE: []}
    for k in ks:
        say(f"k = {k}")
        lines["EMP"].append(_measured(microdata, run(EMP, microdata, k_anonymity(k))))
        lines[BY_RANGE].append(_measured(microdata, by_widest_range(microdata, k)))
        lines[BY_SHARE].append(_measured(microdata, run(MONDRIAN, microdata, k_anonymity(k))))
    yield _aes(ks, lines)
    yield _sed(ks, lines)


def by_widest_range(microdata: Microdata, k: int) -> Recoding:
    """Median Mondrian, in a space in which a step of one value is as wide in every attribute."""
    longest = float(microdata.space.n_cells.max())
    steps = Space([Axis(1, int(n), True, longest, 1.0, None) for n in microdata.space.n_cells])
    tree = median_tree(steps, microdata.cells, k_anonymity(k), microdata.subjects(()))
    recoding = local_recoding(microdata, leaf_numbers(tree))
    laws.check(microdata, k_anonymity(k), recoding)
    return recoding


def _measured(microdata: Microdata, recoding: Recoding) -> Measured:
    lo, hi = ranges(microdata, recoding)
    of_members = replace(recoding, lo=lo, hi=hi)
    entropy, width = utility.entropy_by_group(microdata, recoding), (hi - lo).astype(float)
    without_constants = float((entropy / np.where(width > 0, width, 1).prod(axis=1)).sum())
    as_printed, flat = utility.sed_literal(microdata, of_members)
    inclusively = utility.sed(microdata, recoding), utility.sed(microdata, of_members)
    return Measured(
        aes=float(utility.aes(recoding) or 0),
        sed=(as_printed, *inclusively, without_constants),
        entropy=float(entropy.mean()),
        dimensions=float((width > 0).sum(axis=1).mean()),
        solid=recoding.n_groups - flat,
        groups=recoding.n_groups,
    )


def ranges(microdata: Microdata, recoding: Recoding) -> tuple[Ints, Ints]:
    """Lowest and highest cell of every QI group's members, which is the paper's subspace of a class; int64 (g, d)."""
    lo, hi = recoding.hi.copy(), recoding.lo.copy()
    np.minimum.at(lo, recoding.qi_group, microdata.cells)
    np.maximum.at(hi, recoding.qi_group, microdata.cells)
    return lo, hi


def _aes(ks: Sequence[int], lines: Lines) -> Figure:
    checks = []
    for baseline in (BY_SHARE, BY_RANGE):
        ratios = [one.aes / other.aes for one, other in zip(lines["EMP"], lines[baseline], strict=True)]
        checks.append(check(f"EMP's AES is above that of {baseline}", [r > 1 for r in ratios], "k", between(ratios)))
        checks.append(
            check(f"It is slightly above: by at most {SLIGHTLY - 1:.0%}", [r <= SLIGHTLY for r in ratios], "k")
        )
    return Figure(
        "yan-aes",
        "Yan & Liu, figure 2: average size of an equivalence class (AES)",
        "“On Adult, the precision of EMP's partition is slightly below that of Median Mondrian”: its classes are"
        " slightly larger (an AES near k is a precise partition).",
        (_panel(ks, "AES", {name: [one.aes for one in line] for name, line in lines.items()}),),
        tuple(checks),
    )


def _sed(ks: Sequence[int], lines: Lines) -> Figure:
    panels, checks, notes = [], [], []
    for i, reading in enumerate(READINGS):
        panels.append(
            _panel(ks, f"SED, HV {reading}", {name: [m.sed[i] for m in line] for name, line in lines.items()})
        )
        for baseline in (BY_RANGE, BY_SHARE):
            pairs = [(one.sed[i], other.sed[i]) for one, other in zip(lines["EMP"], lines[baseline], strict=True)]
            ratios = [one / other for one, other in pairs if one and other]
            if ratios:
                said = f"HV {reading}: EMP's SED is above that of {baseline}"
                checks.append(check(said, [r > 1 for r in ratios], "k", between(ratios)))
                checks.append(check(f"It is far above: at least {FAR:g} times", [r >= FAR for r in ratios], "k"))
            if missing := len(pairs) - len(ratios):
                notes.append(_missing(reading, baseline, missing, pairs, lines))
    return Figure(
        "yan-sed",
        "Yan & Liu, figure 3: sum of entropy densities (SED)",
        "“The sum of entropy densities of EMP's partition is far larger than that of Median Mondrian's.”",
        tuple(panels),
        tuple(checks),
        because=_depends(checks, lines),
        notes=(
            "The volume HV of the paper is the product of max - min, which is 0 for a class that is constant in any"
            " dimension; the paper does not say what then. So SED is shown under four readings: as printed, where"
            " classes of volume 0 are left out; with ranges counted inclusively (max - min + 1) of the published boxes,"
            " and of the members' values; and with max - min over the dimensions in which a class is not constant. And"
            " with two Median Mondrians, whose classes are constant in different dimensions. The first sentence is that"
            " of the paper's own words: HV as printed, and the dimension of widest range.",
            *notes,
        ),
    )


def _depends(checks: Sequence[Check], lines: Lines) -> str:
    """That the answer follows from what HV is made of, and why."""
    above = [one for one in checks if one.says.startswith("HV")]
    less = [one for one in above[1:] if 2 * one.held < one.of]
    higher = sum(one.entropy > other.entropy for one, other in zip(lines["EMP"], lines[BY_RANGE], strict=True))
    n = len(lines["EMP"])
    return (
        f"it depends on HV: as printed, and against the widest range, EMP's SED is above at {above[0].held} of"
        f" {above[0].of} k, and in {len(less)} of the {len(above) - 1} other readings it is above at fewer than half."
        f" EMP's classes have the higher mean entropy at {higher} of {n} k, but they are not constant in"
        f" {_mean(lines['EMP'])} dimensions on average and Median Mondrian's in {_mean(lines[BY_RANGE])} (widest range)"
        f" and {_mean(lines[BY_SHARE])} (widest share). More dimensions make more volume where every class is counted;"
        " where classes of volume 0 are left out, they make more classes"
    )


def _missing(
    reading: str, baseline: str, missing: int, pairs: Sequence[tuple[float | None, float | None]], lines: Lines
) -> str:
    larger = sum((one or 0) > (other or 0) for one, other in pairs)
    solid = [f"{sum(m.solid for m in lines[name]):,} of {sum(m.groups for m in lines[name]):,}" for name in lines]
    said = "; ".join(f"{name}: {share}" for name, share in zip(lines, solid, strict=True))
    return (
        f"SED {reading} cannot be compared with that of {baseline} at {missing} of {len(pairs)} k. Classes that have a"
        f" volume, over all k: {said}. If a table without any such class had an SED of 0, EMP's would be the larger at"
        f" {larger} of {len(pairs)} k."
    )


def _mean(line: Sequence[Measured]) -> str:
    found = sorted(one.dimensions for one in line)
    return f"{found[0]:.1f} to {found[-1]:.1f}"


def _panel(ks: Sequence[int], what: str, lines: Mapping[str, Sequence[float | None]]) -> Panel:
    return Panel("", "k", tuple(ks), what, tuple(curve(name, line) for name, line in lines.items()))
