"""How a table stands: facts as values, and the one judge of them."""
