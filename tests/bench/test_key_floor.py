"""The floors of batches, gets and read-modify-writes: each step does what it says, and reports its time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from bench import key_floor, least_store
from bench.documents import Dataset
from bench.least_store import LeastConflict, LeastLog, LeastStore


def test_a_record_has_all_pairs_and_their_checksum(tmp_path: Path) -> None:
    pairs = [(b"a", b"1"), (b"b", b"2")]
    descriptor = os.open(tmp_path / "record", os.O_RDWR | os.O_CREAT)
    assert key_floor.record(pairs, descriptor) == (tmp_path / "record").stat().st_size
    os.close(descriptor)
    data = (tmp_path / "record").read_bytes()
    assert int.from_bytes(data[:4], "little") == crc32(data[4:])
    assert [*msgspec.msgpack.decode(data[4:])[1].values()] == [b"1", b"2"]


def test_the_least_transaction_reads_its_snapshot_and_ends(tmp_path: Path) -> None:
    dataset = Dataset(10, 1)
    key, value = dataset.pairs[3]
    store = LeastStore(dataset.pairs, LeastLog(tmp_path / "log", synced=False))
    with store.transaction() as tx:
        assert list(store.live.values()) == [1]
        assert tx.keyspace("documents").get(key) == value
        assert tx.keyspace("documents").get(b"none") is None
        with store.transaction() as later:
            later.keyspace("documents").put(key, b"later")
            assert later.keyspace("documents").get(key) == b"later"
        assert tx.keyspace("documents").get(key) == value
    assert not store.live
    with store.transaction() as tx:
        assert tx.keyspace("documents").get(key) == b"later"


def test_the_least_store_lets_the_first_committer_win(tmp_path: Path) -> None:
    store = LeastStore([(b"a", b"1")], LeastLog(tmp_path / "log", synced=False))
    tx = store.transaction()
    tx.keyspace("documents").put(b"a", b"lost")
    with store.transaction() as first:
        first.keyspace("documents").put(b"a", b"2")
    with pytest.raises(LeastConflict):
        tx.__exit__(None, None, None)
    with store.transaction() as tx:
        assert tx.keyspace("documents").get(b"a") == b"2"
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.keyspace("documents").put(b"a", b"%d" % (1 // 0))
    assert (store.published, store.live) == (2, {})


@pytest.mark.parametrize("synced", [False, True])
def test_the_least_log_has_records_one_behind_the_other(tmp_path: Path, synced: bool) -> None:
    log = LeastLog(tmp_path / "log", synced=synced)
    for payload in (b"one", b"three"):
        log.append(payload)
    log.close()
    first, second = crc32(b"one"), crc32(b"three", crc32(b"one"))
    expected = first.to_bytes(4, "little") + b"one" + second.to_bytes(4, "little") + b"three"
    assert (tmp_path / "log").read_bytes()[: len(expected) + 4] == expected + bytes(4)


def test_the_least_log_begins_again_when_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_store, "_LOG_BYTES", 1 << 20)
    log = LeastLog(tmp_path / "log", synced=False)
    for _ in range(2):
        log.append(bytes(600_000))
    log.close()
    assert (tmp_path / "log").stat().st_size == 1 << 20


def test_it_tells_a_line_for_each_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["key_floor", "--documents", "300", "--turns", "1"])
    key_floor.main()
    told = capsys.readouterr().out.splitlines()
    modified = ["changing the value", "its record in a log", "the least store"]
    assert [line.split("  ")[0] for line in told[1:]] == [
        "get: decoding",
        "get: the least transaction",
        "get: py-lmdb",
        "get: lowtide, outside of a transaction",
        "get: lowtide",
        *(f"{part}: {what}" for part in ("rmw", "rmw by 4") for what in (*modified, "py-lmdb", "lowtide")),
        *(f"synced: {what}" for what in (*modified, "sqlite3", "lowtide")),
        "batch: making the pairs",
        "batch: ... and one record of them in a file",
        "batch: the least store",
        "batch: py-lmdb",
        "batch: lowtide",
    ]
    assert {line.rpartition("x ")[2] for line in told if line.startswith("synced")} == {"sqlite3"}


def test_it_tells_only_what_was_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["key_floor", "--documents", "300", "--turns", "1", "--only", "get"])
    key_floor.main()
    told = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in told[1:]} == {"get"}
