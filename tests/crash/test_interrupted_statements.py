"""KeyboardInterrupt anywhere in a statement that runs alone, and while it is run again for another thread (P1).

Each statement is applied whole or not at all, and exactly once for the thread that was not interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lowtide
from tests.crash.interrupts import Places, interrupted
from tests.crash.stores import SMALL, in_time, killed, wait_until
from tests.support.parts import parts_of


def count(store: lowtide.Store) -> Any:
    """Change a document and its index entry."""
    return store["rows"].find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})


def number_of(store: lowtide.Store) -> int:
    (found,) = store["rows"].find({}, hint="n_1").to_list()
    assert store["rows"].find_one({"n": found["n"]}) == found
    return int(found["n"])


def opened(path: Path) -> lowtide.Store:
    store = lowtide.open(path, **SMALL, durability="relaxed")
    store["rows"].create_index("n")
    store["rows"].insert_one({"_id": 1, "n": 0})
    return store


def test_an_interrupt_anywhere_in_a_statement_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path / "store")
    n, nth, reached, tried = 0, 0, ["somewhere"], Places()
    try:
        while reached:
            nth += 1
            with interrupted(tried, KeyboardInterrupt("pressed by the test")) as reached:
                try:
                    acknowledged = count(store) is not None
                except KeyboardInterrupt:
                    acknowledged = False
            where = f"after an interrupt in {reached}"
            assert number_of(store) in ((n + 1,) if acknowledged else (n, n + 1)), where
            n = number_of(store)
            in_time(lambda: count(store), where)
            n += 1
            assert number_of(store) == n, where
            parts_of(store).versions.active.check()
            if nth % 10 == 0:
                with lowtide.open(killed(store.path, tmp_path / f"killed {nth}"), **SMALL) as restarted:
                    assert number_of(restarted) == n, where
    except BaseException:
        store._finalizer.detach()
        raise
    in_time(store.close)
    assert nth > 30, "the statement was hardly traced"


def test_an_interrupt_of_the_leader_harms_no_statement_that_it_runs_again(tmp_path: Path) -> None:
    store = opened(tmp_path / "store")
    n, nth, reached, tried = 0, 0, ["somewhere"], Places(one_in=2)
    try:
        while reached:
            nth += 1
            ended = waiting(store)
            with interrupted(tried, KeyboardInterrupt("pressed by the test")) as reached:
                try:
                    acknowledged = count(store) is not None
                except KeyboardInterrupt:
                    acknowledged = False
            where = f"after an interrupt in {reached}"
            in_time(lambda: wake(store), where)
            in_time(ended, where)
            assert number_of(store) in ((n + 2,) if acknowledged else (n + 1, n + 2)), where
            n = number_of(store)
            parts_of(store).versions.active.check()
    except BaseException:
        store._finalizer.detach()
        raise
    in_time(store.close)
    assert nth > 50, "the statement was hardly traced"
    with lowtide.open(tmp_path / "store") as again:
        assert number_of(again) == n
        assert again.verify().ok


def waiting(store: lowtide.Store) -> Callable[[], None]:
    """Have another thread stand in the queue with a statement; returns a function that waits for its end."""
    committer, results = parts_of(store).committer, list[Any]()
    thread = threading.Thread(target=lambda: results.append(count(store)), daemon=True)
    with committer._lock:
        thread.start()
        wait_until(lambda: any(each.gate is not None and each.gate.locked() for each in list(committer._queue)))

    def ended() -> None:
        thread.join()
        assert len(results) == 1

    return ended


def wake(store: lowtide.Store) -> None:
    with parts_of(store).committer.exclusive():
        pass
