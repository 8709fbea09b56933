"""The LMDB B+tree: the newest version of every key up to the boundary, and the history beside it."""
