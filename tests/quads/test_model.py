"""Quads against a model: a plain set of statements for each commit.

Transactions at SNAPSHOT, savepoints, rollbacks, snapshots, checkpoints, collections of terms, crashes and reopening,
also with hashes so short that all terms collide. The model predicts every read and every conflict of writes.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from rdflib import BNode, Literal, URIRef

import lowtide
from lowtide.quads import DEFAULT
from tests.quads.colliding import short_hashes
from tests.support.parts import copy_as_crashed

NODES = st.sampled_from([URIRef("urn:a"), URIRef("urn:b"), BNode("c"), URIRef("urn:a long name of a node")])
PREDICATES = st.sampled_from([URIRef("urn:p"), URIRef("urn:q")])
OBJECTS = NODES | st.sampled_from([Literal(1), Literal("x"), Literal("a text that is long"), Literal("x", lang="en")])
GRAPHS = st.sampled_from([None, None, URIRef("urn:g"), BNode("c")])
QUADS = st.tuples(NODES, PREDICATES, OBJECTS, GRAPHS)
ANY = st.none()
PATTERNS = st.tuples(ANY | NODES, ANY | PREDICATES, ANY | OBJECTS, ANY | GRAPHS.map(lambda each: each or DEFAULT))


def matches(pattern: tuple[Any, ...], quad: tuple[Any, ...]) -> bool:
    return all(
        one is None or (one is DEFAULT and other is None) or one == other
        for one, other in zip(pattern, quad, strict=True)
    )


@dataclass
class OpenTx:
    """A transaction of the model: what it sees, what it has added and removed, and when it began."""

    real: lowtide.Transaction
    since: int
    epoch: int
    state: set[tuple[Any, ...]]
    added: set[tuple[Any, ...]] = field(default_factory=set)
    removed: set[tuple[Any, ...]] = field(default_factory=set)
    ended: bool = False


class QuadsModel(RuleBasedStateMachine):
    """``states[ts]`` is what there is after commit ``ts``."""

    transactions: Bundle[OpenTx] = Bundle("transactions")
    snapshots: Bundle[lowtide.Snapshot] = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="lowtide-quads-"))
        self.exits = contextlib.ExitStack()
        self.exits.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.current: set[tuple[Any, ...]] = set()
        self.wrote: list[tuple[int, set[tuple[Any, ...]], set[tuple[Any, ...]]]] = []
        self.copies = 0
        self.epoch = 0
        self.begun: list[OpenTx] = []

    @initialize(colliding=st.booleans())
    def start(self, colliding: bool) -> None:
        if colliding:
            self.exits.enter_context(short_hashes())
        self.path = self.directory / "store"
        self.open()

    def open(self) -> None:
        self.store = lowtide.open(self.path, durability="relaxed", checkpointer="thread")

    @rule(target=transactions)
    def begin(self) -> OpenTx:
        real = self.store.begin()
        tx = OpenTx(real, real.ts, self.epoch, set(self.current))
        self.begun.append(tx)
        return tx

    @rule(tx=transactions, quads=st.lists(QUADS, max_size=4), undone=st.booleans())
    def add(self, tx: OpenTx, quads: list[tuple[Any, ...]], undone: bool) -> None:
        if tx.ended:
            return
        with tx.real.savepoint() as savepoint:
            tx.real.quads("x").add_many(quads)
            if undone:
                savepoint.rollback()
        if not undone:
            tx.state |= set(quads)
            tx.added |= set(quads)
            tx.removed -= set(quads)

    @rule(tx=transactions, pattern=PATTERNS)
    def remove(self, tx: OpenTx, pattern: tuple[Any, ...]) -> None:
        if tx.ended:
            return
        gone = {quad for quad in tx.state if matches(pattern, quad)}
        assert tx.real.quads("x").remove(pattern) == len(gone)
        tx.state -= gone
        tx.removed |= gone
        tx.added -= gone

    @rule(tx=transactions, pattern=PATTERNS)
    def read(self, tx: OpenTx, pattern: tuple[Any, ...]) -> None:
        if tx.ended:
            return
        wanted = {quad for quad in tx.state if matches(pattern, quad)}
        quads = tx.real.quads("x")
        found = list(quads.match(pattern))
        assert set(found) == wanted
        assert len(found) == len(wanted) == quads.count(pattern)
        assert quads.contains(pattern) == bool(wanted)

    @rule(tx=consumes(transactions), rolled_back=st.booleans())
    def end(self, tx: OpenTx, rolled_back: bool) -> None:
        if tx.ended:
            return
        if rolled_back:
            tx.real.rollback()
            return
        later = [each for each in self.wrote if each[0] > tx.since]
        must = any(tx.removed & (added | removed) for _, added, removed in later)
        newest: dict[tuple[Any, ...], bool] = {}
        for _, added, removed in later:
            newest.update(dict.fromkeys(added, True))
            newest.update(dict.fromkeys(removed, False))
        must = must or any(newest.get(quad) is False for quad in tx.added)
        refused = ""
        try:
            ts = tx.real.commit()
        except lowtide.ConflictError as error:
            refused = error.keyspace
        if refused:  # if not for a statement, for a term that collides, or one that was collected
            assert must or refused.endswith("/terms") or (refused == "lowtide/quads" and self.epoch != tx.epoch)
            return
        assert not must
        if tx.added or tx.removed:
            self.wrote.append((ts, set(tx.added), set(tx.removed)))
            self.current = (self.current - tx.removed) | tx.added

    @rule(quads=st.lists(QUADS, min_size=1, max_size=5))
    def add_on_the_store(self, quads: list[tuple[Any, ...]]) -> None:
        self.store.quads("x").add_many(quads)
        self.wrote.append((self.store.stats().last_commit, set(quads), set()))
        self.current |= set(quads)

    @rule(target=snapshots)
    def snapshot(self) -> lowtide.Snapshot:
        snapshot = self.store.snapshot()
        assert set(snapshot.quads("x").match()) == self.current
        return snapshot

    @rule(snapshot=consumes(snapshots))
    def close_snapshot(self, snapshot: lowtide.Snapshot) -> None:
        with contextlib.suppress(lowtide.UsageError):  # the store was closed since
            before = set(snapshot.quads("x").match())
            self.store.collect_garbage()
            self.epoch += 1
            assert set(snapshot.quads("x").match()) == before
            snapshot.close()

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def collect(self) -> None:
        self.store.collect_garbage()
        self.epoch += 1

    @rule()
    def crash(self) -> None:
        self.copies += 1
        copy = self.directory / f"copy {self.copies}"
        copy_as_crashed(self.store, self.path, copy)
        with lowtide.open(copy, durability="relaxed", checkpointer="thread") as store:
            assert set(store.quads("x").match()) == self.current
            assert store.verify().problems == []

    @rule()
    def reopen(self) -> None:
        self.store.close()
        for tx in self.begun:
            tx.ended = True
        self.open()

    @invariant()
    def all_is_there(self) -> None:
        if hasattr(self, "store"):
            assert set(self.store.quads("x").match()) == self.current

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert self.store.verify().problems == []
            self.store.close()
        self.exits.close()


TestQuadsModel = QuadsModel.TestCase
TestQuadsModel.settings = settings(
    max_examples=25, stateful_step_count=30, suppress_health_check=list(HealthCheck), deadline=None
)
