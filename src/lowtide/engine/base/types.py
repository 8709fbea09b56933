"""LMDB's types and errors, under the names that the rest of Lowtide uses. Only this folder imports py-lmdb.

A ``Txn`` is an LMDB transaction: ``Base.read`` and ``Base.write`` pass one to the function that they run. A
``TableHandle`` is one of LMDB's named tables, such as ``Base.rows``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lmdb

if TYPE_CHECKING:
    Txn = lmdb.Transaction[bytes]
    TableHandle = lmdb._Database
else:  # py-lmdb's own classes cannot be subscripted
    Txn = lmdb.Transaction
    TableHandle = object

LmdbError = lmdb.Error
"""The errors that any call of py-lmdb may raise."""

MapFull = lmdb.MapFullError
"""The map has no room for the writes of a transaction. The owner grows it and repeats the transaction."""
