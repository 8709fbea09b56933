"""The change feed: reads the log as changes of keys. Consumers keep the log that they have not read yet."""
