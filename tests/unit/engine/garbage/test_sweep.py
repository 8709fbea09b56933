"""The sweep of the history walks only what an ended snapshot may have left, and skips what is needed (G4, G6)."""

from __future__ import annotations

import itertools
import threading

import hypothesis.strategies as st
from hypothesis import given

from lowtide.engine.base.codec import encode_row, encode_tombstone
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval, decode_interval
from lowtide.engine.base.pin_table import PinRow, new_id
from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.garbage.ledger import Kept as Added
from lowtide.engine.garbage.ledger import Ledger
from lowtide.engine.garbage.sweep import EVERYTHING, Stretch, stretches, sweep_history, sweep_tombstones
from tests.crash.stores import wait_until
from tests.support.patience import PATIENCE
from tests.unit.engine.base.bases import PREFIX, Kept, fill, kept_by, new_base, rows_of, tombstones_of
from tests.unit.engine.base.test_history import LAST, histories

timestamps = st.integers(0, LAST + 1)


def sweep(base: Base, live: set[int], wanted: list[Stretch], budget: int = 1 << 62, kind: str = "exact") -> int:
    swept = sweep_history(base, lambda: make_horizon(kind, live, LAST + 1), wanted, budget)
    assert swept.rest == [] or budget < 1 << 62
    return swept.dropped


def needed(kept: Kept, live: set[int]) -> dict[Interval, bytes]:
    return {each: value for each, value in kept if any(each.begin <= ts < each.end for ts in live)}


# What is worth walking


@given(st.sets(timestamps, max_size=5), st.sets(timestamps, max_size=4), st.tuples(timestamps, timestamps).map(sorted))
def test_every_version_that_only_the_ended_ones_saw_lies_in_a_stretch(
    live: set[int], ended: set[int], interval: list[int]
) -> None:
    begin, end = interval
    seen = any(begin <= ts < end for ts in live)
    was_seen = any(begin <= ts < end for ts in ended)
    if was_seen and not seen:
        row_key = Interval(begin, end, PREFIX).row_key
        walked = stretches(ended, tuple(sorted(live)))
        assert any(first <= row_key and end <= upto for first, upto in walked)


@given(st.sets(timestamps, max_size=5), st.sets(timestamps, max_size=4))
def test_stretches_do_not_overlap_and_are_no_more_than_needed(live: set[int], ended: set[int]) -> None:
    walked = [(decode_interval(first + bytes(8)).end, upto) for first, upto in stretches(ended, tuple(sorted(live)))]
    assert len(walked) <= len(ended)
    for (_, upto), (first, _) in itertools.pairwise(walked):
        assert upto < first, "the next one begins after the last one has ended"


def test_the_end_of_a_snapshot_makes_what_ended_up_to_the_next_one_worth_walking() -> None:
    assert stretches([5], (3, 9)) == [(Interval(0, 6, b"").row_key[:8], 9)]
    assert stretches([4, 5, 5], (3, 9)) == [(Interval(0, 5, b"").row_key[:8], 9)]
    [(_first, upto)] = stretches([5], (3,))
    assert upto > 1 << 61


# What goes


@given(histories, st.sets(timestamps, max_size=3), st.sampled_from(["exact", "watermark"]))
def test_a_sweep_of_everything_leaves_what_is_needed_and_nothing_else(kept: Kept, live: set[int], kind: str) -> None:
    with new_base() as base:
        fill(base, {}, kept)
        dropped = sweep(base, live, [EVERYTHING], kind=kind)
        horizon = make_horizon(kind, live, LAST + 1)
        left = {each: value for each, value in kept if horizon.needs(each.begin, each.end)}
        if kind == "exact":
            assert left == needed(kept, live)
        assert kept_by(base) == left
        assert dropped == len(kept) - len(left)
        assert sweep(base, live, [EVERYTHING], kind=kind) == 0, "sweeping twice drops nothing more"


@given(histories, st.sets(timestamps, max_size=3), st.sets(timestamps, max_size=3), st.integers(1, 3))
def test_budgeted_sweeps_of_the_stretches_drop_as_much_as_one_of_everything(
    kept: Kept, live: set[int], ended: set[int], budget: int
) -> None:
    """The history holds what the live and the ended ones saw; only what the ended ones alone saw must go."""
    kept = [(each, value) for each, value in kept if any(each.begin <= ts < each.end for ts in live | ended)]
    with new_base() as base:
        fill(base, {}, kept)
        rest, passes = stretches(ended, tuple(sorted(live))), 0
        while rest:
            swept = sweep_history(base, lambda: make_horizon("exact", live, LAST + 1), rest, budget)
            assert swept.dropped <= budget or not live
            rest = swept.rest
            passes += 1
            assert passes <= len(kept) + 1
        assert kept_by(base) == needed(kept, live)


def test_a_sweep_whose_budget_ends_leaves_the_rest_of_its_stretch_and_all_the_others() -> None:
    """Three stretches, and a budget that ends in the first: what lies in the second and the third is still to go."""
    kept = [(Interval(ts, ts + 1, PREFIX), b"x") for ts in (1, 2, 3, 11, 12, 21, 22)]
    with new_base() as base:
        fill(base, {}, kept)
        wanted = stretches([1, 11, 21], (0, 10, 20, 30))
        assert len(wanted) == 3
        swept = sweep_history(base, lambda: Exact((0, 10, 20, 30), 40), wanted, 2)
        assert swept.dropped == 2
        assert swept.rest == [(Interval(3, 4, PREFIX).row_key, 10), *wanted[1:]]
        assert sweep_history(base, lambda: Exact((0, 10, 20, 30), 40), swept.rest, 9).dropped == 5
        assert base.count_history() == 0


