"""table.yaml: its shape, its columns, its loading."""

FILE_NAME = "table.yaml"

VARIABLE_PREFIX = "STREAMER_"
"""With it begin the variables that are ours. Both names stand here for commands that read no table."""
