"""The kinds of data that a store holds, besides plain keyspaces.

A new kind adds its folder, and here its mixins to ``Kinds`` and ``ReadKinds`` and its keyspaces to ``RESERVED``.
"""

from __future__ import annotations

from lowtide.documents import opening as documents
from lowtide.documents.conflicts import explained
from lowtide.documents.opening import Collections, ReadCollections
from lowtide.engine.transaction.keyspace import Keyspace, KeyspaceWrites
from lowtide.errors import UsageError

__all__ = ["RESERVED", "Kinds", "ReadKinds", "explained", "open_keyspace"]

RESERVED = {"lowtide/": "Lowtide itself", **documents.RESERVED}
"""The prefixes of keyspaces' names that belong to a kind of data, each with the call that writes to them."""


class Kinds(Collections):
    """The kinds of data, for reading and writing: what transactions and the store open."""

    __slots__ = ()


class ReadKinds(ReadCollections):
    """The kinds of data, for reading: what snapshots open."""

    __slots__ = ()


class ReservedKeyspace(Keyspace):
    """A keyspace that belongs to a kind of data: it can be read, and is written by that kind alone."""

    __slots__ = ()

    def put(self, key: bytes, value: bytes) -> None:
        raise self._refusal()

    def put_many(self, entries: object) -> None:
        raise self._refusal()

    def delete(self, key: bytes) -> None:
        raise self._refusal()

    def _refusal(self) -> UsageError:
        wanted = next(writer for beginning, writer in RESERVED.items() if self.name.startswith(beginning))
        return UsageError(f"keyspace {self.name!r} is reserved: it can be read here, but only {wanted} writes to it")


_RESERVED_PREFIXES = tuple(RESERVED)


def open_keyspace(target: KeyspaceWrites, name: str, prefix: bytes) -> Keyspace:
    """Open a keyspace as users get it: one that is reserved refuses writes."""
    return (ReservedKeyspace if name.startswith(_RESERVED_PREFIXES) else Keyspace)(target, name, prefix)
