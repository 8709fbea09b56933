"""Pins that are bound to one process: removed at the owner's next check after it ends, whatever time they had left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import Leases, check_process
from lowtide.errors import SnapshotExpired, UsageError
from lowtide.store.owned import OwnedStore
from lowtide.system.identity import Identity, identify
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.unit.engine.base.bases import new_base

TAKES = """
import lowtide, os, sys
store = lowtide.open(sys.argv[1], read_only=True)
store.pin("p", ttl=3600, process=os.getpid())
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    """The owner. It looks for pins that are over only when the test says so."""
    store = open_store(monitor_interval=3600, collect_threshold=10**9)
    store.keyspace("k").put(b"x", b"1")
    return store


@contextmanager
def child() -> Iterator[Identity]:
    """A process that lives as long as the block."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = identify(process.pid)
        assert found is not None
        yield found
        process.kill()


def names(store: lowtide.Store) -> list[str]:
    parts_of(store).pinning.expire()
    return [pin.name for pin in store.pins()]


def test_a_killed_process_leaves_no_pin_after_the_owners_next_look(store: lowtide.Store) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TAKES, store.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        store.keyspace("k").put(b"x", b"2")
        store.checkpoint()
        assert "p" in names(store)
        process.kill()
    with lowtide.open_snapshot(store.path, pin="p") as snapshot:
        assert snapshot.keyspace("k").get(b"x") == b"1", "it is there until the owner looks"
        assert "p" not in names(store)
        with pytest.raises(SnapshotExpired):
            snapshot.keyspace("k").get(b"x")
    with pytest.raises(SnapshotExpired):
        lowtide.open_snapshot(store.path, pin="p")


def test_what_only_it_held_is_collected(store: lowtide.Store) -> None:
    with child() as process:
        store.pin("p", ttl=3600, process=process.pid)
        store.keyspace("k").put(b"x", b"2")
        store.checkpoint()
        store.collect_garbage()
        assert store.stats().history == 1
    assert names(store) == []
    store.collect_garbage()
    assert store.stats().history == 0


def test_an_owner_that_comes_later_drops_it_too(store: lowtide.Store, open_store: OpenStore) -> None:
    with child() as process:
        store.pin("p", ttl=3600, process=process.pid)
        store.close()
    assert names(open_store(monitor_interval=3600)) == []


def test_a_pin_may_be_renewed_by_others_while_its_process_lives(store: lowtide.Store) -> None:
    with child() as process:
        store.pin("p", ttl=3600, process=process.pid)
        store.renew("p", ttl=5)
        assert names(store) == ["p"]
    assert names(store) == []


def test_a_pin_beside_it_is_not_bound(store: lowtide.Store) -> None:
    with child() as process:
        store.pin("p", ttl=3600, process=process.pid)
        store.pin("q", ttl=3600, at="p")
    assert names(store) == ["q"]
    with store.snapshot(at="q") as snapshot:
        assert snapshot.keyspace("k").get(b"x") == b"1"


@pytest.fixture
def base() -> Iterator[Base]:
    with new_base() as base:
        base.write(lambda txn: base.put_boundary(txn, 5))
        yield base


@pytest.mark.parametrize("elsewhere", [{"boot": "another"}, {"namespace": "pid:[1]"}])
def test_a_pin_for_a_process_elsewhere_is_left_to_its_time(base: Base, elsewhere: dict[str, str]) -> None:
    now = [1000.0]
    leases = Leases(base, lambda: now[0], owner=True)
    with child() as process:
        leases.take("p", 10, process=msgspec.structs.replace(process, **elsewhere))
    assert leases.expire() == []
    now[0] = 1010.0
    assert len(leases.expire()) == 1


def test_the_name_of_a_pin_whose_process_is_gone_is_free(base: Base) -> None:
    leases = Leases(base, lambda: 1000.0)
    with child() as process:
        leases.take("p", 10, process=process)
        with pytest.raises(UsageError, match="the pin 'p' exists"):
            leases.take("p", 10)
    assert leases.take("p", 10).process is None
    assert leases.removed_elsewhere() == [5]


def test_a_row_without_a_process_is_for_nobody_in_particular(base: Base) -> None:
    """As earlier releases wrote them."""
    leases = Leases(base, lambda: 1000.0)
    row = leases.take("p", 10)
    parts: list[Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(row))
    base.write(lambda txn: txn.put(b"p", msgspec.msgpack.encode(parts[:-1]), db=base.pins.table))
    assert leases.find("p") == row
    assert not row.is_over(1000.0)


@pytest.mark.parametrize("pid", [0, -1, True, "1", 1.0, 2**22 + 1])
def test_what_is_no_living_process_is_refused(pid: Any, store: lowtide.Store) -> None:
    with pytest.raises(UsageError, match="process must be the id of a running process"):
        store.pin("p", process=pid)
    assert store.pins() == []


def test_this_process_and_nobody_are_fine() -> None:
    assert check_process(None) is None
    assert check_process(os.getpid()) == identify(os.getpid())


def test_a_reader_binds_pins_as_the_owner_does(store: lowtide.Store, open_store: OpenStore) -> None:
    reader = open_store(read_only=True)
    with child() as process:
        reader.pin("p", ttl=3600, process=process.pid)
        reader.pin("q", ttl=3600, at="p", process=process.pid)
        assert {"p", "q"} <= set(names(store))
    assert not {"p", "q"} & set(names(store))


def test_a_pin_is_renewed_from_any_process(store: lowtide.Store, tmp_path: Path) -> None:
    from lowtide.sharing.pins.snapshot import renew_pin

    pin = store.pin("p", ttl=3600)
    renew_pin(store.path, "p")
    (same,) = store.pins()
    assert same.expires == pin.expires, "it was taken just now"
    parts = store._backend
    assert isinstance(parts, OwnedStore)
    aged = msgspec.structs.replace(pin._row, renewed=pin._row.renewed - 2000)
    parts.base.write(lambda txn: parts.base.pins.put(txn, "p", aged))
    renew_pin(store.path, "p")
    (renewed,) = store.pins()
    assert renewed.expires >= pin.expires
    assert renewed.id == pin.id
    pin.release()
    with pytest.raises(SnapshotExpired):
        renew_pin(store.path, "p")
