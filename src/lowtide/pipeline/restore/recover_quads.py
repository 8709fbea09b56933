"""Applies the changes of quad stores in the rest of a lost store's log to another store.

Statements are in the log as ids. An id stands for the same term in both stores: it is a function of the term. The terms
of added statements are in the log too, or in the store that was restored, since a term is committed before or with the
first statement that has it. One case is left: a term that no statement had when the archive was last brought up to
date, and that had not been collected, is in neither. ``TermGone`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lowtide.engine import PrefixOf, WriteView
from lowtide.errors import Error
from lowtide.pipeline.archive.plan import QUADS_DETAILS
from lowtide.quads.hashing import DEFAULT_GRAPH, HASHED, ID_BYTES
from lowtide.quads.indexes import EXPLICIT, INFERRED, QUADS
from lowtide.store.transactions import Transaction, statements_of

if TYPE_CHECKING:
    from lowtide.quads import IdReader


class TermGone(Exception):
    """A statement in the log cannot be added; the message says why."""


class QuadReplay:
    """What the commits of a log do to quad stores. Used by one thread, with one commit after the other."""

    def __init__(self) -> None:
        self._terms: dict[tuple[str, bytes], bytes] = {}
        """The rows of terms that the log has, by quad store and id."""

    def write(self, tx: Transaction, changes: dict[str, dict[bytes, bytes | None]]) -> None:
        """Write what a commit wrote to the keyspaces of quad stores, given by keyspace and key."""
        named: dict[str, dict[str, dict[bytes, bytes | None]]] = {}
        for keyspace, writes in changes.items():
            name, _, what = keyspace.removeprefix(QUADS).rpartition("/")
            named.setdefault(name, {})[what] = writes
        for name, written in named.items():
            for id, row in written.get("terms", {}).items():
                if row is not None and len(id) == ID_BYTES:
                    self._terms[name, id] = row
            self._statements(tx, name, written.get("spoc", {}))
            for what in QUADS_DETAILS:
                if what in written:
                    put_rows(tx, f"{QUADS}{name}/{what}", written[what])

    def _statements(self, tx: Transaction, name: str, writes: dict[bytes, bytes | None]) -> None:
        quads = tx.quads(name)
        removed = [key for key, value in writes.items() if value != EXPLICIT]
        if removed:
            quads.change(removes=removed)
        for value in (EXPLICIT, INFERRED):
            added = [key for key, each in writes.items() if each == value]
            if added:
                terms = self._terms_of(tx, name, added)
                statements = [tuple(terms[key[at : at + ID_BYTES]] for at in range(0, 32, ID_BYTES)) for key in added]
                quads.add_many(statements, inferred=value == INFERRED)

    def _terms_of(self, tx: Transaction, name: str, keys: list[bytes]) -> dict[bytes, Any]:
        from lowtide.quads.ids import decode_row, inline_term

        found: dict[bytes, Any] = {DEFAULT_GRAPH: None}
        with tx.quads(name).reader() as reader:
            for id in {key[at : at + ID_BYTES] for key in keys for at in range(0, 32, ID_BYTES)} - {DEFAULT_GRAPH}:
                if id[0] >> 4 not in HASHED:
                    found[id] = inline_term(id)
                elif (row := self._terms.get((name, id))) is not None:
                    found[id] = decode_row(id[0] >> 4, row)
                else:
                    found[id] = self._restored(reader, name, id)
        return found

    @staticmethod
    def _restored(reader: IdReader, name: str, id: bytes) -> Any:
        try:
            return reader.term_of(id)
        except Error as error:
            raise TermGone(
                f"adds a statement to the quad store {name!r} whose term, with the id {id.hex()}, is neither in the "
                "log nor in what was restored"
            ) from error


def put_rows(tx: Transaction, keyspace: str, rows: Mapping[bytes, bytes | None]) -> None:
    """Write rows of a keyspace that belongs to a kind of data, as they are."""

    def work(writing: WriteView, prefix_of: PrefixOf) -> None:
        prefix = prefix_of(keyspace)
        writing.apply({prefix + key: value for key, value in rows.items()}, ())

    statements_of(tx).write(work)
