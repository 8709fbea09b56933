"""Collections with indexes against a model: plain dicts, one for each commit.

Many concurrent transactions at all levels, savepoints, indexes and collections that come and go, checkpoints, garbage
collections, reopening and crashes. The model predicts every read, every refusal and every conflict, except those over
what a serializable transaction has read: of these it knows which must and which must not occur. LOWTIDE_MODEL_EXAMPLES
sets the number of examples.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, consumes, initialize, invariant, rule

import lowtide
from lowtide import Isolation
from lowtide.documents.filters import compile_filter
from lowtide.values.values import Document
from tests.documents.model import FIXED, Key, Model, ModelTx, without_empty
from tests.support.collections import check_collection, check_store
from tests.support.parts import copy_as_crashed

LEVELS = [Isolation.READ_COMMITTED, Isolation.SNAPSHOT_READ, *FIXED]

NAMES = st.sampled_from(["a", "a", "b"])
IDS = st.integers(0, 4)
VALUES = st.sampled_from([None, 0, 1, 2, "s", [0, 1], [], [1, "s"], "x" * 300])
BODIES = st.dictionaries(st.sampled_from(["v", "w", "u"]), VALUES, max_size=3)
FILTERS = st.one_of(
    st.builds(lambda path, value: {path: value}, st.sampled_from(["v", "w", "u"]), VALUES),
    st.builds(lambda path, value: {path: {"$gte": value}}, st.sampled_from(["v", "w"]), st.sampled_from([0, 1, "s"])),
    st.builds(lambda first, second: {"$or": [{"v": first}, {"u": second}]}, VALUES, VALUES),
    st.just({}),
)
INDEXES: st.SearchStrategy[tuple[Any, dict[str, Any]]] = st.sampled_from(
    [
        ("v", {}),
        ([("v", -1), ("w", 1)], {}),
        ("u", {"unique": True, "sparse": True}),
        ("w", {"unique": True, "partialFilterExpression": {"w": {"$gte": 0}}}),
        ("u.x", {}),
    ]
)
SELDOM = st.sampled_from([False] * 5 + [True])


class CollectionModel(Model):
    """What may be done to the store, each by a rule that says what must come of it."""

    transactions: Bundle[ModelTx] = Bundle("transactions")
    snapshots: Bundle[lowtide.Snapshot] = Bundle("snapshots")

    @initialize()
    def start(self) -> None:
        self.open()
        self.create_index("a", ("v", {}))
        for _id in range(4):
            self.at_once("a", _id, {"v": _id % 2, "w": _id}, False)

    @rule(target=transactions, level=st.sampled_from(LEVELS), name=NAMES, _id=IDS, body=BODIES)
    def begin(self, level: Isolation, name: str, _id: int, body: Document) -> ModelTx:
        tx = ModelTx(self.store.begin(level), level, self.last)
        self.open_transactions.append(tx)
        self.replace(tx, name, _id, body)
        return tx

    @rule(tx=transactions, name=NAMES, _id=IDS, body=BODIES)
    def insert(self, tx: ModelTx, name: str, _id: int, body: Document) -> None:
        if self.is_over(tx):
            return
        document = {"_id": _id, **body}
        if _id in self.view(tx, name):
            try:
                tx.real[name].insert_one(document)
            except lowtide.DuplicateKeyError:
                return
            raise AssertionError("the _id is taken")
        self.change(tx, name, {_id: document}, lambda: tx.real[name].insert_one(document))

    @rule(tx=transactions, name=NAMES, _id=IDS, body=BODIES)
    def replace(self, tx: ModelTx, name: str, _id: int, body: Document) -> None:
        if not self.is_over(tx):
            work: Callable[[], object] = lambda: tx.real[name].replace_one({"_id": _id}, body, upsert=True)  # noqa: E731
            self.change(tx, name, {_id: {"_id": _id, **body}}, work)

    @rule(tx=transactions, name=NAMES, filter=FILTERS, path=st.sampled_from(["v", "w", "z"]), value=VALUES)
    def update_many(self, tx: ModelTx, name: str, filter: dict[str, Any], path: str, value: Any) -> None:
        if self.is_over(tx):
            return
        found = self.matching(tx, name, filter)
        after: dict[int, Document | None] = {_id: {**each, path: value} for _id, each in found.items()}
        self.change(tx, name, after, lambda: tx.real[name].update_many(filter, {"$set": {path: value}}))

    @rule(tx=transactions, name=NAMES, filter=FILTERS)
    def delete_many(self, tx: ModelTx, name: str, filter: dict[str, Any]) -> None:
        if self.is_over(tx):
            return
        found = self.matching(tx, name, filter)
        self.change(tx, name, dict.fromkeys(found), lambda: tx.real[name].delete_many(filter))

    def matching(self, tx: ModelTx, name: str, filter: dict[str, Any]) -> dict[int, Document]:
        matches = compile_filter(filter).matches
        found = {_id: each for _id, each in sorted(self.view(tx, name).items()) if matches(each)}
        if tx.level is Isolation.SERIALIZABLE:
            seen = self.states[tx.since].get(name, {})
            tx.queries.append((name, matches, {_id: each for _id, each in seen.items() if matches(each)}))
        return found

    @rule(tx=transactions, name=NAMES, filter=FILTERS, sort=st.none() | st.sampled_from(["v", "w", "_id"]))
    def find(self, tx: ModelTx, name: str, filter: dict[str, Any], sort: str | None) -> None:
        if self.is_over(tx):
            return
        expected = self.matching(tx, name, filter)
        self.check_find(tx.real[name], filter, sort, expected)

    def check_find(self, collection: Any, filter: Any, sort: str | None, expected: dict[int, Document]) -> None:
        found = list(collection.find(filter, sort=sort))
        assert len(found) == len(expected)
        assert {each["_id"]: each for each in found} == expected
        assert collection.count_documents(filter) == len(expected)

    @rule(tx=transactions, name=NAMES, _id=IDS, body=BODIES, keep=st.booleans())
    def savepoint(self, tx: ModelTx, name: str, _id: int, body: Document, keep: bool) -> None:
        if self.is_over(tx):
            return
        documents, written = dict(tx.documents), set(tx.written)
        with tx.real.savepoint() as savepoint:
            self.replace(tx, name, _id, body)
            self.delete_many(tx, name, {"v": 1})
            if not keep:
                savepoint.rollback()
                tx.documents, tx.written = documents, written
        if tx.level is not Isolation.SERIALIZABLE:
            assert check_collection(tx.real, name) == self.view(tx, name)

    # Ending

    def must_conflict(self, tx: ModelTx) -> bool:
        since = set().union(*self.changed[tx.since + 1 :])
        if self.overtaken(tx) or (tx.level in FIXED and since & tx.written):
            return True
        state = self.states[-1]
        return any(
            found != {_id: each for _id, each in state.get(name, {}).items() if matches(each)}
            for name, matches, found in tx.queries
        )

    @rule(tx=consumes(transactions))
    def commit(self, tx: ModelTx) -> None:
        if tx.ended:
            return
        tx.ended = True
        must = bool(tx.documents) and self.must_conflict(tx)
        may = must or (tx.level is Isolation.SERIALIZABLE and self.last > tx.since)
        state = {name: dict(documents) for name, documents in self.states[-1].items()}
        for (name, _id), document in tx.documents.items():
            state.setdefault(name, {}).pop(_id, None)
            if document is not None:
                state[name][_id] = document
        try:
            tx.real.commit()
        except lowtide.ConflictError:
            assert may, "nobody has changed what it relies on"
        else:
            assert not must, "somebody has changed what it relies on"
            self.committed(state, tx.written)

    @rule(tx=consumes(transactions))
    def roll_back(self, tx: ModelTx) -> None:
        if not tx.ended:
            tx.ended = True
            tx.real.rollback()

    # Statements of the store

    @rule(name=NAMES, _id=IDS, body=BODIES, delete=st.booleans())
    def at_once(self, name: str, _id: int, body: Document, delete: bool) -> None:
        collection = self.store.collection(name)
        before = self.states[-1].get(name, {})
        new = None if delete else {"_id": _id, **body}
        if new == before.get(_id):
            return
        with self.store.snapshot() as snapshot:
            keys = self.keys_of(snapshot, name, before, {_id: new})
        try:
            if delete:
                collection.delete_one({"_id": _id})
            else:
                collection.replace_one({"_id": _id}, body, upsert=True)
        except lowtide.WriteError:
            assert keys is None
            return
        assert keys is not None, "it must be refused"
        kept = {each: document for each, document in before.items() if each != _id}
        self.committed({**self.states[-1], name: kept if new is None else {**kept, _id: new}}, keys)

    @rule(tx=consumes(transactions), body=BODIES, delete=st.booleans(), alone=st.booleans())
    def overtake(self, tx: ModelTx, body: Document, delete: bool, alone: bool) -> None:
        """Change or delete a document that a transaction has written, just before its commit. If ``alone``, no other
        transaction or snapshot holds the old versions."""
        if tx.ended or not tx.documents:
            return
        for other in self.open_transactions if alone else ():
            if other is not tx:
                self.roll_back(other)
        while alone and self.open_snapshots:
            self.let_go(self.open_snapshots[0])
        name, _id = next(iter(tx.documents))
        self.at_once(name, _id, body, delete)
        self.upkeep()
        self.commit(tx)

    def all_of(self, name: str) -> set[Key]:
        return {(name, _id) for _id in self.states[-1].get(name, {})}

    @rule(name=NAMES, index=INDEXES)
    def create_index(self, name: str, index: tuple[Any, dict[str, Any]]) -> None:
        keys, options = index
        collection = self.store.collection(name)
        try:
            collection.create_index(keys, **options)
        except lowtide.DuplicateKeyError:
            assert options.get("unique")
            documents = list(self.states[-1][name].values())
            values = [str(value) for each in documents for value in _spread(each.get(keys))]
            assert len(values) > len(set(values)), "there are no duplicates"
        except lowtide.WriteError:
            assert len(keys) == 2
        self.committed(self.states[-1], set())

    @rule(name=NAMES, which=st.integers(0, 3))
    def drop_index(self, name: str, which: int) -> None:
        collection = self.store.collection(name)
        names = list(collection.index_information())[1:]
        if which < len(names):
            collection.drop_index(names[which])
            self.committed(self.states[-1], set())

    @rule(name=NAMES, really=SELDOM)
    def drop(self, name: str, really: bool) -> None:
        if really:
            keys = self.all_of(name)
            self.store.collection(name).drop()
            self.committed({each: some for each, some in self.states[-1].items() if each != name}, keys)

    @rule(name=NAMES, really=SELDOM)
    def rename(self, name: str, really: bool) -> None:
        if not really or name not in self.store.list_collection_names():
            return
        other = "b" if name == "a" else "a"
        keys = self.all_of(name) | self.all_of(other)
        self.store.collection(name).rename(other, dropTarget=True)
        self.committed({other: self.states[-1].get(name, {})}, keys)

    # Snapshots and upkeep

    @rule(target=snapshots)
    def take(self) -> lowtide.Snapshot:
        snapshot = self.store.snapshot()
        self.open_snapshots.append(snapshot)
        return snapshot

    @rule(snapshot=consumes(snapshots))
    def let_go(self, snapshot: lowtide.Snapshot) -> None:
        if snapshot in self.open_snapshots:
            self.open_snapshots.remove(snapshot)
            snapshot.close()

    @rule()
    def upkeep(self) -> None:
        self.store.checkpoint()
        self.store.collect_garbage()

    @rule(really=SELDOM)
    def reopen(self, really: bool) -> None:
        if really:
            self.end_all()
            self.open()

    @rule(really=SELDOM)
    def crash(self, really: bool) -> None:
        """A copy of the files opens with everything that was committed, whatever was open at the time."""
        if not really:
            return
        copy = self.directory / "copy"
        copy_as_crashed(self.store, self.path, copy)
        with lowtide.open(copy, checkpointer="thread") as recovered:
            assert without_empty(check_store(recovered)) == without_empty(self.states[-1])
        shutil.rmtree(copy)

    # What must hold after every step

    @invariant()
    def everybody_sees_what_they_should(self) -> None:
        if not hasattr(self, "store"):
            return
        assert without_empty(check_store(self.store)) == without_empty(self.states[-1])
        for snapshot in self.open_snapshots:
            for name in ("a", "b"):
                expected = self.states[snapshot.ts].get(name, {})
                assert check_collection(snapshot, name) == expected
                ones = {_id: each for _id, each in expected.items() if compile_filter({"v": 1}).matches(each)}
                self.check_find(snapshot.collection(name), {"v": 1}, None, ones)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.end_all()
        shutil.rmtree(self.directory)


def _spread(value: Any) -> list[Any]:
    return value or [[]] if isinstance(value, list) else [value]


TestCollectionModel = CollectionModel.TestCase
TestCollectionModel.settings = settings(
    max_examples=int(os.environ.get("LOWTIDE_MODEL_EXAMPLES", "25")),
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
