"""The stores of documents that are compared, each behind the same few calls: one adapter a file.

An adapter writes what a careful user of that store would write: dicts go in and dicts come out, by the way that the
store's own documentation advises. It is imported when its store is opened, and a peer that is not installed is left
out.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module, metadata, util
from pathlib import Path

from bench.collections.people import make_people
from bench.collections.protocol import Adapter, Collection, Document, Durability, Work

__all__ = [
    "STORES",
    "Adapter",
    "Collection",
    "Document",
    "Durability",
    "Work",
    "adapter",
    "colour",
    "installed",
    "open_loaded",
    "versions",
]

LOAD_LENGTH = 10_000  # documents in one transaction of the first load


@dataclass(frozen=True)
class _Place:
    module: str
    """Of the adapter, in this package; it has the adapter as ADAPTER."""
    imports: str
    """The package that must be there."""
    distribution: str | None
    """Its name on PyPI; None if it comes with Python."""
    colour: str
    """In the plots, where it is in others that of the same store."""

    def adapter(self) -> Adapter:
        found = import_module(f"bench.collections.{self.module}").ADAPTER
        assert isinstance(found, Adapter)
        return found


STORES: dict[str, _Place] = {
    "lowtide": _Place("own", "lowtide", "lowtide", "C0"),
    "sqlite3": _Place("sqlite", "sqlite3", None, "C1"),
    "pyturso": _Place("tursodb", "turso", "pyturso", "C4"),
    "ZODB": _Place("objects", "ZODB", "ZODB", "C6"),
    "jasonisnthappy": _Place("jason", "jasonisnthappy", "jasonisnthappy", "C8"),
    "montydb": _Place("monty", "montydb", "montydb", "C2"),
    "mongita": _Place("mongita_disk", "mongita", "mongita", "C3"),
    "TinyDB": _Place("tiny", "tinydb", "tinydb", "C5"),
}
"""In the order of the columns."""


def adapter(name: str) -> Adapter:
    return STORES[name].adapter()


def colour(name: str) -> str:
    return STORES[name].colour


def installed() -> tuple[str, ...]:
    return tuple(name for name, place in STORES.items() if util.find_spec(place.imports) is not None)


def versions() -> dict[str, str]:
    """The versions of the stores that are installed as packages."""
    found = {}
    for name in installed():
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(STORES[name].distribution or name)
    return found


def open_loaded(name: str, directory: Path, durability: Durability, count: int) -> Collection:
    """Open an empty store, insert the first ``count`` people and bring it to rest."""
    chosen = adapter(name)
    store = chosen.open(directory / f"{name}-{durability}", durability)
    length = chosen.load_length or LOAD_LENGTH
    for start in range(0, count, length):
        store.insert_many(list(make_people(start, min(start + length, count), count)))
    store.settle()
    return store
