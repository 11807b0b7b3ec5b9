"""The law that no subject has more than a share of a QI group's rows, for compiled functions.

Numerators and denominators are those of `streamer.privacy.models`; 1 of 1 asks for nothing.
"""

from __future__ import annotations

from streamer.native import inlined


@inlined
def keeps_share(count: int, size: int, numerator: int, denominator: int) -> bool:
    """True if `count` of `size` rows are no more than the share."""
    return count * denominator <= size * numerator


@inlined
def rows_for_share(count: int, numerator: int, denominator: int) -> int:
    """The fewest rows of which `count` are no more than the share."""
    return -(-count * denominator // numerator)
