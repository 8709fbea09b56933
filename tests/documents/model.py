"""The model that collections are tested against: plain dicts, one for each commit, and what transactions see."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

import lowtide
from lowtide import Isolation
from lowtide.documents.indexes.entries import IndexEntries
from lowtide.values.values import Document
from tests.support.collections import check_collection, row_in

Key = tuple[Any, ...]
"""A document, an entry of a unique index, or the row of a collection."""
State = dict[str, dict[int, Document]]
FIXED = (Isolation.SNAPSHOT, Isolation.SERIALIZABLE)


@dataclass
class ModelTx:
    """A transaction: what it wrote, what its commit relies on, each with the commit at which it was seen, and for
    SERIALIZABLE what its queries have found."""

    real: lowtide.Transaction
    level: Isolation
    since: int
    ended: bool = False
    documents: dict[tuple[str, int], Document | None] = field(default_factory=dict)
    written: set[Key] = field(default_factory=set)
    guards: dict[Key, int] = field(default_factory=dict)
    queries: list[tuple[str, Callable[[Document], bool], dict[int, Document]]] = field(default_factory=list)


class Model(RuleBasedStateMachine):
    """``states[ts]`` is the content after commit ``ts``; ``changed[ts]`` what it wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="lowtide-model-"))
        self.states: list[State] = [{}]
        self.changed: list[set[Key]] = [set()]
        self.known_rows: dict[str, bytes | None] = {}
        self.open_snapshots: list[lowtide.Snapshot] = []
        self.open_transactions: list[ModelTx] = []

    def open(self) -> None:
        self.path = self.directory / "store"
        self.store = lowtide.open(
            self.path,
            durability="relaxed",
            checkpointer="thread",
            collect_threshold=1,
            segment_bytes=16384,
            checkpoint_bytes=20_000,
            map_size=1 << 20,
        )
        assert self.store.stats().last_commit == self.last

    @property
    def last(self) -> int:
        return len(self.states) - 1

    def committed(self, state: State, keys: set[Key]) -> None:
        """Note what the store has just committed; it may have taken several commits."""
        keys |= {("row", name) for name, row in self.rows().items() if row != self.known_rows.get(name)}
        for _ in range(self.store.stats().last_commit - self.last):
            self.states.append(state)
            self.changed.append(keys)
        self.known_rows = self.rows()

    def rows(self) -> dict[str, bytes | None]:
        keyspace = self.store.keyspace("lowtide/collections")
        return {name: keyspace.get(name.encode()) for name in ("a", "b")}

    # What a transaction sees and does

    def view(self, tx: ModelTx, name: str) -> dict[int, Document]:
        found = dict(self.states[tx.since if tx.level in FIXED else self.last].get(name, {}))
        for (collection, _id), document in tx.documents.items():
            if collection == name:
                found.pop(_id, None)
                if document is not None:
                    found[_id] = document
        return found

    def overtaken(self, tx: ModelTx) -> bool:
        """Whether a later commit has changed what this one relies on."""
        return any(key in keys for key, seen in tx.guards.items() for keys in self.changed[seen + 1 :])

    def is_over(self, tx: ModelTx) -> bool:
        """Whether nothing more can be said of it: it has ended, or, below SNAPSHOT, where it sees what others commit,
        its own writes no longer fit to that, and its commit will be refused."""
        return tx.ended or (tx.level not in FIXED and self.overtaken(tx))

    def change(self, tx: ModelTx, name: str, changes: dict[int, Document | None], work: Callable[[], object]) -> None:
        """A statement that makes these documents of the collection; refused, if an index says so."""
        before = self.view(tx, name)
        changes = {_id: new for _id, new in changes.items() if new != before.get(_id)}
        keys = self.keys_of(tx.real, name, before, changes)
        if keys is None:
            try:
                work()
            except lowtide.WriteError:
                return
            raise AssertionError("it must be refused")
        work()
        seen = tx.since if tx.level in FIXED else self.last
        if changes:
            tx.guards.setdefault(("row", name), seen)
        for key in keys:
            tx.written.add(key)
            if tx.level not in FIXED:
                tx.guards.setdefault(key, seen)
        tx.documents.update({(name, _id): new for _id, new in changes.items()})
        if tx.level is not Isolation.SERIALIZABLE:
            assert check_collection(tx.real, name) == self.view(tx, name)

    def keys_of(
        self, source: Any, name: str, before: dict[int, Document], changes: dict[int, Document | None]
    ) -> set[Key] | None:
        """What the changes write, entries of unique indexes included; None if they cannot be: one after the other, as
        the statement goes through them."""
        keys: set[Key] = set()
        now = dict(before)
        indexes = [IndexEntries(each) for each in row_in(source, name).indexes]
        for _id, new in changes.items():
            old = now.pop(_id, None)
            keys.add((name, _id))
            for entries in indexes:
                try:
                    wanted = set(entries.of(new)[0]) if new is not None else set()
                except lowtide.WriteError:
                    return None
                had = set(entries.of(old)[0]) if old is not None else set()
                if entries.index.unique:
                    taken = {each for other in now.values() for each in entries.of(other)[0]}
                    if taken & (wanted - had):
                        return None
                    keys |= {(name, entries.index.name, each) for each in wanted ^ had}
            if new is not None:
                now[_id] = new
        return keys

    def end_all(self) -> None:
        self.store.close()
        self.open_snapshots.clear()
        for tx in self.open_transactions:
            tx.ended = True
        self.open_transactions.clear()


def without_empty(state: State) -> State:
    return {name: documents for name, documents in state.items() if documents}
