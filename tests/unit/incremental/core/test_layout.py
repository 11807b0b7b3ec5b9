"""The arrays that a shard begins with."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from streamer.incremental.core import layout
from streamer.incremental.core.layout import (
    NONE,
    empty_shard,
    is_exact,
)
from streamer.table.codes import NumericAttribute
from worlds.small_tables import AGE, BMI, CITY, YEARS, table

# The arrays' names work uncompiled as they do compiled.


def test_no_field_of_a_record_is_hidden_by_an_attribute_of_numpy() -> None:
    dtypes = {name: value for name, value in vars(layout).items() if isinstance(value, np.dtype)}
    hidden = [
        f"{name}.{field}" for name, dtype in dtypes.items() for field in dtype.names or () if hasattr(np.void, field)
    ]
    assert len(dtypes) >= 12
    assert hidden == []


def test_sums_of_coordinates_round_where_a_domain_ends_between_two_codes() -> None:
    assert is_exact(table(AGE, CITY, BMI).space)
    thirds = NumericAttribute("third", (Decimal(0), Decimal("1.1")), Decimal("0.3"), None, Decimal(1), integer=False)
    assert not is_exact(table(thirds).space)


def test_an_empty_shard_has_no_rows_no_groups_and_no_tree() -> None:
    s = empty_shard(table(YEARS).space, 3, recut=True, shrink=False, individuals=True)
    state = s.state[0]
    assert (state.k, state.recut, state.shrink, state.individuals) == (3, 1, 0, 1)
    assert (state.qi_group_next, state.n_groups, state.rows_used, state.n_pending) == (1, 0, 0, 0)
    assert {state.root, state.group_free, state.node_free} == {NONE}
    assert set(s.groups.block_free.tolist()) == {NONE}
