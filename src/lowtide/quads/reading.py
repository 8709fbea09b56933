"""``IdReader``: statements as ids, at one instant. What SPARQL, Spark and rdflib's plugin read by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from types import TracebackType
from typing import Any, Self

import numpy as np

from lowtide.engine import HeldRead, PrefixOf, Range, ReadView, Statements, after_prefix
from lowtide.quads.created_graphs import read_names
from lowtide.quads.dictionary import Dictionary
from lowtide.quads.hashing import ID_BYTES
from lowtide.quads.ids import Ids, Term
from lowtide.quads.indexes import (
    EXPLICIT,
    INFERRED,
    QUADS,
    Access,
    IdPattern,
    QuadPrefixes,
    accesses,
    places_of,
    prefixes_of,
)


class IdReader:
    """The statements and terms of a quad store at one instant. A context manager, made by ``quads.reader()``; used by
    one thread. Of a transaction it shows the own writes as they were when it was made."""

    __slots__ = ("_dictionary", "_held", "_prefix_of", "_prefixes", "_reading", "caches", "committed", "name", "ts")

    def __init__(
        self,
        reading: ReadView,
        prefix_of: PrefixOf,
        name: str,
        caches: dict[Any, Any],
        held: HeldRead | None = None,
    ) -> None:
        self._held = held
        self._reading = reading
        self._prefix_of = prefix_of
        self.name = name
        self.caches = caches
        """What kinds of data remember for as long as the store is open."""
        self.committed = not reading.pending
        """Whether it shows what was committed and nothing else, so that every such reader of this commit shows it."""
        self._prefixes = prefixes_of(prefix_of, name)
        self._dictionary = Dictionary(reading, self._prefixes, caches, name)
        self.ts = reading.ts
        """The commit that is read."""

    @property
    def prefixes(self) -> QuadPrefixes:
        """The prefixes of the keyspaces, for parts of Lowtide that read them by themselves."""
        return self._prefixes

    @property
    def known(self) -> object:
        """What the dictionary remembers in the epoch of this reader. A term that has an id at one commit has it at
        every later one for which this is the same object."""
        return self._dictionary.known

    @property
    def tracked(self) -> bool:
        """Whether reads of statements enter the read set of a serializable transaction."""
        return self._reading.tracked

    # Terms

    def id_of(self, term: object) -> bytes | None:
        """The id of a term; None if it is not known, so that no statement can have it."""
        return self._dictionary.id_of(term)

    def ids_of(self, terms: Sequence[object]) -> list[bytes | None]:
        """The ids of terms, see ``id_of``."""
        return self._dictionary.ids_of(terms)

    def term_of(self, id: bytes) -> Term:
        """The term of an id that a statement has; not of DEFAULT_GRAPH, which is no term."""
        return self._dictionary.term_of(id)

    @property
    def known_terms(self) -> Mapping[bytes, Term]:
        """Terms of ids that are remembered: any, and perhaps none. Where own writes are seen, they may be others'."""
        return self._dictionary.known.terms if self.committed else {}

    def terms_of(self, ids: Sequence[bytes]) -> list[Term]:
        """The terms of ids, see ``term_of``."""
        return self._dictionary.terms_of(ids)

    # Statements

    def access(self, pattern: IdPattern) -> Access:
        """The index that answers a pattern; if that depends on the data, the one with the least to read."""
        s, p, o, g = pattern
        found = accesses((s is not None, p is not None, o is not None, g is not None))
        if len(found) == 1:
            return found[0]
        return min(found, key=lambda each: self._reading.about(self._range(each, pattern)))

    def _range(self, access: Access, pattern: IdPattern) -> Range:
        prefix: bytes = getattr(self._prefixes, access.order)
        return access.range(prefix, pattern)

    def scan_ids(
        self,
        s: bytes | None = None,
        p: bytes | None = None,
        o: bytes | None = None,
        g: bytes | None = None,
        *,
        inferred: bool | None = None,
    ) -> tuple[str, Iterator[list[bytes]]]:
        """The index that answers a pattern, such as ``"posc"``, and lists of its keys that match, in order: 32 bytes
        each, the four ids in the order of the index. ``inferred`` asks for the inferred statements, or for the explicit
        ones; by default for all."""
        pattern = (s, p, o, g)
        access = self.access(pattern)
        chunks = self._reading.chunks(self._range(access, pattern))
        return access.order, _matching(chunks, access.filter(pattern), inferred)

    def match(
        self,
        s: bytes | None = None,
        p: bytes | None = None,
        o: bytes | None = None,
        g: bytes | None = None,
        *,
        inferred: bool | None = None,
    ) -> Iterator[bytes]:
        """The keys of ``scan_ids``, one by one."""
        for chunk in self.scan_ids(s, p, o, g, inferred=inferred)[1]:
            yield from chunk

    def columns(
        self,
        s: bytes | None = None,
        p: bytes | None = None,
        o: bytes | None = None,
        g: bytes | None = None,
        *,
        inferred: bool | None = None,
    ) -> Ids:
        """All statements that match, as an array of ids with a row for each: subject, predicate, object, graph."""
        order, chunks = self.scan_ids(s, p, o, g, inferred=inferred)
        joined = b"".join([b"".join(chunk) for chunk in chunks])
        found = np.frombuffer(joined, dtype=">u8").reshape(-1, 4)
        return found[:, list(places_of(order))].astype(np.uint64)

    def look_up(self, patterns: Sequence[IdPattern]) -> tuple[str, list[int], bytes]:
        """The statements that match each of many patterns, which all bind the same places: the index that answers them,
        how many there are of each, and their keys, one behind the other."""
        s, p, o, g = patterns[0]
        shape = (s is not None, p is not None, o is not None, g is not None)
        if all(shape):
            full = [b"".join(pattern) for pattern in patterns]  # type: ignore[arg-type]
            there = self.contains_ids(full)
            return "spoc", list(map(int, there)), b"".join([key for key, has in zip(full, there, strict=True) if has])
        found = accesses(shape)
        access = found[0] if len(found) == 1 else self.access(patterns[0])
        prefix: bytes = getattr(self._prefixes, access.order)
        under = [keys or [] for keys in self.keys_under([prefix + access.key(pattern) for pattern in patterns])]
        if access.filter(patterns[0]):
            for number, (pattern, keys) in enumerate(zip(patterns, under, strict=True)):
                for start, end, wanted in access.filter(pattern):
                    keys = [key for key in keys if key[start:end] == wanted]
                under[number] = keys
        return access.order, list(map(len, under)), b"".join(chain.from_iterable(under))

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]:
        """The keys of indexes that begin with each of many prefixes: the prefix of an index, see ``prefixes``, and one
        id at least. None if they are more than ``most``."""
        return self._reading.keys_under(prefixes, most)

    def estimate(
        self, s: bytes | None = None, p: bytes | None = None, o: bytes | None = None, g: bytes | None = None
    ) -> int:
        """About how many statements match; exact if they are few. If the bound parts are not the prefix of an index, it
        is how many statements are read to find them. It is not tracked as a read, and it ignores the transaction's own
        writes."""
        pattern = (s, p, o, g)
        bound = accesses((s is not None, p is not None, o is not None, g is not None))
        return min(self._reading.about(self._range(each, pattern)) for each in bound)

    def contains_ids(self, quads: Sequence[bytes]) -> list[bool]:
        """Which statements there are, each given as 32 bytes: subject, predicate, object, graph."""
        prefix = self._prefixes.spoc
        return [value is not None for value in self._reading.read_many([prefix + quad for quad in quads])]

    def has(self, pattern: IdPattern, inferred: bool | None = None) -> bool:
        """Whether a statement matches."""
        s, p, o, g = pattern
        if s is not None and p is not None and o is not None and g is not None and inferred is None:
            return self.contains_ids([s + p + o + g])[0]
        access = self.access(pattern)
        wanted = self._range(access, pattern)
        chunks = ([entry] for entry in self._reading.scan(Range(wanted.low, wanted.high, False, 2)))
        return next((True for found in _matching(chunks, access.filter(pattern), inferred) if found), False)

    def count(self, pattern: IdPattern, inferred: bool | None = None) -> int:
        """How many statements match."""
        return sum(map(len, self.scan_ids(*pattern, inferred=inferred)[1]))

    def graphs(self) -> Iterator[bytes]:
        """The ids of the graphs that have statements, the default graph's too, in order. It reads one key of each."""
        prefix = self._prefixes.cspo
        end = after_prefix(prefix)
        low: bytes | None = prefix
        while low is not None:
            entry = next(iter(self._reading.scan(Range(low, end, False, 2))), None)
            if entry is None:
                return
            graph = entry[0][:ID_BYTES]
            yield graph
            following = after_prefix(graph)
            low = prefix + following if following is not None else None

    def created_graphs(self) -> list[Term]:
        """The names of the graphs that were created, and so exist also while they have no statements."""
        return read_names(self._reading, self._prefix_of(f"{QUADS}{self.name}/graphs"))

    def close(self) -> None:
        """Let go of the instant. Harmless when repeated."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _matching(
    chunks: Iterator[list[tuple[bytes, bytes]]], filters: list[tuple[int, int, bytes]], inferred: bool | None
) -> Iterator[list[bytes]]:
    """The keys of entries that pass the filters and were added as asked for."""
    value = None if inferred is None else INFERRED if inferred else EXPLICIT
    for chunk in chunks:
        keys = [key for key, added in chunk if value is None or added == value]
        for start, end, wanted in filters:
            keys = [key for key in keys if key[start:end] == wanted]
        if keys:
            yield keys


def open_reader(statements: Statements, name: str) -> IdReader:
    """A reader of one instant, which lasts until it is closed or dropped."""
    held = statements.hold()
    try:
        return IdReader(held.reading, held.prefix_of, name, statements.caches, held)
    except BaseException:
        with suppress(Exception):
            held.close()
        raise
