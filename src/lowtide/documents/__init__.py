"""Documents: collections with filters, updates and indexes, on the keyspaces of a transaction."""
