"""The terms of one evaluation: ids of the store's terms, and ids of its own for terms that the store does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from rdflib.term import Identifier

from lowtide.quads.hashing import ID_BYTES
from lowtide.quads.reading import IdReader
from lowtide.quads.sparql.deadline import Deadline
from lowtide.quads.sparql.tables import UNBOUND, Column

LOCAL: Final = 15
"""The kind of ids that only one evaluation knows: terms of the query, or computed by it, that the store lacks."""

BETWEEN_CHECKS: Final = 4_096
"""Terms that are translated between two checks of the clock."""
_LOCAL_BASE: Final = LOCAL << 60
_LOCAL: Final = _LOCAL_BASE.to_bytes(ID_BYTES, "big")
_UNBOUND: Final = UNBOUND.to_bytes(ID_BYTES, "big")


class TermSpace:
    """Translates between terms and ids. Belongs to one evaluation, hence to one thread."""

    def __init__(self, reader: IdReader, deadline: Deadline) -> None:
        self._reader = reader
        self._deadline = deadline
        self._ids: dict[Identifier, int] = {}
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
        column = np.empty(len(terms), np.uint64)
        for start in range(0, len(terms), BETWEEN_CHECKS):
            self._deadline.check()
            part = terms[start : start + BETWEEN_CHECKS]
            column[start : start + len(part)] = [UNBOUND if term is None else id_of(term) for term in part]
        return column

    def terms_of(self, column: Column) -> list[Identifier | None]:
        """The terms of ids; None for what is not bound. Those of the store are remembered by its dictionary."""
        raw = column.astype(">u8").tobytes()
        ids = [raw[start : start + ID_BYTES] for start in range(0, len(raw), ID_BYTES)]
        known = self._reader.known_terms.get
        found: list[Identifier | None] = [known(id) for id in ids]
        # Not with ``in``: the terms are compared in Python.
        missing = {id for id, term in zip(ids, found, strict=True) if term is None}
        missing.discard(_UNBOUND)
        if missing:
            decoded = self._decoded(missing)
            found = [decoded.get(id) if term is None else term for id, term in zip(ids, found, strict=True)]
        return found

    def _decoded(self, missing: set[bytes]) -> dict[bytes, Identifier]:
        decoded: dict[bytes, Identifier] = {}
        stored = []
        for id in missing:
            if id >= _LOCAL:
                decoded[id] = self._locals[int.from_bytes(id, "big") - _LOCAL_BASE]
            else:
                stored.append(id)
        for start in range(0, len(stored), BETWEEN_CHECKS):
            self._deadline.check()
            part = stored[start : start + BETWEEN_CHECKS]
            decoded.update(zip(part, self._reader.terms_of(part), strict=True))
        return decoded

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
