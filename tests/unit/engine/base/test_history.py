"""The history finds the version of a key at a timestamp, including absences, and its two tables agree (I2, G4)."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
from hypothesis import given

from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval, decode_interval
from tests.unit.engine.base.bases import Kept, kept_by, new_base

KEYS = [b"\x00\x00\x00\x01" + key for key in (b"", b"a", b"a\x00", b"b")]
LAST = 12


def intervals_of(key: bytes, cuts: list[int], present: list[bool]) -> Kept:
    """Intervals between neighbouring ``cuts``, where the key was ``present``."""
    return [
        (Interval(begin, end, key), b"%s@%d" % (key, begin))
        for (begin, end), there in zip(itertools.pairwise(cuts), present, strict=False)
        if there
    ]


cuts = st.sets(st.integers(0, LAST), max_size=6).map(sorted)
presence = st.lists(st.booleans(), min_size=6, max_size=6)
histories = st.tuples(*[st.builds(intervals_of, st.just(key), cuts, presence) for key in KEYS]).map(
    lambda parts: [version for part in parts for version in part]
)


def lookup(base: Base, key: bytes, ts: int) -> bytes | None:
    with base.env.begin() as txn:
        return base.history.lookup(txn, key, ts)


def add(base: Base, kept: Kept) -> None:
    base.write(lambda txn: base.history.add(txn, list(kept)))


def expect_lookups(base: Base, kept: Kept) -> None:
    for key, ts in itertools.product(KEYS, range(LAST + 2)):
        expected = [value for each, value in kept if each.full_key == key and each.begin <= ts < each.end]
        assert lookup(base, key, ts) == (expected[0] if expected else None), (key, ts)


@given(histories)
def test_a_lookup_finds_the_version_whose_interval_holds_the_time(kept: Kept) -> None:
    with new_base() as base:
        add(base, kept)
        expect_lookups(base, kept)
        assert kept_by(base) == dict(kept)
        assert base.count_history() == len(kept)


@given(histories, st.data())
def test_removing_some_leaves_the_others(kept: Kept, data: st.DataObject) -> None:
    going = data.draw(st.lists(st.sampled_from(kept), unique=True)) if kept else []
    with new_base() as base:
        add(base, kept)
        base.write(lambda txn: base.history.remove(txn, [each for each, _ in going]))
        left = [version for version in kept if version not in going]
        assert kept_by(base) == dict(left)
        expect_lookups(base, left)


@given(histories, histories)
def test_versions_added_later_join_the_earlier_ones(first: Kept, second: Kept) -> None:
    """Checkpoint after checkpoint; an equal interval of an equal key is the same version."""
    later = [(Interval(each.begin + LAST, each.end + LAST, each.full_key), value) for each, value in second]
    with new_base() as base:
        add(base, first)
        add(base, later)
        assert kept_by(base) == {**dict(first), **dict(later)}


def test_intervals_come_in_the_order_of_their_ends() -> None:
    key, other = KEYS[1], KEYS[3]
    kept = [(Interval(1, 9, key), b"x"), (Interval(2, 4, other), b"y"), (Interval(4, 9, other), b"z")]
    with new_base() as base:
        add(base, kept)
        with base.env.begin() as txn:
            found = list(base.history.intervals(txn))
            assert found == [Interval(2, 4, other), Interval(1, 9, key), Interval(4, 9, other)]
            assert list(base.history.intervals(txn, found[1].row_key)) == found[1:]
            assert list(base.history.intervals(txn, Interval(4, 10, b"").row_key)) == []


def test_clearing_lets_everything_go_at_once() -> None:
    with new_base() as base:
        add(base, [(Interval(1, 3, key), b"x") for key in KEYS])
        base.write(base.history.clear)
        assert kept_by(base) == {}
        expect_lookups(base, [])


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.binary(max_size=8))
def test_an_interval_survives_encoding(begin: int, end: int, key: bytes) -> None:
    interval = Interval(begin, end, key)
    assert decode_interval(interval.row_key) == interval
    assert interval.row_key == interval.index_value + key
