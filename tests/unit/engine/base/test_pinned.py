"""Reading at a pin gives base and history as they were, or SnapshotExpired, and never anything else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowtide.engine.base.codec import encode_row, encode_ts
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval
from lowtide.engine.base.leases import Leases
from lowtide.engine.base.pinned import PinnedBase
from lowtide.errors import SnapshotExpired
from tests.support.clocks import ManualClock
from tests.unit.engine.base.bases import PREFIX, fill, new_base

OLD, CHANGED, DELETED, NEW, BACK = (PREFIX + name for name in (b"old", b"changed", b"deleted", b"new", b"back"))


@pytest.fixture
def base() -> Iterator[Base]:
    """The pin lies at 5. Since then one key was changed, one deleted, one made, and one was absent in between."""
    with new_base() as base:
        fill(
            base,
            {OLD: (3, b"o"), CHANGED: (7, b"new"), DELETED: (8, None), NEW: (9, b"n"), BACK: (9, b"again")},
            [
                (Interval(2, 7, CHANGED), b"was"),
                (Interval(4, 8, DELETED), b"there"),
                (Interval(1, 4, BACK), b"before"),
            ],
        )
        yield base


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def leases(base: Base, clock: ManualClock) -> Leases:
    return Leases(base, clock.time)


@pytest.fixture
def pinned(base: Base, leases: Leases, clock: ManualClock) -> PinnedBase:
    return PinnedBase(base, "p", leases.take("p", 10, at=5), clock.time)


EXPECTED = {OLD: b"o", CHANGED: b"was", DELETED: b"there"}
ALL = [OLD, CHANGED, DELETED, NEW, BACK, PREFIX + b"never"]


def scanned(pinned: PinnedBase, limit: int, reverse: bool) -> list[tuple[bytes, bytes]]:
    low, high = PREFIX, b"\x00\x00\x00\x02"
    found: list[tuple[bytes, bytes]] = []
    while True:
        entries, last = pinned.chunk(low, high, 99, limit, reverse, 0)
        found += entries
        if last is None:
            return found
        low, high = (low, last) if reverse else (last + b"\x00", high)


def values_of(pinned: PinnedBase, limit: int) -> list[bytes]:
    low, found = PREFIX, list[bytes]()
    while True:
        values, last = pinned.values(low, b"\x00\x00\x00\x02", 99, limit)
        found += values
        if last is None:
            return found
        low = last + b"\x00"


def test_each_key_has_the_row_that_it_had_at_the_pin(pinned: PinnedBase) -> None:
    assert {key: row[8:] for key in ALL if (row := pinned.row(key)) is not None} == EXPECTED
    assert {key: row[8:] for key, row in pinned.rows_of(ALL).items()} == EXPECTED


def test_no_row_seems_newer_than_the_pin(pinned: PinnedBase) -> None:
    for row in pinned.rows_of(ALL).values():
        assert row[:8] <= encode_ts(5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_a_scan_finds_the_same_whatever_the_size_of_its_chunks(pinned: PinnedBase, limit: int, reverse: bool) -> None:
    assert scanned(pinned, limit, reverse) == sorted(EXPECTED.items(), reverse=reverse)
    assert values_of(pinned, limit) == [EXPECTED[key] for key in sorted(EXPECTED)]


def test_a_pin_at_the_boundary_looks_at_nothing_but_the_rows(base: Base, leases: Leases, clock: ManualClock) -> None:
    here = PinnedBase(base, "now", leases.take("now", 10), clock.time)
    rows = {OLD: b"o", CHANGED: b"new", NEW: b"n", BACK: b"again"}
    assert scanned(here, 2, False) == sorted(rows.items())
    assert values_of(here, 2) == [rows[key] for key in sorted(rows)]
    assert {key: row[8:] for key, row in here.rows_of(ALL).items()} == rows


@pytest.mark.parametrize("end", ["removed", "expired", "expired and removed", "taken again", "taken again elsewhere"])
def test_every_read_after_the_end_is_refused(
    base: Base, pinned: PinnedBase, leases: Leases, clock: ManualClock, end: str
) -> None:
    assert pinned.row(OLD) is not None
    if "expired" in end:
        clock.advance(10)
    if "removed" in end or "taken" in end:
        leases.remove("p")
    if "taken" in end:
        leases.take("p", 10, at=5 if end == "taken again" else 9)
    for read in (
        lambda: pinned.row(OLD),
        lambda: pinned.rows_of([OLD]),
        lambda: pinned.chunk(PREFIX, None, 99, 10, False, 0),
        lambda: pinned.values(PREFIX, None, 99, 10),
    ):
        with pytest.raises(SnapshotExpired):
            read()


def test_a_renewed_pin_is_read_at_beyond_its_first_end(pinned: PinnedBase, leases: Leases, clock: ManualClock) -> None:
    for _ in range(5):
        clock.advance(6)
        leases.renew("p", None)
        assert pinned.row(OLD) == encode_row(3, b"o")
    clock.advance(10)
    with pytest.raises(SnapshotExpired):
        pinned.row(OLD)


def test_a_pin_that_was_shortened_ends_as_early_as_that(pinned: PinnedBase, leases: Leases, clock: ManualClock) -> None:
    leases.renew("p", None, 1)
    clock.advance(1)
    with pytest.raises(SnapshotExpired):
        pinned.row(OLD)
