"""The kinds of data that a store holds besides plain keyspaces. Each is a folder, and a base class of ``Kinds``."""

from __future__ import annotations

from collections.abc import Callable

from lowtide.documents.opening import Collections
from lowtide.engine.statements.kind import Runner, registrations
from lowtide.engine.transaction.keyspace import Keyspace, KeyspaceWrites
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.errors import ConflictError, UsageError
from lowtide.quads.opening import QuadStores


class Kinds(
    Collections[Runner],
    QuadStores[Runner],
):
    """The methods that open data on transactions, snapshots and the store. To add a kind of data, add its class to the
    bases."""

    __slots__ = ()


_WRITERS = {"lowtide/": "Lowtide itself"}
"""The prefixes of reserved keyspace names, each with the call that writes to such keyspaces."""

_EXPLANATIONS = []
"""The kinds that explain conflicts, each with the prefixes of its keyspace names."""

for _each in registrations(Kinds):
    _WRITERS.update(_each.reserves)
    if _each.explains is not None:
        _EXPLANATIONS.append((tuple(_each.reserves), _each.explains))

_RESERVED = tuple(_WRITERS)


def is_reserved(name: str) -> bool:
    """Whether a keyspace belongs to a kind of data, or to Lowtide itself."""
    return name.startswith(_RESERVED)


class ReservedKeyspace(Keyspace):
    """A keyspace that belongs to a kind of data. Users can read it; only that kind writes to it."""

    def put(self, key: bytes, value: bytes) -> None:
        raise self._refusal()

    def put_many(self, entries: object) -> None:
        raise self._refusal()

    def delete(self, key: bytes) -> None:
        raise self._refusal()

    def _refusal(self) -> UsageError:
        wanted = next(writer for prefix, writer in _WRITERS.items() if self.name.startswith(prefix))
        return UsageError(f"keyspace {self.name!r} is reserved: it can be read here, but only {wanted} writes to it")


class KeyspaceClasses(dict[str, type[Keyspace]]):
    """The class of a keyspace for users, by name; reserved keyspaces refuse writes. Every transaction opens keyspaces,
    so each name is compared with the reserved prefixes only once."""

    def __missing__(self, name: str) -> type[Keyspace]:
        if len(self) >= _MOST_CLASSES:
            self.clear()
        found = self[name] = ReservedKeyspace if name.startswith(_RESERVED) else Keyspace
        return found


CLASSES = KeyspaceClasses()
_MOST_CLASSES = 10_000


def open_keyspace(
    target: KeyspaceWrites, name: str, prefix: bytes, read: Callable[[bytes], bytes | None] | None = None
) -> Keyspace:
    """Open a keyspace for users. ``read`` is a faster way to read a full key than that of the ``target``, if given."""
    return CLASSES[name](name, prefix, read or target.read, target)


def explained(error: ConflictError, tx: EngineTransaction) -> ConflictError:
    """Return a transaction's conflict in the words of the kind of data that owns the keyspace."""
    for prefixes, explain in _EXPLANATIONS:
        if error.keyspace.startswith(prefixes):
            return explain(error, tx)
    return error
