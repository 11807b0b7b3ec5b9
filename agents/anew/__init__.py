"""A table begun from its source: `streamer start-anew` and `streamer load`."""
