"""Turso in its MVCC mode, which is beta: several writers, and the second one to write a row is refused and retries."""

from __future__ import annotations

from bench.peers.protocol import Adapter
from bench.peers.tursodb import TursoPeer


class TursoMvccPeer(TursoPeer):
    """As its manual says: journal_mode=mvcc, BEGIN CONCURRENT, and a retry after a conflict."""

    journal = "mvcc"
    begin = "BEGIN CONCURRENT"


ADAPTER = Adapter(
    TursoMvccPeer,
    {"synced": "MVCC, FULL", "unsynced": "MVCC, NORMAL"},
    slow=True,
    remark="Its beta of concurrent writers.",
)
