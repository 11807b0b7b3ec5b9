"""What a worker has to be told, by whoever starts one: a command, Faust, a test."""
