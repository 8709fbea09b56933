"""What an archive consists of: Delta tables of versions and a ledger, written, read, compacted, cleared."""
