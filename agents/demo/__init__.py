"""`streamer demo`: the whole way from a changing table to a k-anonymous changelog, live, in half a minute.

`survey` knows the people and their changes, `stage` runs servers and workers, `reader` follows what is published,
`screen` shows it, `command` is the order of events.
"""