def test_a_sweep_with_a_ledger_drops_only_what_that_has_counted() -> None:
    """What a checkpoint has added, and the ledger does not know yet, goes later: else it would count it as there."""
    ledger = Ledger()
    ledger.add(Added(5, {(PREFIX, 1, 1): 1, (PREFIX, 3, 3): 1}))
    with new_base() as base:
        fill(base, {}, [(Interval(ts, ts + 1, PREFIX), b"x") for ts in (1, 3, 6)])
        swept = sweep_history(base, lambda: make_horizon("exact", {3}, 20), [EVERYTHING], 9, ledger)
        assert (swept.dropped, swept.left) == (1, {(PREFIX, 3, 3): 1})
        assert (ledger.seen, ledger.unseen) == (1, 1)
        assert list(kept_by(base)) == [Interval(3, 4, PREFIX), Interval(6, 7, PREFIX)]


def test_with_nobody_alive_the_history_is_dropped_whole_whatever_the_budget() -> None:
    kept = [(Interval(number, number + 1, PREFIX), b"x") for number in range(10)]
    with new_base() as base:
        fill(base, {}, kept)
        assert sweep_history(base, lambda: Exact((), 20), [EVERYTHING], 1).dropped == 10
        assert base.count_history() == 0


def test_who_lives_is_asked_inside_the_write_transaction() -> None:
    """Else a checkpoint between the question and the sweep could add versions that the answer knows nothing of."""
    asked: list[bool] = []
    other = threading.Thread(target=lambda: base.write(lambda txn: None))

    def sample() -> Exact:
        asked.append(base.env.info()["last_txnid"] == before)
        other.start()
        other.join(0.05)
        assert other.is_alive(), "another thread could write, so no write transaction stands in its way"
        return Exact((2,), 20)

    with new_base() as base:
        fill(base, {}, [(Interval(2, 4, PREFIX), b"x")])
        before = base.env.info()["last_txnid"]
        sweep_history(base, sample, [EVERYTHING], 10)
        other.join(PATIENCE)
        assert asked == [True]


def test_a_pin_that_comes_while_a_sweep_waits_for_its_transaction_counts() -> None:
    with new_base() as base:
        fill(base, {}, [(Interval(2, 4, PREFIX), b"x")])
        thread = threading.Thread(target=sweep, args=(base, set(), [EVERYTHING]))
        with base.env.begin(write=True) as txn:
            thread.start()
            wait_until(base.writing.locked)
            base.pins.put(txn, "pin", PinRow(new_id(), 3, 0.0, 0.0, 60.0, None, None, "another process"))
        thread.join(PATIENCE)
        assert kept_by(base) == {Interval(2, 4, PREFIX): b"x"}


def test_nothing_is_asked_and_nothing_written_where_there_is_nothing_to_sweep() -> None:
    def sample() -> Exact:
        raise AssertionError("nobody should ask")

    with new_base() as base:
        assert sweep_history(base, sample, [EVERYTHING], 10).dropped == 0
        fill(base, {}, [(Interval(2, 4, PREFIX), b"x")])
        assert sweep_history(base, sample, [], 10).dropped == 0


# Tombstones


@given(
    st.dictionaries(
        st.sampled_from([PREFIX + name for name in (b"a", b"b", b"c", b"d")]), st.integers(1, 9), max_size=4
    ),
    st.integers(0, 10),
)
def test_tombstones_go_once_no_writer_is_older_than_they_are(deleted: dict[bytes, int], oldest: int) -> None:
    with new_base() as base:
        fill(base, {key: (ts, None) for key, ts in deleted.items()})
        left = {key: ts for key, ts in deleted.items() if ts > oldest}
        assert sweep_tombstones(base, oldest, 100) == len(deleted) - len(left)
        assert rows_of(base) == {key: encode_tombstone(ts) for key, ts in left.items()}
        assert tombstones_of(base) == sorted((ts, key) for key, ts in left.items())


def test_the_row_of_a_key_that_was_written_again_stays_when_its_tombstone_goes() -> None:
    key, twice = PREFIX + b"a", PREFIX + b"b"
    with new_base() as base:
        fill(base, {key: (3, None), twice: (3, None)})
        fill(base, {key: (5, b"again"), twice: (6, None)})
        assert sweep_tombstones(base, 4, 100) == 2
        assert rows_of(base) == {key: encode_row(5, b"again"), twice: encode_tombstone(6)}
        assert tombstones_of(base) == [(6, twice)]


def test_the_sweep_of_tombstones_has_a_budget() -> None:
    with new_base() as base:
        fill(base, {PREFIX + b"%d" % number: (number + 1, None) for number in range(5)})
        assert [sweep_tombstones(base, 9, 2) for _ in range(4)] == [2, 2, 1, 0]
        assert rows_of(base) == {}
