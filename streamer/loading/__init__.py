"""Loading a table with all rows at once, for `load` and `reload`."""
