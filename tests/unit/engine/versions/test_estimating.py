"""Estimates of how many keys a range has: exact if few, close if many. And reads of lists of keys."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.engine.types import Range, after_prefix
from tests.support.parts import parts_of


def fill(store: lowtide.Store, count: int) -> bytes:
    store.keyspace("other").put(b"a", b"b")
    with store.transaction() as tx:
        tx.keyspace("k").put_many({b"%08d" % number: b"value" for number in range(count)})
    return parts_of(store).engine.catalog.prefix_of("k")


def about(store: lowtide.Store, low: bytes, high: bytes | None) -> int:
    engine = parts_of(store).engine
    return engine.reader.about(Range(low, high), engine.registry.published)


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("count", [0, 1, 100, 3000, 40_000])
def test_estimates_are_near(store: lowtide.Store, count: int, checkpointed: bool) -> None:
    prefix = fill(store, count)
    if checkpointed:
        store.checkpoint()
    for first, end in ((0, count), (count // 3, count // 2), (count // 2, count // 2 + 50), (count - 1, count)):
        low, high = prefix + b"%08d" % max(first, 0), prefix + b"%08d" % end
        exact = len(range(max(first, 0), min(end, count)))
        found = about(store, low, high)
        if exact < 128:
            assert found == exact
        else:
            assert exact / 3 <= found <= exact * 3, (first, end)
    assert about(store, prefix, after_prefix(prefix)) >= min(count, 128)


def test_an_estimate_counts_what_is_in_memory_and_in_the_base(store: lowtide.Store) -> None:
    prefix = fill(store, 2000)
    store.checkpoint()
    with store.transaction() as tx:
        tx.keyspace("k").put_many({b"x%08d" % number: b"value" for number in range(3000)})
    assert 3000 <= about(store, prefix, after_prefix(prefix)) <= 12_000


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_key_that_is_asked_for_twice_is_answered_twice(store: lowtide.Store, checkpointed: bool) -> None:
    prefix = fill(store, 10)
    if checkpointed:
        store.checkpoint()
    keys = [prefix + b"%08d" % number for number in (3, 5, 3, 99, 99, 5)]
    engine = parts_of(store).engine
    found = engine.reader.get_many(keys, engine.registry.published)
    assert [value is not None for value in found] == [True, True, True, False, False, True]
