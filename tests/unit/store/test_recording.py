"""The file of a recording: what is written, when and in which order, and what a kill or a full disk leaves."""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.audit import History, audit
from lowtide.engine.transaction.recording import COMMITTED, REFUSED
from lowtide.errors import UsageError
from lowtide.store import recording
from lowtide.store.recording import HistoryFile
from tests.conftest import OpenStore
from tests.support.patience import wait_until


@pytest.fixture
def file(tmp_path: Path) -> HistoryFile:
    return HistoryFile(tmp_path, lambda prefix: f"k{prefix[-1]}", lambda: 1.0)


def entry(version: int, fate: int = COMMITTED, seen: Any = ()) -> list[Any]:
    return [0.5, seen, {b"\0\0\0\1a": b""}, version, 1.5, fate, None]


def versions(path: Path) -> list[int | None]:
    return [each.version for each in History.load(*sorted(path.glob("*.jsonl"))).transactions]


def test_entries_are_written_after_a_while_without_a_close(file: HistoryFile, tmp_path: Path) -> None:
    file.put(entry(1))
    wait_until(lambda: versions(tmp_path) == [1])
    file.put(entry(2))
    wait_until(lambda: versions(tmp_path) == [1, 2])
    file.close()


def test_nothing_is_written_past_an_entry_that_is_not_complete(file: HistoryFile, tmp_path: Path) -> None:
    """So what is in the file is a history by itself: who saw a commit comes after it."""
    late = entry(2, fate=0)
    for each in (entry(1), late, entry(3, seen=[(b"\0\0\0\1a", 2)])):
        file.put(each)
    file.flush()
    assert versions(tmp_path) == [1]
    late[5] = COMMITTED
    file.flush()
    assert versions(tmp_path) == [1, 2, 3]
    file.close()


def test_refused_ones_are_left_out(file: HistoryFile, tmp_path: Path) -> None:
    for each in (entry(1), entry(2, fate=REFUSED), entry(3)):
        file.put(each)
    file.close()
    assert versions(tmp_path) == [1, 3]


def test_many_are_written_by_those_who_put_them(file: HistoryFile, tmp_path: Path) -> None:
    for number in range(1, 1000):
        file.put(entry(number))
        assert len(file._entries) <= recording._BLOCK
    file.close()
    file.close()
    assert versions(tmp_path) == list(range(1, 1000))


def test_a_row_says_what_was_seen_and_written(file: HistoryFile, tmp_path: Path) -> None:
    one, two = b"\0\0\0\1\xff", b"\0\0\0\2/"
    file.put([0.5, [(one, 7), (one, None), (two, "what")], {one: b"x", two: None}, 8, 1.5, COMMITTED, None])
    file.close()
    (transaction,) = History.load(tmp_path / "000001.jsonl").transactions
    assert (transaction.begun, transaction.ended, transaction.version) == (0.5, 1.5, 8)
    assert [(row.op, row.key, row.version) for row in transaction.operations] == [
        ("read", "1:k1/\xff", 7),
        ("read", "1:k1/\xff", None),
        ("read", "1:k2//", None),
        ("write", "1:k1/\xff", None),
        ("write", "1:k2//", None),
    ]
    assert [row.value for row in transaction.operations[1:]] == [None, "what", transaction.name, None]


def test_a_file_that_cannot_be_written_ends_and_the_store_goes_on(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(record=tmp_path / "history")
    store.keyspace("k").put(b"a", b"1")
    recorded = store._recording
    assert recorded is not None
    recorded.flush()

    def full(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(recording, "_write_all", full)
    with caplog.at_level(logging.ERROR, "lowtide"):
        store.keyspace("k").put(b"a", b"2")
        recorded.flush()
    assert "the store goes on without it" in caplog.text
    monkeypatch.undo()
    store.keyspace("k").put(b"a", b"3")
    assert store.keyspace("k").get(b"a") == b"3"
    store.close()
    assert versions(tmp_path / "history") == [1]


def test_a_dropped_store_leaves_everything(tmp_path: Path) -> None:
    store = lowtide.open(tmp_path / "store", record=tmp_path / "history")
    store.keyspace("k").put(b"a", b"1")
    del store
    gc.collect()
    assert versions(tmp_path / "history") == [1]


def test_a_fork_writes_nothing(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store(record=tmp_path / "history")
    recorded = store._recording
    assert recorded is not None
    with recorded._writing:  # so that the entry is still there in the child
        store.keyspace("k").put(b"a", b"1")
        child = os.fork()
        if child == 0:
            recorded.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    store.close()
    assert versions(tmp_path / "history") == [1]


def test_a_last_line_that_was_left_torn_counts_for_nothing(file: HistoryFile, tmp_path: Path) -> None:
    file.put(entry(1))
    file.put(entry(2))
    file.close()
    path = tmp_path / "000001.jsonl"
    whole = path.read_bytes()
    for end in range(whole.index(b"\n") + 1, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert versions(tmp_path) == [1]
    path.write_bytes(whole[:-1])
    assert versions(tmp_path) == [1, 2]
    path.write_bytes(whole[:-20] + b"\n")
    with pytest.raises(UsageError, match="line 2"):
        versions(tmp_path)


@pytest.mark.parametrize("seen", [["x"], ["x", 1, {}, 2], ["x", -1]])
def test_a_whole_transaction_says_what_it_read(seen: list[Any]) -> None:
    with pytest.raises(UsageError):
        History.of([{"tx": 1, "op": "transaction", "reads": [seen], "version": 1}])


def test_a_whole_transaction_is_audited_as_its_rows_are() -> None:
    rows = [
        {"tx": 1, "op": "transaction", "writes": ["x", "y"], "version": 1},
        {"tx": 2, "op": "transaction", "reads": [["x", 1], ["y", 1]], "writes": ["x"], "version": 2},
        {"tx": 3, "op": "transaction", "reads": [["x", "z", {"x": 1, "y": 1}]], "writes": ["y"], "version": 3},
    ]
    assert audit(History.of(rows)).names == ["write-skew"]
