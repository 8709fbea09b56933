"""Ordered keys, which are sorted only for a scan, equal a sorted set, whenever keys were added (I3)."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.engine.versions.ordered import KeyspaceKeys, OrderedKeys
from lowtide.engine.versions.sorted_keys import SortedKeys
from tests.support.patience import PATIENCE

keys = st.binary(max_size=2)


@given(st.lists(st.sets(keys, max_size=6), max_size=5), keys, st.none() | keys, st.integers(0, 8), st.booleans())
def test_between_is_a_slice_of_the_sorted_keys(
    batches: list[set[bytes]], low: bytes, high: bytes | None, limit: int, reverse: bool
) -> None:
    ordered, added = OrderedKeys({}), set[bytes]()
    for batch in batches:
        for key in batch - added:
            ordered.add(key)
        added |= batch
        wanted = sorted((key for key in added if low <= key and (high is None or key < high)), reverse=reverse)
        assert ordered.between(low, high, limit, reverse) == wanted[:limit]


def test_adding_during_scans_loses_no_key_and_shows_none_twice() -> None:
    """One thread adds, as the publishing one does; others drain what it added, all at once."""
    ordered, total = OrderedKeys({}), 5000
    done = threading.Event()
    faults: list[object] = []

    def look() -> None:
        known = 0
        while not done.is_set():
            found = ordered.between(b"", None, total, False)
            if len(set(found)) != len(found) or len(found) < known or found != sorted(found):
                faults.append(found)
            known = len(found)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(total):
        ordered.add(b"%04d" % ((number * 7919) % total))
    done.set()
    for thread in threads:
        thread.join()
    assert not faults
    assert ordered.between(b"", None, total, False) == [b"%04d" % number for number in range(total)]


def test_a_scan_that_comes_while_another_one_sorts_the_first_keys_misses_none() -> None:
    keys = OrderedKeys({})
    found: list[list[bytes]] = []
    scanning = threading.Thread(target=lambda: found.append(keys.between(b"", None, 10, False)), daemon=True)

    class Interrupted(dict[bytes, KeyspaceKeys]):
        def __setitem__(self, prefix: bytes, part: KeyspaceKeys) -> None:
            scanning.start()
            scanning.join(0.2)  # it is done now, and wrong, or waits for the lock
            super().__setitem__(prefix, part)

    keys._parts = Interrupted()
    keys.add(b"k")
    assert keys.between(b"", None, 10, False) == [b"k"]
    scanning.join(PATIENCE)
    assert found == [[b"k"]]


@pytest.mark.parametrize("lost", [True, False])
def test_a_drain_that_was_interrupted_loses_no_key_and_doubles_none(lost: bool) -> None:
    table: dict[bytes, None] = {}
    keys = OrderedKeys(table)

    class Interrupted(SortedKeys):
        def update(self, iterable: Iterable[bytes]) -> None:
            if lost:
                self._fill([])
            else:
                super().update(iterable)
            raise KeyboardInterrupt

    for key in (b"key a", b"key b"):
        keys.add(key)
        table[key] = None
    keys.between(b"", None, 10, False)
    keys._parts[b"key "].ordered = Interrupted(keys._parts[b"key "].ordered.between(b"", None, 10, False))
    keys.add(b"key c")
    with pytest.raises(KeyboardInterrupt):
        keys.between(b"", None, 10, False)
    keys.add(b"key d")
    assert keys.between(b"", None, 10, False) == [b"key a", b"key b", b"key c", b"key d"]
    keys.add(b"key e")
    assert keys.between(b"", None, 10, False) == [b"key a", b"key b", b"key c", b"key d", b"key e"]


def test_a_division_by_keyspace_that_was_interrupted_loses_no_key_and_doubles_none() -> None:
    table: dict[bytes, None] = {}
    keys = OrderedKeys(table)

    class Interrupted(dict[bytes, KeyspaceKeys]):
        def __setitem__(self, prefix: bytes, part: KeyspaceKeys) -> None:
            if len(self) == 1:
                raise KeyboardInterrupt
            super().__setitem__(prefix, part)

    keys._parts = Interrupted()
    for key in (b"one a", b"two b", b"one c"):
        keys.add(key)
        table[key] = None
    with pytest.raises(KeyboardInterrupt):
        keys.between(b"", None, 10, False)
    assert keys.between(b"", None, 10, False) == [b"one a", b"one c", b"two b"]


@given(st.sets(st.binary(max_size=7), max_size=30), st.binary(max_size=7), st.binary(max_size=7), st.booleans())
def test_keys_of_many_keyspaces_are_in_one_order(added: set[bytes], low: bytes, high: bytes, reverse: bool) -> None:
    keys = OrderedKeys({})
    for key in added:
        keys.add(key)
    expected = sorted((key for key in added if low <= key < high), reverse=reverse)
    assert keys.between(low, high, 4, reverse) == expected[:4]
    assert keys.first(low, high, reverse) == (expected[0] if expected else None)
    assert keys.count(low, high) == len(expected)
    assert keys.between(low, None, 99, reverse) == sorted((key for key in added if low <= key), reverse=reverse)
