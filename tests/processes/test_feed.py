"""The change feed in other processes: every commit once and in order, up to the last published one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.engine.log.cursor import first_kept
from lowtide.engine.log.segment import segment_paths, sequence_of
from tests.conftest import OpenStore
from tests.crash.stores import wait_until
from tests.processes.children import LONG, Child, Refused, children
from tests.support.parts import parts_of

TINY: dict[str, Any] = {
    "durability": "relaxed",
    "segment_bytes": 4096,
    "feed_bytes": 0,
    "checkpoint_bytes": 5000,
    "checkpointer": "thread",
}
"""Checkpoints and new segments all the time; nothing of the log stays but for consumers."""


def entries(after: int, upto: int) -> list[tuple[str, str]]:
    """What to put, so that each commit's value tells its timestamp: the keys 0 to 6 in turn."""
    return [((b"%d" % (ts % 7)).hex(), (b"%d " % ts * 20).hex()) for ts in range(after + 1, upto + 1)]


def expected(after: int, upto: int) -> list[list[Any]]:
    """The changes of those commits."""
    return [
        [ts, "insert" if ts <= 7 else "update", key, value]
        for ts, (key, value) in enumerate(entries(after, upto), after + 1)
    ]


def last_of(child: Child) -> int:
    return int(child.ask("latest")[0])


def put(store: lowtide.Store, after: int, upto: int) -> None:
    for key, value in entries(after, upto):
        store.keyspace("k").put(bytes.fromhex(key), bytes.fromhex(value))


@pytest.mark.parametrize("acknowledging", [False, True])
def test_changes_are_shown_once_and_in_order_beside_a_writing_owner_and_over_its_end(
    tmp_path: Path, acknowledging: bool
) -> None:
    """If a consumer acknowledges, the log is released and recycled under it; if not, all of the log is kept."""
    path = tmp_path / "store"
    position = 0

    def read() -> None:
        nonlocal position
        changes = reader.ask("consume", name="mirror") if acknowledging else reader.ask("changes", since=position)
        assert changes == expected(position, position + len(changes))
        position += len(changes)

    with children(path, 3) as [first, second, reader]:
        first.ask("own", **TINY)
        reader.ask("follow")
        assert reader.ask("consume", name="mirror", since=0) == []
        for upto in range(100, 401, 100):
            first.tell("put", entries=entries(upto - 100, upto))
            for _ in range(5):
                read()
            first.told()
            read()
            assert position == upto
        first.tell("put", entries=entries(400, 10_000))
        while position < 450:
            read()
        first.kill()
        second.ask("own", **TINY)
        last = last_of(second)
        read()
        assert position == last
        second.ask("put", entries=entries(last, last + 100))
        read()
        assert position == last + 100
        assert max(map(sequence_of, segment_paths(path / "log"))) > 10
        if acknowledging:
            assert first_kept(path / "log") > 300
            with pytest.raises(Refused, match="ChangesLost"):
                reader.ask("changes", since=0)
        else:
            assert reader.ask("changes", since=0) == expected(0, position)


@pytest.mark.parametrize("acknowledging", [False, True])
def test_a_watch_sees_every_commit_once_and_in_order_also_over_the_end_of_the_owner(
    tmp_path: Path, acknowledging: bool
) -> None:
    path = tmp_path / "store"
    mirror = "mirror" if acknowledging else None
    with children(path, 3) as [first, second, watcher]:
        first.ask("own", **TINY)
        watcher.ask("follow")
        watcher.ask("consume", name="mirror", since=0)
        watcher.ask("watch", since=0)
        first.tell("put", entries=entries(0, 10_000))
        shown = watcher.ask("next", upto=300, name=mirror)
        first.kill()
        second.ask("own", **TINY)
        last = last_of(second)
        if last > 300:
            shown += watcher.ask("next", upto=last, name=mirror)
        watcher.tell("next", upto=last + 100, name=mirror)
        second.ask("put", entries=entries(last, last + 100))
        shown += watcher.told()
        assert shown == expected(0, last + 100)
        assert (first_kept(path / "log") > 1) == acknowledging


