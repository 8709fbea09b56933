"""The change feed: the log, read as changes of keys, and kept for those who have not read it yet."""
