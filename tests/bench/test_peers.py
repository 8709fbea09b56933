"""Every adapter keeps the contract that the workloads rely on. Each peer that is installed is tested.

Operations that an adapter declares unsupported are not tried here, nor in the benchmark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from bench.documents import Pair
from bench.peers import (
    PEERS,
    Adapter,
    Change,
    Consumer,
    Durability,
    Need,
    Peer,
    adapter,
    installed,
    open_loaded,
    versions,
)

KEYS = [b"key-%04d" % number for number in range(300)]
PAIRS: list[Pair] = [(key, b"\x00\xff value of " + key) for key in KEYS]
THREADS = 2
ROUNDS = 25
OTHERS_CHANCE = 0.2  # seconds; a transaction that is admitted at all needs a few milliseconds

EVERY_PEER = pytest.mark.parametrize("name", installed())


def can(name: str, *needs: Need) -> bool:
    return not set(needs) & adapter(name).cannot.keys()


def loaded(name: str, directory: Path, durability: Durability = "synced") -> Peer:
    return open_loaded(name, directory, durability, PAIRS)


def count_up(value: bytes | None) -> bytes:
    assert value is not None
    return b"%d" % (int(value) + 1)


def as_list(into: list[Pair]) -> Consumer:
    """A consumer that keeps what it is given."""

    def consume(pairs: Iterable[Pair]) -> int:
        into.extend(pairs)
        return len(into)

    return consume


def test_the_peers_of_the_standard_installation_are_there() -> None:
    assert {"lowtide", "sqlite3", "py-lmdb"} <= set(installed()) <= set(PEERS)
    assert "py-lmdb" in versions()


@EVERY_PEER
def test_a_value_is_read_as_it_was_put(name: str, tmp_path: Path) -> None:
    with closing(loaded(name, tmp_path)) as peer, closing(peer.session()) as session:
        for key, value in PAIRS[::50]:
            assert session.read(key) == value
            assert session.read_directly(key) == value
        assert session.read_several([KEYS[7], KEYS[3]]) == [PAIRS[7][1], PAIRS[3][1]]
        session.put(KEYS[5], b"another")
        session.put(b"new", b"one")
        assert session.read_several([KEYS[5], b"new"]) == [b"another", b"one"]


@EVERY_PEER
def test_a_key_that_is_not_there_has_no_value(name: str, tmp_path: Path) -> None:
    with closing(loaded(name, tmp_path)) as peer, closing(peer.session()) as session:
        assert session.read(b"nowhere") is None
        assert session.read_directly(b"nowhere") is None


@EVERY_PEER
def test_ranges_and_scans_give_the_pairs_in_order(name: str, tmp_path: Path) -> None:
    if not can(name, "order"):
        assert adapter(name).cannot["order"]
        return
    with closing(loaded(name, tmp_path)) as peer, closing(peer.session()) as session:
        found: list[Pair] = []
        assert session.read_range(KEYS[10], KEYS[30], 20, as_list(found)) == 20
        assert found == PAIRS[10:30]
        found.clear()
        assert session.read_from(KEYS[290], 100, as_list(found)) == 10
        assert found == PAIRS[290:]
        found.clear()
        assert session.read_from(KEYS[10] + b"+", 3, as_list(found)) == 3
        assert found == PAIRS[11:14]
        assert session.read_from(b"zzz", 3, as_list([])) == 0
        found.clear()
        assert session.scan(as_list(found)) == len(PAIRS)
        assert found == PAIRS


@EVERY_PEER
def test_a_batch_replaces_what_was_there_and_its_last_value_of_a_key_stays(name: str, tmp_path: Path) -> None:
    if not can(name, "batches"):
        assert adapter(name).cannot["batches"]
        return
    with closing(loaded(name, tmp_path)) as peer, closing(peer.session()) as session:
        session.put_all([(KEYS[3], b"first"), (b"new", b"there"), (KEYS[3], b"last")])
        assert session.read_several([KEYS[3], b"new", KEYS[4]]) == [b"last", b"there", PAIRS[4][1]]


@EVERY_PEER
@pytest.mark.parametrize("durability", ["synced", "unsynced"])
def test_no_update_of_any_thread_is_lost(name: str, durability: Durability, tmp_path: Path) -> None:
    if durability == "unsynced" and not can(name, "unsynced"):
        assert adapter(name).cannot["unsynced"]
        return
    threads = THREADS if can(name, "threads") else 1
    with closing(loaded(name, tmp_path, durability)) as peer:
        with closing(peer.session()) as session:
            for key in KEYS[:3]:
                session.put(key, b"0")
        failed: list[BaseException] = []

        def work() -> None:
            try:
                with closing(peer.session()) as session:
                    for _ in range(ROUNDS):
                        session.modify(KEYS[0], count_up)
                        conflicts = session.modify_several(KEYS[:3], lambda values: [count_up(v) for v in values])
                        assert conflicts >= 0
            except BaseException as error:
                failed.append(error)
                raise

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failed == []
        with closing(peer.session()) as session:
            done = threads * ROUNDS
            assert session.read_several(KEYS[:3]) == [b"%d" % (2 * done), b"%d" % done, b"%d" % done]


@EVERY_PEER
@pytest.mark.parametrize("several", [False, True], ids=["one key", "two keys"])
def test_an_update_that_comes_between_reading_and_writing_is_not_lost(name: str, several: bool, tmp_path: Path) -> None:
    """The other thread has its chance in the middle of the change. Stores that let one writer in make it wait."""
    if not can(name, "threads"):
        assert adapter(name).cannot["threads"]
        return
    with closing(loaded(name, tmp_path)) as peer:

        def modify(change: Change) -> None:
            with closing(peer.session()) as session:
                if several:
                    session.modify_several(KEYS[:2], lambda values: [change(value) for value in values])
                else:
                    session.modify(KEYS[0], change)

        with closing(peer.session()) as session:
            session.put_all([(KEYS[0], b"0"), (KEYS[1], b"0")])
        other = threading.Thread(target=modify, args=(count_up,))

        def change(value: bytes | None) -> bytes:
            if not other.ident:
                other.start()
                other.join(OTHERS_CHANCE)
            return count_up(value)

        modify(change)
        other.join()
        with closing(peer.session()) as session:
            assert session.read_several(KEYS[:2]) == [b"2", b"2" if several else b"0"]


@EVERY_PEER
def test_what_was_put_is_there_after_reopening(name: str, tmp_path: Path) -> None:
    with closing(loaded(name, tmp_path)) as peer:
        with closing(peer.session()) as session:
            session.put(KEYS[1], b"changed")
        peer.settle()
        with closing(peer.session()) as session:
            session.put(KEYS[2], b"changed after that")
    with closing(adapter(name).open(tmp_path / f"{name}-synced", "synced")) as peer, closing(peer.session()) as session:
        assert session.read_several(KEYS[:4]) == [PAIRS[0][1], b"changed", b"changed after that", PAIRS[3][1]]


@EVERY_PEER
def test_an_adapter_names_its_settings(name: str) -> None:
    chosen: Adapter = adapter(name)
    assert chosen.settings.keys() | chosen.cannot.keys() >= {"synced", "unsynced"}
    assert all(chosen.cannot.values())
