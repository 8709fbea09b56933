"""The floors of batches and gets: each step does what it says, and tells what it took."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from bench import key_floor
from bench.documents import Dataset


def test_a_record_has_all_pairs_and_their_checksum(tmp_path: Path) -> None:
    pairs = [(b"a", b"1"), (b"b", b"2")]
    descriptor = os.open(tmp_path / "record", os.O_RDWR | os.O_CREAT)
    assert key_floor.record(pairs, descriptor) == (tmp_path / "record").stat().st_size
    os.close(descriptor)
    data = (tmp_path / "record").read_bytes()
    assert int.from_bytes(data[:4], "little") == crc32(data[4:])
    assert [*msgspec.msgpack.decode(data[4:])[1].values()] == [b"1", b"2"]


def test_the_least_transaction_reads_its_snapshot_and_ends() -> None:
    dataset = Dataset(10, 1)
    store = key_floor.LeastStore(dataset.pairs)
    with store.transaction() as tx:
        assert list(store.live.values()) == [1]
        assert tx.keyspace("documents").get(dataset.keys[3]) == dataset.pairs[3][1]
        assert tx.keyspace("documents").get(b"none") is None
        store.rows[b"\x00\x00\x00\x01" + dataset.keys[3]] = (2, b"later")
        assert tx.keyspace("documents").get(dataset.keys[3]) is None, "the table of this experiment has no older ones"
    assert not store.live


def test_it_tells_a_line_for_each_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["key_floor", "--documents", "300", "--turns", "1"])
    key_floor.main()
    told = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in told[1:]] == [
        "batch: making the pairs",
        "batch: ... and one record of them in a file",
        "batch: py-lmdb",
        "batch: lowtide",
        "get: decoding",
        "get: the least transaction",
        "get: py-lmdb",
        "get: lowtide, outside of a transaction",
        "get: lowtide",
    ]
