"""A QI group as readers see it, and its share of the digest of a published table.

The digest of a table is the sum mod 2^64 of one hash per published QI group: its number, its box and its values by
slot. It is the same in all forms of publication, does not depend on any order, and is kept group by group: of what was
published before nothing is written again for it.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from streamer.table.row import Unshown, Values

DIGEST_MASK = (1 << 64) - 1


class PublishedGroup(Unshown, frozen=True):
    """A QI group as readers see it: its box in cells, and the values that are no quasi-identifiers by slot.

    cells: which cells its rows are in, each once, in order; () where the form does not publish them.
    """

    lo: tuple[int, ...]
    hi: tuple[int, ...]
    slots: tuple[Values, ...]
    cells: tuple[tuple[int, ...], ...] = ()


_encode = msgspec.msgpack.Encoder().encode


def group_hash(qi_group: int, group: PublishedGroup | None) -> int:
    """A published QI group's share of the digest: 64 bits of BLAKE2b. None: no rows, no share."""
    if group is None:
        return 0
    said = _encode((qi_group, group.lo, group.hi, group.slots))
    return int.from_bytes(blake2b(said, digest_size=8).digest(), "big")
