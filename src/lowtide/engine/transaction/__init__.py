"""Transactions: a snapshot to read from, a buffer to write to, and a commit."""
