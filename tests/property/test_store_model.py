"""The whole store against a model: a plain history of every key.

Many concurrent transactions at all levels, savepoints, snapshots, checkpoints, collections, reopening, and crashes. For
a crash the files are copied while the store is open, which is what a kill leaves, and the copy is opened. The model
predicts every read, every conflict at SNAPSHOT and SERIALIZABLE, and the content after a crash. LOWTIDE_MODEL_EXAMPLES
sets the number of examples.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import lowtide
from lowtide import Isolation
from lowtide.upkeep.verify import verify_files
from tests.support.parts import copy_as_crashed, parts_of

KEYS = st.sampled_from([b"", b"a", b"ab", b"b", b"\xff"])
SELDOM = st.sampled_from([False] * 9 + [True])
VALUES = st.binary(max_size=4)
State = dict[bytes, bytes]
Change = dict[bytes, bytes | None]
LATEST_READERS = (Isolation.READ_COMMITTED, Isolation.SNAPSHOT_READ)


@dataclass
class ModelTx:
    """A transaction of the model: what it wrote, and for SERIALIZABLE what it read."""

    real: lowtide.Transaction
    level: Isolation
    since: int
    ended: bool = False
    writes: Change = field(default_factory=dict)
    read: set[bytes] = field(default_factory=set)
    ranges: list[tuple[bytes, bytes | None]] = field(default_factory=list)


def laid_over(state: State, writes: Change) -> State:
    merged: Change = {**state, **writes}
    return {key: value for key, value in merged.items() if value is not None}


def within(key: bytes, start: bytes, stop: bytes | None) -> bool:
    return start <= key and (stop is None or key < stop)


class StoreModel(RuleBasedStateMachine):
    """``states[ts]`` is the content after commit ``ts``; ``changed[ts]`` the keys that it wrote."""

    transactions: Bundle[ModelTx] = Bundle("transactions")
    snapshots: Bundle[lowtide.Snapshot] = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="lowtide-model-"))
        self.copies = 0
        self.states: list[State] = [{}]
        self.changed: list[set[bytes]] = [set()]
        self.open_snapshots: list[lowtide.Snapshot] = []
        self.open_transactions: list[ModelTx] = []

    @initialize(collector=st.sampled_from(["exact", "watermark"]))
    def start(self, collector: str) -> None:
        self.collector = collector
        self.path = self.directory / "store"
        self.open()

    def open(self) -> None:
        self.store = lowtide.open(
            self.path,
            durability="relaxed",
            collector="watermark" if self.collector == "watermark" else "exact",
            checkpointer="thread",
            collect_threshold=1,
            segment_bytes=4096,
            checkpoint_bytes=3000,
            map_size=1 << 20,
        )
        assert self.store.stats().last_commit == self.last

    @property
    def last(self) -> int:
        return len(self.states) - 1

    def committed(self, change: Change) -> None:
        self.states.append(laid_over(self.states[-1], change))
        self.changed.append(set(change))

    # Transactions

    @rule(
        target=transactions,
        level=st.sampled_from([*LATEST_READERS, Isolation.SNAPSHOT, Isolation.SERIALIZABLE, Isolation.SERIALIZABLE]),
        reads=st.lists(KEYS, max_size=2),
        writes=st.dictionaries(KEYS, st.none() | VALUES, max_size=2),
    )
    def begin(self, level: Isolation, reads: list[bytes], writes: Change) -> ModelTx:
        tx = ModelTx(self.store.begin(level), level, self.last)
        self.open_transactions.append(tx)
        for key in reads:
            self.get(tx, key)
        for key, value in writes.items():
            self.write(tx, key, value)
        return tx

    def visible(self, tx: ModelTx) -> State:
        return laid_over(self.states[self.last if tx.level in LATEST_READERS else tx.since], tx.writes)

    @rule(tx=transactions, key=KEYS)
    def get(self, tx: ModelTx, key: bytes) -> None:
        if tx.ended:
            return
        assert tx.real.keyspace("k").get(key) == self.visible(tx).get(key)
        if key not in tx.writes:
            tx.read.add(key)

    @rule(tx=transactions, key=KEYS, value=st.none() | VALUES)
    def write(self, tx: ModelTx, key: bytes, value: bytes | None) -> None:
        if tx.ended:
            return
        keyspace = tx.real.keyspace("k")
        if value is None:
            keyspace.delete(key)
        else:
            keyspace.put(key, value)
        tx.writes[key] = value

    @rule(
        tx=transactions, start=KEYS, stop=st.none() | KEYS, reverse=st.booleans(), limit=st.none() | st.integers(0, 3)
    )
    def scan(self, tx: ModelTx, start: bytes, stop: bytes | None, reverse: bool, limit: int | None) -> None:
        if tx.ended:
            return
        state = self.visible(tx)
        expected = sorted(((key, state[key]) for key in state if within(key, start, stop)), reverse=reverse)
        found: list[tuple[bytes, bytes]] = []
        for entry in tx.real.keyspace("k").scan(start, stop, reverse=reverse):
            if limit is not None and len(found) == limit:
                break
            found.append(entry)
        else:
            limit = None
        assert found == expected[:limit]
        if limit is None:
            tx.ranges.append((start, stop))
        else:  # the loop took one entry more than it kept
            last = expected[limit][0]
            tx.ranges.append((last, stop) if reverse else (start, last + b"\x00"))

    @rule(tx=transactions, changes=st.dictionaries(KEYS, st.none() | VALUES, max_size=3), fail=st.booleans())
    def savepoint(self, tx: ModelTx, changes: Change, fail: bool) -> None:
        if tx.ended:
            return
        before = dict(tx.writes)
        try:
            with tx.real.savepoint():
                for key, value in changes.items():
                    self.write(tx, key, value)
                if fail:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            tx.writes = before
        for key in changes:
            assert tx.real.keyspace("k").get(key) == self.visible(tx).get(key)
            if key not in tx.writes:
                tx.read.add(key)

    def conflicts(self, tx: ModelTx) -> bool:
        if tx.level not in (Isolation.SNAPSHOT, Isolation.SERIALIZABLE):
            return False
        since = set().union(*self.changed[tx.since + 1 :])
        if since & tx.writes.keys():
            return True
        if tx.level is Isolation.SNAPSHOT:
            return False
        return bool(since & tx.read) or any(within(key, *range_) for key in since for range_ in tx.ranges)

    @rule(tx=consumes(transactions))
    def commit(self, tx: ModelTx) -> None:
        if tx.ended:
            return
        if not tx.writes:
            tx.real.commit()
        elif self.conflicts(tx):
            with pytest.raises(lowtide.ConflictError) as conflict:
                tx.real.commit()
            assert conflict.value.snapshot_ts == tx.since < conflict.value.committed_ts <= self.last
        else:
            self.committed(tx.writes)
            assert tx.real.commit() == self.last

    @rule(tx=consumes(transactions))
    def roll_back(self, tx: ModelTx) -> None:
        if tx.ended:
            return
        tx.real.rollback()

    @rule(key=KEYS, value=st.none() | VALUES, none=st.booleans())
    def write_at_once(self, key: bytes, value: bytes | None, none: bool) -> None:
        """By the store's own keyspace, or at NONE."""
        tx = self.store.begin(Isolation.NONE) if none else None
        keyspace = tx.keyspace("k") if tx is not None else self.store.keyspace("k")
        if value is None:
            keyspace.delete(key)
        else:
            keyspace.put(key, value)
        self.committed({key: value})
        assert self.store.keyspace("k").get(key) == value
        if tx is not None:
            tx.commit()

    # Snapshots

    @rule(target=snapshots, same=st.booleans())
    def take(self, same: bool) -> lowtide.Snapshot:
        at = self.open_snapshots[0].ts if same and self.open_snapshots else None
        snapshot = self.store.snapshot(at=at)
        assert snapshot.ts == (at if at is not None else self.last)
        self.open_snapshots.append(snapshot)
        return snapshot

    @rule(snapshot=consumes(snapshots))
    def let_go(self, snapshot: lowtide.Snapshot) -> None:
        if snapshot in self.open_snapshots:
            self.open_snapshots.remove(snapshot)
        snapshot.close()

    # Upkeep

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()
        assert self.store.stats().boundary == self.last

    @rule()
    def collect(self) -> None:
        self.store.collect_garbage()
        if self.collector == "exact":
            stats = self.store.stats()
            live = len({held.ts for held in stats.snapshots})
            assert stats.versions <= (live + 1) * stats.chains

    @rule()
    def verify(self) -> None:
        report = self.store.verify()
        assert report.ok, str(report)
        assert report.last_commit == self.last

    @rule()
    def compact(self) -> None:
        self.store.compact()

    @rule(really=SELDOM)
    def back_up(self, really: bool) -> None:
        """Always into the same directory; a copy of it opens with everything that was committed."""
        if not really:
            return
        assert self.store.backup(self.directory / "backup").reaches == self.last
        report = verify_files(self.directory / "backup")
        assert report.ok, str(report)
        copy = Path(shutil.copytree(self.directory / "backup", self.directory / "restored"))
        with lowtide.open(copy, checkpointer="thread") as restored:
            assert dict(restored.keyspace("k").scan()) == self.states[-1]
            assert restored.stats().last_commit == self.last
        shutil.rmtree(copy)

    def end_all(self) -> None:
        self.store.close()
        self.open_snapshots.clear()
        for tx in self.open_transactions:
            tx.ended = True
        self.open_transactions.clear()

    @rule(really=SELDOM)
    def reopen(self, really: bool) -> None:
        """Whatever is open ends with the store."""
        if really:
            self.end_all()
            self.open()

    @rule(really=SELDOM)
    def crash(self, really: bool) -> None:
        """A copy of the files opens with everything that was committed, whatever was open at the time."""
        if not really:
            return
        self.copies += 1
        copy = self.directory / f"copy-{self.copies}"
        copy_as_crashed(self.store, self.path, copy)
        for _ in range(2):
            with lowtide.open(copy, checkpointer="thread") as recovered:
                assert dict(recovered.keyspace("k").scan()) == self.states[-1]
                assert recovered.stats().last_commit == self.last
        shutil.rmtree(copy)

    # What must hold after every step

    @invariant()
    def everybody_sees_what_they_should(self) -> None:
        if not hasattr(self, "store"):
            return
        assert dict(self.store.keyspace("k").scan()) == self.states[-1]
        for snapshot in self.open_snapshots:
            assert list(snapshot.keyspace("k").scan()) == sorted(self.states[snapshot.ts].items())
        with parts_of(self.store).committer.exclusive():
            for layer in parts_of(self.store).versions.layers:
                layer.check()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.end_all()
        shutil.rmtree(self.directory)


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(
    max_examples=int(os.environ.get("LOWTIDE_MODEL_EXAMPLES", "30")),
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
)
