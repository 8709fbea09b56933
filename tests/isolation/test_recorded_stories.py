"""Stories on a store that records itself, each made to expose one fault of tests/mutants. The history is audited in
pieces, with the code of ``pipeline.audit``: the store is acquitted, and each mutant is convicted by its recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide import Isolation
from lowtide.audit.levels import PROSCRIBED
from tests.conftest import OpenStore
from tests.support.groups import commit_in_one_group
from tests.support.schedule import Schedule
from tests.unit.pipeline.audit.locally import Local

SNAPSHOT, SERIALIZABLE = Isolation.SNAPSHOT, Isolation.SERIALIZABLE
Judge = Callable[[Isolation], None]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history"


@pytest.fixture
def store(open_store: OpenStore, history: Path) -> lowtide.Store:
    store = open_store(record=history, checkpointer="thread")
    write(store, a=b"0", b=b"0")
    return store


@pytest.fixture
def judge(store: lowtide.Store, history: Path) -> Judge:
    """Closes the store, and audits what it has recorded."""

    def judged(level: Isolation) -> None:
        store.close()
        rows = [msgspec.json.decode(line) for file in sorted(history.iterdir()) for line in file.open("rb")]
        found = sorted(Local(rows).names & PROSCRIBED[level])
        assert not found, f"convicted of {', '.join(found)}"

    return judged


def write(store: lowtide.Store, **entries: bytes | None) -> None:
    with store.transaction() as tx:
        for name, value in entries.items():
            if value is None:
                tx.keyspace("k").delete(name.encode())
            else:
                tx.keyspace("k").put(name.encode(), value)


def commit(*transactions: lowtide.Transaction) -> None:
    for tx in transactions:
        try:
            tx.commit()
        except lowtide.ConflictError:
            continue


def both(store: lowtide.Store, level: Isolation) -> tuple[lowtide.Transaction, lowtide.Transaction]:
    return store.begin(level), store.begin(level)


def update(tx: lowtide.Transaction, key: bytes) -> None:
    keyspace = tx.keyspace("k")
    keyspace.put(key, (keyspace.get(key) or b"") + b"+")


# Conflicts


def test_two_updates(store: lowtide.Store, judge: Judge) -> None:
    transactions = both(store, SNAPSHOT)
    for tx in transactions:
        update(tx, b"a")
    commit(*transactions)
    judge(SNAPSHOT)


def test_an_update_beside_one_that_is_in_the_base(store: lowtide.Store, judge: Judge) -> None:
    store.checkpoint()
    first, second = both(store, SNAPSHOT)
    update(first, b"a")
    update(second, b"a")
    commit(first)
    store.checkpoint()
    commit(second)
    judge(SNAPSHOT)


@pytest.mark.parametrize("level", [SNAPSHOT, SERIALIZABLE])
def test_two_updates_in_one_group(store: lowtide.Store, judge: Judge, level: Isolation) -> None:
    transactions = both(store, level)
    for tx in transactions:
        update(tx, b"a")
    commit_in_one_group(store, [tx.commit for tx in transactions])
    judge(level)


def test_increments_in_one_group(store: lowtide.Store, judge: Judge) -> None:
    """Below SNAPSHOT a statement reads an instant of its own, and the document is a guard."""
    store["c"].insert_one({"_id": 1, "n": 0})
    transactions = both(store, Isolation.READ_COMMITTED)
    for tx in transactions:
        tx["c"].update_one({"_id": 1}, {"$inc": {"n": 1}})
    commit_in_one_group(store, [tx.commit for tx in transactions])
    judge(SNAPSHOT)


def test_increments_one_after_the_other(store: lowtide.Store, judge: Judge) -> None:
    store["c"].insert_one({"_id": 1, "n": 0})
    transactions = both(store, Isolation.READ_COMMITTED)
    for tx in transactions:
        tx["c"].update_one({"_id": 1}, {"$inc": {"n": 1}})
    commit(*transactions)
    judge(SNAPSHOT)


def test_each_fills_a_range_that_both_found_empty(store: lowtide.Store, judge: Judge) -> None:
    first, second = both(store, SERIALIZABLE)
    for tx in (first, second):
        assert list(tx.keyspace("k").scan(b"m", b"n")) == []
    first.keyspace("k").put(b"m1", b"1")
    second.keyspace("k").put(b"m2", b"2")
    commit(first, second)
    judge(SERIALIZABLE)


def test_each_inserts_what_the_other_did_not_find(store: lowtide.Store, judge: Judge) -> None:
    first, second = both(store, SERIALIZABLE)
    for tx in (first, second):
        assert tx.keyspace("k").get(b"m1") is None
        assert tx.keyspace("k").get(b"m2") is None
    first.keyspace("k").put(b"m1", b"1")
    second.keyspace("k").put(b"m2", b"2")
    commit(first, second)
    judge(SERIALIZABLE)


def test_what_was_read_in_a_savepoint(store: lowtide.Store, judge: Judge) -> None:
    first, second = both(store, SERIALIZABLE)
    for tx, other in ((first, b"b"), (second, b"a")):
        try:
            with tx.savepoint():
                tx.keyspace("k").get(other)
                raise KeyError
        except KeyError:
            pass
    first.keyspace("k").put(b"a", b"1")
    second.keyspace("k").put(b"b", b"1")
    commit(first, second)
    judge(SERIALIZABLE)


# Readers


def look(tx: lowtide.Transaction) -> None:
    for key in (b"a", b"b"):
        tx.keyspace("k").get(key)
    list(tx.keyspace("k").scan())


def readers_of_four_epochs(
    store: lowtide.Store, collect: bool, checkpoints: tuple[int, ...] = ()
) -> Iterator[lowtide.Transaction]:
    for epoch in range(4):
        reader = store.begin(read_only=True)
        reader.keyspace("k").get(b"b")
        write(store, a=b"a%d" % epoch)
        write(store, a=b"aa%d" % epoch, b=b"b%d" % epoch)
        if epoch in checkpoints:
            store.checkpoint()
        if collect:
            store.collect_garbage()
        yield reader


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("checkpoints", [(), (1,), (2,), (1, 2), (0, 1, 2, 3)])
def test_readers_of_four_epochs(
    store: lowtide.Store, judge: Judge, checkpoints: tuple[int, ...], collect: bool
) -> None:
    """Each sees its own instant, wherever the versions are: in memory, in the base, or in its history. All of them live
    to the end, so that the background collects nothing that one of them sees."""
    readers = list(readers_of_four_epochs(store, collect, checkpoints))
    for tx in readers:
        look(tx)
    commit(*readers)
    judge(SNAPSHOT)


@pytest.mark.parametrize("collect", [False, True])
def test_readers_that_end_one_after_the_other(store: lowtide.Store, judge: Judge, collect: bool) -> None:
    """The end of each prunes chains that the next one reads."""
    for tx in list(readers_of_four_epochs(store, collect)):
        look(tx)
        tx.commit()
    judge(SNAPSHOT)


@pytest.mark.parametrize("place", ["checkpoint.sampled", "checkpoint.boundary", "checkpoint.applied"])
def test_readers_beside_a_checkpoint(store: lowtide.Store, judge: Judge, place: str) -> None:
    store.checkpoint()
    older = store.begin(read_only=True)
    write(store, a=b"1", b=b"1")
    newer = store.begin(read_only=True)
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        beside = store.begin(read_only=True)
        look(beside)
        look(older)
        write(store, a=b"2", b=b"2")
        checkpoint.finish()
    for tx in (older, newer, beside):
        look(tx)
        tx.commit()
    judge(SNAPSHOT)


def test_reads_after_checkpoints(store: lowtide.Store, judge: Judge) -> None:
    """What was read from the base is cached, and must not hide what the next checkpoint brings."""
    for value in (b"1", b"2", b"3"):
        store.checkpoint()
        with store.transaction() as tx:
            look(tx)
        write(store, a=value, b=value)
        store.checkpoint()
        with store.transaction() as tx:
            look(tx)
    judge(SNAPSHOT)


@pytest.mark.parametrize("place", ["commit.publish", "commit.visible"])
def test_a_reader_beside_a_publication(store: lowtide.Store, judge: Judge, place: str) -> None:
    with Schedule() as schedule:
        step = schedule.start(lambda: write(store, a=b"1", b=b"1"), place).arrive()
        beside = store.begin(read_only=True)
        beside.keyspace("k").get(b"a")
        step.finish()
    beside.keyspace("k").get(b"b")
    beside.commit()
    judge(SNAPSHOT)


def test_a_key_that_was_deleted(store: lowtide.Store, judge: Judge) -> None:
    """With a reader from before the deletion, and a writer that does not know of it."""
    store.checkpoint()
    reader, writer = store.begin(read_only=True), store.begin()
    update(writer, b"a")
    write(store, a=None)
    store.checkpoint()
    store.collect_garbage()
    commit(writer)
    look(reader)
    reader.commit()
    with store.transaction() as tx:
        look(tx)
    judge(SNAPSHOT)


def test_what_is_put_among_deleted_keys(store: lowtide.Store, judge: Judge) -> None:
    """Scans note where many keys in a row were deleted, and pass over them."""
    keyspace = store.keyspace("k")
    keyspace.put_many({b"c%03d" % number: b"x" for number in range(200)})
    with store.transaction() as tx:
        for number in range(200):
            tx.keyspace("k").delete(b"c%03d" % number)
    for key in (b"c050+", b"c100+"):
        with store.transaction() as tx:
            list(tx.keyspace("k").scan(b"c"))
            list(tx.keyspace("k").scan(b"c", reverse=True))
        keyspace.put(key, b"new")
        with store.transaction() as tx:
            list(tx.keyspace("k").scan(b"c"))
    judge(SNAPSHOT)


def test_old_scans_notice_nothing_of_later_deletions(store: lowtide.Store, judge: Judge) -> None:
    store.keyspace("k").put_many({b"c%03d" % number: b"x" for number in range(200)})
    old = store.begin(read_only=True)
    with store.transaction() as tx:
        for number in range(200):
            tx.keyspace("k").delete(b"c%03d" % number)
    with store.transaction() as tx:
        list(tx.keyspace("k").scan(b"c"))
    list(old.keyspace("k").scan(b"c"))
    old.commit()
    judge(SNAPSHOT)


def with_deleted_keys(store: lowtide.Store) -> None:
    store.keyspace("k").put_many({b"c%03d" % number: b"x" for number in range(200)})
    with store.transaction() as tx:
        for number in range(200):
            tx.keyspace("k").delete(b"c%03d" % number)


def scan(store: lowtide.Store, reverse: bool = False) -> None:
    with store.transaction() as tx:
        list(tx.keyspace("k").scan(b"c", reverse=reverse))


@pytest.mark.parametrize("place", ["scan.watch", "gaps.note", "gaps.noted"])
def test_what_is_put_while_a_scan_notes_deleted_keys(store: lowtide.Store, judge: Judge, place: str) -> None:
    with_deleted_keys(store)
    with Schedule() as schedule:
        noting = schedule.start(lambda: scan(store), place).arrive()
        write(store, c150x=b"new")
        scan(store)
        noting.finish()
    scan(store)
    scan(store, reverse=True)
    judge(SNAPSHOT)


def test_what_is_put_behind_a_scan_of_deleted_keys(store: lowtide.Store, judge: Judge) -> None:
    with_deleted_keys(store)
    with Schedule() as schedule:
        noting = schedule.start(lambda: scan(store), "scan.watch", "scan.keys", "scan.keys").arrive()
        for _ in range(2):
            noting.resume()
            noting.arrive()
        write(store, c003x=b"new")
        noting.finish()
    scan(store)
    judge(SNAPSHOT)


def test_what_is_put_and_in_the_base_after_an_old_scan(store: lowtide.Store, judge: Judge) -> None:
    store.keyspace("k").put_many({b"c%03d" % number: b"x" for number in range(200)})
    writer = store.begin()  # from before the deletions, so that the base gets tombstones
    with store.transaction() as tx:
        for number in range(200):
            tx.keyspace("k").delete(b"c%03d" % number)
    old = store.begin(read_only=True)
    write(store, c150x=b"new")
    store.checkpoint()
    list(old.keyspace("k").scan(b"c"))
    list(old.keyspace("k").scan(b"c", reverse=True))
    scan(store)
    scan(store, reverse=True)
    old.commit()
    writer.rollback()
    judge(SNAPSHOT)


@pytest.mark.parametrize("place", ["begin.drawn"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_reader_that_begins_beside_a_collection(
    store: lowtide.Store, judge: Judge, place: str, checkpoint: bool
) -> None:
    store.checkpoint()
    write(store, a=b"1", b=b"1")
    with Schedule() as schedule:
        begin = schedule.start(store.begin, place).arrive()
        for value in (b"2", b"3"):
            write(store, a=value)
            write(store, b=value)
        if checkpoint:
            store.checkpoint()
        store.collect_garbage()
        reader = begin.finish()
    look(reader)
    reader.commit()
    judge(SNAPSHOT)


def test_a_key_that_was_deleted_while_no_reader_lives(store: lowtide.Store, judge: Judge) -> None:
    store.checkpoint()
    write(store, a=b"1")
    write(store, a=None)
    store.collect_garbage()
    with store.transaction() as tx:
        look(tx)
    judge(SNAPSHOT)
