"""table.yaml: its shape, its columns, its loading."""

from __future__ import annotations

from streamer.errors import WHOLE_NUMBER, UsageError, require_type

FILE_NAME = "table.yaml"

K_MIN, K_MAX = 2, 1_000_000
"""The smallest k, because one row would be its own QI group, and the largest."""


def require_k(k: int | None) -> None:
    """Raises UsageError for a k that table.yaml may not have; None: it is not given."""
    require_type("k", k, WHOLE_NUMBER, or_none=True)
    if k is not None and not K_MIN <= k <= K_MAX:
        raise UsageError(f"k must be at least {K_MIN} and at most {K_MAX:,}")


VARIABLE_PREFIX = "STREAMER_"
"""The prefix of our environment variables. They are here for commands that read no table."""
