"""The table of pins: rows by name, in the caller's transaction."""

from __future__ import annotations

import lmdb

from lowtide.engine.base.pin_table import PinRow, new_id
from tests.unit.engine.base.bases import PREFIX, new_base


def row(ts: int = 5, *, prefixes: tuple[bytes, ...] | None = None) -> PinRow:
    return PinRow(new_id(), ts, 100.0, 110.0, 30.0, None if prefixes is None else ("k",), prefixes, "somebody")


def test_a_row_comes_back_as_it_was_put() -> None:
    scoped = row(prefixes=(PREFIX, b"\x00\x00\x00\xff"))
    with new_base() as base:

        def change(txn: lmdb.Transaction[bytes]) -> None:
            base.pins.put(txn, "é", scoped)
            base.pins.put(txn, "a", row(7))

        base.write(change)
        assert base.read(lambda txn: base.pins.get(txn, "é")) == scoped
        assert base.read(lambda txn: base.pins.get(txn, "b")) is None
        assert [(name, each.ts) for name, each in base.read(base.pins.all)] == [("a", 7), ("é", 5)]


def test_it_expires_so_many_seconds_after_it_was_renewed() -> None:
    assert row().expires == 140.0


def test_a_deleted_row_is_gone_and_deleting_what_is_not_there_does_nothing() -> None:
    with new_base() as base:
        base.write(lambda txn: base.pins.put(txn, "a", row()))
        base.write(lambda txn: base.pins.delete(txn, "a"))
        base.write(lambda txn: base.pins.delete(txn, "a"))
        assert base.read(base.pins.all) == []


def test_a_pin_covers_all_keyspaces_or_those_that_it_names() -> None:
    assert row().covers(PREFIX)
    assert row(prefixes=(PREFIX,)).covers(PREFIX)
    assert not row(prefixes=(PREFIX,)).covers(b"\x00\x00\x00\x02")
    assert not row(prefixes=()).covers(PREFIX)


def test_no_two_pins_have_the_same_identity() -> None:
    assert len({new_id() for _ in range(1000)}) == 1000
