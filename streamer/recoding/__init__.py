"""A whole table at once: algorithms, what they cost, and how their result is published."""
