"""Prefixes of IRIs, stored with the statements that they abbreviate: versioned, and changed in the same transactions.

Each binding has two rows in one keyspace, to find it from both sides: by the prefix, and by a hash of the IRI, which
may be longer than a key. Equal bindings of two transactions do not conflict, because each new rdflib graph makes the
same thirty.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from rdflib.term import URIRef

from lowtide.engine import PrefixOf, Range, ReadView, Statements, Writes, WriteView, after_prefix
from lowtide.errors import UsageError
from lowtide.quads.ids import utf8

_BY_PREFIX: Final = b"p"
_BY_NAMESPACE: Final = b"n"
_LONGEST: Final = 400
"""Bytes of a prefix that a key has room for."""


class Prefixes:
    """The bindings of one quad store, on a transaction, a snapshot or the store: a prefix has one namespace, and a
    namespace has one prefix."""

    __slots__ = ("_keyspace", "_statements")

    def __init__(self, statements: Statements, keyspace: str) -> None:
        self._statements = statements
        self._keyspace = keyspace

    def namespace(self, prefix: str) -> URIRef | None:
        """The IRI that a prefix stands for."""

        def work(reading: ReadView, prefix_of: PrefixOf) -> URIRef | None:
            found = reading.read(prefix_of(self._keyspace) + _prefix_key(prefix))
            return None if found is None else URIRef(found.decode())

        return self._statements.read(work)

    def prefix(self, namespace: str) -> str | None:
        """The prefix that an IRI has."""

        def work(reading: ReadView, prefix_of: PrefixOf) -> str | None:
            found = reading.read(prefix_of(self._keyspace) + _namespace_key(namespace))
            return None if found is None else found.decode()

        return self._statements.read(work)

    def items(self) -> list[tuple[str, URIRef]]:
        """All bindings, in the order of the prefixes."""

        def work(reading: ReadView, prefix_of: PrefixOf) -> list[tuple[str, URIRef]]:
            start = prefix_of(self._keyspace) + _BY_PREFIX
            entries = reading.scan(Range(start, after_prefix(start)))
            return [(key[1:].decode(), URIRef(value.decode())) for key, value in entries]

        return self._statements.read(work)

    def bind(self, prefix: str, namespace: str, *, override: bool = True) -> None:
        """Let a prefix stand for an IRI. Whatever either was bound to before is unbound; without ``override``, nothing
        is changed if one of them is bound."""

        def work(writing: WriteView, prefix_of: PrefixOf) -> None:
            start = prefix_of(self._keyspace)
            by_prefix, by_namespace = start + _prefix_key(prefix), start + _namespace_key(namespace)
            old_namespace, old_prefix = writing.read_many([by_prefix, by_namespace])
            if not override and not (old_namespace is None and old_prefix is None):
                return
            if old_namespace is not None and old_namespace == utf8(namespace) and old_prefix == utf8(prefix):
                return
            writes: Writes = {}
            if old_namespace is not None:
                writes[start + _namespace_key(old_namespace.decode())] = None
            if old_prefix is not None:
                writes[start + _prefix_key(old_prefix.decode())] = None
            writes[by_prefix], writes[by_namespace] = utf8(namespace), utf8(prefix)
            writing.apply(writes, (), merging=frozenset((start,)))

        self._statements.write(work)

    def clear(self) -> None:
        """Remove all bindings."""

        def work(writing: WriteView, prefix_of: PrefixOf) -> None:
            start = prefix_of(self._keyspace)
            entries = writing.scan(Range(start, after_prefix(start)))
            writing.apply({start + key: None for key, _ in entries}, ())

        self._statements.write(work)


def _prefix_key(prefix: str) -> bytes:
    encoded = utf8(prefix)
    if len(encoded) > _LONGEST:
        raise UsageError(f"a prefix may be {_LONGEST} bytes long at most: {prefix[:40]!r}...")
    return _BY_PREFIX + encoded


def _namespace_key(namespace: str) -> bytes:
    return _BY_NAMESPACE + blake2b(utf8(namespace), digest_size=16).digest()
