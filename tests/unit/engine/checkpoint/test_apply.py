"""Applying a checkpoint: all of it in one LMDB transaction, or nothing, and only once (K2, K3, K4)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
from hypothesis import given

import lowtide.engine.checkpoint.apply as module
from lowtide.engine.base.codec import encode_row, encode_tombstone
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval
from lowtide.engine.base.pin_table import PinRow, new_id
from lowtide.engine.checkpoint.apply import (
    Applied,
    BoundaryMoved,
    Changes,
    CheckpointTarget,
    apply_checkpoint,
    changes_of,
)
from lowtide.engine.checkpoint.plan import KeyPlan
from lowtide.engine.garbage.horizon import make_horizon
from lowtide.engine.log.frame import Commit
from lowtide.engine.types import Writes
from lowtide.engine.versions.chain import Chain, versions_of
from lowtide.errors import Error
from tests.crash.stores import wait_until
from tests.support.patience import PATIENCE
from tests.unit.engine.base.bases import PREFIX, fill, kept_by, new_base, rows_of, tombstones_of

A, B, C = (PREFIX + name for name in (b"a", b"b", b"c"))


@pytest.fixture
def base() -> Iterator[Base]:
    with new_base() as found:
        yield found


def target(
    upto: int, boundary: int = 0, live: tuple[int, ...] = (), oldest_writer: int | None = None
) -> CheckpointTarget:
    return CheckpointTarget(boundary, upto, lambda: (make_horizon("exact", live, upto), oldest_writer))


def changes(*commits: Writes, first_ts: int = 1) -> Changes:
    """The changes of commits with consecutive timestamps, nothing left out."""
    return changes_of(
        (Commit(ts, 0.0, writes) for ts, writes in enumerate(commits, first_ts)),
        make_horizon("exact", range(100), 100),
    )


def test_rows_history_tombstones_names_and_boundary_come_together(base: Base) -> None:
    fill(base, {A: (1, b"a1"), B: (1, b"b1")})
    work = changes({A: b"a2"}, {A: b"a3", B: None}, {C: b"c4"}, first_ts=2)
    work.names["fruit"] = PREFIX
    applied = apply_checkpoint(base, work, target(4, 1, live=(1, 2), oldest_writer=2))
    assert applied == Applied(rows=3, kept=3)
    assert rows_of(base) == {A: encode_row(3, b"a3"), B: encode_tombstone(3), C: encode_row(4, b"c4")}
    assert kept_by(base) == {Interval(1, 2, A): b"a1", Interval(2, 3, A): b"a2", Interval(1, 3, B): b"b1"}
    assert tombstones_of(base) == [(3, B)]
    assert base.saved_keyspaces() == [("fruit", PREFIX)]
    assert base.read_boundary() == 4


def test_a_snapshot_right_before_the_boundary_keeps_what_it_sees_and_one_at_it_keeps_nothing(base: Base) -> None:
    fill(base, {A: (1, b"a1"), B: (1, b"b1")})
    assert apply_checkpoint(base, changes({A: b"a2"}, {A: b"a3"}, first_ts=2), target(3, 1, live=(3, 5))).kept == 0
    assert apply_checkpoint(base, changes({A: b"a4", B: None}, first_ts=4), target(4, 3, live=(3, 4))).kept == 2
    assert kept_by(base) == {Interval(3, 4, A): b"a3", Interval(1, 4, B): b"b1"}
    assert rows_of(base) == {A: encode_row(4, b"a4")}


def test_a_checkpoint_without_older_snapshots_does_not_read_what_it_overwrites(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(base, {A: (1, b"a1"), B: (1, b"b1")})
    planned: list[tuple[bytes, bytes | None]] = []

    def plan_key(key: bytes, chain: Chain, old_row: bytes | None, *_: object) -> KeyPlan:
        planned.append((key, old_row))
        return KeyPlan(None, None, [])

    monkeypatch.setattr(module, "plan_key", plan_key)
    apply_checkpoint(base, changes({A: b"a2", B: None, C: b"c"}, first_ts=2), target(2, 1, live=(2,)))
    assert planned == [(B, None)], "a deletion alone has to be planned, and nothing of its row is needed"
    assert rows_of(base) == {A: encode_row(2, b"a2"), C: encode_row(2, b"c")}


def test_all_of_it_is_one_transaction_of_lmdb(base: Base) -> None:
    """A reader in another process finds rows and boundary of one checkpoint, never those of two."""
    fill(base, {A: (1, b"a1")})
    before = base.env.info()["last_txnid"]
    apply_checkpoint(base, changes({A: b"a2"}, {B: b"b3"}, first_ts=2), target(3, 1, live=(1,)))
    assert base.env.info()["last_txnid"] == before + 1


def test_a_pin_that_comes_while_it_waits_for_its_transaction_counts(base: Base) -> None:
    fill(base, {A: (1, b"a1")})
    thread = threading.Thread(target=apply_checkpoint, args=(base, changes({A: b"a2"}, first_ts=2), target(2, 1)))
    with base.env.begin(write=True) as txn:
        thread.start()
        wait_until(base.writing.locked)
        base.pins.put(txn, "pin", PinRow(new_id(), 1, 0.0, 0.0, 60.0, None, None, "another process"))
    thread.join(PATIENCE)
    assert kept_by(base) == {Interval(1, 2, A): b"a1"}


def test_with_nobody_alive_only_rows_are_written(base: Base) -> None:
    fill(base, {A: (1, b"a1"), B: (1, b"b1")})
    apply_checkpoint(base, changes({A: b"a2", B: None}, {C: b"c"}, {C: None}, first_ts=2), target(4, 1))
    assert rows_of(base) == {A: encode_row(2, b"a2")}
    assert kept_by(base) == {}
    assert tombstones_of(base) == []


def test_deleting_what_never_was_in_the_base_is_no_error(base: Base) -> None:
    apply_checkpoint(base, changes({A: None}), target(1))
    assert rows_of(base) == {}
    assert base.read_boundary() == 1


def test_more_keys_than_a_batch_holds_are_applied_in_several(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 3)
    keys = [PREFIX + b"%02d" % number for number in range(10)]
    fill(base, dict.fromkeys(keys, (1, b"old")))
    writes: Writes = {key: b"new" if number % 2 else None for number, key in enumerate(keys)}
    applied = apply_checkpoint(base, changes(writes, first_ts=2), target(2, 1, live=(1,)))
    assert applied == Applied(rows=10, kept=10)
    assert rows_of(base) == {key: encode_row(2, b"new") for key in keys[1::2]}
    assert kept_by(base) == {Interval(1, 2, key): b"old" for key in keys}


def test_a_checkpoint_that_is_done_already_changes_nothing(base: Base) -> None:
    """A helper that answered too late did it: the boundary inside the transaction decides."""
    work = changes({A: b"a1"}, {A: b"a2"})
    apply_checkpoint(base, work, target(2, live=(1,)))
    before = rows_of(base), kept_by(base)
    assert apply_checkpoint(base, work, target(2, live=(1,))) == Applied(0, 0)
    assert apply_checkpoint(base, changes({A: b"a1"}), target(1)) == Applied(0, 0)
    assert (rows_of(base), kept_by(base)) == before
    assert base.read_boundary() == 2


@pytest.mark.parametrize("expected", [0, 2])
def test_a_boundary_that_moved_is_no_ground_to_build_on(base: Base, expected: int) -> None:
    fill(base, {A: (1, b"a1")})
    with pytest.raises(BoundaryMoved, match=f"is 1, not {expected}"):
        apply_checkpoint(base, changes({A: b"x"}, first_ts=3), target(3, expected))
    assert rows_of(base) == {A: encode_row(1, b"a1")}
    assert base.read_boundary() == 1


def test_an_error_in_the_middle_leaves_nothing_behind(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a key that LMDB does not take, in the last of several batches; the next attempt works."""
    monkeypatch.setattr(module, "_BATCH", 2)
    fill(base, {A: (1, b"a1"), B: (1, b"b1")})
    before = rows_of(base)
    work = changes({A: b"a2", B: None, PREFIX + b"z" * 600: b"too long"}, first_ts=2)
    with pytest.raises(Error, match="LMDB could not write"):
        apply_checkpoint(base, work, target(2, 1, live=(1,), oldest_writer=1))
    assert rows_of(base) == before
    assert kept_by(base) == {}
    assert tombstones_of(base) == []
    assert base.read_boundary() == 1
    apply_checkpoint(base, changes({A: b"a2", B: None}, first_ts=2), target(2, 1, live=(1,), oldest_writer=1))
    assert len(kept_by(base)) == 2


