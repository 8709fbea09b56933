"""The ledger knows how many versions of a history are seen and how many are garbage, without reading them (G4)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.engine.garbage.horizon import make_horizon
from lowtide.engine.garbage.ledger import Cell, Kept, Ledger
from lowtide.engine.garbage.living import Living

ONE, TWO = b"\x00\x00\x00\x01", b"\x00\x00\x00\x02"
LAST = 12


def living(everywhere: set[int], scoped: dict[bytes, set[int]] | None = None, kind: str = "exact") -> Living:
    horizon = make_horizon(kind, everywhere, LAST)
    return Living(horizon, {prefix: horizon.plus(more) for prefix, more in (scoped or {}).items()})


@dataclass(frozen=True)
class Version:
    prefix: bytes
    begin: int
    end: int


versions = st.lists(
    st.builds(
        lambda prefix, begin, length: Version(prefix, begin, min(begin + length, LAST)),
        st.sampled_from([ONE, TWO]),
        st.integers(0, LAST - 1),
        st.integers(1, LAST),
    ),
    max_size=12,
)
timestamps = st.sets(st.integers(0, LAST), max_size=5)


def cells_of(kept: list[Version], who: Living) -> dict[Cell, int]:
    """The cells of the versions that are kept for someone, as a checkpoint counts them."""
    found: Counter[Cell] = Counter()
    for each in kept:
        seers = who.of(each.prefix).seers(each.begin, each.end)
        if seers is not None:
            found[each.prefix, *seers] += 1
    return found


@given(versions, timestamps, timestamps, st.data(), st.sampled_from(["exact", "watermark"]))
def test_it_counts_what_is_seen_and_what_is_garbage_exactly(
    kept: list[Version], everywhere: set[int], scoped: set[int], data: st.DataObject, kind: str
) -> None:
    """Whichever snapshots end, in any order and any number at once."""
    who = living(everywhere, {ONE: scoped}, kind)
    kept = [each for each in kept if who.of(each.prefix).needs(each.begin, each.end)]
    ledger = Ledger()
    ledger.add(Kept(LAST, cells_of(kept, who)))
    assert (ledger.seen, ledger.unseen) == (len(kept), 0)
    while everywhere or scoped:
        everywhere = data.draw(st.sets(st.sampled_from(sorted(everywhere)))) if everywhere else set()
        scoped = data.draw(st.sets(st.sampled_from(sorted(scoped)))) if scoped else set()
        who = living(everywhere, {ONE: scoped}, kind)
        ledger.settle(who)
        seen = [each for each in kept if who.of(each.prefix).needs(each.begin, each.end)]
        assert (ledger.seen, ledger.unseen) == (len(seen), len(kept) - len(seen))
        assert sum(ledger.last_seers.values()) == len(seen)
        if data.draw(st.booleans()):
            break


def test_the_last_to_see_what_has_become_garbage_are_known_until_someone_sweeps_after_them() -> None:
    ledger = Ledger()
    ledger.add(Kept(9, {(ONE, 1, 3): 2, (ONE, 3, 5): 1, (ONE, 7, 7): 4}))
    ledger.settle(living({1, 3, 5}))
    assert (ledger.left_by, ledger.unseen, ledger.seen) == ({7}, 4, 3)
    ledger.settle(living({5}))
    assert (ledger.left_by, ledger.unseen, ledger.seen) == ({7, 3}, 6, 1)
    assert ledger.take_left_by() == {7, 3}
    ledger.swept(6)
    assert (ledger.left_by, ledger.unseen, ledger.total) == (set(), 0, 1)


def test_a_checkpoint_that_a_sweep_of_everything_has_met_is_not_counted_twice() -> None:
    ledger = Ledger()
    ledger.count_again()
    ledger.add(Kept(4, {(ONE, 1, 1): 1}))
    ledger.counted({(ONE, 1, 1): 1})
    ledger.all_counted(6)
    ledger.add(Kept(6, {(ONE, 1, 1): 1}))
    assert ledger.total == 1
    ledger.add(Kept(8, {(ONE, 1, 1): 1}))
    assert ledger.total == 2


@pytest.mark.parametrize(
    ("begin", "end", "seers"),
    [(2, 9, (3, 7)), (3, 4, (3, 3)), (4, 7, (5, 5)), (4, 5, None), (0, 3, None), (7, 8, (7, 7))],
)
def test_the_seers_of_a_version_are_the_live_ones_inside_its_interval(
    begin: int, end: int, seers: tuple[int, int] | None
) -> None:
    assert make_horizon("exact", (3, 5, 7), 20).seers(begin, end) == seers


def test_the_low_water_mark_keeps_a_version_for_all_that_are_older_than_its_end() -> None:
    horizon = make_horizon("watermark", (3, 5, 7), 20)
    assert horizon.seers(6, 7) == (3, 5)
    assert horizon.seers(1, 3) is None
