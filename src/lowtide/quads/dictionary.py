"""The dictionary of a quad store: which term an id stands for, and which id a term has.

    quads/NAME/terms     id -> the term's row, see ``ids``
                         id 01 -> a mark: another term was given its next candidate, since this id was taken
    lowtide/quads        NAME -> the epoch: how often terms were collected

A term's id is the first of its candidates whose row is its own. If the row of a candidate belongs to another term, the
candidate is marked as passed, and the next one is tried. A marked row is never collected, so a term that has an id is
always found again under that id.

Reads of the dictionary do not enter the read set of a transaction: the content of a row follows from its key. A writer
that finds a row does not write it again, so it relies on the row until its commit. Rows are removed only when terms are
collected, and a collection changes the epoch in the same commit. Every commit that adds statements is therefore guarded
by the epoch that it has seen.

``KnownTerms`` caches, for one epoch, ids whose rows were committed. A term that has an id at commit c, in epoch e, has
it at every later commit of epoch e. So the cache is valid for a reader that sees epoch e at commit c or later. Rows
that a transaction has written itself and not committed are never cached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rdflib import Literal, URIRef

from lowtide.engine import ReadView
from lowtide.errors import Error
from lowtide.quads.hashing import HASHED, candidate
from lowtide.quads.ids import EncodedTerm, Term, decode_row, encode, inline_term
from lowtide.quads.indexes import QuadPrefixes

_MOST: Final = 200_000
"""Terms that are remembered of one quad store, in each direction."""

TermKey = tuple[type, str, Any, Any] | str
"""What a term is remembered by: the text of an IRI; of another term, the type, the text, the datatype and language."""


def term_key(term: Any) -> TermKey:
    """A key that is compared in C, unlike rdflib's terms."""
    kind = type(term)
    if kind is URIRef:
        return str(term)
    if kind is Literal:
        datatype, language = term.datatype, term.language
        return (
            kind,
            str(term),
            None if datatype is None else str(datatype),
            None if language is None else language.lower(),
        )
    return kind, str(term), None, None


class KnownTerms:
    """The terms of one quad store in one epoch. Any thread writes, under ``_lock``. A lock-free reader looks up the id
    first and ``since`` after that; ``since`` is raised before an id is added, so the id is not newer than ``since``."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.since = 0
        """All ids here were committed at this commit or before."""
        self.ids: dict[TermKey, bytes] = {}
        self.terms: dict[bytes, Term] = {}
        """Of ids in the indexes the term; whatever the commit, it is the same throughout an epoch."""
        self._lock = threading.Lock()

    def remember(self, found: Iterable[tuple[TermKey, bytes]], ts: int) -> None:
        """Note ids whose rows are committed at ``ts``."""
        with self._lock:
            self.since = max(self.since, ts)
            if len(self.ids) > _MOST:
                self.ids = {}
            self.ids.update(found)

    def remember_terms(self, found: dict[bytes, Term]) -> None:
        with self._lock:
            if len(self.terms) > _MOST:
                self.terms = {}
            self.terms.update(found)


def known_terms(caches: dict[Any, Any], name: str, epoch: int) -> KnownTerms:
    """What the process remembers of a quad store in an epoch. An older epoch than the last gets nothing to share."""
    key = (KnownTerms, name)
    known: KnownTerms | None = caches.get(key)
    if known is None or known.epoch < epoch:
        known = KnownTerms(epoch)
        caches[key] = known
    return known if known.epoch == epoch else KnownTerms(epoch)


class Dictionary:
    """The dictionary at one instant. Used by one thread."""

    __slots__ = ("_prefix", "_reading", "known")

    def __init__(self, reading: ReadView, prefixes: QuadPrefixes, caches: dict[Any, Any], name: str) -> None:
        self._reading = reading
        self._prefix = prefixes.terms
        row = reading.peek([prefixes.epoch])[0]
        self.known = known_terms(caches, name, decode_epoch(row))

    # From ids to terms

    def term_of(self, id: bytes) -> Term:
        """The term of an id that is in an index."""
        return self.terms_of([id])[0]

    def terms_of(self, ids: Sequence[bytes]) -> list[Term]:
        """The terms of ids that are in indexes. The default graph's id is no term's."""
        known, pending, prefix = self.known.terms, self._reading.pending, self._prefix
        if pending:  # a later commit may have given an id to another term than the transaction has, and refuses it
            found = [None if prefix + id in pending else known.get(id) for id in ids]
        else:
            found = [known.get(id) for id in ids]
        missing = list(dict.fromkeys([id for id, term in zip(ids, found, strict=True) if term is None]))
        if not missing:  # and not by ``in``: the terms would be compared in Python
            return found  # type: ignore[return-value]
        terms: dict[bytes, Term] = {id: inline_term(id) for id in missing if id[0] >> 4 not in HASHED}
        hashed = [id for id in missing if id not in terms]
        rows = self._reading.peek([prefix + id for id in hashed]) if hashed else []
        for id, row in zip(hashed, rows, strict=True):
            if row is None:
                raise Error(f"the dictionary has no term with the id {id.hex()}; run store.verify()")
            terms[id] = decode_row(id[0] >> 4, row)
        self.known.remember_terms({id: each for id, each in terms.items() if not pending or prefix + id not in pending})
        return [terms[id] if term is None else term for id, term in zip(ids, found, strict=True)]

    # From terms to ids

    def id_of(self, term: object) -> bytes | None:
        """The id of a term; None if the dictionary does not have it."""
        return self.ids_of([term])[0]

    def ids_of(self, terms: Sequence[object]) -> list[bytes | None]:
        """The ids of terms; None for those that the dictionary does not have. That is a tracked read: the caller will
        not look for statements with the term, and must conflict with a transaction that adds one."""
        found: list[bytes | None] = []
        unknown: list[tuple[int, TermKey, EncodedTerm]] = []
        known = self.known
        for term in terms:
            key = term_key(term)
            id = known.ids.get(key)
            if id is not None and known.since <= self._reading.ts:
                found.append(id)
                continue
            encoded = encode(term)
            if encoded.row is None:
                found.append(encoded.id)
            else:
                unknown.append((len(found), key, encoded))
                found.append(None)
        if unknown:
            settled = self.settle([each for _, _, each in unknown])
            pending, prefix = self._reading.pending, self._prefix
            committed: list[tuple[TermKey, bytes]] = []
            for (place, key, _), (id, new) in zip(unknown, settled, strict=True):
                if not new:
                    found[place] = id
                    if prefix + id not in pending:
                        committed.append((key, id))
            if committed:
                known.remember(committed, self._reading.ts)
            if absent := [self._prefix + id for id, new in settled if new]:
                self._reading.read_many(absent)
        return found

    def settle(self, encoded: Sequence[EncodedTerm]) -> list[tuple[bytes, bool]]:
        """The ids of terms that need rows, and whether the row is still to be written."""
        prefix = self._prefix
        rows = self._reading.peek([prefix + each.id for each in encoded])
        settled: list[tuple[bytes, bool]] = []
        for each, row in zip(encoded, rows, strict=True):
            id, salt = each.id, 0
            while row is not None and row != each.row:
                salt += 1
                id = candidate(each.id[0] >> 4, each.row or b"", salt)
                row = self._reading.peek([prefix + id])[0]
            settled.append((id, row is None))
        return settled


def decode_epoch(row: bytes | None) -> int:
    """The epoch that a row of the catalog tells."""
    return int.from_bytes(row, "big") if row is not None else 0


def encode_epoch(epoch: int) -> bytes:
    return epoch.to_bytes(8, "big")
