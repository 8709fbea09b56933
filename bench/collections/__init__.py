"""The document stores that are compared, each behind the same few calls: one adapter per file.

An adapter is written as a careful user of that store would write it: dicts go in and dicts come out, as the store's own
documentation advises.
"""

from __future__ import annotations

from pathlib import Path

from bench.collections.people import make_people
from bench.collections.protocol import Adapter, Collection, Document, Durability, Work
from bench.registry import Place, Registry

__all__ = [
    "STORES",
    "Adapter",
    "Collection",
    "Document",
    "Durability",
    "Work",
    "adapter",
    "installed",
    "open_loaded",
    "versions",
]

LOAD_LENGTH = 10_000  # documents in one transaction of the first load


STORES = Registry(
    __name__,
    Adapter,
    {
        "lowtide": Place("own", "lowtide", "lowtide", "C0"),
        "sqlite3": Place("sqlite", "sqlite3", None, "C1"),
        "pyturso": Place("tursodb", "turso", "pyturso", "C4"),
        "ZODB": Place("objects", "ZODB", "ZODB", "C6"),
        "jasonisnthappy": Place("jason", "jasonisnthappy", "jasonisnthappy", "C8"),
        "montydb": Place("monty", "montydb", "montydb", "C2"),
        "mongita": Place("mongita_disk", "mongita", "mongita", "C3"),
        "TinyDB": Place("tiny", "tinydb", "tinydb", "C5"),
    },
)
adapter, installed, versions = STORES.adapter, STORES.installed, STORES.versions


def open_loaded(name: str, directory: Path, durability: Durability, count: int) -> Collection:
    """Open an empty store, insert the first ``count`` people and bring it to rest."""
    chosen = adapter(name)
    store = chosen.open(directory / f"{name}-{durability}", durability)
    length = chosen.load_length or LOAD_LENGTH
    for start in range(0, count, length):
        store.insert_many(list(make_people(start, min(start + length, count), count)))
    store.settle()
    return store