def test_changes_are_read_without_an_owner(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with children(path, 2) as [owner, reader]:
        owner.ask("own", **TINY)
        reader.ask("follow")
        reader.ask("consume", name="mirror", since=0)
        owner.ask("put", entries=entries(0, 200))
        owner.kill()
        assert reader.ask("changes", since=0) == expected(0, 200)
    with children(path) as [reader]:
        reader.ask("follow")  # takes the store over for a moment
        assert reader.ask("consume", name="mirror", ack=False) == expected(0, 200)


def test_a_consumer_goes_on_in_another_process_where_it_was_acknowledged(tmp_path: Path) -> None:
    """What was delivered and not acknowledged is delivered again, whichever process died."""
    path = tmp_path / "store"
    with children(path, 4) as [owner, one, two, three]:
        owner.ask("own", **TINY)
        for each in (one, two):
            each.ask("follow")
        one.ask("consume", name="mirror", since=0)
        owner.ask("put", entries=entries(0, 150))
        assert one.ask("consume", name="mirror", upto=60) == expected(0, 150)
        one.kill()
        assert two.ask("position", name="mirror") == owner.ask("position", name="mirror") == 60
        assert two.ask("consume", name="mirror", upto=100) == expected(60, 150)
        assert owner.ask("consume", name="mirror", upto=120) == expected(100, 150)
        owner.kill()
        two.kill()
        three.ask("own", **TINY)
        three.ask("put", entries=entries(150, 200))
        assert three.ask("consume", name="mirror") == expected(120, 200)
        assert three.ask("consume", name="mirror") == []


def note_waits(store: lowtide.Store) -> list[tuple[int, float]]:
    """After which commits, and for how many seconds, the owner is asked to wait from now on."""
    asked: list[tuple[int, float]] = []
    handlers: Any = parts_of(store)._service._handlers
    wait: Callable[[int, float], int] = handlers["wait"]

    def noting(after: int, seconds: float) -> int:
        asked.append((after, seconds))
        return wait(after, seconds)

    handlers["wait"] = noting
    return asked


def is_waited_for(store: lowtide.Store, count: int = 1) -> bool:
    return len(parts_of(store).waiters.gates) == count


def test_a_watch_does_not_poll_the_owner(open_store: OpenStore) -> None:
    """It asks once for each commit that it has to wait for, as long as it takes, and not at all for those that are
    there."""
    store = open_store(**TINY)
    asked = note_waits(store)
    with children(store.path) as [watcher]:
        watcher.ask("follow")
        put(store, 0, 10)
        watcher.ask("watch", since=0)
        assert watcher.ask("next", upto=10) == expected(0, 10)
        assert asked == []
        for ts in range(11, 21):
            watcher.tell("next", upto=ts)
            wait_until(lambda: is_waited_for(store))
            put(store, ts - 1, ts)
            assert watcher.told() == expected(ts - 1, ts)
        assert asked == [(ts, LONG) for ts in range(10, 20)]


def test_a_watch_that_waits_is_ended_by_close_from_another_thread(open_store: OpenStore) -> None:
    store = open_store(**TINY)
    asked = note_waits(store)
    with children(store.path) as [watcher]:
        watcher.ask("follow")
        watcher.ask("watch", since=0)
        watcher.ask("watch in a thread")
        put(store, 0, 1)
        wait_until(lambda: is_waited_for(store) and asked[-1:] == [(1, LONG)])
        watcher.ask("close", name="watch")
        assert watcher.ask("watched") == [*expected(0, 1), "end"]
        put(store, 1, 2)
        assert watcher.ask("changes", since=0) == expected(0, 2)
        wait_until(lambda: is_waited_for(store, 0))


def test_closing_the_store_ends_its_watches_with_an_error(open_store: OpenStore) -> None:
    """Else the rest would be taken for all there was."""
    store = open_store(**TINY)
    with children(store.path) as [watcher]:
        watcher.ask("follow")
        watcher.ask("watch", since=0)
        watcher.ask("watch in a thread")
        wait_until(lambda: is_waited_for(store))
        watcher.ask("close", name="store")
        assert watcher.ask("watched") == ["UsageError"]


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_watch_outlives_the_owner_and_can_be_closed_when_there_is_none(tmp_path: Path, how: str) -> None:
    path = tmp_path / "store"
    with children(path, 2) as [owner, watcher]:
        owner.ask("own", **TINY)
        owner.ask("put", entries=entries(0, 3))
        watcher.ask("follow")
        watcher.ask("watch", since=0)
        watcher.ask("watch in a thread")
        if how == "killed":
            owner.kill()
        else:
            owner.ask("close", name="store")
        with lowtide.open(path, **TINY) as store:
            wait_until(lambda: is_waited_for(store))
            put(store, 3, 5)
            wait_until(lambda: is_waited_for(store))
        watcher.ask("close", name="watch")
        assert watcher.ask("watched") == [*expected(0, 5), "end"]
