"""Commands for whoever operates workers."""
