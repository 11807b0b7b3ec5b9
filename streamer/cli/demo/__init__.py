"""`streamer demo`: the whole way from a changing table to a k-anonymous changelog, as a script of commands.

`people` invents the people and their changes, `workers` runs the workers, `command` is the order of events.
"""
