"""An open store, and the ways to open one."""

from __future__ import annotations

from lowtide.store.opening import open_snapshot, open_store
from lowtide.store.store import Store, backend_of
from lowtide.store.transactions import Snapshot, Transaction

__all__ = ["Snapshot", "Store", "Transaction", "backend_of", "open_snapshot", "open_store"]
