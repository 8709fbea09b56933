"""What is live in which keyspace: snapshots in all of them, pins in the keyspaces that they cover."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.garbage.living import with_pins

A, B, C = (b"\x00\x00\x00" + bytes([number]) for number in (1, 2, 3))


def pin(ts: int, *prefixes: bytes, everywhere: bool = False) -> PinRow:
    return PinRow(b"12345678", ts, 0.0, 0.0, 1.0, None, None if everywhere else prefixes, "")


def test_a_pin_of_everything_counts_everywhere() -> None:
    living = with_pins(Exact((4,), 9), [pin(2, everywhere=True)])
    assert living.of(A + b"key").live == living.everywhere.live == (2, 4)


def test_a_pin_of_one_keyspace_counts_there_only() -> None:
    living = with_pins(Exact((4,), 9), [pin(2, A)])
    assert living.of(A + b"key").live == (2, 4)
    assert living.of(B + b"key").live == (4,)
    assert living.everywhere.live == (4,)


def test_a_scoped_keyspace_keeps_what_counts_everywhere_too() -> None:
    living = with_pins(Exact((4,), 9), [pin(2, A), pin(3, A, B), pin(6, everywhere=True)])
    assert (living.of(A).live, living.of(B).live, living.of(C).live) == ((2, 3, 4, 6), (3, 4, 6), (4, 6))


def test_nothing_lives_only_without_snapshots_and_pins_of_every_kind() -> None:
    assert with_pins(Exact((), 9), []).empty
    assert not with_pins(Exact((4,), 9), []).empty
    assert not with_pins(Exact((), 9), [pin(2, A)]).empty
    assert not with_pins(Exact((), 9), [pin(2, everywhere=True)]).empty


def test_a_pin_of_keyspaces_that_did_not_exist_yet_holds_nothing() -> None:
    assert with_pins(Exact((), 9), [pin(2)]).empty


PREFIXES = st.sampled_from([A, B, C])
PINS = st.lists(st.tuples(st.integers(0, 9), st.none() | st.frozensets(PREFIXES)), max_size=5)


@given(st.frozensets(st.integers(0, 9)), PINS, PREFIXES, st.integers(0, 9), st.integers(1, 9))
def test_a_version_is_needed_iff_somebody_who_looks_there_sees_it(
    snapshots: frozenset[int],
    pins: list[tuple[int, frozenset[bytes] | None]],
    prefix: bytes,
    begin: int,
    length: int,
) -> None:
    rows = [pin(ts, *(prefixes or ()), everywhere=prefixes is None) for ts, prefixes in pins]
    end = begin + length
    bound = 20
    stamps = snapshots | {ts for ts, prefixes in pins if prefixes is None or prefix in prefixes}
    living = with_pins(Exact(tuple(sorted(snapshots)), bound), rows)
    assert living.of(prefix + b"key").needs(begin, end) == any(begin <= ts < end for ts in stamps)
