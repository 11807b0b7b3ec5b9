"""table.yaml: its shape, its columns, its loading."""
