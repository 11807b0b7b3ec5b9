"""What a lossy join hides: nothing of the quasi-identifiers, but which of them belongs to which sensitive row.

A reader joins the two tables by QI group, and gets every vector of cells of a group beside every sensitive row of it:
one of these rows is true for every published row, the others are not (the join is lossy: Tong et al. 2010, section
3.2). Where there is nothing to measure the answer is None.
"""

from __future__ import annotations

import numpy as np

from streamer.recoding.algorithms.lossy_join import LossyJoin


def joined_rows(join: LossyJoin) -> int:
    """Rows of the two tables joined by QI group."""
    n_groups = int(join.stt_group.max(initial=-1)) + 1
    vectors, rows = (np.bincount(of, minlength=n_groups) for of in (join.qit_group, join.stt_group))
    return int(vectors @ rows)


def joined_true(join: LossyJoin) -> float | None:
    """Share of the joined rows that are true: how often a reader is right who guesses; above 0, up to 1."""
    return len(join.stt_group) / joined_rows(join) if len(join.stt_group) else None
