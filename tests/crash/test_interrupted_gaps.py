"""KeyboardInterrupt while gaps are read or changed: no put is hidden, no lock stays taken, and gaps are noted again
(P1)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide
from tests.crash.interrupts import Places, interrupted
from tests.crash.stores import SMALL
from tests.support.parts import parts_of

COUNT = 80


def put(store: lowtide.Store, key: bytes) -> None:
    store.keyspace("k").put(key, b"there")


def scan(store: lowtide.Store, key: bytes) -> None:
    list(store.keyspace("k").scan())


def scan_and_put(store: lowtide.Store, key: bytes) -> None:
    with store.transaction() as tx:
        assert next(iter(tx.keyspace("k").scan()))
        tx.keyspace("k").put(key, b"there")


def _suppressing(work: Callable[[lowtide.Store, bytes], None], store: lowtide.Store, key: bytes) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        work(store, key)


@pytest.mark.parametrize("work", [put, scan, scan_and_put])
def test_an_interrupt_anywhere_hides_nothing_and_leaves_nothing(
    work: Callable[[lowtide.Store, bytes], None], tmp_path: Path
) -> None:
    keys = [b"%04d" % number for number in range(COUNT)]
    with lowtide.open(tmp_path / "store", **SMALL, durability="relaxed") as store:
        gaps, reader = parts_of(store).versions.gaps, parts_of(store).reader
        reader.first_chunk = reader.least_run = 8
        keyspace = store.keyspace("k")
        keyspace.put_many(dict.fromkeys([*keys, b"last"], b""))
        tried, nth, reached = Places(one_in=2), 0, ["somewhere"]
        while reached:
            nth += 1
            with store.transaction() as tx:
                for each in keys:
                    tx.keyspace("k").delete(each)
            gaps.forget()
            if work is put:
                assert [key for key, _ in keyspace.scan()] == [b"last"]
                assert gaps.of, "no gap was noted, so a lock stayed taken"
            with interrupted(tried, KeyboardInterrupt("pressed by the test")) as reached:
                _suppressing(work, store, keys[nth % COUNT])
            there = [key for key in [*keys, b"last"] if keyspace.get(key) is not None]
            for reverse in (False, True):
                assert sorted(key for key, _ in keyspace.scan(reverse=reverse)) == there, reached
            assert not gaps._lock.locked(), reached
            assert len(gaps.watches) <= nth
        keyspace.put_many({b"x%04d" % number: b"" for number in range(2000)})
        assert gaps.watches == [], "what an interrupt left behind goes with the next puts"
        assert nth > 30, "it was hardly traced"
