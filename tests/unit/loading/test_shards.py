"""Which shards a command loads."""

from __future__ import annotations

import pytest

from streamer.errors import Conflict
from streamer.loading.shards import loaded


def test_a_topic_that_grows_after_its_shards_were_claimed_is_not_loaded_in_part() -> None:
    claims = {0: "1-a", 1: "2-b"}
    assert loaded(claims, None, 2) == loaded(claims, [0, 1], 4) == [0, 1]
    assert loaded({}, None, 4) == [0, 1, 2, 3]
    with pytest.raises(Conflict, match="have grown since"):
        loaded(claims, None, 4)
