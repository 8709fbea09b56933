"""A store that is opened with ``record`` writes a history. The audit acquits a sound store by it, and convicts a broken
one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide import Isolation
from lowtide.audit import History, Report, audit
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together
from tests.isolation.test_convicted import no_first_committer_wins, no_validation_of_reads, reads_of_the_last_commit

KEYS = [b"a", b"b", b"c", b"\xff\x00", b"d/e"]


def report_of(directory: Path, level: Isolation | str) -> Report:
    return audit(History.load(*sorted(directory.glob("*.jsonl"))), level)


def crowd(store: lowtide.Store, level: Isolation, threads: int = 3, rounds: int = 60) -> None:
    """Threads that get, put, delete and scan, in transactions and without, while versions are collected and brought to
    the base."""

    def work(number: int) -> None:
        chance = random.Random(number)
        for turn in range(rounds):
            tx = store.begin(level)
            pairs = tx.keyspace("pairs")
            for key in chance.sample(KEYS, 2):
                pairs.get(key)
            if chance.random() < 0.3:
                entries = pairs.scan(stop=chance.choice([None, b"c"]), reverse=chance.random() < 0.5)
                for _ in zip(range(chance.choice([1, 10])), entries, strict=False):
                    pass
            for key in chance.sample(KEYS, chance.randint(0, 2)):
                if chance.random() < 0.2:
                    pairs.delete(key)
                else:
                    pairs.put(key, b"%d" % chance.randrange(4))  # the same values again and again
                pairs.get(key)
            try:
                tx.commit()
            except lowtide.ConflictError:
                continue
            if chance.random() < 0.1:
                store.keyspace("pairs").put(chance.choice(KEYS), b"alone")
            if chance.random() < 0.1:
                store["people"].update_one({"_id": chance.randrange(2)}, {"$inc": {"n": 1}}, upsert=True)
            if turn % 20 == number:
                store.checkpoint()

    run_together(*(lambda number=number: work(number) for number in range(threads)))


@pytest.mark.parametrize("level", [Isolation.READ_COMMITTED, Isolation.SNAPSHOT, Isolation.SERIALIZABLE])
def test_a_right_store_is_acquitted(open_store: OpenStore, tmp_path: Path, level: Isolation) -> None:
    store = open_store(record=tmp_path / "history")
    crowd(store, level)
    store.close()
    report = report_of(tmp_path / "history", level)
    # Transactions of one statement are at SNAPSHOT at least.
    assert report.ok, str(report)
    assert report.committed > 100
    assert report.operations > 300


def test_each_opening_is_a_history_by_itself(open_store: OpenStore, tmp_path: Path) -> None:
    for value in (b"1", b"2", b"2"):
        store = open_store(record=tmp_path / "history")
        with store.transaction() as tx:
            tx.keyspace("pairs").get(b"a")
            tx.keyspace("pairs").put(b"a", value)
        store.close()
    assert [path.name for path in sorted((tmp_path / "history").iterdir())] == [
        "000001.jsonl",
        "000002.jsonl",
        "000003.jsonl",
    ]
    report = report_of(tmp_path / "history", "serializable")
    assert report.names == []
    assert report.committed == 3


def write_skew(store: lowtide.Store, level: str) -> None:
    both = [store.begin(level), store.begin(level)]
    for tx in both:
        tx.keyspace("pairs").get(b"a")
        tx.keyspace("pairs").get(b"b")
    both[0].keyspace("pairs").put(b"a", b"1")
    both[1].keyspace("pairs").put(b"b", b"1")
    for tx in both:
        tx.commit()


def lost_update(store: lowtide.Store, level: str) -> None:
    both = [store.begin(level), store.begin(level)]
    for tx in both:
        tx.keyspace("pairs").get(b"a")
    for tx in both:
        tx.keyspace("pairs").put(b"a", b"1")
        tx.commit()


def read_skew(store: lowtide.Store, level: str) -> None:
    first = store.begin(level)
    first.keyspace("pairs").get(b"a")
    with store.transaction() as tx:
        tx.keyspace("pairs").put_many({b"a": b"1", b"b": b"1"})
    first.keyspace("pairs").get(b"b")
    first.commit()


@pytest.mark.parametrize(
    ("broken", "story", "level", "expected"),
    [
        (no_validation_of_reads, write_skew, "serializable", "write-skew"),
        (no_first_committer_wins, lost_update, "snapshot", "lost-update"),
        (reads_of_the_last_commit, read_skew, "snapshot", "G-single"),
    ],
)
def test_a_broken_store_is_convicted(
    open_store: OpenStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Any,
    story: Any,
    level: str,
    expected: str,
) -> None:
    broken(monkeypatch)
    store = open_store(record=tmp_path / "history")
    story(store, level)
    store.close()
    assert expected in report_of(tmp_path / "history", level).violations


def test_a_reader_cannot_be_recorded(open_store: OpenStore, tmp_path: Path) -> None:
    open_store().close()
    with pytest.raises(lowtide.UsageError, match="read-only store cannot record"):
        open_store(read_only=True, record=tmp_path / "history")
    with pytest.raises(lowtide.UsageError, match="record must be the path"):
        open_store(record=3)
