"""Commands that feed and read a stream."""
