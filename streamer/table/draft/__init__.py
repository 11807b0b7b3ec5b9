"""A first table.yaml from a data file."""
