"""Named graphs that a user has created, and that exist even without statements.

Other graphs exist only through their statements. The keyspace has a row for each created graph: a hash of its name, and
the name. Two transactions that create the same graph do not conflict.
"""

from __future__ import annotations

from hashlib import blake2b

from rdflib.term import Identifier

from lowtide.engine import PrefixOf, Range, ReadView, Statements, WriteView, after_prefix
from lowtide.quads.ids import decode_row, encode


class CreatedGraphs:
    """The graphs of one quad store that were created, on a transaction, a snapshot or the store."""

    __slots__ = ("_keyspace", "_statements")

    def __init__(self, statements: Statements, keyspace: str) -> None:
        self._statements = statements
        self._keyspace = keyspace

    def names(self) -> list[Identifier]:
        """The names of the graphs."""

        def work(reading: ReadView, prefix_of: PrefixOf) -> list[Identifier]:
            return read_names(reading, prefix_of(self._keyspace))

        return self._statements.read(work)

    def create(self, name: Identifier) -> None:
        """Remember a graph. Nothing is written if it is known."""
        key, row = _entry(name)

        def work(writing: WriteView, prefix_of: PrefixOf) -> None:
            start = prefix_of(self._keyspace)
            if writing.read(start + key) is None:
                writing.apply({start + key: row}, (), merging=frozenset((start,)))

        self._statements.write(work)

    def forget(self, name: Identifier) -> None:
        """Remember a graph no more; its statements are not touched."""
        key, _ = _entry(name)

        def work(writing: WriteView, prefix_of: PrefixOf) -> None:
            start = prefix_of(self._keyspace)
            if writing.read(start + key) is not None:
                writing.apply({start + key: None}, (), merging=frozenset((start,)))

        self._statements.write(work)

    def clear(self) -> None:
        """Forget all graphs."""

        def work(writing: WriteView, prefix_of: PrefixOf) -> None:
            start = prefix_of(self._keyspace)
            entries = writing.scan(Range(start, after_prefix(start)))
            writing.apply({start + key: None for key, _ in entries}, ())

        self._statements.write(work)


def read_names(reading: ReadView, start: bytes) -> list[Identifier]:
    """The names of the created graphs; ``start`` is the prefix of their keyspace."""
    entries = reading.scan(Range(start, after_prefix(start)))
    return [decode_row(row[0], row[1:]) for _, row in entries]


def _entry(name: Identifier) -> tuple[bytes, bytes]:
    """The key and the row of a graph. The names of graphs are IRIs, blank nodes or formulas, which have rows."""
    encoded = encode(name)
    assert encoded.row is not None, name
    row = bytes((encoded.id[0] >> 4,)) + encoded.row
    return blake2b(row, digest_size=16).digest(), row
