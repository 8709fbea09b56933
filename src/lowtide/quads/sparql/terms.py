"""The terms of one evaluation: ids of the store's terms, and ids of its own for terms that the store does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from rdflib.term import Identifier

from lowtide.quads.hashing import ID_BYTES
from lowtide.quads.reading import IdReader
from lowtide.quads.sparql.tables import UNBOUND, Column

LOCAL: Final = 15
"""The kind of ids that only one evaluation knows: terms of the query, or computed by it, that the store lacks."""

_LOCAL_BASE: Final = LOCAL << 60
_KEPT: Final = 200_000
"""Decoded terms that are kept, in the hope that another block has them, too."""


class TermSpace:
    """Translates between terms and ids, each distinct one once. Belongs to one evaluation, hence to one thread."""

    def __init__(self, reader: IdReader) -> None:
        self._reader = reader
        self._ids: dict[Identifier, int] = {}
        self._terms: dict[int, Identifier] = {}
        self._locals: list[Identifier] = []

    def id_of(self, term: Identifier) -> int:
        """The id of a term: the store's, or one of this evaluation. Equal ids are equal terms."""
        found = self._ids.get(term)
        if found is None:
            known = self._reader.id_of(term)
            if known is None:
                found = _LOCAL_BASE + len(self._locals)
                self._locals.append(term)
            else:
                found = int.from_bytes(known, "big")
            self._ids[term] = found
        return found

    def column_of(self, terms: Sequence[Identifier | None]) -> Column:
        """The ids of terms; None is not bound."""
        id_of = self.id_of
        return np.fromiter((UNBOUND if term is None else id_of(term) for term in terms), np.uint64, len(terms))

    def terms_of(self, column: Column) -> list[Identifier | None]:
        """The terms of ids, each distinct one decoded once; None for what is not bound."""
        numbers = column.tolist()
        known = self._terms
        if len(known) > _KEPT:
            known.clear()
        missing = {number for number in numbers if number not in known}
        missing.discard(UNBOUND)
        if missing:
            self._decode(missing)
        return [known.get(number) for number in numbers]

    def _decode(self, missing: set[int]) -> None:
        stored = []
        for number in missing:
            if number >= _LOCAL_BASE:
                self._terms[number] = self._locals[number - _LOCAL_BASE]
            else:
                stored.append(number)
        if stored:
            terms = self._reader.terms_of([number.to_bytes(ID_BYTES, "big") for number in stored])
            self._terms.update(zip(stored, terms, strict=True))

    def term_of(self, number: int) -> Identifier | None:
        """The term of one id."""
        return self.terms_of(np.array([number], np.uint64))[0]

    @staticmethod
    def is_local(number: int) -> bool:
        """Whether no statement of the store can have this id."""
        return number >= _LOCAL_BASE


def local(column: Column) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which ids are of the evaluation alone, so that their kind says nothing about the term."""
    return column >= np.uint64(_LOCAL_BASE)
