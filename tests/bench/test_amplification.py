from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from bench import amplification
from bench.amplification import CountingDisk, Work
from tests.bench.support import check_shown, make_plan


def test_every_store_writes_at_least_what_was_committed(tmp_path: Path) -> None:
    works = (
        Work("single", "synced", 20, 1, 150, 200),
        Work("unsynced", "unsynced", 500, 2, 150, 200),
        Work("big", "synced", 5, 1, 50_000, 5),
    )
    data = amplification.measure(make_plan(tmp_path), works)
    for sample in data["samples"]:
        assert sample["committed_bytes"] == sample["transactions"] * sample["puts"] * (17 + sample["value_bytes"])
    factors = amplification.factors(data)
    for work in works:
        assert factors[work.title].keys() == set(amplification.STORES)
        assert all(factor > 1 for factor in factors[work.title].values())
    check_shown(amplification.SECTION, data, tmp_path)


def test_what_goes_through_a_mapping_is_counted_by_the_disk(tmp_path: Path) -> None:
    disk = CountingDisk()
    with lowtide.open(tmp_path / "store", durability="relaxed", disk=disk) as store:
        before = disk.mapped_bytes
        store.keyspace("a").put(b"k", bytes(5000))
        assert 5000 < disk.mapped_bytes - before < 5200


def test_what_goes_through_system_calls_is_counted_by_the_kernel(tmp_path: Path) -> None:
    before = amplification.written_bytes()
    (tmp_path / "file").write_bytes(bytes(123_456))
    assert amplification.written_bytes() - before == pytest.approx(123_456, abs=20_000)


def test_a_peer_that_writes_less_is_named() -> None:
    written = {"lowtide": 400, "sqlite3": 900, "py-lmdb": 300}
    samples = [
        {"title": "work", "store": name, "called_bytes": size, "mapped_bytes": 0, "committed_bytes": 100}
        for name, size in written.items()
    ]
    best, overall = amplification.SECTION.findings({"samples": samples})
    assert not best.met
    assert "py-lmdb 3.0" in best.measured
    assert best.why
    assert overall.met
