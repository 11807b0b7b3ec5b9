"""The cost of a recoding: how large its groups are, and how much of every value it hides.

n is the number of source rows, suppressed ones included; d the number of quasi-identifiers; E a QI group. Published
boxes are measured, whatever the algorithm, and all attributes weigh the same. A suppressed row has lost
everything: 1 for each of its attributes (`ncp`, `ril`, `distortion`), n in `dm`; `aes`, `gcp` and `sed` look at
published rows only, and so do the ranks of `rank_loss`. If there is nothing to measure (no rows, no groups) the answer
is None, never 0 and never NaN. Sums over groups are exactly rounded (`math.fsum`), so the order of the rows and the
numbers of the groups change nothing.

Sources: AES, DM and SED as in Yan and Liu 2008, section 3; DM with suppressed rows: Bayardo and Agrawal 2005; GCP:
Ghinita et al. 2007; IL and RIL: Gui et al. 2020, equations 3 to 7; distortion ratio: Tong et al. 2010, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import numpy as np

from streamer.recoding.algorithms.contract import SUPPRESSED, Recoding
from streamer.recoding.metrics.risk import tally
from streamer.table.arrays import Counted, Floats, Ints, counted, row_numbers
from streamer.table.microdata import Microdata
from streamer.table.space import Space


def aes(recoding: Recoding) -> float | None:
    """Average size of the equivalence classes: published rows / QI groups; at least 1 (Yan and Liu 2008, section 3)."""
    return _ratio(_n_published(recoding), recoding.n_groups)


def dm(recoding: Recoding) -> int:
    """Discernability: the sum of |E|^2, and n for each suppressed row (Bayardo and Agrawal 2005).

    Ordered pairs of rows that a reader cannot tell apart; a suppressed row could be any.
    """
    sizes = recoding.sizes
    return int((sizes * sizes).sum()) + recoding.n_suppressed * len(recoding.qi_group)


def entropy_by_group(microdata: Microdata, recoding: Recoding) -> Floats:
    """Shannon entropy of the rows' vectors of cells in every QI group, in bits; float64 (g,).

    Yan and Liu 2008, definition 6, with a row's whole quasi-identifier as the random variable: their text speaks of the
    entropy of the class's data points and names no dimension. 0 if all rows of the group are alike.
    """
    found = tally(recoding, row_numbers(microdata.cells))
    share = found.rows / recoding.sizes[found.group]
    bits = np.bincount(found.group, weights=-share * np.log2(share), minlength=recoding.n_groups)
    return bits.astype(np.float64, copy=False)


def sed(microdata: Microdata, recoding: Recoding) -> float | None:
    """Sum of entropy densities: Entropy(E) / HV(E) over the QI groups, in bits per cell (Yan and Liu 2008, equation 2).

    HV(E) is the number of cells in the published box: the product of max - min + 1, in cells (categories: leaves). The
    paper's max - min is 0 for a group that is constant in one attribute, and its density then undefined; counted
    inclusively a box has at least one cell. `sed_literal` is the paper's own.
    """
    if not recoding.n_groups:
        return None
    return fsum(_density(entropy_by_group(microdata, recoding), recoding.hi - recoding.lo + 1))


def sed_literal(microdata: Microdata, recoding: Recoding) -> tuple[float | None, int]:
    """SED with HV(E) as printed, the product of max - min; and the number of groups left out because theirs is 0."""
    width = recoding.hi - recoding.lo
    solid = (width > 0).all(axis=1)
    if not solid.any():
        return None, recoding.n_groups
    entropy = entropy_by_group(microdata, recoding)
    return fsum(_density(entropy[solid], width[solid])), int((~solid).sum())


def _density(entropy: Floats, width: Ints) -> Floats:
    """Entropy / volume, one attribute after the other: a volume too large for float64 gives 0, not an overflow."""
    density = entropy
    for along in width.T:
        density = density / along
    return density


def ncp_by_attribute(microdata: Microdata, recoding: Recoding) -> Floats | None:
    """The loss of every attribute: mean over the source rows of published width / domain width; float64 (d,), 0 to 1.

    The attributes' terms of the normalized certainty penalty (Xu et al. 2006) without their weights; a category counts
    its node's leaves / all leaves, and a single leaf 0.
    """
    return _mean_over_rows(recoding, microdata.space.shares(recoding.lo, recoding.hi))


def ncp(microdata: Microdata, recoding: Recoding) -> float | None:
    """Normalized certainty penalty: mean of `ncp_by_attribute` over the attributes, by their weights; 0 to 1."""
    terms = ncp_by_attribute(microdata, recoding)
    return None if terms is None else fsum(terms * microdata.space.weight) / len(terms)


def cell_counts(microdata: Microdata, recoding: Recoding) -> list[Counted]:
    """By attribute, how many published rows have which cell."""
    cells = microdata.cells[recoding.qi_group != SUPPRESSED]
    return [counted(cells[:, [j]]) for j in range(microdata.space.d)]


def rank_terms(space: Space, counts: Sequence[Counted], lo: Ints, hi: Ints) -> Floats:
    """The loss of boxes (g, d) if numbers and dates are their ranks; float64 (g, d), 0 to 1.

    counts: as `cell_counts` gives them. If a cell is one exact value, its rank is the middle one of the rows that have
    it, and the loss is the distance between the ranks of both ends / that of the lowest and highest value. If a cell is
    an interval, it is the share of the rows between the ends. Categories: as in `ncp_by_attribute`.
    """
    terms = space.shares(lo, hi)
    for j in np.flatnonzero(~space.is_category).tolist():
        cells, rows = counts[j].numbers[:, 0], counts[j].rows
        below = np.append(0, np.cumsum(rows))
        begin, end = np.searchsorted(cells, lo[:, j], "left"), np.searchsorted(cells, hi[:, j], "right")
        if space.codes_per_cell[j] == 1 and space.overlap[j]:
            middle = (below[1:] + below[:-1]) / 2
            span = middle[end - 1] - middle[begin]
            terms[:, j] = span / max(middle[-1] - middle[0], 0.5)  # 0.5: all have one value, and the span is 0
        else:
            terms[:, j] = (below[end] - below[begin]) / below[-1]
    return terms


def rank_loss(microdata: Microdata, recoding: Recoding, counts: Sequence[Counted] | None = None) -> float | None:
    """The mean of `rank_terms` over rows and, by weight, attributes, suppressed rows 1; 0 to 1.

    counts: `cell_counts`, if known. One extreme value widens the domain, and makes `ncp` of all others small; their
    ranks stay what they are.
    """
    if not recoding.n_groups:
        return ncp(microdata, recoding)
    counts = cell_counts(microdata, recoding) if counts is None else counts
    terms = rank_terms(microdata.space, counts, recoding.lo, recoding.hi)
    means = _mean_over_rows(recoding, terms)
    return None if means is None else fsum(means * microdata.space.weight) / len(means)


def gcp(microdata: Microdata, recoding: Recoding) -> float | None:
    """Global certainty penalty: sum of |E| NCP(E) / (d * published rows); 0 to 1 (Ghinita et al. 2007).

    The same as `ncp` if no row is suppressed. With s of n rows suppressed, ncp = ((n - s) gcp + s) / n.
    """
    total = fsum(recoding.sizes * microdata.space.width_loss(recoding.lo, recoding.hi))
    return microdata.space.mean_loss(total, _n_published(recoding))


def il(microdata: Microdata, recoding: Recoding) -> float:
    """Information loss: over rows and attributes, the sum of f(A) / root; 0 to n d (Gui et al. 2020, equations 3 to 6).

    Numbers: published width / domain width. Categories: height of the published node / height of the hierarchy.
    """
    space, full = microdata.space, np.maximum(full_heights(microdata), 1)
    terms = np.where(space.is_category, heights(microdata, recoding) / full, space.shares(recoding.lo, recoding.hi))
    return fsum((recoding.sizes[:, None] * terms).ravel()) + recoding.n_suppressed * space.d


def ril(microdata: Microdata, recoding: Recoding) -> float | None:
    """Loss ratio: IL / the loss of suppressing every row; 0 to 1 (Gui et al. 2020, equation 7, weights of 1)."""
    return _ratio(il(microdata, recoding), len(microdata) * microdata.space.d)


def heights(microdata: Microdata, recoding: Recoding) -> Ints:
    """Generalization height of every published value: the lowest level whose value covers the box; int64 (g, d).

    Levels are those of full-domain recoding (`Attribute.levels`), for numbers too. So the height depends on the box
    alone, and under full-domain recoding it is the level itself, or a lower one that publishes the same.
    """
    found = np.zeros(recoding.lo.shape, dtype=np.int64)
    for j, attribute in enumerate(microdata.table.attributes):
        for level in range(attribute.levels.n_levels - 1):
            reached = attribute.levels.reach(level, recoding.lo[:, j])
            found[:, j] += reached < recoding.hi[:, j]  # what one level covers, every higher level does too
    return found


def full_heights(microdata: Microdata) -> Ints:
    """Height of every attribute's top level; int64 (d,)."""
    return np.array([attribute.levels.n_levels - 1 for attribute in microdata.table.attributes], dtype=np.int64)


def distortion(microdata: Microdata, recoding: Recoding) -> float | None:
    """Distortion ratio: sum of generalization heights / (rows * full height); 0 to 1 (Tong et al. 2010, section 4).

    None if no attribute has a level above its cells: then nothing can be generalized.
    """
    full = int(full_heights(microdata).sum())
    total = int((recoding.sizes * heights(microdata, recoding).sum(axis=1)).sum())
    return _ratio(total + recoding.n_suppressed * full, len(microdata) * full)


def _mean_over_rows(recoding: Recoding, terms: Floats) -> Floats | None:
    """Mean over the source rows of terms (g, d), what each group's rows lost; suppressed rows lost 1. float64 (d,)."""
    n = len(recoding.qi_group)
    if not n:
        return None
    lost = recoding.sizes[:, None] * terms
    return np.array([(fsum(column) + recoding.n_suppressed) / n for column in lost.T])


def _n_published(recoding: Recoding) -> int:
    return len(recoding.qi_group) - recoding.n_suppressed


def _ratio(total: float, whole: int) -> float | None:
    return total / whole if whole else None
