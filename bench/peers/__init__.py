"""The stores that are measured, each behind the same few calls: one adapter per file.

An adapter is written as a careful user of that store would write it. It takes and returns bytes; the workloads encode
and decode. It sets the options that the store's own documentation advises, and leaves all others at their defaults. If
a store offers two ways, the adapter uses the faster one.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path

from bench.documents import Pair
from bench.peers.own import LowtidePeer
from bench.peers.protocol import Adapter, Change, ChangeSeveral, Consumer, Durability, Need, Peer, Session
from bench.registry import Place, Registry

__all__ = [
    "LOAD_LENGTH",
    "PEERS",
    "Adapter",
    "Change",
    "ChangeSeveral",
    "Consumer",
    "Durability",
    "LowtidePeer",
    "Need",
    "Peer",
    "Session",
    "adapter",
    "installed",
    "open_loaded",
    "versions",
]

LOAD_LENGTH = 10_000  # pairs in one transaction of the first load


PEERS = Registry(
    __name__,
    Adapter,
    {
        "lowtide": Place("own", "lowtide", "lowtide", "C0"),
        "sqlite3": Place("sqlite", "sqlite3", None, "C1"),
        "py-lmdb": Place("pylmdb", "lmdb", "lmdb", "C2"),
        "rocksdict": Place("rocks", "rocksdict", "rocksdict", "C3"),
        "pyturso": Place("tursodb", "turso", "pyturso", "C4"),
        "pyturso-mvcc": Place("tursomvcc", "turso", "pyturso", "C5"),
        "ZODB": Place("objects", "ZODB", "ZODB", "C6"),
        "duckdb": Place("duck", "duckdb", "duckdb", "C7"),
        "jasonisnthappy": Place("jason", "jasonisnthappy", "jasonisnthappy", "C8"),
    },
)
adapter, installed, versions = PEERS.adapter, PEERS.installed, PEERS.versions


def open_loaded(name: str, directory: Path, durability: Durability, pairs: Iterable[Pair]) -> Peer:
    """Open an empty store, put the pairs into it and bring it to rest."""
    chosen = adapter(name)
    peer = chosen.open(directory / f"{name}-{durability}", durability)
    waiting = iter(pairs)
    with closing(peer.session()) as session:
        while portion := list(islice(waiting, chosen.load_length or LOAD_LENGTH)):
            session.put_all(portion)
    peer.settle()
    return peer
