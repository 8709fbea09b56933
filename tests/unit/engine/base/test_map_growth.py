"""The map grows as often as necessary, and reads that this interrupts are repeated (K3, K8)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lmdb
import pytest

from lowtide.engine.base.codec import encode_row
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval
from tests.support.patience import PATIENCE
from tests.unit.engine.base.bases import PREFIX, STORE_ID, fill, new_base, temporary_directory

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


def test_a_helper_process_must_not_grow_the_map_under_its_owner() -> None:
    with temporary_directory() as directory:
        owner = Base(directory, SMALL, create=True)
        owner.initialise(STORE_ID)
        owner.close()
        helper = Base(directory, SMALL, may_grow=False)
        with pytest.raises(lmdb.MapFullError):
            put_many(helper, 0, 1000, 1)
        assert helper.row(key_of(0)) is None
        assert helper.map_size == SMALL
        helper.close()


OTHER_PROCESS = """
import sys
from pathlib import Path
from lowtide.engine.base.environment import Base
base = Base(Path(sys.argv[1]), int(sys.argv[2]))
base.write(lambda txn: txn.put(b"theirs", bytes(1 << 20), db=base.rows))
base.close()
"""


def test_a_map_that_another_process_grew_is_taken_over() -> None:
    """A read in a map that is too small for the file fails; the size that is in force is then taken over."""
    with new_base(SMALL) as base:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        program = [sys.executable, "-c", OTHER_PROCESS, str(base.directory), str(SMALL)]
        subprocess.run(program, env=environment, check=True)
        assert base.map_size == SMALL
        assert base.row(b"theirs") == bytes(1 << 20)
        assert base.map_size > SMALL


def test_a_repeated_read_that_meets_a_grown_map_again_does_not_block_a_writer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The writer has ``writing`` and waits for ``_growing``, as it does to abort a transaction. The read holds the
    latter while it is repeated, so it must give it up before it waits for the former."""
    begun, writing, found = [0], threading.Event(), list[bytes | None]()

    def write() -> None:
        with base.writing:
            writing.set()
            with base.keep_readers_out():
                pass

    base = Base(tmp_path, SMALL, create=True)
    base.initialise(STORE_ID)
    fill(base, {key_of(7): (3, VALUE)})
    writer = threading.Thread(target=write, daemon=True)
    reader = threading.Thread(target=lambda: found.append(base.row(key_of(7))), daemon=True)
    begin = base._begin

    def begin_in_a_map_that_grows_twice(*arguments: object) -> object:
        begun[0] += 1
        if begun[0] == 2:
            writer.start()
            assert writing.wait(PATIENCE)
        if begun[0] <= 2:
            raise lmdb.MapResizedError("as if another process had grown the map")
        return begin(*arguments)

    monkeypatch.setattr(base, "_begin", begin_in_a_map_that_grows_twice)
    reader.start()
    reader.join(PATIENCE)
    assert found == [encode_row(3, VALUE)], "it waits for the writer, which waits for it"
    writer.join(PATIENCE)
    base.close()


class Growth(threading.Thread):
    """Grows the map nine times by one write each, and waits in between until every reader has had another look."""

    def __init__(self, base: Base, looks: list[int], done: threading.Event) -> None:
        super().__init__(daemon=True)
        self._base = base
        self._looks = looks
        self._done = done
        self.times = 0

    def run(self) -> None:
        while self.times < 9:
            before, size = list(self._looks), self._base.map_size
            self._base.write(lambda txn, size=size: self._fill(txn, size))  # type: ignore[misc]
            assert self._base.map_size > size
            self.times += 1
            while any(now == then for now, then in zip(self._looks, before, strict=True)):
                if self._done.wait(0.0001):
                    return

    def _fill(self, txn: lmdb.Transaction[bytes], size: int) -> None:
        txn.put(key_of(100 + self.times), bytes(size), db=self._base.rows)


def test_reads_that_are_cut_short_by_growing_begin_again() -> None:
    """Four threads that do nothing but read rows, chunks and the history: none of them fails, each finds what was
    there before, and they do not starve the one that grows the map either."""
    looks = [0] * 4
    errors: list[BaseException] = []
    done = threading.Event()

    def read(index: int) -> None:
        try:
            while not done.is_set():
                assert base.row(key_of(7)) == encode_row(3, VALUE)
                assert base.read_history(key_of(5), 2) == b"old"
                entries, _ = base.chunk(PREFIX, key_of(20), 3, 50, index % 2 == 0, 4)
                assert len(entries) == 20
                assert base.count_history() == 1
                assert len(base.changed_keys(PREFIX, key_of(20), 2, 50)[0]) == 20
                looks[index] += 1
        except BaseException as error:
            errors.append(error)
            done.set()

    with new_base(SMALL) as base:
        old = [(Interval(1, 3, key_of(5)), b"old")]
        fill(base, {key_of(number): (3, VALUE) for number in range(20)}, old)
        readers = [threading.Thread(target=read, args=(index,), daemon=True) for index in range(len(looks))]
        for reader in readers:
            reader.start()
        growth = Growth(base, looks, done)
        growth.start()
        growth.join(PATIENCE)
        starved = growth.is_alive()
        done.set()
        for thread in (*readers, growth):
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert errors == []
        assert not starved, f"the map grew {growth.times} times only"
        assert growth.times == 9


class Announcing:
    """The lock of the writers. Sets an event when a thread asks for it."""

    def __init__(self, lock: threading.Lock, asked: threading.Event) -> None:
        self._lock = lock
        self._asked = asked

    def __enter__(self) -> None:
        self._asked.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("resize", [Base.grow, Base.sync_map_size])
def test_the_map_is_resized_after_the_write_of_another_thread(
    resize: Callable[[Base], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDB refuses it while this process writes."""
    begun, gate = threading.Event(), threading.Event()

    def change(txn: lmdb.Transaction[bytes]) -> None:
        txn.put(key_of(1), encode_row(1, VALUE), db=base.rows)
        begun.set()
        assert gate.wait(PATIENCE)

    with new_base(SMALL) as base:
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(base.write, change)
            assert begun.wait(PATIENCE)
            monkeypatch.setattr(base, "writing", Announcing(base.writing, gate))
            try:
                resize(base)
            finally:
                gate.set()
            written.result(PATIENCE)
        assert base.map_size == (SMALL * 2 if resize is Base.grow else SMALL)
        assert base.row(key_of(1)) == encode_row(1, VALUE)
