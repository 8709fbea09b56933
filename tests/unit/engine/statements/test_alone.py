"""A statement outside a transaction runs without a snapshot, and reads as if it had one (I1, I3, P2)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.engine.statements.alone import LoneStatement
from lowtide.engine.transaction.commit import Committer
from tests.crash.stores import wait_until
from tests.support.parts import parts_of

Rows = lowtide.Collection


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    with lowtide.open(tmp_path / "store", durability="relaxed") as store:
        rows = store["rows"]
        rows.create_index("k")
        rows.insert_many([{"_id": number, "k": number, "n": 0} for number in range(3)])
        yield rows


def store_of(rows: Rows) -> lowtide.Store:
    store = rows._statements._keep  # type: ignore[attr-defined]
    assert isinstance(store, lowtide.Store)
    return store


def refused(rows: Rows, update: dict[str, Any]) -> bool:
    with pytest.raises(lowtide.WriteError):
        rows.update_one({"_id": 1}, update)
    return True


@pytest.fixture
def before_commit(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Lets something be done once, between the reads of the next statement that runs alone and its commit."""
    commit_at_once = Committer.commit_at_once

    def prepare(work: Callable[[], object]) -> None:
        todo = [work]

        def interposed(self: Committer, writes: Any, payload: bytes, seen: int, token: int, durably: bool) -> int:
            if not token and todo:
                todo.pop()()
            return commit_at_once(self, writes, payload, seen, token, durably)

        monkeypatch.setattr(Committer, "commit_at_once", interposed)

    return prepare


def test_it_takes_no_snapshot(rows: Rows, before_commit: Callable[[Callable[[], object]], None]) -> None:
    live: list[dict[int, int]] = []
    before_commit(lambda: live.append(dict(parts_of(store_of(rows)).registry.live)))
    assert rows.update_one({"_id": 1}, {"$inc": {"n": 1}}).modified_count == 1
    assert live == [{}]


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize(
    ("other", "statement", "result", "left"),
    [
        (
            lambda rows: rows.update_one({"_id": 1}, {"$inc": {"n": 5}}),
            lambda rows: rows.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}),
            {"_id": 1, "k": 1, "n": 5},
            {"_id": 1, "k": 1, "n": 6},
        ),
        (
            lambda rows: rows.update_one({"_id": 1}, {"$set": {"k": 9}}),
            lambda rows: rows.delete_one({"_id": 1}).deleted_count,
            1,
            None,
        ),
        (
            lambda rows: rows.delete_one({"_id": 1}),
            lambda rows: rows.update_one({"_id": 1}, {"$set": {"k": 9}}).matched_count,
            0,
            None,
        ),
        (
            lambda rows: rows.update_one({"_id": 1}, {"$set": {"n": "text"}}),
            lambda rows: refused(rows, {"$inc": {"n": 1}}),
            True,
            {"_id": 1, "k": 1, "n": "text"},
        ),
        (
            lambda rows: rows.update_one({"_id": 2}, {"$inc": {"n": 5}}),
            lambda rows: rows.update_one({"_id": 1}, {"$inc": {"n": 1}}).modified_count,
            1,
            {"_id": 1, "k": 1, "n": 1},
        ),
        (
            lambda rows: rows.create_index("n", unique=True) if rows.delete_one({"_id": 0}) else None,
            lambda rows: rows.update_one({"_id": 1}, {"$inc": {"n": 1}}).matched_count,
            1,
            {"_id": 1, "k": 1, "n": 1},
        ),
    ],
    ids=["both count", "changed and deleted", "deleted and changed", "no number any more", "another one", "an index"],
)
def test_what_is_committed_between_its_reads_and_its_commit_counts(
    rows: Rows,
    before_commit: Callable[[Callable[[], object]], None],
    other: Callable[[Rows], object],
    statement: Callable[[Rows], object],
    result: object,
    left: object,
    checkpointed: bool,
) -> None:
    store = store_of(rows)
    rows.update_one({"_id": 2}, {"$set": {"n": -1}})

    def work() -> None:
        other(rows)
        if checkpointed:
            store.checkpoint()

    before_commit(work)
    assert statement(rows) == result
    assert rows.find_one({"_id": 1}) == left
    assert store.verify().ok


def test_one_that_has_missed_a_document_is_repeated(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads no snapshot, so a document that is moved meanwhile may be nowhere."""
    first, moved = LoneStatement.first, list[int]()

    def late(self: LoneStatement, wanted: Any) -> Any:
        if not moved:  # the entry leaves the range, and comes in again at a place that this statement does not see
            moved.append(rows.update_one({"_id": 0}, {"$set": {"k": 0.5}}).modified_count)
        return first(self, wanted)

    monkeypatch.setattr(LoneStatement, "first", late)
    for each in (1, 2):
        rows.delete_one({"_id": each})
    found = rows.find_one_and_update({"k": {"$gte": 0}}, {"$inc": {"n": 1}}, sort=[("k", 1)])
    assert moved == [1]
    assert found == {"_id": 0, "k": 0.5, "n": 0}


def test_workers_in_one_group_get_a_document_each_without_a_conflict(rows: Rows) -> None:
    store = store_of(rows)
    parts = parts_of(store)
    taken: list[Any] = []

    def take() -> None:
        taken.append(rows.find_one_and_update({"k": {"$lt": 10}}, {"$inc": {"k": 10}}, sort=[("k", 1)]))

    threads = [threading.Thread(target=take) for _ in range(4)]
    before = store.stats().last_commit
    with parts.committer.exclusive():
        for thread in threads:
            thread.start()
        wait_until(lambda: len(parts.committer._queue) == len(threads))
    for thread in threads:
        thread.join()
    assert sorted(each["_id"] if each is not None else -1 for each in taken) == [-1, 0, 1, 2]
    assert parts.committer.conflicts == 0
    assert store.stats().last_commit == before + 3
    assert store.verify().ok
