"""Turns added and removed statements into writes of all indexes and of the dictionary.

An added statement is put blindly, so it conflicts only with its own removal. It is written even if it exists: otherwise
the removal by a concurrent transaction would win over an add that it has not seen. The previous value is read without
tracking, for the change feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple

from rdflib import URIRef

from lowtide.engine import PrefixOf, Writes, WriteView
from lowtide.errors import UsageError
from lowtide.quads.dictionary import Dictionary, KnownTerms, TermKey, term_key
from lowtide.quads.hashing import DEFAULT_GRAPH, candidate
from lowtide.quads.ids import DEFAULT, EncodedTerm, encode
from lowtide.quads.indexes import EXPLICIT, INFERRED, PASSED, QuadIds, QuadPrefixes, prefixes_of
from lowtide.quads.keys import keys_of
from lowtide.quads.reading import IdReader


def check_quads(quads: Iterable[Any]) -> list[tuple[Any, Any, Any, Any]]:
    """Return statements of four parts each; one of three is in the default graph."""
    given = quads if isinstance(quads, list) else list(quads)
    try:
        lengths = set(map(len, given))
    except TypeError:
        lengths = {0}
    if lengths <= {4}:
        return given
    if lengths <= {3, 4}:
        return [quad if len(quad) == 4 else (*quad, None) for quad in given]
    wrong = next(each for each in given if not isinstance(each, tuple | list) or len(each) not in (3, 4))
    raise UsageError(f"a statement is a tuple of subject, predicate, object and perhaps graph, not {wrong!r}")


COLLECTED: Final = -1
_MANY: Final = 100
"""The ids of so many statements are found column by column, without a loop in Python."""
_PLACES: Final = tuple(map(itemgetter, range(4)))


class EncodedStatements(NamedTuple):
    """Statements of a load, as ids; see ``loading``."""

    quads: list[QuadIds]
    rows: dict[bytes, bytes]
    """The rows of the ids that no earlier batch of the load had."""
    collided: bool
    """Whether ids may stand for terms whose first candidate belongs to another term of the load."""
    terms_of: Callable[[list[QuadIds]], list[tuple[Any, Any, Any, Any]]]
    """The same statements as terms."""
    epoch: list[int]
    """The epoch in which earlier batches wrote their rows; empty before the first one. The batches share it. COLLECTED
    means that the epoch has ended, so no batch may rely on those rows."""


class TermLookup:
    """The ids of the terms of one statement of the transaction, where known, and otherwise their first candidates."""

    __slots__ = ("_known", "_seen", "ids", "missing")

    def __init__(self, known: KnownTerms, ts: int) -> None:
        self._known = known.ids if known.since <= ts else {}
        self._seen: dict[int, bytes] = {}
        """The ids of terms by the identity of the object; valid only while the statements keep the object."""
        self.ids: dict[TermKey, bytes] = {}
        self.missing: dict[TermKey, EncodedTerm] = {}
        """The terms that have to be looked up in the dictionary."""

    def ids_of(self, quads: Sequence[tuple[Any, Any, Any, Any]]) -> list[QuadIds]:
        """The ids of statements. One loop, without calls for objects that were met before: bulk loads spend their time
        here, and parsers give the same object for a term that comes again."""
        if len(quads) >= _MANY:
            return list(zip(*(self._column(list(map(each, quads))) for each in _PLACES), strict=True))
        self._seen = {}
        get, first = self._seen.get, self._first
        return [
            (
                get(id(s)) or first(s),
                get(id(p)) or first(p),
                get(id(o)) or first(o),
                DEFAULT_GRAPH if g is None or g is DEFAULT else get(id(g)) or first(g),
            )
            for s, p, o, g in quads
        ]

    def _column(self, terms: list[Any]) -> Iterator[bytes]:
        """The ids of one place of many statements, each object met once."""
        places = list(map(id, terms))
        found = {
            place: DEFAULT_GRAPH if term is None or term is DEFAULT else self._first(term)
            for place, term in dict(zip(places, terms, strict=True)).items()
        }
        return map(found.__getitem__, places)

    def _first(self, term: Any) -> bytes:
        """The id of an object that was not met before."""
        key = str(term) if type(term) is URIRef else term_key(term)
        found = self.ids.get(key)
        if found is None:
            found = self._known.get(key)
            if found is None:
                encoded = encode(term)
                found = encoded.id
                if encoded.row is not None:
                    self.missing[key] = encoded
            self.ids[key] = found
        self._seen[id(term)] = found
        return found


class QuadChange:
    """The changes of one statement of the transaction: removals, then additions. Used once, by one thread."""

    __slots__ = (
        "_adds",
        "_before",
        "_dictionary",
        "_opened",
        "_prefixes",
        "_relied_on",
        "_statements",
        "_writes",
        "_writing",
    )

    def __init__(self, writing: WriteView, prefix_of: PrefixOf, name: str, caches: dict[Any, Any]) -> None:
        self._writing = writing
        self._opened = (writing, prefix_of, name, caches)
        self._prefixes: QuadPrefixes = prefixes_of(prefix_of, name)
        self._writes: Writes = {}
        self._before: Writes = {}
        self._adds = False
        self._statements = False
        """Whether statements are among the writes, and not terms alone."""
        self._relied_on: list[bytes] = []
        self._dictionary = Dictionary(writing, self._prefixes, caches, name)

    def reader(self) -> IdReader:
        """A reader of the state without these changes."""
        return IdReader(*self._opened)

    def value_of(self, quad: QuadIds) -> bytes | None:
        """How a statement was added, None if it is not there. Only for what writes it in any case, or reads it."""
        return self._writing.peek([self._prefixes.spoc + b"".join(quad)])[0]

    def read_value(self, quad: QuadIds) -> bytes | None:
        """As ``value_of``, as a read of the transaction."""
        return self._writing.read_many([self._prefixes.spoc + b"".join(quad)])[0]

    def remove(self, quads: Sequence[QuadIds], seen: Sequence[bytes | None] | None = None) -> int:
        """Remove statements, even if they do not exist. ``seen`` are their values, if they were read. Returns how many
        existed."""
        keys = keys_of(self._prefixes, quads)
        values = self._writing.peek(keys[0]) if seen is None else list(seen)
        self._statements = True
        for each in keys:
            self._writes.update(dict.fromkeys(each))
            self._before.update(zip(each, values, strict=True))
        return sum(value is not None for value in values)

    def add(self, quads: Sequence[tuple[Any, Any, Any, Any]], inferred: bool = False) -> int:
        """Add statements of terms. Returns how many were not there."""
        return self.add_ids(self.ids_of(quads), inferred)

    def add_ids(self, quads: Sequence[QuadIds], inferred: bool = False) -> int:
        """Add statements of ids whose rows exist or are written with them. Returns how many are new."""
        if not quads:
            return 0
        self._adds = True
        prefixes, writes = self._prefixes, self._writes
        if inferred:  # which makes a difference only if there is no explicit one, so that is read
            spoc = keys_of(prefixes, quads)[0]
            values = [writes.get(key, value) for key, value in zip(spoc, self._writing.read_many(spoc), strict=True)]
            quads = [quad for quad, value in zip(quads, values, strict=True) if value != EXPLICIT]
            self._relied_on.extend(spoc)
        keys = keys_of(prefixes, quads)
        before = self._before
        values = self._writing.peek(keys[0])
        value = INFERRED if inferred else EXPLICIT
        if self._statements:  # what was removed above was there before, whatever is peeked at
            there = zip(keys[0], values, strict=True)
            new = len({key for key, found in there if writes.get(key, found) is None})
            for each in keys:
                writes.update(dict.fromkeys(each, value))
                before.update((key, found) for key, found in zip(each, values, strict=True) if key not in before)
        elif values.count(None) == len(values):  # all are new, as mostly in a load
            added: Writes = dict.fromkeys(chain.from_iterable(keys), value)
            new = len(added) // len(keys)
            added.update(writes)
            self._writes = added
            self._before = {**dict.fromkeys(added), **before}
        else:
            new = len({key for key, found in zip(keys[0], values, strict=True) if found is None})
            for each in keys:
                writes.update(zip(each, repeat(value), strict=False))
                before.update(zip(each, values, strict=True))
        self._statements = True
        return new

    def add_encoded(self, batch: EncodedStatements) -> None:
        """Add statements of a load: by their ids if the dictionary has or gets the rows of all, otherwise by their
        terms."""
        epoch = self._dictionary.known.epoch
        if batch.epoch not in ([], [epoch]):
            batch.epoch[:] = [COLLECTED]
        elif not batch.collided and self._rows_fit(batch.rows):
            batch.epoch[:] = [epoch]
            self.add_ids(batch.quads)
            return
        self.add(batch.terms_of(batch.quads))

    def _rows_fit(self, rows: dict[bytes, bytes]) -> bool:
        """Write the rows that are not there; or nothing, and return False, if an id belongs to another term."""
        keys = [self._prefixes.terms + id for id in rows]
        there = self._writing.peek(keys)
        if any(row is not None and row != wanted for row, wanted in zip(there, rows.values(), strict=True)):
            return False
        new = [place for place, row in enumerate(there) if row is None]
        wanted = list(rows.values())
        self._writes.update((keys[place], wanted[place]) for place in new)
        self._before.update((keys[place], None) for place in new)
        return True

    def ids_of(self, quads: Sequence[tuple[Any, Any, Any, Any]]) -> list[QuadIds]:
        """The ids of statements of terms. The rows of new terms are written.

        Terms that are not known get their first candidates, and are looked up all at once. If one of those is another
        term's, which hardly ever happens, the ids are gathered again.
        """
        lookup = TermLookup(self._dictionary.known, self._writing.ts)
        found = lookup.ids_of(quads)
        if lookup.missing:
            settled = self._settle(lookup.missing)
            if any(settled[key] != each.id for key, each in lookup.missing.items()):
                lookup.ids.update(settled)
                found = lookup.ids_of(quads)
        return found

    def _settle(self, missing: dict[TermKey, EncodedTerm]) -> dict[TermKey, bytes]:
        """Give new terms their rows, and remember those that have one."""
        prefix, writes, before = self._prefixes.terms, self._writes, self._before
        writing = self._writing
        rows = writing.peek([prefix + each.id for each in missing.values()])
        settled: dict[TermKey, bytes] = {}
        committed: list[tuple[TermKey, bytes]] = []
        pending = writing.pending
        for (key, each), row in zip(missing.items(), rows, strict=True):
            id, salt, wanted = each.id, 0, each.row
            full_key = prefix + id
            there = writes.get(full_key) or row
            while there is not None and there != wanted:
                writes[full_key + PASSED] = PASSED
                before.setdefault(full_key + PASSED, writing.peek([full_key + PASSED])[0])
                salt += 1
                id = candidate(each.id[0] >> 4, wanted or b"", salt)
                full_key = prefix + id
                there = writes.get(full_key) or writing.peek([full_key])[0]
            if there is None:
                writes[full_key] = wanted
                before[full_key] = None
            elif full_key not in writes and full_key not in pending:
                committed.append((key, id))
            settled[key] = id
        if committed:
            self._dictionary.known.remember(committed, writing.ts)
        return settled

    def apply(self) -> None:
        """Give everything to the transaction."""
        if self._writes:
            prefixes = self._prefixes
            relied_on = [*self._relied_on, prefixes.epoch] if self._adds else self._relied_on
            self._writing.apply(self._writes, relied_on, self._before, prefixes.written)
