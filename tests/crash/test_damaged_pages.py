"""One damaged page of LMDB's file: ``verify`` always ends with a report that names it, and opening refuses it. A
process that finds it while running survives, and says why it accepts no more commits.

Each trial runs in a fork, since LMDB may kill a process that reads a damaged page.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.base import soundness
from lowtide.engine.base.structure import FREE, Examiner
from lowtide.engine.checkpoint.apply import Applied
from lowtide.engine.checkpoint.helper import HelperDied, HelperLost, _lost
from lowtide.upkeep.verify import verify_files
from tests.garbage.background import wait_until
from tests.support.attack import FULL, SAMPLE, some
from tests.support.parts import parts_of

PAGE = 4096
TIMEOUT = 240


def noise(page: bytes, number: int) -> bytes:
    return random.Random(number).randbytes(PAGE)


def noise_behind_the_header(page: bytes, number: int) -> bytes:
    return page[:16] + random.Random(number).randbytes(PAGE - 16)


def zeros(page: bytes, number: int) -> bytes:
    return bytes(PAGE)


def another_page(page: bytes, number: int) -> bytes:
    """As a write that went to the wrong place leaves it."""
    return (number + 1).to_bytes(8, "little") + page[8:]


DAMAGES = [zeros, noise, noise_behind_the_header, another_page]


class Sound:
    """A store that was lived in, closed, and what is on each page of its base."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with lowtide.open(path, durability="relaxed", checkpointer="thread") as store:
            self.fill(store)
        self.data = (path / "base" / "data.mdb").read_bytes()
        self.pages = len(self.data) // PAGE
        with Examiner(path / "base" / "data.mdb") as examiner:
            assert examiner.examine().faults == []
            self.used = dict(examiner.used)

    @staticmethod
    def fill(store: lowtide.Store) -> None:
        with store.transaction() as tx:
            for number in range(500):
                tx.keyspace("k").put(b"%04d" % number, b"v" * 150)
            tx.keyspace("k").put(b"large", b"v" * 10_000)
        store.pin("old", ttl=1e6)
        for turn in range(3):
            with store.transaction() as tx:
                for number in range(0, 500, 4):
                    tx.keyspace("k").put(b"%04d" % number, b"w" * 150)
                for number in range(turn, 500, 50):
                    tx.keyspace("k").delete(b"%04d" % number)
            store.pin(f"pin {turn}", ttl=1e6)

    def damaged(self, path: Path, number: int, damage: Callable[[bytes, int], bytes]) -> Path:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.path, path)
        break_page(path, number, damage)
        return path

    def leaf_of(self, table: str, index: int = 0) -> int:
        """A leaf of a table, the first one or another."""
        pages = [page for page, each in self.used.items() if each == table]
        return [
            page
            for page in pages
            if self.data[page * PAGE : page * PAGE + 12] == page.to_bytes(10, "little") + b"\x02\x00"
        ][index]


def break_page(path: Path, number: int, damage: Callable[[bytes, int], bytes]) -> None:
    with (path / "base" / "data.mdb").open("r+b") as file:
        file.seek(number * PAGE)
        page = file.read(PAGE)
        file.seek(number * PAGE)
        file.write(damage(page, number))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return Sound(tmp_path_factory.mktemp("sound") / "store")


