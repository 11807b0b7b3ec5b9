"""All measures of one recoding at once, under names that stay: what commands print and compare.

The rules of this file
----------------------
* The names and their order are a promise to readers of the JSON. `WHAT` says in a line what each is, and `WHAT_JOINED`
  says it of a lossy join. The cost of boxes says nothing of a join, which publishes the cells.
* A measure is an int, a float or None, never NaN: None if there is nothing to measure (no rows, no QI groups, no
  sensitive column).
* k, AES and the like are of QI groups. What a reader learns (l, alpha, beta, risk, chances) is counted by box: who
  knows a person's box cannot tell which of the QI groups with this box is hers.
* A reader joins the two tables of a lossy join by QI group, and gets every vector of cells of a group beside every
  sensitive row of it. For every published row one of these rows is true, and the others are not (Tong et al. 2010,
  section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

import numpy as np

from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import Recoding, by_box
from streamer.recoding.algorithms.lossy_join import LossyJoin, lossy_join
from streamer.recoding.metrics import risk, utility
from streamer.table.arrays import Counted
from streamer.table.microdata import Microdata

Measures = dict[str, Any]
"""By name an int, a float, or None."""


def joined_rows(join: LossyJoin) -> int:
    """Rows of the two tables joined by QI group."""
    n_groups = int(join.stt_group.max(initial=-1)) + 1
    vectors, rows = (np.bincount(of, minlength=n_groups) for of in (join.qit_group, join.stt_group))
    return int(vectors @ rows)


def joined_true(join: LossyJoin) -> float | None:
    """Share of the joined rows that are true: how often a reader who guesses is right; above 0, up to 1."""
    return len(join.stt_group) / joined_rows(join) if len(join.stt_group) else None


WHAT: Mapping[str, str] = {
    "rows": "rows of the source table",
    "suppressed": "rows left out of the published table",
    "groups": "QI groups",
    "aes": "published rows for each QI group, on average",
    "dm": "discernability: sum of squared group sizes, and all rows for each suppressed one",
    "sed": "sum of entropy densities, bits for each cell of a group's box",
    "sed_literal": "the same with volumes as products of max - min, groups of volume 0 left out",
    "sed_left_out": "QI groups of volume 0",
    "ncp": "normalized certainty penalty over all rows and attributes, suppressed rows 1",
    "rank_loss": "the same, with numbers and dates as ranks: how many published rows lie between the ends",
    "gcp": "normalized certainty penalty over published rows",
    "il": "information loss, summed over rows and attributes",
    "ril": "information loss / that of suppressing everything",
    "distortion": "generalization heights / full heights",
    "k": "rows of the smallest QI group",
    "k_individuals": "individuals of the QI group with the fewest",
    "l": "distinct sensitive values of the box with the fewest, a null only where `null_counts`",
    "alpha": "largest share of one individual in a box",
    "beta": "largest share of one sensitive value in a box",
    "risk": "largest share of semantically close sensitive values in a box",
    "vulnerable": "share of the QI groups with k rows or more but fewer than k individuals",
    "single_value": "share of the QI groups with one individual only",
    "prosecutor_max": "chance to pick somebody out of the box with the fewest people",
    "prosecutor_mean": "that chance, on average over the published rows",
}

OF_BOXES = {"dm", "sed", "sed_literal", "sed_left_out", "ncp", "rank_loss", "gcp", "il", "ril", "distortion"}

WHAT_JOINED: Mapping[str, str] = {name: what for name, what in WHAT.items() if name not in OF_BOXES} | {
    "quasi_identifiers": "rows of the table of quasi-identifiers: each vector of cells of a QI group, once",
    "joined_rows": "rows of the two tables joined by QI group",
    "joined_true": "share of these rows that are true; the others are true of no one",
}


def measure(
    microdata: Microdata, recoding: Recoding, model: Model, counts: Sequence[Counted] | None = None
) -> dict[str, float | int | None]:
    """Every measure of `WHAT`, in its order.

    model: what the recoding was made to hold; the k of `vulnerable` is its least number of rows, and it decides the
    level of `risk` (`streamer.recoding.metrics.risk.close_subjects`). counts: `utility.cell_counts`, if known.
    """
    literal, left_out = utility.sed_literal(microdata, recoding)
    found = _groups(microdata, recoding, by_box(recoding), model) | {
        "dm": utility.dm(recoding),
        "sed": utility.sed(microdata, recoding),
        "sed_literal": literal,
        "sed_left_out": left_out,
        "ncp": utility.ncp(microdata, recoding),
        "rank_loss": utility.rank_loss(microdata, recoding, counts),
        "gcp": utility.gcp(microdata, recoding),
        "il": utility.il(microdata, recoding),
        "ril": utility.ril(microdata, recoding),
        "distortion": utility.distortion(microdata, recoding),
    }
    return {name: found[name] for name in WHAT}


SUMMED = {"rows", "suppressed", "groups", "dm", "sed", "sed_literal", "sed_left_out", "il"}
LEAST = {"k", "k_individuals", "l"}
MOST = {"alpha", "beta", "risk", "prosecutor_max"}
MEAN_OF_GROUPS = {"vulnerable", "single_value"}
"""The measures of a table that are not means over the rows of its parts."""


def united(parts: Sequence[Measures]) -> Measures:
    """The measures of a table from those of parts that tear no box and suppress no row.

    (`with_suppressed` counts the suppressed ones of the whole.) Equal to `measure` of the whole up to rounding, but for
    `rank_loss`, which is by the ranks within the parts.
    """
    found: Measures = {}
    for name in WHAT:
        values = [part[name] for part in parts if part[name] is not None]
        weights = [part["groups" if name in MEAN_OF_GROUPS else "rows"] for part in parts if part[name] is not None]
        if not values:
            found[name] = None
        elif len(parts) == 1:
            found[name] = values[0]
        elif name in SUMMED:
            found[name] = sum(values) if isinstance(values[0], int) else fsum(values)
        elif name in LEAST | MOST:
            found[name] = min(values) if name in LEAST else max(values)
        else:
            found[name] = fsum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
    if found["groups"]:
        found["aes"] = found["rows"] / found["groups"]
    return found


def with_suppressed(published: Measures, suppressed: int, d: int) -> Measures:
    """The measures of a table of d attributes from those of its published rows and how many rows were left out.

    Equal to `measure` of the whole up to rounding.
    """
    found, rows, left = dict(published), published["rows"], published["rows"] + suppressed
    found |= {"rows": left, "suppressed": suppressed, "dm": published["dm"] + suppressed * left}
    for name in ("ncp", "rank_loss", "ril", "distortion"):
        if (mean := published[name]) is not None and suppressed:
            found[name] = (mean * rows + suppressed) / left
    found["il"] = published["il"] + suppressed * d
    return found


def measure_joined(microdata: Microdata, recoding: Recoding, model: Model) -> dict[str, float | int | None]:
    """Every measure of `WHAT_JOINED`, in its order, of the recoding as a lossy join."""
    join = lossy_join(microdata, recoding)
    found = _groups(microdata, recoding, recoding, model) | {
        "quasi_identifiers": len(join.qit_group),
        "joined_rows": joined_rows(join),
        "joined_true": joined_true(join),
    }
    return {name: found[name] for name in WHAT_JOINED}


def _groups(microdata: Microdata, recoding: Recoding, crowds: Recoding, model: Model) -> dict[str, float | int | None]:
    """The measures of people and values; crowds: among whom a reader cannot tell people apart."""
    return {
        "rows": len(microdata),
        "suppressed": recoding.n_suppressed,
        "groups": recoding.n_groups,
        "aes": utility.aes(recoding),
        "k": risk.k_rows(recoding),
        "k_individuals": risk.k_individuals(microdata, recoding),
        "l": risk.l_distinct(microdata, crowds),
        "alpha": risk.alpha(microdata, crowds),
        "beta": risk.beta(microdata, crowds),
        "risk": risk.risk(microdata, crowds, model),
        "vulnerable": risk.vulnerable(microdata, recoding, model.rows),
        "single_value": risk.single_value(microdata, recoding),
        "prosecutor_max": risk.prosecutor_max(microdata, crowds),
        "prosecutor_mean": risk.prosecutor_mean(microdata, crowds),
    }
