"""The QI groups that a shard begins with: the one place where the two wings meet.

The shard takes them as a function, so that it needs no algorithm of its own, and whoever loads no table at once does
not wait for the compiler.
"""

from __future__ import annotations

from streamer.privacy.models import model_of
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import Table


def first_groups(table: Table, rows: EncodedRows, seed: int) -> list[Ints]:
    """QI groups of a whole table by the default algorithm, as arrays of row numbers, in the order of their numbers.

    seed: decides among QI groups of one box, and among rows that are alike.
    """
    from streamer.recoding.algorithms.initial import initial_groups

    return initial_groups(microdata_of(table, rows), model_of(table), seed)
