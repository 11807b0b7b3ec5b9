"""The compiled core of a shard: its table as arrays, and the loops over them."""
