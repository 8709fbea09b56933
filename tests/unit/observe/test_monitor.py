"""The monitor: it checks every few seconds, survives its own errors, stops at once, and keeps no store alive (O1)."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from lowtide.observe.monitor import Hook, Monitor
from tests.conftest import OpenStore
from tests.garbage.background import wait_until
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE

NEVER = 3600.0


@pytest.fixture
def monitors() -> Iterator[list[Monitor]]:
    made: list[Monitor] = []
    yield made
    for each in made:
        each.close()


def monitor_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "lowtide-monitor"]


def failing_at(times: set[float], message: str = "a bad day") -> Hook:
    def hook(now: float) -> None:
        if now in times:
            raise ValueError(message)

    return hook


# The thread


def test_each_hook_is_called_at_every_tick_with_the_time_of_the_store(monitors: list[Monitor]) -> None:
    clock = ManualClock(5.0)
    told: list[tuple[str, float]] = []
    hooks: list[Hook] = [lambda now: told.append(("first", now)), lambda now: told.append(("second", now))]
    monitors.append(Monitor(NEVER, clock.monotonic, hooks))
    monitors[0].tick()
    clock.advance(2)
    monitors[0].tick()
    assert told == [("first", 5.0), ("second", 5.0), ("first", 7.0), ("second", 7.0)]


def test_it_ticks_by_itself_and_ends_at_once(monitors: list[Monitor]) -> None:
    ticks = threading.Semaphore(0)
    monitor = Monitor(0.001, ManualClock().monotonic, [lambda now: ticks.release()])
    monitor.start()
    for _ in range(3):
        assert ticks.acquire(timeout=PATIENCE)
    monitor.close()
    assert not monitor._thread.is_alive()
    waiting = Monitor(NEVER, ManualClock().monotonic, [])
    waiting.start()
    waiting.close()
    waiting.close()
    assert not waiting._thread.is_alive()


def test_it_may_be_closed_by_one_of_its_hooks(monitors: list[Monitor]) -> None:
    """The cyclic collector may find a dropped store in any thread, also in this one."""
    monitor = Monitor(0.001, ManualClock().monotonic, [lambda now: monitors[0].close()])
    monitors.append(monitor)
    monitor.start()
    monitor._thread.join(PATIENCE)
    assert not monitor._thread.is_alive()


def test_an_error_is_reported_once_and_stops_neither_the_monitor_nor_the_other_hooks(
    monitors: list[Monitor], caplog: pytest.LogCaptureFixture
) -> None:
    """O1."""
    clock = ManualClock(0.0)
    called: list[float] = []
    monitors.append(Monitor(NEVER, clock.monotonic, [failing_at({0.0, 1.0, 2.0}), called.append]))
    for _ in range(4):
        monitors[0].tick()
        clock.advance(1)
    assert called == [0.0, 1.0, 2.0, 3.0]
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("lowtide", "ERROR")
    assert record.exc_info is not None
    assert "a bad day" in caplog.text


def test_an_error_that_comes_back_and_another_one_are_reported_again(
    monitors: list[Monitor], caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(0.0)
    monitors.append(Monitor(NEVER, clock.monotonic, [failing_at({0.0, 2.0}), failing_at({1.0, 2.0}, "a worse one")]))
    for _ in range(3):
        monitors[0].tick()
        clock.advance(1)
    assert len(caplog.records) == 3


# In a store


def test_the_monitor_of_a_store_that_fails_goes_on(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of O1: live snapshots cannot be listed for a while, and are reported when they can."""
    clock = ManualClock()
    store = open_store(clock=clock, monitor_interval=NEVER, max_snapshot_age=1000)
    snapshot = store.snapshot()
    clock.advance(60)
    with monkeypatch.context() as broken:
        broken.setattr(parts_of(store).registry, "entries", lambda: 1 / 0)
        for _ in range(3):
            parts_of(store).monitor.tick()
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]  # one for each hook
    caplog.clear()
    parts_of(store).monitor.tick()
    assert "is 60 s old" in caplog.text
    snapshot.close()


