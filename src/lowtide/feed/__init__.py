"""The change feed: the log, read as changes of keys, and kept for consumers that have not read it yet."""