# The changes of commits, as the helper and recovery make them from the log

keys = st.sampled_from([A, B, C])
writes = st.dictionaries(keys, st.none() | st.binary(max_size=2), min_size=1, max_size=3)


@given(st.lists(writes, max_size=8), st.sets(st.integers(0, 8), max_size=3))
def test_the_changes_hold_the_newest_version_of_each_key_and_what_the_living_see(
    commits: list[Writes], live: set[int]
) -> None:
    horizon = make_horizon("exact", live, len(commits))
    found = changes_of((Commit(ts, 0.0, each) for ts, each in enumerate(commits, 1)), horizon)
    assert set(found.chains) == {key for each in commits for key in each}
    for key, chain in found.chains.items():
        history = [(ts, each[key]) for ts, each in enumerate(commits, 1) if key in each][::-1]
        ends = [len(commits) + 1, *[ts for ts, _ in history]]
        expected = [
            version
            for version, end in zip(history, ends, strict=False)
            if version is history[0] or any(version[0] <= ts < end for ts in live)
        ]
        assert list(versions_of(chain)) == expected


def test_the_changes_collect_the_names_of_all_commits() -> None:
    commits = [Commit(1, 0.0, {A: b""}, {"one": A[:4]}), Commit(2, 0.0, {A: b""}), Commit(3, 0.0, {}, {"two": b"2222"})]
    assert changes_of(commits, make_horizon("exact", (), 3)).names == {"one": A[:4], "two": b"2222"}
