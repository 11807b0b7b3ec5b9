"""The settings of a worker."""
