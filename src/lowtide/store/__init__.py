"""An open store, and the ways to open one."""

from __future__ import annotations

from lowtide.store.opening import open_snapshot, open_store
from lowtide.store.store import Store
from lowtide.store.transactions import Snapshot, Transaction

__all__ = ["Snapshot", "Store", "Transaction", "open_snapshot", "open_store"]
