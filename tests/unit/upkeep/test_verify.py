"""A sound store passes verification, whatever runs concurrently. A report can be read and counted."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path

import pytest

import lowtide
from lowtide.upkeep import verify
from lowtide.upkeep.report import Check, Examination, VerifyReport
from lowtide.upkeep.verify import verify_files
from tests.conftest import OpenStore
from tests.crash.stores import files_of
from tests.support.parts import parts_of
from tests.unit.upkeep.stores import SMALL, live_in


def test_a_store_that_was_lived_in_verifies_clean(tmp_path: Path) -> None:
    lived = live_in(tmp_path / "store")
    report = lived.store.verify()
    assert report.problems == []
    assert report.ok
    assert (report.last_commit, report.boundary) == (lived.store.stats().last_commit, lived.store.stats().boundary)
    examined = {check.name: check.examined for check in report.checks}
    unused = ("consumers of the change feed", "quads: indexes and terms")
    assert min(examined[name] for name in examined if name not in unused) > 0
    lived.close()


def test_files_that_nobody_owns_verify_clean_and_stay_as_they_are(tmp_path: Path) -> None:
    live_in(tmp_path / "store").close()
    before, names = files_of(tmp_path), sorted(tmp_path.rglob("*"))
    report = verify_files(tmp_path / "store")
    assert report.problems == []
    assert {check.name: check.examined for check in report.checks}["base: rows"] == 20
    assert files_of(tmp_path) == before
    assert sorted(tmp_path.rglob("*")) == names


def test_files_that_somebody_owns_are_left_to_the_owner(store: lowtide.Store) -> None:
    with pytest.raises(lowtide.StoreLocked, match="this process"):
        verify_files(store.path)


def test_a_directory_that_is_no_store_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(lowtide.UsageError, match="not a Lowtide store"):
        verify_files(tmp_path)


def test_a_closed_store_is_not_verified(store: lowtide.Store) -> None:
    store.close()
    with pytest.raises(lowtide.UsageError, match="closed"):
        store.verify()


def test_a_store_verifies_clean_under_load(open_store: OpenStore) -> None:
    store = open_store(**{**SMALL, "checkpoint_bytes": 20_000, "collect_threshold": 1})
    stop = threading.Event()
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        choose = random.Random(seed)
        try:
            while not stop.is_set():
                with store.snapshot(), store.transaction(isolation="none") as tx:
                    for _ in range(3):
                        key = b"%d" % choose.randrange(200)
                        if choose.random() < 0.3:
                            tx.keyspace("fruit").delete(key)
                        else:
                            tx.keyspace("fruit").put(key, b"x" * choose.randrange(300))
        except BaseException as error:
            failed.append(error)

    def upkeep() -> None:
        try:
            while not stop.is_set():
                store.checkpoint()
                store.collect_garbage()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)] + [threading.Thread(target=upkeep)]
    for thread in threads:
        thread.start()
    try:
        with store.snapshot():
            while store.stats().checkpoints < 5:
                report = store.verify()
                assert report.ok, str(report)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failed == []
    store.checkpoint()
    assert store.verify().ok


def test_a_commit_that_comes_while_a_store_is_verified_does_not_wait(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest part of the examination commits, in the thread that examines: it would wait for itself."""
    fruit = store.keyspace("fruit")
    fruit.put(b"apple", b"red")
    store.checkpoint()
    walk = verify._walk

    def commit_and_walk(*arguments: object) -> None:
        fruit.put(b"apple", b"green")
        walk(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(verify, "_walk", commit_and_walk)
    report = store.verify()
    assert report.ok
    assert report.last_commit == 1
    assert fruit.get(b"apple") == b"green"


def test_a_checkpoint_that_failed_leaves_a_frozen_layer_that_verifies_clean(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fruit = store.keyspace("fruit")
    fruit.put(b"apple", b"red")
    with monkeypatch.context() as patched:
        patched.setattr(parts_of(store).checkpointer, "_apply", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.checkpoint()
    fruit.put(b"apple", b"green")
    assert parts_of(store).versions.frozen is not None
    assert store.verify().problems == []


def test_a_torn_end_is_a_note_and_no_problem(tmp_path: Path) -> None:
    store = lowtide.open(tmp_path / "store", **SMALL)
    store.keyspace("fruit").put(b"apple", b"red")
    parts_of(store).log.append(2, b"never finished", False)
    parts_of(store)._last_checkpoint = lambda: None  # type: ignore[method-assign]
    store.close()
    segment = next((tmp_path / "store" / "log").glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[data.index(b"finished") : data.index(b"finished") + 8] = bytes(8)
    segment.write_bytes(data)
    report = verify_files(tmp_path / "store")
    assert report.ok, str(report)
    assert "a torn end" in str(report)


def make_report(found: int) -> VerifyReport:
    check = Examination("a check", "things", examined=7)
    for number in range(found):
        check.problem(f"fault {number}", "somewhere", "mend it")
    return VerifyReport(Path("store"), 1, 2, (check.check(), Check("another", "rows", 0, 0, (), ("a note",))))


def test_a_report_can_be_read_by_a_person() -> None:
    text = str(make_report(200))
    assert "a check" in text
    assert "200 PROBLEMS" in text
    assert "problem: somewhere: fault 0; mend it" in text
    assert "fault 20;" not in text
    assert "and 180 more" in text
    assert "note: a note" in text
    assert "everything is as it should be" in str(make_report(0))


def test_a_report_can_be_read_by_a_program() -> None:
    report = json.loads(json.dumps(make_report(3).as_dict()))
    assert (report["ok"], report["found"], report["checks"][0]["examined"]) == (False, 3, 7)
    assert report["checks"][0]["problems"][2] == {"what": "fault 2", "where": "somewhere", "remedy": "mend it"}


def test_problems_are_counted_beyond_those_that_are_kept() -> None:
    report = make_report(10_000)
    assert report.found == 10_000
    assert len(report.problems) < 100
