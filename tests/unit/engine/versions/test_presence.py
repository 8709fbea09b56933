"""What a commit records about the keys that it writes: which of them existed, however that is determined (I3)."""

from __future__ import annotations

import hypothesis.strategies as st
import lmdb
import pytest
from hypothesis import given

import lowtide
from lowtide.engine.base.chunks import keys_among
from lowtide.engine.versions.presence import before_of
from lowtide.store.store import backend_of
from tests.unit.engine.base.bases import temporary_directory

keys = st.binary(min_size=1, max_size=1)
steps = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "checkpoint", "hold"]), st.sets(keys, max_size=8)), max_size=8
)


@given(st.sets(st.integers(0, 300)), st.sets(st.integers(0, 300), min_size=1), st.integers(1, 4))
def test_keys_among_has_exactly_those_of_the_wanted_keys_that_exist(
    existing: set[int], wanted: set[int], density: int
) -> None:
    asked = [b"%04d" % (number * density) for number in sorted(wanted)]
    with temporary_directory() as directory, lmdb.open(str(directory)) as env:
        with env.begin(write=True) as txn:
            for number in existing:
                txn.put(b"%04d" % number, b"row")
        with env.begin() as txn:
            found = keys_among(txn.cursor(), asked)
    assert found == sorted(found)
    assert {key for key in asked if key in set(found)} == {b"%04d" % number for number in existing} & set(asked)


def test_keys_far_apart_are_looked_up_and_keys_close_together_are_walked_over() -> None:
    with temporary_directory() as directory, lmdb.open(str(directory)) as env:
        with env.begin(write=True) as txn:
            for number in range(5000):
                txn.put(b"%04d" % number, b"row")
        with env.begin() as txn:
            apart, close = [b"%04d" % number for number in range(0, 5000, 50)], [b"%04d" % n for n in range(100, 400)]
            assert keys_among(txn.cursor(), apart) == apart
            assert keys_among(txn.cursor(), close)[:300] == close
            assert keys_among(txn.cursor(), [b"5000", b"6000"]) == []


def many(groups: set[bytes]) -> list[bytes]:
    """As many keys of each group as make a batch of two large."""
    return [group + bytes([number]) for group in groups for number in range(32)]


@given(steps, st.sets(keys, min_size=2))
def test_a_key_is_told_to_exist_exactly_if_a_read_finds_it(
    steps: list[tuple[str, set[bytes]]], written: set[bytes]
) -> None:
    """At the newest commit and at those that snapshots hold; with versions in memory, tombstones and history."""
    with temporary_directory() as directory, lowtide.open(directory / "store", durability="relaxed") as store:
        held = []
        for what, touched in steps:
            with store.transaction() as tx:
                rows = tx.keyspace("k")
                if what == "put":
                    rows.put_many([(key, b"v") for key in many(touched)])
                for key in many(touched)[::3] if what == "delete" else ():
                    rows.delete(key)
            if what == "checkpoint":
                store.checkpoint()
            if what == "hold":
                held.append(store.snapshot())
        held.append(store.snapshot())
        reader, prefix = backend_of(store).engine.reader, store.keyspace("k").prefix
        writes: dict[bytes, bytes | None] = {prefix + key: b"new" for key in many(written)}
        for snapshot in held:
            told = [value is not None for value in before_of(reader, writes, snapshot.ts, False)]
            assert told == [value is not None for value in reader.get_many(writes, snapshot.ts)]
            assert before_of(reader, writes, snapshot.ts, True) == reader.get_many(writes, snapshot.ts)
            snapshot.close()


def test_a_key_that_left_a_tombstone_is_told_to_be_new() -> None:
    """A deletion that a live transaction may conflict with leaves a tombstone in the base."""
    with temporary_directory() as directory, lowtide.open(directory / "store", durability="relaxed") as store:
        rows = store.keyspace("k")
        rows.put_many({b"%03d" % number: b"v" for number in range(300)})
        writer = store.begin()
        with store.transaction() as tx:
            for number in range(100, 200):
                tx.keyspace("k").delete(b"%03d" % number)
        store.checkpoint()
        reader, ts = backend_of(store).engine.reader, store.stats().last_commit
        writes: dict[bytes, bytes | None] = {rows.prefix + b"%03d" % number: b"new" for number in range(300)}
        told = before_of(reader, writes, ts, False)
        assert [number for number, value in enumerate(told) if value is None] == [*range(100, 200)]
        writer.rollback()


@pytest.mark.parametrize("checkpointed", [True, False])
def test_the_feed_tells_inserts_of_a_batch_from_updates(checkpointed: bool) -> None:
    """A batch of many keys. Some exist, some were deleted and some are new."""
    with temporary_directory() as directory, lowtide.open(directory / "store", durability="relaxed") as store:
        rows = store.keyspace("k")
        rows.put_many({b"%03d" % number: b"v" for number in range(300)})
        with store.transaction() as tx:
            for number in range(100, 200):
                tx.keyspace("k").delete(b"%03d" % number)
        if checkpointed:
            store.checkpoint()
        since = store.stats().last_commit
        rows.put_many({b"%03d" % number: b"again" for number in range(50, 400)})
        kinds = {int(change.key): change.kind for change in store.changes(since=since) if isinstance(change.key, bytes)}
        assert {number for number, kind in kinds.items() if kind == "insert"} == {*range(100, 200), *range(300, 400)}


def test_a_closed_store_refuses() -> None:
    with temporary_directory() as directory:
        store = lowtide.open(directory / "store", durability="relaxed")
        store.keyspace("k").put_many({b"%04d" % number: b"v" for number in range(100)})
        reader, prefix = backend_of(store).engine.reader, store.keyspace("k").prefix
        store.close()
        with pytest.raises(lowtide.UsageError, match="closed"):
            before_of(reader, {prefix + b"%04d" % number: b"new" for number in range(100)}, 1, False)
