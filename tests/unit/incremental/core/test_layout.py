"""The arrays that a shard begins with."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from streamer.incremental.core import layout
from streamer.incremental.core.layout import (
    FIGURES,
    NONE,
    code_set,
    empty_shard,
    float_type,
    is_exact,
    set_of,
    tiny_shard,
)
from streamer.table.attributes import Attribute, NumericAttribute
from worlds.small_tables import AGE, BMI, CITY, TABLES, YEARS, table

# The arrays' names work uncompiled as they do compiled.


def test_no_field_of_a_record_is_hidden_by_an_attribute_of_numpy() -> None:
    dtypes = {name: value for name, value in vars(layout).items() if isinstance(value, np.dtype)}
    hidden = [
        f"{name}.{field}" for name, dtype in dtypes.items() for field in dtype.names or () if hasattr(np.void, field)
    ]
    assert len(dtypes) >= 14
    assert hidden == []


def up_to(last: int) -> NumericAttribute:
    return NumericAttribute("income", (Decimal(0), Decimal(last)), Decimal(1), Decimal(1), Decimal(1000))


@pytest.mark.parametrize(
    ("attributes", "figures"),
    [
        ((AGE, CITY, YEARS), np.float32),
        ((up_to(2**23 - 2),), np.float32),
        ((up_to(2**23),), np.float64),
        ((YEARS, up_to(2**40)), np.float64),
    ],
    ids=["small", "just", "no more", "one of two"],
)
def test_figures_have_four_bytes_where_these_hold_every_middle_of_two_codes(
    attributes: tuple[Attribute, ...], figures: type[np.floating]
) -> None:
    assert float_type(table(*attributes).space) == figures


def test_sums_of_coordinates_round_where_a_domain_ends_between_two_codes() -> None:
    assert is_exact(table(AGE, CITY, BMI).space)
    thirds = NumericAttribute("third", (Decimal(0), Decimal("1.1")), Decimal("0.3"), None, Decimal(1), integer=False)
    assert not is_exact(table(thirds).space)


def test_an_empty_shard_has_no_rows_no_groups_and_no_tree() -> None:
    s = empty_shard(table(YEARS).space, 3, recut=True, shrink=False, individuals=True)
    state = s.state[0]
    assert (state.k, state.recut, state.shrink, state.individuals) == (3, 1, 0, 1)
    assert (state.qi_group_next, state.n_groups, state.rows_used, state.n_pending) == (1, 0, 0, 0)
    assert {state.root, state.group_free, state.node_free, state.list_free} == {NONE}
    assert set(s.groups.block_free.tolist()) == {NONE}


# The two types of figures: every table has the types of the tiny shard that the core is compiled for.


def types(arrays: object) -> object:
    """Of a shard's arrays: what numba tells apart."""
    if isinstance(arrays, tuple):
        return type(arrays), tuple(map(types, arrays))
    return arrays.dtype, arrays.ndim, arrays.flags.c_contiguous, arrays.flags.writeable, type(arrays)  # type: ignore[attr-defined]


@pytest.mark.parametrize("figures", FIGURES)
def test_a_tiny_shard_has_the_figures_that_were_asked_for(figures: str) -> None:
    assert set_of(tiny_shard(figures)) == code_set(figures)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_the_types_of_the_tiny_shard_of_its_figures(name: str) -> None:
    table = TABLES[name]
    shard = empty_shard(table.space, table.k, table.recut, table.shrink, table.individual is not None)
    assert types(shard) == types(tiny_shard(float_type(table.space).name))
