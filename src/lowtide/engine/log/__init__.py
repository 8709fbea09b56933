"""The log: all commits, in order, on disk. It serves durability, recovery and the change feed."""
