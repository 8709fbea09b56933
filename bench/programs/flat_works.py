"""The common writes as flat code over the engine and the codec: what a statement costs without collections.

As ``flat_shop``: the same documents and index entries, and none of what a collection does for its caller. Alone, the
last write wins: what was read is not compared at the commit, as no statement may do it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.programs.flat_shop import engine_of
from bench.programs.statements import DocumentWorks, Row, make_row
from bench.registry import Durability
from lowtide.documents.prepared.statements import located
from lowtide.engine import Writes
from lowtide.engine.transaction.autocommit import Autocommit
from lowtide.values.codec import decode_document as decode
from lowtide.values.ordering import ENCODERS

_encode = msgspec.msgpack.Encoder().encode
_number = ENCODERS[int]
WORKS = ("update", "insert")


class FlatWorks(DocumentWorks):
    """Updates and inserts in a store of its own."""

    def __init__(self, directory: Path, durability: Durability, count: int) -> None:
        super().__init__(directory, durability, count)
        with self._store.transaction() as shown:
            tx = engine_of(shown)
            row, self._row_key, self._documents = located(tx, "rows")
            self._entries = [tx.engine.catalog.prefix_of(each.keyspace) for each in row.indexes]
            self._alone = Autocommit(tx.engine)

    def run(self, work: str, numbers: Sequence[int], together: bool) -> int:
        if not together:
            return sum(self._do(work, number, self._alone.read, self._commit) for number in numbers)
        with self._store.transaction() as shown:
            tx, relied_on = engine_of(shown), (self._row_key,)

            def buffer(writes: Writes, before: Writes) -> None:
                tx.apply(writes, relied_on, before)

            return sum(self._do(work, number, tx.read, buffer) for number in numbers)

    def _commit(self, writes: Writes, before: Writes) -> None:
        self._alone.write_many(writes)

    def _do(
        self, work: str, number: int, read: Callable[[bytes], bytes | None], write: Callable[[Writes, Writes], None]
    ) -> int:
        if work == "update":
            at = self._documents + _number(number)
            stored = read(at)
            assert stored is not None
            document = decode(stored)
            document["f1"] = f"new {number}"
            document["n"] += 1
            write({at: _encode(document)}, {at: stored})
            return 1
        made: Row = {"_id": self._next, **make_row(self._next, self._count)}
        key = _number(self._next)
        writes: Writes = {self._documents + key: _encode(made)}
        for prefix, name in zip(self._entries, ("k", "at"), strict=True):
            writes[prefix + _number(made[name]) + key] = bytes((len(key),))
        write(writes, dict.fromkeys(writes))
        self._next += 1
        return 0
