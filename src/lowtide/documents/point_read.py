"""``PointReader``: reads the newest document with one value of one field, without a snapshot.

This is the fast path of ``find_one`` on the store.
"""

from __future__ import annotations

from lowtide.documents.catalog import CATALOG, row_key, row_of
from lowtide.documents.indexes.entries import document_key_of
from lowtide.documents.plans.point import Point
from lowtide.engine import NOWHERE, AutocommitStatements, Engine, Range
from lowtide.values.codec import decode_document
from lowtide.values.ordering import AFTER_ALL
from lowtide.values.values import Document


class PointReader:
    """Point reads of one collection. Any thread may use it: ``_row_key`` is set only once, to its final value, and
    ``_known`` is replaced as a whole."""

    __slots__ = ("_known", "_name", "_row_key", "_statements")

    def __init__(self, statements: AutocommitStatements, name: str) -> None:
        self._statements = statements
        self._name = name
        self._row_key: bytes | None = None
        """The full key of the collection's row, once the catalog's prefix is final."""
        self._known: tuple[bytes | None, str, bytes] | None = None
        """The encoded row that was read last, its keyspace, and that keyspace's prefix, which may have changed
        since."""

    def engine(self) -> Engine | None:
        """Return the engine to read from. None for a recorded store, where reads must go through transactions."""
        engine = self._statements.engine
        return engine if engine.new is None else None

    def by_id(self, engine: Engine, key: bytes) -> tuple[Document | None, bool]:
        """The same as ``at``, for the document with this key."""
        row_at, known = self._row_key, self._known
        if row_at is not None and known is not None:
            read = engine.reader.get_latest
            encoded, keyspace, prefix = known
            if engine.catalog.prefixes.get(keyspace) == prefix and read(row_at) == encoded:
                stored = read(prefix + key)
                if read(row_at) == encoded:
                    return decode_document(stored) if stored is not None else None, True
        return self.at(engine, Point("_id", key, None))

    def at(self, engine: Engine, point: Point) -> tuple[Document | None, bool]:
        """Return the newest document with this value, and whether the answer is certain.

        A document that is found is correct for the moment at which it was read: it had the value, and it belonged to
        the collection, because the catalog row was the same before and after. The absence of a key is certain in the
        same way. A scan that finds nothing is not certain, because it reads no snapshot.
        """
        prefix_of, reader = engine.catalog.prefix_of, engine.reader
        read = reader.get_latest
        row_at = self._row_key
        if row_at is None:
            row_at = prefix_of(CATALOG) + row_key(self._name)
            if not row_at.startswith(NOWHERE):
                self._row_key = row_at
        encoded = read(row_at)
        row = row_of(self._name, encoded)
        path, value, _ = point
        key: bytes | None = value
        if path != "_id":
            index = row.points.get(path)
            if index is None:
                return None, False
            start = prefix_of(index.keyspace) + value
            if index.unique:
                key = read(start)
            else:
                entry = reader.first(Range(start, start + AFTER_ALL), engine.registry.published)
                key = document_key_of(index, *entry) if entry is not None else None
        prefix = prefix_of(row.keyspace)
        self._known = (encoded, row.keyspace, prefix)
        stored = read(prefix + key) if key is not None else None
        unchanged = read(row_at) == encoded
        if stored is None:
            return None, unchanged and (path == "_id" or (key is None and row.points[path].unique))
        found = decode_document(stored)
        return found, unchanged and (path == "_id" or point.is_of(found))
