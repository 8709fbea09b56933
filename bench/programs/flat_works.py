"""The common writes as flat code over the engine and the codec: the cost of a statement without collections.

As in ``flat_shop``, the documents and index entries are the same, and what a collection does for its caller is omitted.
A lone statement relies on there being one thread: its commit does not compare what was read, which no real statement
may do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import add
from pathlib import Path

import msgspec

from bench.programs.flat_shop import engine_of
from bench.programs.statements import BATCH, DocumentWorks, Row, make_row
from bench.registry import Durability
from lowtide.documents.prepared.statements import located
from lowtide.engine import Engine, Writes
from lowtide.engine.log.frame import encode_payload
from lowtide.values.codec import decode_document as decode
from lowtide.values.ordering import ENCODERS, encode_column

_encode = msgspec.msgpack.Encoder().encode
_number = ENCODERS[int]
_INDEXED = ("k", "at")
WORKS = ("update", "insert", "insert-many")


def commit_alone(engine: Engine, writes: Writes, before: Writes) -> None:
    """Commit in a process with one thread. ``before`` has the values of the same keys, in the same order."""
    payload = encode_payload(engine.time(), writes, None, list(before.values()), engine.before_images)
    seen = engine.registry.published
    done = engine.committer.commit_at_once(writes, payload, seen, 0, engine.durable)
    assert done


class FlatWorks(DocumentWorks):
    """Updates and inserts in their own store."""

    def __init__(self, directory: Path, durability: Durability, count: int) -> None:
        super().__init__(directory, durability, count)
        with self._store.transaction() as shown:
            tx = engine_of(shown)
            row, self._row_key, self._documents = located(tx, "rows")
            self._entries = [tx.engine.catalog.prefix_of(each.keyspace) for each in row.indexes]
            self._engine = tx.engine

    def run(self, work: str, numbers: Sequence[int], together: bool) -> int:
        if not together:
            engine = self._engine

            def commit(writes: Writes, before: Writes) -> None:
                commit_alone(engine, writes, before)

            return sum(self._do(work, number, engine.reader.get_latest, commit) for number in numbers)
        with self._store.transaction() as shown:
            tx, relied_on = engine_of(shown), (self._row_key,)

            def buffer(writes: Writes, before: Writes) -> None:
                tx.apply(writes, relied_on, before)

            return sum(self._do(work, number, tx.read, buffer) for number in numbers)

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
        writes = self._one() if work == "insert" else self._many()
        write(writes, dict.fromkeys(writes))
        return 0

    def _one(self) -> Writes:
        """The writes that insert the next document."""
        made: Row = {"_id": self._next, **make_row(self._next, self._count)}
        key = _number(self._next)
        writes: Writes = {self._documents + key: _encode(made)}
        for prefix, name in zip(self._entries, _INDEXED, strict=True):
            writes[prefix + _number(made[name]) + key] = bytes((len(key),))
        self._next += 1
        return writes

    def _many(self) -> Writes:
        """The same as ``_one``, for a batch, with loops in C over all of it."""
        numbers = range(self._next, self._next + BATCH)
        made: list[Row] = [{"_id": number, **make_row(number, self._count)} for number in numbers]
        keys = encode_column(int, numbers)
        writes: Writes = dict(zip(map(self._documents.__add__, keys), map(_encode, made), strict=True))
        for prefix, name in zip(self._entries, _INDEXED, strict=True):
            values = encode_column(int, [each[name] for each in made])
            full_keys = map(prefix.__add__, map(add, values, keys))
            writes.update(zip(full_keys, repeat(bytes((len(keys[0]),))), strict=False))
        self._next = numbers.stop
        return writes
