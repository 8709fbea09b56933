"""A broken engine: it has snapshots and commits, but does not check for conflicts."""

from __future__ import annotations

from typing import Any


class HastyEngine:
    """Keeps all versions of each key. A transaction reads from its snapshot, and every commit is accepted."""

    def __init__(self) -> None:
        self.commits = 0
        self.versions: dict[bytes, list[tuple[int, bytes]]] = {}

    def begin(self, isolation: object = "serializable", *, read_only: bool = False) -> HastyTransaction:
        return HastyTransaction(self)


class HastyTransaction:
    """The interface that the audit's recorder expects of a transaction and its keyspace."""

    def __init__(self, engine: HastyEngine) -> None:
        self._engine = engine
        self._ts = engine.commits
        self._writes: dict[bytes, bytes] = {}

    def keyspace(self, name: str) -> HastyTransaction:
        return self

    def get(self, key: bytes) -> bytes | None:
        if key in self._writes:
            return self._writes[key]
        seen = [value for ts, value in self._engine.versions.get(key, ()) if ts <= self._ts]
        return seen[-1] if seen else None

    def put(self, key: bytes, value: bytes) -> None:
        self._writes[key] = value

    def scan(self, start: bytes | None = None, stop: bytes | None = None) -> Any:
        return iter(())

    def commit(self) -> int:
        self._engine.commits += 1
        for key, value in self._writes.items():
            self._engine.versions.setdefault(key, []).append((self._engine.commits, value))
        return self._engine.commits

    def rollback(self) -> None:
        self._writes.clear()
