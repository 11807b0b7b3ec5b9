"""The cost of a recoding, and its remaining risk."""