def in_a_fork(work: Callable[[], str]) -> str:
    """What ``work`` says, in a process of its own, which must not die of it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            signal.alarm(TIMEOUT)
            try:
                answer = work()
            except lowtide.Error as error:
                answer = f"{type(error).__name__}: {error}"
            except BaseException as error:
                answer = f"unexpected {error!r}"
            os.write(write, answer.encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status), f"ended by signal {os.WTERMSIG(status)}, after it said {said!r}"
    return said


def cases(sound: Sound, count: int) -> list[tuple[int, Callable[[bytes, int], bytes]]]:
    """Pages with a kind of damage: each page with each kind in the full attack, otherwise the meta pages and some."""
    if FULL:
        return [(number, damage) for number in range(sound.pages) for damage in DAMAGES]
    chosen = [0, 1, *some(range(2, sound.pages), count - 2)]
    return [(number, DAMAGES[(index + SAMPLE) % len(DAMAGES)]) for index, number in enumerate(chosen)]


def check_report(sound: Sound, number: int, said: str) -> None:
    table = sound.used.get(number)
    if number < 2:
        assert "problem" in said
        assert not said.startswith("ok")
    elif table is None:
        assert said.startswith("ok"), said
    elif not of_a_value(sound, number):
        assert not said.startswith("ok"), f"page {number} of {table}"
        assert f"page {number}" in said or table == FREE, said


def of_a_value(sound: Sound, number: int) -> bool:
    """Whether the page holds bytes of a large value. Nothing in the file tells when those change."""
    start = number * PAGE
    header, flags = int.from_bytes(sound.data[start : start + 8], "little"), sound.data[start + 10]
    return number in sound.used and (header != number or flags & 0x04 != 0)


def test_files_are_verified_whichever_page_is_damaged(sound: Sound, tmp_path: Path) -> None:
    for number, damage in cases(sound, 20):
        path = sound.damaged(tmp_path / "store", number, damage)
        said = in_a_fork(partial(describe_files, path))
        check_report(sound, number, said)


def describe_files(path: Path) -> str:
    report = verify_files(path)
    return "ok" if report.ok else str(report)


def test_an_open_store_is_verified_whichever_page_is_damaged_under_it(sound: Sound, tmp_path: Path) -> None:
    """The damage comes while the store is open: as if the disk had forgotten what was on that page."""
    for number, damage in cases(sound, 14):
        if number < 2:
            continue  # LMDB has both meta pages in its hands at every begin
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
        shutil.copytree(sound.path, tmp_path / "store")

        def verify(number: int = number, damage: Callable[[bytes, int], bytes] = damage) -> str:
            store = lowtide.open(tmp_path / "store", checkpointer="thread", monitor_interval=3600)
            parts = store._backend
            with parts.collector._busy:  # type: ignore[union-attr]
                with Examiner(tmp_path / "store" / "base" / "data.mdb") as examiner:
                    examiner.examine()
                    used = number in examiner.used
                break_page(tmp_path / "store", number, damage)
                report = store.verify()
            if used == report.ok and not of_a_value(sound, number):
                return f"page {number} is {'' if used else 'not '}in use, and the report says {report}"
            return "fine"

        assert in_a_fork(verify) == "fine"


def test_a_store_with_a_damaged_page_is_refused_and_the_page_is_named(sound: Sound, tmp_path: Path) -> None:
    for number, damage in cases(sound, 14):
        path = sound.damaged(tmp_path / "store", number, damage)
        said = in_a_fork(partial(open_once, path))
        if number < 2 or (number in sound.used and not of_a_value(sound, number)):
            assert said.startswith("CorruptionError"), (number, said)
            assert number < 2 or f"page {number}" in said or sound.used[number] == FREE, said
            assert number < 2 or "restore a backup" in said
        elif number not in sound.used:
            assert said.startswith("opened"), said


def open_once(path: Path) -> str:
    lowtide.open(path, checkpointer="thread").close()
    return "opened"


def without_examination(work: Callable[[], str]) -> Callable[[], str]:
    """``work`` on a base that is taken for one too large to be examined when it is opened."""

    def run() -> str:
        soundness.MOST_PAGES = 0
        return work()

    return run


def test_a_read_that_meets_a_damaged_page_says_so_and_no_commit_is_accepted_after_it(
    sound: Sound, tmp_path: Path
) -> None:
    path = sound.damaged(tmp_path / "store", sound.leaf_of("rows"), zeros)

    @without_examination
    def use() -> str:
        soundness.MOST_IN_BACKGROUND = 0
        store = lowtide.open(path, monitor_interval=3600)
        with pytest.raises(lowtide.CorruptionError, match=r"data\.mdb.*restore a backup"):
            list(store.keyspace("k").scan())
        with pytest.raises(lowtide.StoreFailed, match=r"accepts no more commits.*damaged"):
            store.keyspace("k").put(b"on another page", b"x")
        assert "damaged" in (store.stats().failure or "")
        assert not store.verify().ok
        store.close()
        return "fine"

    assert in_a_fork(use) == "fine"


@pytest.mark.parametrize("table", ["history", "rows"])
def test_the_background_looks_at_the_pages_before_it_first_writes(sound: Sound, tmp_path: Path, table: str) -> None:
    """The sweep that every opening with a history begins with would meet the page, and LMDB end the process."""
    path = sound.damaged(tmp_path / "store", sound.leaf_of(table, -1 if table == "history" else 0), zeros)

    @without_examination
    def use() -> str:
        store = lowtide.open(path, checkpointer="thread", monitor_interval=3600)
        wait_until(lambda: parts_of(store).base.soundness.damage is not None)
        assert f"of the table '{table}'" in str(parts_of(store).base.soundness.damage)
        with pytest.raises(lowtide.StoreFailed, match="accepts no more commits"):
            store.keyspace("k").put(b"on another page", b"x")
        with pytest.raises(lowtide.CorruptionError, match=f"of the table '{table}'"):
            store.checkpoint()
        store.close()
        return "fine"

    assert in_a_fork(use) == "fine"


@pytest.mark.parametrize("damage", [zeros, noise_behind_the_header], ids=lambda each: each.__name__)
def test_a_helper_that_dies_of_a_damaged_page_does_not_take_the_store_with_it(
    sound: Sound, tmp_path: Path, damage: Callable[[bytes, int], bytes]
) -> None:
    path = tmp_path / "store"
    shutil.copytree(sound.path, path)

    def use() -> str:
        store = lowtide.open(path, checkpointer="process", monitor_interval=3600)
        with store.transaction() as tx:
            for number in range(500):
                tx.keyspace("k").put(b"%04d" % number, b"x" * 150)
        break_page(path, sound.leaf_of("rows"), damage)
        with pytest.raises(lowtide.CorruptionError, match="restore a backup"):
            store.checkpoint()
        assert store.keyspace("k").get(b"0001") == b"x" * 150, "what is in memory can still be read"
        with pytest.raises(lowtide.StoreFailed, match="accepts no more commits"):
            store.keyspace("k").put(b"on another page", b"y")
        stats = store.stats()
        assert stats.checkpoint_failures == 1
        assert "damaged" in (stats.failure or "")
        store.close()
        return "fine"

    assert in_a_fork(use) == "fine"


@pytest.mark.parametrize("damaged", [True, False])
def test_a_checkpoint_whose_helper_died_of_a_signal_is_repeated_only_if_the_pages_are_sound(
    sound: Sound, tmp_path: Path, damaged: bool
) -> None:
    """LMDB calls abort() on some pages; in a thread that would be the end of the whole process."""
    path = tmp_path / "store"
    shutil.copytree(sound.path, path)

    def use() -> str:
        store = lowtide.open(path, checkpointer="process", monitor_interval=3600)
        store.keyspace("k").put(b"0001", b"x")
        helper = parts_of(store).checkpointer._helper

        def die(*arguments: object) -> Applied:
            raise _lost(-signal.SIGABRT, "")

        helper.checkpoint = die  # type: ignore[method-assign, assignment]
        if damaged:
            break_page(path, sound.leaf_of("rows"), zeros)
            with pytest.raises(lowtide.CorruptionError, match=r"page \d+, of the table 'rows'.*restore a backup"):
                store.checkpoint()
            assert "damaged" in (store.stats().failure or "")
        else:
            store.checkpoint()
            assert store.stats().boundary == store.stats().last_commit
        return "fine"

    assert in_a_fork(use) == "fine"


@pytest.mark.parametrize(
    ("code", "kind"), [(-signal.SIGABRT, HelperDied), (-signal.SIGBUS, HelperDied), (-signal.SIGKILL, HelperLost)]
)
def test_how_a_helper_ended_tells_whether_a_page_may_be_damaged(code: int, kind: type[HelperLost]) -> None:
    assert type(_lost(code, "it is gone")) is kind
