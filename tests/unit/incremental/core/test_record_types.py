"""The arrays' names work uncompiled as they do compiled."""

from __future__ import annotations

import numpy as np

from streamer.incremental.core import record_types


def test_no_field_of_a_record_is_hidden_by_an_attribute_of_numpy() -> None:
    dtypes = {name: value for name, value in vars(record_types).items() if isinstance(value, np.dtype)}
    hidden = [
        f"{name}.{field}" for name, dtype in dtypes.items() for field in dtype.names or () if hasattr(np.void, field)
    ]
    assert len(dtypes) >= 14
    assert hidden == []
