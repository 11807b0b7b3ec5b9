"""Tables that do not fit into one run: cut into fragments, anonymized one by one, mended where they meet, checked."""
