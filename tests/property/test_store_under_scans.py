"""Scans that stay open while the store changes; exactly what they see is kept (I3, I9, I12, G3, G4, K1, K4).

This complements test_store_model with what takes more than one step. A scan is consumed entry by entry over chunks of
one or two entries, with commits, checkpoints in a thread or a process, collections and writes of its own transaction in
between. After every step each version that is kept is seen by a holder, and holders that were dropped without being
closed count as ended.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lowtide
from lowtide import Isolation
from lowtide.engine.checkpoint import checkpointer
from lowtide.engine.garbage.account import superseded
from lowtide.engine.versions import visibility
from tests.garbage.background import still
from tests.property.model import FIXED, Change, Model, OpenScan, Tx, Wanted
from tests.property.profile import whole_store
from tests.support.parts import parts_of

keys = st.sampled_from([b"", b"a", b"aa", b"ab", b"b", b"b\x00", b"\xff", b"\xff\xff"])
places = st.tuples(st.sampled_from(["k", "l"]), keys)
changes = st.dictionaries(places, st.sampled_from([None, b"", b"x", b"y"]), min_size=1, max_size=4)
wanted = st.builds(
    Wanted, st.sampled_from(["k", "k", "l"]), st.none() | keys, st.none() | keys, st.none() | keys, st.booleans()
)
levels = st.sampled_from([Isolation.SNAPSHOT_READ, Isolation.SNAPSHOT, Isolation.SERIALIZABLE])
anybody = st.integers(0, 100)


class StoreUnderScans(RuleBasedStateMachine):
    """The store, its model, and all that is open on both."""

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self.directory = Path(tempfile.mkdtemp(prefix="lowtide-scans-"))
        self.generation = 0
        self.model = Model()
        self.transactions: list[Tx] = []
        self.snapshots: list[lowtide.Snapshot] = []
        self.scans: list[OpenScan] = []
        self.ended: set[Tx | lowtide.Snapshot] = set()

    @initialize(
        collector=st.sampled_from(["exact", "exact", "watermark"]),
        chunk=st.integers(1, 3),
        helped=st.sampled_from([False] * 7 + [True]),
        background=st.booleans(),
    )
    def start(self, collector: str, chunk: int, helped: bool, background: bool) -> None:
        self._patch.setattr(visibility, "_FIRST_CHUNK", chunk)
        self._patch.setattr(visibility, "_LARGEST_CHUNK", chunk + 1)
        self._patch.setattr(checkpointer, "HELPER_FROM", 2 if helped else 1 << 30)
        self.collector = collector
        self.checkpoint_bytes = 1500 if background else 1 << 30
        self.open()

    @property
    def path(self) -> Path:
        return self.directory / str(self.generation)

    def open(self) -> None:
        self.store = lowtide.open(
            self.path,
            durability="relaxed",
            collector="exact" if self.collector == "exact" else "watermark",
            collect_threshold=1,
            checkpoint_bytes=self.checkpoint_bytes,
            segment_bytes=4096,
            map_size=1 << 18,
            cache_rows=2,
        )
        assert self.store.stats().last_commit == self.model.last
        assert self.store.stats().history == 0

    # Changes

    @rule(change=changes)
    def commit_at_once(self, change: Change) -> None:
        with self.store.transaction() as tx:
            write(tx, change)
        self.model.commit(change)

    @rule(level=levels, change=changes)
    def begin(self, level: Isolation, change: Change) -> None:
        tx = Tx(self.store.begin(level), level, self.model.last)
        write(tx.real, change)
        tx.writes.update(change)
        self.transactions.append(tx)

    @precondition(lambda self: self.transactions)
    @rule(who=anybody, change=changes, undone=st.booleans())
    def write_more(self, who: int, change: Change, undone: bool) -> None:
        """Also what its own open scans have yet to reach: they show its writes as they were when they began."""
        tx = self.transactions[who % len(self.transactions)]
        if undone:
            with tx.real.savepoint() as savepoint:
                write(tx.real, change)
                savepoint.rollback()
        else:
            write(tx.real, change)
            tx.writes.update(change)

    @precondition(lambda self: self.transactions)
    @rule(who=anybody, how=st.sampled_from(["commit", "roll back", "drop"]))
    def end(self, who: int, how: str) -> None:
        tx = self.transactions.pop(who % len(self.transactions))
        if how == "drop":
            self.scans = [scan for scan in self.scans if scan.holder is not tx]
            return
        if how == "roll back":
            tx.real.rollback()
        elif tx.level is Isolation.SERIALIZABLE and self.model.last > tx.since:
            self.try_to_commit(tx)
        elif tx.level in FIXED and self.model.conflicts(tx.writes, tx.since):
            with pytest.raises(lowtide.ConflictError):
                tx.real.commit()
        else:
            assert tx.real.commit() == self.model.last + 1
            self.model.commit(tx.writes)
        self.ended.add(tx)

    def try_to_commit(self, tx: Tx) -> None:
        """What a serializable transaction has read so far is for the other model to know, and this one reads all the
        time to compare: it must conflict if its writes do, and may if they do not."""
        try:
            ts = tx.real.commit()
        except lowtide.ConflictError as error:
            assert tx.since < error.committed_ts <= self.model.last  # noqa: PT017
        else:
            assert not self.model.conflicts(tx.writes, tx.since)
            self.model.commit(tx.writes)
            assert ts == self.model.last

    # Snapshots

    @rule()
    def take(self) -> None:
        snapshot = self.store.snapshot()
        assert snapshot.ts == self.model.last
        self.snapshots.append(snapshot)

    @rule(back=st.integers(-1, 8))
    def take_at(self, back: int) -> None:
        """At the last commit, at one that is held, or not at all."""
        at = self.model.last - back
        if at < 0:
            return
        with still(self.store):
            if at > self.model.last:
                with pytest.raises(lowtide.UsageError):
                    self.store.snapshot(at=at)
            elif at == self.model.last or at in self.live():
                self.snapshots.append(self.store.snapshot(at=at))
            else:
                with pytest.raises(lowtide.SnapshotExpired):
                    self.store.snapshot(at=at)

    @precondition(lambda self: self.snapshots)
    @rule(who=anybody, dropped=st.booleans())
    def let_go(self, who: int, dropped: bool) -> None:
        snapshot = self.snapshots.pop(who % len(self.snapshots))
        if dropped:
            self.scans = [scan for scan in self.scans if scan.holder is not snapshot]
        else:
            snapshot.close()
            self.ended.add(snapshot)

    # Scans

    @rule(who=anybody, wanted=wanted, count=st.integers(0, 3))
    def scan(self, who: int, wanted: Wanted, count: int) -> None:
        """By the store itself, a snapshot or a transaction."""
        holders = [None, *self.snapshots, *self.transactions]
        holder = holders[who % len(holders)]
        if holder is None:
            scan = OpenScan(wanted.open(self.store), wanted, {}, None, None)
        elif isinstance(holder, Tx):
            own = dict(holder.writes)
            fixed = holder.level in FIXED
            expected = wanted.of(self.model.states[holder.since], own) if fixed else None
            scan = OpenScan(wanted.open(holder.real), wanted, own, holder, expected)
        else:
            expected = wanted.of(self.model.states[holder.ts], {})
            scan = OpenScan(wanted.open(holder), wanted, {}, holder, expected)
        if count == 0 or scan.consume(count, self.model, False):
            self.scans.append(scan)

    @precondition(lambda self: self.scans)
    @rule(who=anybody, count=st.integers(1, 4))
    def scan_on(self, who: int, count: int) -> None:
        scan = self.scans[who % len(self.scans)]
        if not scan.consume(count, self.model, scan.holder in self.ended):
            self.scans.remove(scan)

    @precondition(lambda self: self.scans)
    @rule(who=anybody)
    def stop_scanning(self, who: int) -> None:
        self.scans.pop(who % len(self.scans))

    # Upkeep

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()
        assert self.store.stats().boundary == self.model.last

    @rule()
    def collect(self) -> None:
        self.store.collect_garbage()

    @rule(killed=st.booleans())
    def open_again(self, killed: bool) -> None:
        """In the same place after closing, or a copy of the files as a kill would leave them."""
        if killed:
            with still(self.store):
                shutil.copytree(self.path, self.directory / str(self.generation + 1))
        self.forget_all()
        self.store.close()
        self.generation += killed
        self.open()

    def forget_all(self) -> None:
        self.scans, self.transactions, self.snapshots = [], [], []
        self.ended.clear()

    # What must hold after every step

    def live(self) -> set[int]:
        """The instants that snapshots, transactions and scans hold."""
        held = {snapshot.ts for snapshot in self.snapshots}
        held |= {tx.since for tx in self.transactions if tx.level in FIXED}
        return held | {scan.ts for scan in self.scans if scan.ts is not None}

    @invariant()
    def exactly_what_somebody_sees_is_kept(self) -> None:
        if not hasattr(self, "store"):
            return
        with still(self.store):
            live = self.live()
            assert {each.ts for each in self.store.stats().snapshots} == live
            for layer in parts_of(self.store).versions.layers:
                layer.check()
            for begin, end, _, _ in superseded(parts_of(self.store).versions, parts_of(self.store).base):
                seen = any(begin <= ts < end for ts in live)
                assert seen or (self.collector == "watermark" and live and end > min(live)), (begin, end, live)

    @invariant()
    def every_snapshot_is_as_it_was(self) -> None:
        if not hasattr(self, "store"):
            return
        assert everything(self.store) == self.model.states[-1]
        for snapshot in self.snapshots:
            assert everything(snapshot) == self.model.states[snapshot.ts]
        for tx in self.transactions:
            since = tx.since if tx.level in FIXED else self.model.last
            merged: Change = {**self.model.states[since], **tx.writes}
            for place, value in merged.items():
                assert tx.real.keyspace(place[0]).get(place[1]) == value

    def teardown(self) -> None:
        self.forget_all()
        if hasattr(self, "store"):
            self.store.close()
        self._patch.undo()
        shutil.rmtree(self.directory)


def write(tx: lowtide.Transaction, change: Change) -> None:
    for (name, key), value in change.items():
        if value is None:
            tx.keyspace(name).delete(key)
        else:
            tx.keyspace(name).put(key, value)


def everything(source: lowtide.Store | lowtide.Snapshot) -> dict[tuple[str, bytes], bytes]:
    return {(name, key): value for name in ("k", "l") for key, value in source.keyspace(name).scan()}


TestStoreUnderScans = StoreUnderScans.TestCase
TestStoreUnderScans.settings = whole_store
