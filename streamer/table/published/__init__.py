"""Published rows and groups of a table, and their schemas."""
