"""table.yaml: its shape, its columns, its loading."""

FILE_NAME = "table.yaml"

K_MIN, K_MAX = 2, 1_000_000
"""The smallest k, because one row would be its own QI group, and the largest."""

VARIABLE_PREFIX = "STREAMER_"
"""The prefix of our environment variables. They are here for commands that read no table."""