def test_a_snapshot_older_than_a_limit_is_reported_with_all_that_is_known_of_it(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    """O1, with the limits of the options."""
    clock = ManualClock()
    limits = {"snapshot_warn_age": 10.0, "snapshot_critical_age": 20.0, "snapshot_warn_interval": 30.0}
    store = open_store(clock=clock, monitor_interval=NEVER, **limits)
    keyspace = store.keyspace("k")
    keyspace.put(b"key", b"value")
    snapshot, line = store.snapshot(), sys._getframe().f_lineno
    keyspace.put(b"key", b"another")
    told = {}
    for second in range(0, 90, 5):
        parts_of(store).monitor.tick()
        if caplog.records:
            told[second] = caplog.records[0].levelname
            assert len(caplog.records) == 1
            message = caplog.records[0].getMessage()
            assert f"opened at {__file__}:{line} is {second} s old" in message
            assert f"1 superseded versions, {4 + 3 + 5} bytes, are kept for it alone" in message
        caplog.clear()
        clock.advance(5)
    assert told == {10: "WARNING", 20: "ERROR", 50: "ERROR", 80: "ERROR"}
    snapshot.close()


def test_growth_under_a_stuck_snapshot_is_named_in_memory_and_in_the_history(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    store = open_store(clock=clock, monitor_interval=NEVER)
    keys = [b"%d" % number for number in range(3000)]

    def put(some: list[bytes]) -> None:
        with store.transaction() as tx:
            for key in some:
                tx.keyspace("k").put(key, b"v")

    put(keys)
    stuck, line = store.snapshot(), sys._getframe().f_lineno
    clock.advance(60)
    parts_of(store).monitor.tick()
    caplog.clear()
    put(keys[:1200])
    young = store.snapshot()
    parts_of(store).monitor.tick()
    assert (
        f"grown to 1200 while a snapshot is stuck: the snapshot of commit 1 that was opened at {__file__}:{line}"
        in (caplog.text)
    )
    caplog.clear()
    store.checkpoint()
    parts_of(store).monitor.tick()
    assert caplog.records == []
    put(keys[1200:])
    store.checkpoint()
    parts_of(store).monitor.tick()
    assert "grown to 3000" in caplog.text
    assert f"{__file__}:{line} is 60 s old; 1200 superseded versions" in caplog.text  # the others are seen by two
    young.close()
    stuck.close()


def test_an_expired_snapshot_is_reported_once(open_store: OpenStore, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    store = open_store(clock=clock, monitor_interval=NEVER, max_snapshot_age=30)
    snapshot, line = store.snapshot(), sys._getframe().f_lineno
    clock.advance(61)
    parts_of(store).monitor.tick()
    parts_of(store).monitor.tick()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        f"the snapshot of commit 0 that was opened at {__file__}:{line} was ended at the age of 61 s: "
        "max_snapshot_age is 30 s"
    )
    snapshot.close()


def test_its_own_thread_expires_too(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock, monitor_interval=0.001, max_snapshot_age=30)
    snapshot = store.snapshot()
    clock.advance(30)
    wait_until(lambda: store.stats().expired == 1)
    with pytest.raises(lowtide.SnapshotExpired):
        snapshot.keyspace("k").get(b"x")


def test_a_store_that_is_closed_has_no_monitor_any_more(open_store: OpenStore) -> None:
    before = monitor_threads()
    store = open_store()
    (thread,) = set(monitor_threads()) - set(before)
    store.close()
    assert not thread.is_alive()


def test_a_store_that_is_dropped_is_not_kept_alive_by_its_monitor(tmp_path: Path) -> None:
    before = monitor_threads()
    store = lowtide.open(tmp_path / "store", monitor_interval=0.001)
    (thread,) = set(monitor_threads()) - set(before)
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None
    assert not thread.is_alive()
    lowtide.open(tmp_path / "store").close()


def test_an_opening_that_fails_leaves_no_monitor_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = monitor_threads()
    monkeypatch.setattr("lowtide.store.owned.Page", lambda *arguments, **named: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        lowtide.open(tmp_path / "store")
    assert monitor_threads() == before
