"""The examination of the pages of a base that is in use never takes a sound file for a damaged one (K5).

The examination reads the file without LMDB, while this process and others commit. It must read the state that its LMDB
transaction holds. A fault counts only if a second examination finds it as well.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

import lowtide
from lowtide.engine.base import soundness
from lowtide.engine.base.environment import Base
from lowtide.engine.base.exchange import reopen
from lowtide.engine.base.soundness import check_environment
from lowtide.engine.base.structure import Examiner, Fault, Structure
from tests.support.parts import parts_of
from tests.unit.engine.base.bases import new_base

ROWS = 4000


def put_rows(base: Base, first: int, count: int = ROWS) -> None:
    def change(txn: lmdb.Transaction[bytes]) -> None:
        for number in range(first, first + count):
            txn.put(b"%08d" % number, b"x" * 40, db=base.rows)

    base.write(change)


def test_an_examination_sees_the_state_of_its_transaction_whatever_is_committed_meanwhile() -> None:
    """Two commits later LMDB has written another state over the meta page that the examination began with."""
    with new_base() as base:
        put_rows(base, 0)
        commits = iter(range(1, 9))

        def commit() -> None:
            for number in commits:
                put_rows(base, number * ROWS)

        with base.env.begin() as txn, Examiner(base.directory / "data.mdb", txn.id(), commit) as examiner:
            assert examiner.examine().faults == []
            assert next(commits, None) is None, "nothing was committed during the examination"
            assert sorted([*examiner.used, *examiner.free]) == list(range(2, examiner.last_page + 1))


class Walks:
    """Examinations that find what they are told to, one list of faults after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *faults: list[Fault]) -> None:
        self.begun: list[int] = []
        self._faults = iter(faults)
        monkeypatch.setattr(Examiner, "examine", self._examine)

    def _examine(self) -> Structure:
        self.begun.append(1)
        return Structure(1, next(self._faults))


ONE, OTHER = Fault("rows", 17, "it is no page"), Fault("rows", 18, "it is no page")


@pytest.mark.parametrize("faults", [[[ONE], []], [[ONE], [OTHER], []], [[ONE, OTHER], []], [[]]])
def test_what_is_not_found_a_second_time_is_no_damage(
    monkeypatch: pytest.MonkeyPatch, faults: list[list[Fault]]
) -> None:
    with new_base() as base:
        walks = Walks(monkeypatch, *faults)
        base.check_pages()
        assert base.soundness.damage is None
        assert len(walks.begun) == len(faults)


@pytest.mark.parametrize("faults", [[[ONE], [ONE]], [[ONE], [OTHER], [OTHER]], [[ONE, OTHER], [OTHER]]])
def test_what_is_found_a_second_time_is_damage(monkeypatch: pytest.MonkeyPatch, faults: list[list[Fault]]) -> None:
    with new_base() as base:
        walks = Walks(monkeypatch, *faults)
        with pytest.raises(lowtide.CorruptionError, match=str(faults[-1][0])):
            base.check_pages()
        assert base.soundness.damage is not None
        assert len(walks.begun) == len(faults)


def test_a_map_that_another_process_has_enlarged_does_not_disturb(tmp_path: Path) -> None:
    base = Base(tmp_path, 1 << 20, create=True)
    with contextlib.closing(base):
        base.initialise(b"0123456789abcdef")
        enlarge = (
            "import lmdb, sys\n"
            "with lmdb.open(sys.argv[1], map_size=1 << 26, max_dbs=16) as env, env.begin(write=True) as txn:\n"
            "    db = env.open_db(b'rows', txn=txn)\n"
            "    for number in range(30_000): txn.put(b'%08d' % number, b'x' * 60, db=db)\n"
        )
        subprocess.run([sys.executable, "-c", enlarge, str(tmp_path)], check=True, timeout=60)
        base.check_pages()
        assert base.soundness.damage is None
        assert base.map_size > 1 << 20


def test_an_exchange_of_the_file_waits_for_the_examination_and_the_next_one_sees_the_new_file() -> None:
    with new_base() as base:
        put_rows(base, 0)
        done: list[str] = []

        def exchange() -> None:
            with base.writing:
                reopen(base, lambda: done.append("exchanged"))

        thread = threading.Thread(target=exchange)

        def pause() -> None:
            if not thread.is_alive() and not done:
                thread.start()

        def examine(env: lmdb.Environment) -> None:
            check_environment(env, base.directory, most=None, pause=pause)
            done.append("examined")

        base.examine(examine)
        thread.join()
        base.check_pages()
        assert done == ["examined", "exchanged"]


PINS = """
import sys, time
from pathlib import Path
from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import Leases

base = Base(Path(sys.argv[1]), 1 << 30, may_grow=False)
leases = Leases(base, time.time)
print("ready", flush=True)
while True:
    for number in range(20):
        leases.take(f"pin {number}", 600)
    for number in range(20):
        leases.remove(f"pin {number}")
"""


@contextlib.contextmanager
def writer(directory: Path) -> Iterator[None]:
    """Another process that writes to the base until this block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", PINS, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


def test_a_sound_store_stays_sound_while_processes_write_and_its_pages_are_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each walk alone must be right, so a fault is not given the chance of a second walk."""
    found: list[Fault] = []
    examine = Examiner.examine

    def noted(self: Examiner) -> Structure:
        structure = examine(self)
        found.extend(structure.faults)
        return structure

    monkeypatch.setattr(Examiner, "examine", noted)
    with lowtide.open(tmp_path / "store", checkpointer="thread", durability="relaxed") as store:
        rows = store.keyspace("k")
        rows.put(b"x", b"1")
        store.checkpoint()
        base = parts_of(store).base
        stop = threading.Event()

        def checkpoints() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                with store.begin() as tx:
                    for each in range(20):
                        tx.keyspace("k").put(b"%d" % ((number * 20 + each) % 2000), b"v" * 300)
                store.checkpoint()

        with writer(tmp_path / "store" / "base"):
            thread = threading.Thread(target=checkpoints)
            thread.start()
            try:
                for _ in range(60):
                    base.check_pages()
            finally:
                stop.set()
                thread.join()
        assert found == []
        assert base.soundness.damage is None
        assert soundness.WHAT_TO_DO not in (store.stats().failure or "")
