"""The table that is kept current, change by change: changes in, a changelog out."""
