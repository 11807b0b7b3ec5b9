"""The common parts of commands."""
