"""The destination of a replication: its position, and how changes and snapshots are applied to it.

The position is a row of the destination itself, written in the transaction that applies a batch. A batch is therefore
applied once, whichever process is killed. Documents are written as the source stores them, with the destination's index
entries. They are not validated again, since a document may be older than the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import msgspec

import lowtide
from lowtide.documents.management import put_row
from lowtide.documents.reader import CollectionReader
from lowtide.documents.write_batch import WriteBatch
from lowtide.engine import PrefixOf, WriteView
from lowtide.sharing.loading.apply import changes
from lowtide.sharing.loading.job import Counts
from lowtide.sharing.loading.staged_changes import StagedChange, encode_change
from lowtide.store.transactions import Snapshot, Transaction, statements_of
from lowtide.values.codec import decode_value, encode_value

REPLICAS: Final = "lowtide/replicas"
"""The keyspace of positions, one row for each replication."""
_PRIMARY: Final = "_id_"

Latest = dict[bytes, StagedChange]
"""By key, the last change of a document or of a value."""


class CollectionShape(msgspec.Struct, frozen=True):
    """A collection of the source at one commit: the keyspace of its documents, and its indexes and schema, encoded."""

    keyspace: str
    definition: bytes


UNKNOWN: Final = CollectionShape("", b"")
"""The shape of a collection that is yet to be copied."""


class ReplicaState(msgspec.Struct, frozen=True):
    """The state of a replication: the commit of the source, identified by its id, and what was replicated up to it.
    ``copying``: a full copy was begun and is not done."""

    source: bytes
    position: int
    selection: tuple[tuple[str, ...] | None, tuple[str, ...] | None]
    collections: dict[str, CollectionShape]
    copying: bool = False

    def having(self, **changes: Any) -> ReplicaState:
        return msgspec.structs.replace(self, **changes)


def shape_of(snapshot: Snapshot, name: str) -> CollectionShape:
    """The shape of a collection. An index that is still being built is left out."""
    collection = snapshot.collection(name)
    return CollectionShape(collection.keyspaces()[1], encode_value([_indexes(collection), collection.schema()]))


PLAIN: Final = encode_value([{}, None])
"""The definition of a collection without indexes and schema."""


def _indexes(collection: Any) -> dict[str, dict[str, Any]]:
    return {
        name: {word: value for word, value in found.items() if word != "multikey"}
        for name, found in collection.index_information().items()
        if name != _PRIMARY and "building" not in found
    }


class Replica:
    """The open destination of one replication."""

    def __init__(self, store: lowtide.Store, name: str) -> None:
        self._store = store
        self._row = name.encode()

    def state(self) -> ReplicaState | None:
        """The state of the replication; None if it never ran."""
        with self._store.snapshot() as snapshot:
            stored = snapshot.keyspace(REPLICAS).get(self._row)
        return None if stored is None else msgspec.msgpack.decode(stored, type=ReplicaState)

    def apply(
        self, collections: Mapping[str, Latest], keyspaces: Mapping[str, Latest], state: ReplicaState | None
    ) -> None:
        """Apply changes, and take a new state with them, in one transaction."""

        def work(tx: Transaction) -> None:
            statements = statements_of(tx)
            for name, latest in collections.items():
                statements.write(lambda writing, prefix_of, n=name, c=latest: write_stored(writing, prefix_of, n, c))  # type: ignore[misc]
            for name, latest in keyspaces.items():
                keyspace = tx.keyspace(name)
                for key, change in latest.items():
                    if change.document is None:
                        keyspace.delete(key)
                    else:
                        keyspace.put(key, change.document)
            if state is not None:
                row = msgspec.msgpack.encode(state)
                statements.write(lambda writing, prefix_of: writing.apply({prefix_of(REPLICAS) + self._row: row}, ()))

        self._store.run(work)

    # Snapshots

    def differing(self, source: Snapshot, name: str, keyspace: str) -> Iterator[tuple[bytes, bytes | None]]:
        """The documents of a collection that differ from those in a keyspace of the source's snapshot, by key, as the
        source has them; None for those that it does not have."""
        with self._store.snapshot() as here:
            mine = here.keyspace(here.collection(name).keyspaces()[1])
            yield from differences(source.keyspace(keyspace).scan(), mine.scan())

    def differing_values(self, source: Snapshot, name: str) -> Iterator[tuple[bytes, bytes | None]]:
        """The values of a keyspace that differ, likewise."""
        with self._store.snapshot() as here:
            yield from differences(source.keyspace(name).scan(), here.keyspace(name).scan())

    def loosen(self, name: str, shape: CollectionShape) -> None:
        """Drop the indexes that the source does not have, and unique ones: while documents are copied in parts, two of
        them may have a value that at the source was exchanged."""
        collection = self._store.collection(name)
        wanted = decode_value(shape.definition)[0]
        for index, found in _indexes(collection).items():
            if "unique" in found or encode_value(found) != encode_value(wanted.get(index)):
                collection.drop_index(index)

    def define(self, name: str, shape: CollectionShape) -> None:
        """Give a collection the indexes and the schema of the source."""
        collection = self._store.collection(name)
        indexes, schema = decode_value(shape.definition)
        known = _indexes(collection)
        for index, found in indexes.items():
            if index not in known:
                options = {word: value for word, value in found.items() if word != "key"}
                collection.create_index([(path, direction) for path, direction in found["key"]], name=index, **options)
        if collection.schema() != schema:
            collection.set_schema(schema)

    def drop(self, name: str) -> None:
        """Drop a collection that the source no longer has."""
        self._store.collection(name).drop()


def write_stored(writing: WriteView, prefix_of: PrefixOf, name: str, latest: Latest) -> None:
    """Apply changes to a collection. Its schema is taken off its row for the batch, and put back with the row."""
    reader = CollectionReader(writing, prefix_of, name)
    row = reader.row
    bare = row.having(schema=None) if row.schema is not None else None
    unit = WriteBatch(writing, prefix_of, name, beside=bare)
    changes(unit, [(list(latest), [encode_change(each) for each in latest.values()])], Counts())
    if bare is None:
        unit.apply()
    elif (left := unit.apply_beside()) is not bare:
        put_row(reader, writing, left.having(schema=row.schema))


def differences(
    wanted: Iterable[tuple[bytes, bytes]], found: Iterable[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes | None]]:
    """What makes ``found`` equal to ``wanted``; both are in the order of their keys.

    >>> list(differences([(b"a", b"1"), (b"b", b"2")], [(b"b", b"3"), (b"c", b"4")]))
    [(b'a', b'1'), (b'b', b'2'), (b'c', None)]
    """
    others = iter(found)
    other = next(others, None)
    for key, value in wanted:
        while other is not None and other[0] < key:
            yield other[0], None
            other = next(others, None)
        if other is not None and other[0] == key:
            if other[1] != value:
                yield key, value
            other = next(others, None)
        else:
            yield key, value
    if other is not None:
        yield from ((key, None) for key, _ in chain([other], others))
