"""Which QI groups of a region's replacement take the numbers of those that were there.

As many as there can be, so that readers see rows rewritten rather than removed and added. First come pairs of one box
and equal published values, then pairs of one box, then all others; among each those that share most rows (equal: the
lower number, then the earlier group), then the rest in their order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Set
from dataclasses import dataclass

import numpy as np

from streamer.table.arrays import Floats, Ints


@dataclass(frozen=True)
class Groups:
    """g QI groups of a region: of each row (n,) its group, sizes (g,), boxes (g, d), NCP (g,); values by group.

    members: the rows, group by group, by their numbers; values: the numbers of their published values, group by group
    and sorted within; ends: where a group ends in both.
    """

    of_row: Ints
    sizes: Ints
    lo: Ints
    hi: Ints
    ncp: Floats
    members: Ints
    values: Ints
    ends: Ints

    def box(self, i: int) -> tuple[bytes, bytes]:
        return self.lo[i].tobytes(), self.hi[i].tobytes()

    def values_of(self, i: int) -> Ints:
        return self.values[self.ends[i] - self.sizes[i] : self.ends[i]]

    def members_of(self, i: int) -> Ints:
        return self.members[self.ends[i] - self.sizes[i] : self.ends[i]]

    @property
    def loss(self) -> float:
        """NCP times rows, summed."""
        return float((self.sizes * self.ncp).sum())


def same_box(old: Groups, i: int, new: Groups, j: int) -> bool:
    return bool((old.lo[i] == new.lo[j]).all() and (old.hi[i] == new.hi[j]).all())


def successors(old: Groups, new: Groups) -> tuple[dict[int, int], set[int]]:
    """Old groups -> the new groups that take their numbers, as many as there can be.

    And the new groups that are old ones to the row, in the same box: they take these groups' numbers.
    """
    pairs, shared = np.unique(old.of_row * max(1, len(new.sizes)) + new.of_row, return_counts=True)
    best = np.lexsort((pairs, -shared))  # by old group, then new, where as many rows are shared
    one, other = divmod(pairs[best], max(1, len(new.sizes)))
    same = (shared[best] == old.sizes[one]) & (shared[best] == new.sizes[other])
    same &= (old.lo[one] == new.lo[other]).all(axis=1) & (old.hi[one] == new.hi[other]).all(axis=1)
    successor: dict[int, int] = dict(zip(one[same].tolist(), other[same].tolist(), strict=True))
    taken = set(successor.values())
    untouched = set(taken)
    sharing = list(zip(one[~same].tolist(), other[~same].tolist(), strict=True))
    for names in _names(old, new, successor, taken):
        of_old = {i: name for i, name in names[0].items() if i not in successor}
        of_new = {j: name for j, name in names[1].items() if j not in taken}
        alike = ((i, j) for i, j in sharing if i in of_old and j in of_new and of_old[i] == of_new[j])
        for i, j in alike:
            if i not in successor and j not in taken:
                successor[i] = j
                taken.add(j)
        for i, j in _in_order(of_old, of_new, successor, taken):
            successor[i] = j
            taken.add(j)
    return successor, untouched


Names = dict[int, Hashable]
"""Groups by number, with what two of them have to have alike to be one another's successor."""


def _names(old: Groups, new: Groups, successor: Mapping[int, int], taken: Set[int]) -> Iterator[tuple[Names, Names]]:
    """What is compared, the best first: box and values; the box; nothing. Of old groups, and of new ones."""
    left = [i for i in range(len(old.sizes)) if i not in successor]
    free = [j for j in range(len(new.sizes)) if j not in taken]
    old_box, new_box = {i: old.box(i) for i in left}, {j: new.box(j) for j in free}
    both = set(old_box.values()) & set(new_box.values())  # most boxes are another group's nowhere
    old_box = {i: box for i, box in old_box.items() if box in both}
    new_box = {j: box for j, box in new_box.items() if box in both}
    yield (
        {i: (box, old.values_of(i).tobytes()) for i, box in old_box.items()},
        {j: (box, new.values_of(j).tobytes()) for j, box in new_box.items()},
    )
    yield dict(old_box), dict(new_box)
    yield dict.fromkeys(left), dict.fromkeys(free)


def _in_order(
    of_old: Mapping[int, Hashable], of_new: Mapping[int, Hashable], successor: Mapping[int, int], taken: Set[int]
) -> list[tuple[int, int]]:
    """Old and new groups of one name that have no partner yet, one by one in their order."""
    waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for j, name in of_new.items():
        if j not in taken:
            waiting[name].append(j)
    free = ((i, waiting[name]) for i, name in of_old.items() if i not in successor and name in waiting)
    return [(i, others.popleft()) for i, others in free if others]
