"""The commits, in order, on disk: durability, recovery and the change feed are all this one thing."""
