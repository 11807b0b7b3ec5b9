"""The state of a table: facts as values, and the one judge of them."""
