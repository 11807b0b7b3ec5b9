"""`streamer demo`: the whole way from a changing table to a k-anonymous changelog, as a script of commands."""
