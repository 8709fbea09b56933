"""The map grows as often as it takes, and reads that are cut short by it begin again (K3, K8)."""

from __future__ import annotations

import threading
from pathlib import Path

import lmdb
import pytest

from lowtide.base.codec import encode_row
from lowtide.base.environment import Base
from lowtide.base.history import Interval
from tests.unit.base.bases import PREFIX, STORE_ID, fill, new_base, temporary_directory

SMALL = 1 << 18
VALUE = b"v" * 4000


def key_of(number: int) -> bytes:
    return PREFIX + b"%06d" % number


def put_many(base: Base, first: int, count: int, ts: int) -> None:
    fill(base, {key_of(number): (ts, VALUE) for number in range(first, first + count)})


def test_a_write_that_does_not_fit_grows_the_map_and_is_repeated_whole() -> None:
    with new_base(SMALL) as base:
        put_many(base, 0, 1000, 1)
        assert base.map_size >= 1000 * len(VALUE)
        assert base.row(key_of(999)) == encode_row(1, VALUE)


def test_a_write_that_is_repeated_leaves_nothing_of_the_attempts_that_failed() -> None:
    attempts: list[int] = []

    def change(txn: lmdb.Transaction[bytes]) -> None:
        attempts.append(len(attempts))
        assert txn.get(b"attempt", db=base.rows) is None
        txn.put(b"attempt", b"%d" % attempts[-1], db=base.rows)
        for number in range(300):
            txn.put(key_of(number), VALUE, db=base.rows)

    with new_base(SMALL) as base:
        base.write(change)
        assert len(attempts) > 1
        assert base.row(b"attempt") == b"%d" % attempts[-1]


def test_a_helper_process_must_not_grow_the_map_under_its_owner(tmp_path: Path) -> None:
    base = Base(tmp_path, SMALL, create=True)
    base.initialise(STORE_ID)
    helper = Base(tmp_path, SMALL, may_grow=False)
    with pytest.raises(lmdb.MapFullError):
        put_many(helper, 0, 1000, 1)
    helper.close()
    assert base.row(key_of(0)) is None
    assert base.map_size == SMALL
    base.close()


def test_a_map_that_another_process_grew_is_taken_over() -> None:
    with temporary_directory() as directory:
        first = Base(directory, SMALL, create=True)
        first.initialise(STORE_ID)
        second = Base(directory, SMALL)
        put_many(second, 0, 1000, 1)
        first.sync_map_size()
        assert first.map_size == second.map_size
        assert first.row(key_of(999)) == encode_row(1, VALUE)
        second.close()
        first.close()


def test_reads_that_are_cut_short_by_growing_begin_again() -> None:
    """Ten threads read rows, chunks and the history while the map grows eight times: nobody fails, and each finds
    what was there before."""
    readers = 10
    old = [(Interval(1, 3, key_of(5)), b"old")]
    errors: list[BaseException] = []
    looks = [0] * readers
    done = threading.Event()

    def read(index: int) -> None:
        try:
            while not done.is_set() or looks[index] == 0:
                assert base.row(key_of(7)) == encode_row(3, VALUE)
                assert base.read_history(key_of(5), 2) == b"old"
                entries, _ = base.chunk(PREFIX, key_of(20), 3, 50, index % 2 == 0, 4)
                assert len(entries) == 20
                assert base.count_history() == 1
                assert len(base.changed_keys(PREFIX, key_of(20), 2, 50)[0]) == 20
                looks[index] += 1
        except BaseException as error:
            errors.append(error)

    with new_base(SMALL) as base:
        fill(base, {key_of(number): (3, VALUE) for number in range(20)}, old)
        threads = [threading.Thread(target=read, args=(index,), daemon=True) for index in range(readers)]
        for thread in threads:
            thread.start()
        first = 20
        while base.map_size < SMALL << 8:
            put_many(base, first, 50, 4)
            first += 50
        base.history_below = 4
        done.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert errors == []
        assert all(looks)
