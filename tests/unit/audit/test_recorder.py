"""The recorder records what transactions do and how they end, in memory or in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.audit import History, Recorder, audit


def test_each_operation_is_a_row(store: lowtide.Store) -> None:
    recorder = Recorder(clock=None)
    with recorder.begin(store, session="s") as tx:
        tx.put("x", 1)
        tx.append("l", "e")
        assert tx.get("x") == 1
        assert tx.scan("l", "m") == {"l": ["e"]}
        tx.delete("x")
    rows = [(row.op, row.key, row.index) for row in recorder.rows]
    assert rows == [
        ("begin", None, 0),
        ("write", "x", 1),
        ("read", "l", 2),
        ("append", "l", 3),
        ("read", "x", 4),
        ("scan", None, 5),
        ("write", "x", 6),
        ("commit", None, 7),
    ]
    assert (recorder.rows[0].session, recorder.rows[0].turn) == ("s", 1)
    assert recorder.rows[-1].version == store.stats().last_commit
    assert audit(recorder.history()).names == []


def test_a_refused_commit_is_an_abort_and_is_raised(store: lowtide.Store) -> None:
    recorder = Recorder()
    first, second = recorder.begin(store), recorder.begin(store)
    for number, tx in enumerate((first, second)):
        tx.put("x", number)
    first.commit()
    with pytest.raises(lowtide.ConflictError):
        second.commit()
    assert [each.outcome for each in recorder.history().transactions] == ["committed", "aborted"]


def test_an_error_inside_rolls_back(store: lowtide.Store) -> None:
    recorder = Recorder()

    def fail() -> None:
        with recorder.begin(store) as tx:
            tx.put("x", 1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    (transaction,) = recorder.history().transactions
    assert transaction.outcome == "aborted"
    assert transaction.begun is not None
    assert store.keyspace("audit").get(b"x") is None


def test_a_commit_that_fails_otherwise_has_an_unknown_outcome(store: lowtide.Store) -> None:
    recorder = Recorder()
    tx = recorder.begin(store)
    tx.put("x", 1)
    store.close()
    with pytest.raises(lowtide.Error):
        tx.commit()
    assert recorder.history().transactions[0].outcome == "unknown"


def test_at_none_each_write_has_its_own_version(store: lowtide.Store) -> None:
    recorder = Recorder()
    with recorder.begin(store, "none") as tx:
        tx.put("x", 1)
        tx.put("y", 2)
    writes = [row for row in recorder.rows if row.op == "write"]
    assert [row.version for row in writes] == [1, 2]


def test_a_snapshot_is_looked_at_without_a_time(store: lowtide.Store) -> None:
    recorder = Recorder()
    with recorder.begin(store) as tx:
        tx.put("x", 1)
    with store.snapshot() as snapshot:
        with recorder.begin(store) as tx:
            tx.put("x", 2)
        with recorder.look(snapshot, session="s") as seen:
            assert seen.get("x") == 1
    looked = recorder.history().transactions[2]
    assert (looked.begun, looked.turn, looked.outcome) == (None, None, "committed")
    assert audit(recorder.history()).names == []


def test_a_file_has_each_row_at_once(store: lowtide.Store, tmp_path: Path) -> None:
    with Recorder(tmp_path / "h.jsonl", prefix="a") as recorder:
        tx = recorder.begin(store)
        tx.put("x", 1)
        assert [each.outcome for each in History.load(tmp_path / "h.jsonl").transactions] == ["unknown"]
        tx.commit()
        with pytest.raises(lowtide.UsageError, match="writes to a file"):
            recorder.history()
    (transaction,) = History.load(tmp_path / "h.jsonl").transactions
    assert (transaction.name, transaction.outcome) == ("a1", "committed")


def test_an_append_to_what_is_no_list_is_refused(store: lowtide.Store) -> None:
    recorder = Recorder()
    with recorder.begin(store) as tx:
        tx.put("x", 1)
        with pytest.raises(lowtide.UsageError, match="is not a list"):
            tx.append("x", 2)
