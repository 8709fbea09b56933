"""Replaying the change feed from empty gives the content of the store: at every commit, at every level, whatever runs
concurrently."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lowtide
from lowtide import Change, Isolation
from tests.property.profile import whole_store

Place = tuple[str, bytes]
State = dict[Place, bytes]

OPTIONS: dict[str, Any] = {
    "durability": "relaxed",
    "feed_bytes": 1 << 30,
    "segment_bytes": 4096,
    "map_size": 1 << 22,
    "checkpointer": "thread",
    "sync_interval": 1000,
    "collect_threshold": 1,
}

places = st.tuples(st.sampled_from(["left", "right"]), st.sampled_from([b"a", b"b", b"c", b"d"]))
values = st.one_of(st.none(), st.binary(max_size=3), st.just(b"long" * 200))
writes = st.dictionaries(places, values, min_size=1, max_size=5)
buffered = st.sampled_from([Isolation.READ_COMMITTED, Isolation.SNAPSHOT, Isolation.SERIALIZABLE])


def replay(changes: Iterable[Change], state: State, *, before: bool) -> dict[int, State]:
    """The states after each commit that changed something; every change must fit what is there."""
    states: dict[int, State] = {}
    seen: set[tuple[int, Place]] = set()
    for change in changes:
        place = (change.keyspace, change.key)
        assert (change.ts, place) not in seen, "one change to a key and commit"
        seen.add((change.ts, place))
        old = state.get(place)
        assert change.kind == ("delete" if change.value is None else "insert" if old is None else "update"), change
        assert change.kind != "delete" or old is not None, change
        assert change.before == (old if before else None), change
        if change.value is None:
            del state[place]
        else:
            state[place] = change.value
        states[change.ts] = dict(state)
    return states


class Changes(RuleBasedStateMachine):
    """A store, the states it went through, and a consumer that reads along."""

    @initialize(before=st.booleans())
    def open(self, before: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="lowtide-changes-"))
        self.copies = 0
        self.before = before
        self.states: list[State] = [{}]
        self.holders: list[lowtide.Snapshot] = []
        self.path = self.directory / "store"
        self.store = lowtide.open(self.path, **OPTIONS, before_images=before)
        self.mirror: State = {}
        self.store.consumer("mirror", since=0)

    def note(self, change: dict[Place, bytes | None]) -> None:
        merged: dict[Place, bytes | None] = {**self.states[-1], **change}
        self.states.append({place: value for place, value in merged.items() if value is not None})
        assert self.store.stats().last_commit == len(self.states) - 1

    def write(self, tx: lowtide.Transaction, change: dict[Place, bytes | None]) -> None:
        for (name, key), value in change.items():
            if value is None:
                tx.keyspace(name).delete(key)
            else:
                tx.keyspace(name).put(key, value)

    @rule(place=places, value=values)
    def autocommit(self, place: Place, value: bytes | None) -> None:
        keyspace = self.store.keyspace(place[0])
        if value is None:
            keyspace.delete(place[1])
        else:
            keyspace.put(place[1], value)
        self.note({place: value})

    @rule(level=buffered, change=writes, undone=st.none() | writes, meanwhile=st.none() | st.tuples(places, values))
    def transaction(
        self,
        level: Isolation,
        change: dict[Place, bytes | None],
        undone: dict[Place, bytes | None] | None,
        meanwhile: tuple[Place, bytes | None] | None,
    ) -> None:
        """A transaction, with a part that is rolled back, and beside a commit that it did not see."""
        tx = self.store.begin(level)
        if undone is not None:
            savepoint = tx.savepoint()
            savepoint.__enter__()
            self.write(tx, undone)
            savepoint.__exit__(ValueError, ValueError(), None)
        self.write(tx, change)
        if meanwhile is not None:
            self.autocommit(*meanwhile)
        try:
            tx.commit()
        except lowtide.ConflictError:
            assert level != Isolation.READ_COMMITTED
            assert meanwhile is not None
            return
        self.note(change)

    @rule(change=writes)
    def at_once(self, change: dict[Place, bytes | None]) -> None:
        tx = self.store.begin(Isolation.NONE)
        for place, value in change.items():
            self.write(tx, {place: value})
            self.note({place: value})
        tx.commit()

    @rule()
    def hold(self) -> None:
        self.holders.append(self.store.snapshot())

    @precondition(lambda self: self.holders)
    @rule()
    def let_go(self) -> None:
        self.holders.pop(0).close()

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def collect(self) -> None:
        self.store.collect_garbage()

    @rule(killed=st.booleans())
    def reopen(self, killed: bool) -> None:
        self.holders.clear()
        if killed:
            self.copies += 1
            copy = self.directory / f"copy {self.copies}"
            shutil.copytree(self.path, copy)
            self.store.close()
            self.path = copy
        else:
            self.store.close()
        self.store = lowtide.open(self.path, **OPTIONS, before_images=self.before)

    @rule()
    def consume(self) -> None:
        """The mirror comes up to date from where it stands."""
        consumer = self.store.consumer("mirror")
        replay(consumer.changes(before=self.before), self.mirror, before=self.before)
        assert self.mirror == self.states[-1]
        consumer.ack(len(self.states) - 1)

    @rule(data=st.data())
    def part(self, data: st.DataObject) -> None:
        """Any stretch, and any keyspace of it, is the change from one state to another."""
        since = data.draw(st.integers(0, len(self.states) - 1))
        until = data.draw(st.integers(since, len(self.states) - 1))
        state = dict(self.states[since])
        replay(self.store.changes(since, until, before=self.before), state, before=self.before)
        assert state == self.states[until]
        left = {place: value for place, value in self.states[since].items() if place[0] == "left"}
        replay(self.store.changes(since, until, ["left"], before=self.before), left, before=self.before)
        assert left == {place: value for place, value in self.states[until].items() if place[0] == "left"}

    @invariant()
    def the_whole_feed_gives_the_store(self) -> None:
        if not hasattr(self, "store"):
            return
        states = replay(self.store.changes(before=self.before), {}, before=self.before)
        last: State = {}
        for ts, expected in enumerate(self.states):
            last = states.get(ts, last)
            assert last == expected, ts
        with self.store.snapshot() as snapshot:
            content = {(n, key): value for n in self.store.keyspaces() for key, value in snapshot.keyspace(n).scan()}
        assert content == last

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.holders.clear()
            self.store.close()
            shutil.rmtree(self.directory, ignore_errors=True)


TestChanges = Changes.TestCase
TestChanges.settings = whole_store
