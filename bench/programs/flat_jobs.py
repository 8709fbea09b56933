"""A queue of jobs as flat code over the engine and the codec, for one thread: the cost of a job without collections.

It makes the same documents, index entries and commits as ``DocumentQueue``. Like lone statements in ``flat_works``, the
commit does not compare what was read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.programs.flat_shop import engine_of
from bench.programs.flat_works import commit_alone
from bench.programs.jobs import DocumentQueue
from bench.registry import Durability
from lowtide.documents.prepared.statements import located
from lowtide.engine import Range, Writes
from lowtide.values.codec import decode_document as decode
from lowtide.values.ordering import AFTER_ALL, ENCODERS

_encode = msgspec.msgpack.Encoder().encode
_text = ENCODERS[str]
_number = ENCODERS[int]


class FlatQueue(DocumentQueue):
    """One worker takes and deletes the jobs."""

    def __init__(self, directory: Path, durability: Durability, count: int) -> None:
        super().__init__(directory, durability, count)
        with self._store.transaction() as shown:
            tx = engine_of(shown)
            row, _, self._documents = located(tx, "jobs")
            self._entries = tx.engine.catalog.prefix_of(row.indexes[0].keyspace)
            self._engine = tx.engine

    def worker(self, number: int) -> Callable[[], int | None]:
        engine, documents, entries = self._engine, self._documents, self._entries
        read, first, registry = engine.reader.get_latest, engine.reader.first, engine.registry
        ready = entries + _text("ready")

        def work() -> int | None:
            entry = first(Range(ready, ready + AFTER_ALL), registry.published)
            if entry is None:
                return None
            lost, length = entry
            key = lost[-length[0] :]
            at = documents + key
            stored = read(at)
            assert stored is not None
            job = decode(stored)
            job["state"], job["worker"] = "taken", number
            got = entries + _text("taken") + _number(job["at"]) + key
            before: Writes = {at: stored, lost: length, got: None}
            commit_alone(engine, {at: _encode(job), lost: None, got: length}, before)
            key = _number(job["_id"])
            at = documents + key
            stored = read(at)
            assert stored is not None
            job = decode(stored)
            lost = entries + _text(job["state"]) + _number(job["at"]) + key
            before = {at: stored, lost: bytes((len(key),))}
            commit_alone(engine, dict.fromkeys(before), before)
            return int(job["_id"])

        return work
