"""The line of the user's program that opened a snapshot."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import lowtide
from lowtide.engine.transaction.origin import Origin, caller, origin_of


def this_line(frame: FrameType | None = None) -> str:
    frame = frame or sys._getframe(1)
    return f"{__file__}:{frame.f_lineno}"


def in_the_package(source: str) -> Callable[..., Any]:
    """A function ``f`` of a module that seems to be Lowtide's."""
    names: dict[str, Any] = {"__name__": "lowtide.somewhere", "caller": caller, "contextlib": contextlib}
    exec(source, names)
    function: Callable[..., Any] = names["f"]
    return function


def test_an_origin_names_the_line() -> None:
    frame = sys._getframe()
    origin, line = Origin(frame.f_code, frame.f_lasti), frame.f_lineno
    assert str(origin) == f"{__file__}:{line}"
    assert str(origin_of(None)) == "unknown (snapshot_origins is off)"


def test_the_caller_is_the_first_frame_outside_the_package_however_deep() -> None:
    deep = in_the_package("def g(n):\n    return g(n - 1) if n else caller()\ndef f(n):\n    return g(n)\n")
    assert (str(Origin(*deep(0))), here := this_line()) == (here, here)
    assert (str(Origin(*deep(7))), here := this_line()) == (here, here)


def test_the_caller_of_a_context_manager_is_the_with_statement() -> None:
    block = in_the_package("@contextlib.contextmanager\ndef f():\n    yield caller()\n")
    with block() as found:
        assert this_line().rpartition(":")[0] == str(Origin(*found)).rpartition(":")[0]


def test_in_a_thread_of_the_package_the_caller_is_there() -> None:
    own = in_the_package("def g(found):\n    found.append(caller())\ndef f(found):\n    g(found)\n")
    found: list[Any] = []
    thread = threading.Thread(target=own, args=(found,))
    thread.start()
    thread.join()
    assert str(Origin(*found[0])) == "<string>:4"


def opened(store: lowtide.Store) -> str:
    """Where the one live snapshot was opened."""
    (one,) = store.stats().snapshots
    return one.where


def test_every_way_to_open_a_snapshot_names_the_line_of_the_user(store: lowtide.Store) -> None:
    store.collection("c").insert_one({"_id": 1})
    store.keyspace("k").put(b"a", b"b")
    tx, here = store.begin(), this_line()
    assert opened(store) == here
    tx.rollback()
    tx, here = store.transaction("serializable"), this_line()
    assert opened(store) == here
    tx.rollback()
    snapshot, here = store.snapshot(), this_line()
    assert opened(store) == here
    second, here = store.snapshot(at=snapshot.ts), this_line()
    snapshot.close()
    assert opened(store) == here
    second.close()
    assert (store.run(lambda tx: opened(store)), here := this_line()) == (here, here)


def test_scans_and_cursors_name_the_line_of_the_user(store: lowtide.Store) -> None:
    store.collection("c").insert_one({"_id": 1})
    store.keyspace("k").put(b"a", b"b")

    def begun(scan: Iterator[object]) -> str:
        next(scan)
        where = opened(store)
        del scan
        return where

    scan, here = store.keyspace("k").scan(), this_line()
    assert begun(scan) == here
    del scan
    cursor = iter(store.collection("c").find())
    next(cursor)
    assert opened(store).startswith(f"{__file__}:")
    del cursor
    with store.transaction("read_committed") as tx:
        cursor = iter(tx.collection("c").find())
        next(cursor)
        assert opened(store).startswith(f"{__file__}:")
        del cursor


def test_without_origins_none_is_taken(tmp_path: Any) -> None:
    with lowtide.open(tmp_path, snapshot_origins=False) as store:
        store.keyspace("k").put(b"a", b"b")
        with store.begin():
            assert opened(store) == "unknown (snapshot_origins is off)"
