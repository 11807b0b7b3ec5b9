"""table.yaml: its shape, its columns, its loading."""

FILE_NAME = "table.yaml"

VARIABLE_PREFIX = "STREAMER_"
"""The prefix of our environment variables. Both names are here for commands that read no table."""
