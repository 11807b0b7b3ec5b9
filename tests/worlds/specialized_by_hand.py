"""One QI group specialized by hand, as the head of `streamer.recoding.algorithms.top_down` says it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.privacy.models import Model
from streamer.table.microdata import Microdata
from streamer.table.space import Space
from worlds.models_by_hand import lacking, obeys


class Chosen(NamedTuple):
    """The attribute that lowers the NCP most, the children by first row (empty: stayed behind), and the remainder."""

    attribute: int
    children: list[list[int]]
    remainder: list[int]


def chosen_by_hand(
    data: Microdata, model: Model, members: list[int], levels: list[int]
) -> tuple[list[int], Chosen | None]:
    """The levels of a group once those at which all rows agree are taken, and how it is specialized, if it is."""
    levels = list(levels)
    for j in range(len(levels)):
        while levels[j] > 0 and len({said_at(data, j, levels[j] - 1, i) for i in members}) == 1:
            levels[j] -= 1
    most, best = 0.0, None
    for j in range(len(levels)):
        if levels[j] > 0:
            children, remainder = specialized(data, model, members, j, levels[j] - 1)
            fall = sum(len(c) * fall_of_ncp(data, j, levels[j], c[0]) for c in children if c)
            if fall > most:
                most, best = fall, Chosen(j, children, remainder)
    return levels, best


def said_at(data: Microdata, j: int, level: int, row: int) -> tuple[int, int]:
    """What an attribute says of a row at a level: its first cell and its last."""
    lo, hi = data.table.attributes[j].levels.recode(level, data.cells[[row], j])
    return int(lo[0]), int(hi[0])


def fall_of_ncp(data: Microdata, j: int, level: int, row: int) -> float:
    """By how much a row's NCP falls when attribute j goes one level down from `level`."""
    axis = Space([data.table.attributes[j].axis])
    above, below = (axis.ncp(*np.array(said_at(data, j, at, row)).reshape(2, 1, 1))[0] for at in (level, level - 1))
    return float(above - below)


def specialized(
    data: Microdata, model: Model, members: list[int], j: int, level: int
) -> tuple[list[list[int]], list[int]]:
    """The children by first row, and the remainder after it has taken back what it lacks."""
    subjects = data.subjects(model.subjects)
    by_value: dict[tuple[int, int], list[int]] = {}
    for i in members:
        by_value.setdefault(said_at(data, j, level, i), []).append(i)
    children = list(by_value.values())
    sizes, stands = [len(c) for c in children], [obeys(model, subjects[c]) for c in children]
    remainder = [i for c, stood in zip(children, stands, strict=True) if not stood for i in c]
    children = [c if stood else [] for c, stood in zip(children, stands, strict=True)]
    if not any(stands) or not remainder:
        return children, sorted(remainder, key=members.index)
    for c in sorted(range(len(children)), key=lambda c: (-sizes[c], c)):
        for i in list(children[c]):
            missing = lacking(model, subjects[remainder])
            without = [other for other in children[c] if other != i]
            if missing and lacking(model, subjects[[*remainder, i]]) < missing and obeys(model, subjects[without]):
                children[c] = without
                remainder.append(i)
    for c in sorted(range(len(children)), key=lambda c: (sizes[c], -c)):
        if stands[c] and lacking(model, subjects[remainder]):
            remainder += children[c]
            children[c] = []
    return children, sorted(remainder, key=members.index)
