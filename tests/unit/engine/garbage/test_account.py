"""The account of holders: a version is counted for a holder iff only its timestamp still sees it (O1, invariant 6)."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.engine.base.history import Interval
from lowtide.engine.garbage import account as account_module
from lowtide.engine.garbage.account import Accountant, Holder, Holding, count_superseded, held_alone, superseded
from lowtide.engine.versions.layers import VersionStore
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.unit.engine.base.bases import PREFIX, fill, new_base

KEYSPACES = [b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\3"]

timestamps = st.integers(0, 10)
intervals = st.tuples(timestamps, timestamps).filter(lambda pair: pair[0] < pair[1])
found_versions = st.lists(st.tuples(intervals, st.sampled_from(KEYSPACES), st.integers(4, 50)), max_size=15)
scopes = st.none() | st.frozensets(st.sampled_from(KEYSPACES))
some_holders = st.lists(st.tuples(timestamps, scopes), max_size=6)


@given(some_holders, found_versions)
def test_a_version_counts_for_those_at_the_only_timestamp_that_sees_it(
    holding: list[tuple[int, frozenset[bytes] | None]], found: list[tuple[tuple[int, int], bytes, int]]
) -> None:
    """Said once more, slowly. Holders at one timestamp are all counted with it; one that does not cover the key sees
    nothing of it."""
    holders = [Holder(number, ts, scope) for number, (ts, scope) in enumerate(holding)]
    expected = {holder.id: [0, 0] for holder in holders}
    for (begin, end), keyspace, size in found:
        seers = [each for each in holders if begin <= each.ts < end and (each.scope is None or keyspace in each.scope)]
        if len({each.ts for each in seers}) == 1:
            for each in seers:
                expected[each.id][0] += 1
                expected[each.id][1] += size
    given_versions = [(begin, end, keyspace + b"some key", size) for (begin, end), keyspace, size in found]
    assert held_alone(holders, given_versions) == {each: Holding(*count) for each, count in expected.items()}


def test_the_keyspace_alone_will_do_for_a_key() -> None:
    holders = [Holder("pin", 1, frozenset(KEYSPACES[:1])), Holder(7, 1)]
    found = [(1, 2, KEYSPACES[0], 10), (1, 2, KEYSPACES[1], 20)]
    assert held_alone(holders, found) == {"pin": Holding(1, 10), 7: Holding(2, 30)}


@pytest.mark.parametrize("stretch", [1, 2, 4096])
def test_superseded_versions_are_found_in_both_layers_and_in_the_history(
    stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_module, "_STRETCH", stretch)
    versions = VersionStore(3)
    key, other = PREFIX + b"a", PREFIX + b"bb"
    kept = [(Interval(1, 3, key), b"old"), (Interval(1, 2, other), b""), (Interval(2, 3, other), b"older")]
    with new_base() as base:
        fill(base, {key: (3, b"x")}, kept)
        versions.publish(4, {key: b"4444", other: b"4"})
        versions.publish(5, {key: b"5"})
        versions.active.held[key] = None
        versions.freeze(5)
        versions.publish(6, {key: b"6", other: None})
        versions.publish(7, {other: b"7"})
        versions.active.held[other] = None
        assert sorted(superseded(versions, base)) == [
            (1, 2, PREFIX, len(other)),
            (1, 3, PREFIX, len(key) + 3),
            (2, 3, PREFIX, len(other) + 5),
            (4, 5, key, len(key) + 4),
            (6, 7, other, len(other)),
        ]
        assert count_superseded(versions, base) == 5
        base.history_below = 3
        assert Accountant(versions, base).account([Holder(1, 2), Holder(2, 6)]) == {
            1: Holding(2, len(key) + 3 + len(other) + 5),
            2: Holding(1, len(other)),
        }


def test_where_nothing_is_superseded_there_is_nothing_to_count() -> None:
    versions = VersionStore(0)
    with new_base() as base:
        versions.publish(1, {PREFIX + b"a": b"1"})
        assert list(superseded(versions, base)) == []
        assert count_superseded(versions, base) == 0
        assert held_alone([Holder(1, 5)], []) == {1: Holding(0, 0)}


def test_nothing_is_looked_at_if_nobody_holds_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = VersionStore(0)
    with new_base() as base:
        monkeypatch.setattr(account_module, "_counted", lambda *_: pytest.fail("it was walked"))
        assert Accountant(versions, base).account([]) == {}


def test_the_history_is_read_again_only_if_it_or_a_holder_below_its_end_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions, key = VersionStore(3), PREFIX + b"a"
    with new_base() as base:
        fill(base, {key: (3, b"x")}, [(Interval(1, 2, key), b"old"), (Interval(2, 3, key), b"older")])
        base.history_below = 3
        reads: list[bytes] = []
        read = base.history_sizes

        def noted(after: bytes, limit: int) -> tuple[list[tuple[int, int, bytes, int]], bytes | None]:
            reads.append(after)
            return read(after, limit)

        monkeypatch.setattr(base, "history_sizes", noted)
        accountant = Accountant(versions, base)

        def holds(*timestamps: int) -> tuple[list[int], int]:
            """How many versions the holders at these timestamps hold, and how often the history was read for that."""
            before = len(reads)
            found = accountant.account([Holder(number, ts) for number, ts in enumerate(timestamps)])
            return [found[number].versions for number in range(len(timestamps))], len(reads) - before

        assert holds(1) == ([1], 1)
        assert holds(1) == ([1], 0)
        assert holds(1, 3, 7) == ([1, 0, 0], 0), "the others see nothing of the history"
        assert holds(1, 2, 7) == ([1, 1, 0], 1), "a holder has come"
        assert holds(2, 7) == ([1, 0], 1), "a holder has gone"
        assert holds(3, 7) == ([0, 0], 0), "nobody sees the history"
        fill(base, {key: (4, b"y")}, [(Interval(1, 4, PREFIX + b"b"), b"old")])
        base.history_below = 4
        assert holds(2, 7) == ([2, 0], 1), "the history has changed"
        assert holds(2, 3, 7) == ([1, 0, 0], 1), "what two of them see, neither holds alone"


def test_a_history_that_changes_while_it_is_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was counted is kept for the state from before it was read: a count that lacks a change is never reused."""
    versions, key = VersionStore(3), PREFIX + b"a"
    with new_base() as base:
        fill(base, {key: (3, b"x")}, [(Interval(1, 2, key), b"old")])
        base.history_below = 3
        read = base.history_sizes

        def overtaken(after: bytes, limit: int) -> tuple[list[tuple[int, int, bytes, int]], bytes | None]:
            found = read(after, limit)
            monkeypatch.setattr(base, "history_sizes", read)
            fill(base, {key: (3, b"x")}, [(Interval(1, 3, PREFIX + b"b"), b"old")])
            return found

        monkeypatch.setattr(base, "history_sizes", overtaken)
        accountant = Accountant(versions, base)
        assert accountant.account([Holder(1, 1)])[1].versions == 1
        assert accountant.account([Holder(1, 1)])[1].versions == 2


def test_a_base_that_was_exchanged_is_read_again(open_store: OpenStore) -> None:
    store = open_store()
    store.keyspace("k").put(b"a", b"1")
    with store.snapshot():
        store.keyspace("k").put(b"a", b"2")
        store.checkpoint()
        assert [each.versions_held for each in store.stats().snapshots] == [1]
        state = parts_of(store).base.state()
        store.compact()
        assert parts_of(store).base.state() != state
        assert [each.versions_held for each in store.stats().snapshots] == [1]
