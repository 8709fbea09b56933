"""What statements on collections see and write is recorded: documents, ranges of indexes, and whole collections."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide
from lowtide import Isolation
from lowtide.audit import History
from lowtide.audit.history import RecordedTransaction
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together
from tests.isolation.test_convicted import Break, no_first_committer_wins, no_phantom_check, no_validation_of_reads
from tests.isolation.test_recorded_store import report_of

READ_COMMITTED, SNAPSHOT, SERIALIZABLE = Isolation.READ_COMMITTED, Isolation.SNAPSHOT, Isolation.SERIALIZABLE


def recorded(directory: Path) -> list[RecordedTransaction]:
    return History.load(*sorted(directory.glob("*.jsonl"))).transactions


def reads_of(directory: Path, keyspace: str) -> list[str]:
    """How the last transaction of a history read a keyspace, each operation once."""
    rows = recorded(directory)[-1].operations
    found = [row.op for row in rows if keyspace in (row.key or row.low or "") and row.op != "write"]
    return list(dict.fromkeys(found))


def filled(open_store: OpenStore, directory: Path) -> lowtide.Store:
    store = open_store(record=directory)
    people = store["people"]
    people.create_index("age")
    people.insert_many([{"_id": number, "age": 10 * number} for number in range(5)])
    return store


def in_transaction(store: lowtide.Store, read: Callable[[lowtide.Collection], object], level: Isolation) -> None:
    with store.transaction(level) as tx:
        read(tx["people"])


@pytest.mark.parametrize("level", [None, READ_COMMITTED, SNAPSHOT, SERIALIZABLE])
@pytest.mark.parametrize(
    ("read", "of_documents", "of_index"),
    [
        (lambda people: people.find_one({"_id": 3}), ["read"], []),
        (lambda people: list(people.find({"_id": 3})), ["read"], []),
        (lambda people: list(people.find()), ["scan"], []),
        (lambda people: people.count_documents({}), ["scan"], []),
        (lambda people: list(people.find({"age": {"$gt": 15, "$lt": 35}})), ["read"], ["scan"]),
        (lambda people: people.distinct("age", {"age": {"$lt": 15}}), ["read"], ["scan"]),
        (lambda people: list(people.aggregate([{"$match": {"_id": {"$gt": 2}}}])), ["scan"], []),
    ],
)
def test_what_a_statement_reads_is_recorded(
    open_store: OpenStore,
    tmp_path: Path,
    read: Callable[[lowtide.Collection], object],
    of_documents: list[str],
    of_index: list[str],
    level: Isolation | None,
) -> None:
    store = filled(open_store, tmp_path / "history")
    if level is None:
        read(store["people"])
    else:
        in_transaction(store, read, level)
    store.close()
    assert reads_of(tmp_path / "history", "documents%2Fpeople/") == of_documents
    assert reads_of(tmp_path / "history", "index%2F") == of_index


def test_what_a_statement_writes_is_recorded_with_the_entries_of_indexes(open_store: OpenStore, tmp_path: Path) -> None:
    store = filled(open_store, tmp_path / "history")
    store["people"].update_one({"_id": 3}, {"$set": {"age": 99}})
    store.close()
    written = [(row.key or "", row.value) for row in recorded(tmp_path / "history")[-1].operations if row.op == "write"]
    assert len([key for key, _ in written if "documents%2Fpeople/" in key]) == 1
    entries = [value for key, value in written if "index%2F" in key]
    assert len(entries) == 2
    assert None in entries  # the old entry was deleted


@pytest.mark.parametrize("level", [READ_COMMITTED, SNAPSHOT, SERIALIZABLE])
def test_a_right_store_is_acquitted(open_store: OpenStore, tmp_path: Path, level: Isolation) -> None:
    store = filled(open_store, tmp_path / "history")

    def work(number: int) -> None:
        chance = random.Random(number)
        for turn in range(25):
            tx = store.begin(level)
            people = tx["people"]
            try:
                list(people.find({"age": {"$gte": chance.randrange(50)}}).limit(chance.choice([0, 2])))
                people.find_one({"_id": chance.randrange(6)})
                people.update_one({"_id": chance.randrange(6)}, {"$inc": {"age": 7}}, upsert=True)
                if chance.random() < 0.2:
                    people.delete_one({"_id": chance.randrange(6)})
                tx.commit()
            except lowtide.ConflictError:
                tx.rollback()
            if chance.random() < 0.2:
                list(store["people"].find({"age": {"$lt": 40}}))
            if turn % 10 == number:
                store.checkpoint()

    run_together(*(lambda number=number: work(number) for number in range(3)))
    store.close()
    report = report_of(tmp_path / "history", level)
    assert report.ok, str(report)
    assert report.committed > 30


def of_documents(first: lowtide.Collection, second: lowtide.Collection) -> None:
    for people in (first, second):
        assert people.find_one({"_id": 1}) is not None
        assert people.find_one({"_id": 2}) is not None
    first.update_one({"_id": 1}, {"$set": {"age": 1}})
    second.update_one({"_id": 2}, {"$set": {"age": 1}})


def of_ranges(first: lowtide.Collection, second: lowtide.Collection) -> None:
    for people in (first, second):
        assert list(people.find({"age": {"$gt": 100, "$lt": 200}})) == []
    first.insert_one({"_id": 101, "age": 150})
    second.insert_one({"_id": 102, "age": 151})


def of_one(first: lowtide.Collection, second: lowtide.Collection) -> None:
    for people in (first, second):
        people.update_one({"_id": 1}, {"$inc": {"age": 1}})


@pytest.mark.parametrize(
    ("broken", "story", "level", "expected"),
    [
        (no_validation_of_reads, of_documents, SERIALIZABLE, "write-skew"),
        (no_phantom_check, of_ranges, SERIALIZABLE, "write-skew"),
        (no_first_committer_wins, of_one, SNAPSHOT, "lost-update"),
    ],
)
def test_a_broken_store_is_convicted(
    open_store: OpenStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Break,
    story: Callable[[lowtide.Collection, lowtide.Collection], None],
    level: Isolation,
    expected: str,
) -> None:
    broken(monkeypatch)
    store = filled(open_store, tmp_path / "history")
    both = store.begin(level), store.begin(level)
    story(both[0]["people"], both[1]["people"])
    for tx in both:
        tx.commit()
    store.close()
    assert expected in report_of(tmp_path / "history", level).violations
