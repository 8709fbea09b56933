"""What the processes of these tests do to a store."""

from __future__ import annotations

import lowtide

STOPPED = """
import sys, lowtide
store = lowtide.open(sys.argv[1])
print("open", flush=True)
tx = store.begin()
tx.keyspace("k").put(b"mine", b"1")
snapshot = store.snapshot()
print("begun", flush=True)
sys.stdin.readline()
"""
"""A process that has begun something, and waits."""


def increment(tx: lowtide.Transaction) -> None:
    keyspace = tx.keyspace("k")
    keyspace.put(b"n", b"%d" % (int(keyspace.get(b"n") or b"0") + 1))
