"""The two types of figures: every table has the types of the tiny shard that the core is compiled for."""

from __future__ import annotations

import pytest

from streamer.incremental.core.figures import FIGURES, set_of, set_of_figures, tiny_shard
from streamer.incremental.core.layout import empty_shard, figures_dtype
from worlds.small_tables import TABLES


def types(arrays: object) -> object:
    """Of a shard's arrays: what numba tells apart."""
    if isinstance(arrays, tuple):
        return type(arrays), tuple(map(types, arrays))
    return arrays.dtype, arrays.ndim, arrays.flags.c_contiguous, arrays.flags.writeable, type(arrays)  # type: ignore[attr-defined]


@pytest.mark.parametrize("figures", FIGURES)
def test_a_tiny_shard_has_the_figures_that_were_asked_for(figures: str) -> None:
    assert set_of(tiny_shard(figures)) == set_of_figures(figures)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_the_types_of_the_tiny_shard_of_its_figures(name: str) -> None:
    table = TABLES[name]
    shard = empty_shard(table.space, table.k, table.recut, table.shrink, table.individual is not None)
    assert types(shard) == types(tiny_shard(figures_dtype(table.space).name))
