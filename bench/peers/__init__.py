"""The stores that are measured, each behind the same few calls: one adapter a file.

An adapter writes what a careful user of that store would write, and takes and returns bytes; the workloads encode and
decode. It sets what the store's own documentation advises; everything else is at the store's default. Where a store
offers two ways, it gets its faster one.

An adapter is imported when its store is opened, and not before: a process that measures memory has only the libraries
it needs, and a peer that is not installed is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib import import_module, metadata, util
from itertools import islice
from pathlib import Path

from bench.documents import Pair
from bench.peers.own import LowtidePeer
from bench.peers.protocol import Adapter, Change, ChangeSeveral, Consumer, Durability, Need, Peer, Session

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


@dataclass(frozen=True)
class _Place:
    module: str
    """Of the adapter, in this package; it has the adapter as ADAPTER."""
    imports: str
    """The package that must be there."""
    distribution: str | None
    """Its name on PyPI; None if it comes with Python."""

    def __call__(self, directory: Path, durability: Durability) -> Peer:
        return self.adapter().open(directory, durability)

    def adapter(self) -> Adapter:
        found = import_module(f"bench.peers.{self.module}").ADAPTER
        assert isinstance(found, Adapter)
        return found


PEERS: dict[str, _Place] = {
    "lowtide": _Place("own", "lowtide", "lowtide"),
    "sqlite3": _Place("sqlite", "sqlite3", None),
    "py-lmdb": _Place("pylmdb", "lmdb", "lmdb"),
    "rocksdict": _Place("rocks", "rocksdict", "rocksdict"),
    "pyturso": _Place("tursodb", "turso", "pyturso"),
    "pyturso-mvcc": _Place("tursomvcc", "turso", "pyturso"),
    "ZODB": _Place("objects", "ZODB", "ZODB"),
    "duckdb": _Place("duck", "duckdb", "duckdb"),
    "jasonisnthappy": _Place("jason", "jasonisnthappy", "jasonisnthappy"),
}
"""In the order of the columns. Each is called with a directory and a durability to open the store there."""


def adapter(name: str) -> Adapter:
    return PEERS[name].adapter()


def installed() -> tuple[str, ...]:
    return tuple(name for name, place in PEERS.items() if util.find_spec(place.imports) is not None)


def versions() -> dict[str, str]:
    """The versions of the peers that are installed as packages."""
    found = {}
    for name in installed():
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(PEERS[name].distribution or name)
    return found


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
