"""The base: an LMDB B+tree with the newest version of every key up to the boundary, and the history."""
