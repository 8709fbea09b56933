"""A store that is taken over: a replay into memory has the result of a recovery into the base, and is as safe."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.engine.base.borrowing import borrow, give_back, loan_of
from lowtide.engine.base.environment import Base
from lowtide.engine.checkpoint.apply import CheckpointTarget, apply_checkpoint, changes_of
from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.log.cursor import LogCursor, first_kept
from lowtide.engine.recovery.opening import MANIFEST, read_manifest
from lowtide.engine.recovery.replay import Replayed, replay_into_memory
from tests.crash.lives import Life, certain_from, every_lmdb_commit, picture_of
from tests.crash.power import crashes
from tests.crash.stores import SMALL, Durability, content_of, killed, taken_over
from tests.support.attack import some
from tests.support.disks import RecordingDisk
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE

QUICK = 8
RELAXED: dict[str, Any] = {**SMALL, "durability": "relaxed"}


def left_behind(tmp_path: Path) -> Path:
    """A store whose owner was killed: commits 1 to 4 are in the base, 5 to 30 only in the log, in several segments."""
    with lowtide.open(tmp_path / "living", **RELAXED) as store:
        rows = store.keyspace("k")
        for key in (b"a", b"b", b"c", b"d"):
            rows.put(key, b"old")
        store.pin("p", ttl=10**6)
        for number in range(24):
            rows.put(b"a", b"%d" % number * 200)
        rows.delete(b"b")
        store.keyspace("new").put(b"x", b"1")
        return killed(store.path, tmp_path / "killed")


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_after_a_crash_at_any_step_a_takeover_finds_what_an_opening_finds(
    durability: Durability, tmp_path: Path
) -> None:
    """And so does an opening after it was killed in turn."""
    life = Life(tmp_path / "store", durability, RecordingDisk(tmp_path / "store" / "base" / "data.mdb"))
    with every_lmdb_commit(life.disk):
        life.live()
    manifest = (life.path / "store.json").read_bytes()
    options = {**life.options, "durability": "relaxed", "checkpointer": "thread"}
    states = [crash for crash in crashes(life.disk.trace) if crash.notes]
    for crash in some(states, QUICK):
        first, second = tmp_path / "crashed", tmp_path / "killed"
        for each in (first, second):
            shutil.rmtree(each, ignore_errors=True)
        crash.materialise(first, manifest)
        with taken_over(first, **options) as store:
            picture = picture_of(store)
            assert store.verify().ok, (crash.how, store.verify())
            killed(first, second)
            store.collect_garbage()
            assert picture_of(store) == picture, crash.how
            assert picture.pins or store.stats().history == 0, crash.how
        life.compare(picture, certain_from(crash.notes), crash.how)
        for each in (first, second):
            with lowtide.open(each, **options) as store:
                assert picture_of(store) == picture, crash.how


@pytest.mark.parametrize("checkpointer", ["thread", "process"])
def test_the_base_is_left_as_it_is_until_the_next_checkpoint(tmp_path: Path, checkpointer: str) -> None:
    path = left_behind(tmp_path)
    with taken_over(path, **{**RELAXED, "checkpointer": checkpointer}) as store:
        stats, parts = store.stats(), parts_of(store)
        assert (stats.boundary, stats.last_commit, parts.replayed) == (4, 30, 26)
        assert (stats.versions, stats.chains) == (3, 3)
        found = content_of(store)
        assert found["new"] == {b"x": b"1"}
        assert found["k"] == {b"a": b"23" * 200, b"c": b"old", b"d": b"old"}
        assert store.keyspace("other").get(b"x") is None
        store.keyspace("other").put(b"x", b"2")
        store.checkpoint()
        assert store.stats().boundary == 31
        assert content_of(store) == {**found, "other": {b"x": b"2"}}
        assert store.verify().ok
        with store.snapshot(at="p") as snapshot:
            assert dict(snapshot.keyspace("k").scan()) == dict.fromkeys((b"a", b"b", b"c", b"d"), b"old")
    with lowtide.open(path, **RELAXED) as store:
        assert content_of(store) == {**found, "other": {b"x": b"2"}}
        assert store.keyspaces() == ["k", "new", "other"]


def test_the_log_above_the_base_is_kept(tmp_path: Path) -> None:
    """These commits are only in the log: the new owner may be killed before its first checkpoint."""
    path = left_behind(tmp_path)
    assert len(list((path / "log").glob("0*.log"))) > 2
    with taken_over(path, **RELAXED) as store:
        content = content_of(store)
        assert first_kept(path / "log") <= 5
        again = killed(path, tmp_path / "again")
    with lowtide.open(again, **RELAXED) as store:
        assert content_of(store) == content


def test_a_checkpoint_is_due_when_the_log_is_long_and_not_only_what_is_added_to_it(tmp_path: Path) -> None:
    path = left_behind(tmp_path)
    with taken_over(path, **{**RELAXED, "checkpoint_bytes": 1 << 20}) as store:
        log = parts_of(store).log
        assert log.appended < parts_of(store).checkpointer.due_at < 1 << 20
    path = left_behind(tmp_path / "second")
    with taken_over(path, **{**RELAXED, "checkpoint_bytes": 1000}) as store:
        while store.stats().boundary < 30:
            pass  # the background makes it; a test that waits for ever is ended


def test_the_helper_of_the_killed_owner_has_moved_the_boundary_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper has its write transaction, and knows the live snapshots. It goes on when the new owner waits."""
    path = left_behind(tmp_path)
    store_id, _ = read_manifest(path / MANIFEST)
    base = borrow(path / "base", 1 << 20, owner=True)
    loan, begun, go_on = loan_of(base), threading.Event(), threading.Event()
    horizon = make_horizon("exact", (), 20)

    def sample() -> tuple[Exact, int | None]:
        begun.set()
        assert go_on.wait(PATIENCE)
        return horizon, None

    def helper() -> None:
        changes = changes_of(LogCursor(path / "log", store_id, 4).read(20), horizon)
        apply_checkpoint(base, changes, CheckpointTarget(4, 20, sample))

    found: list[Replayed] = []
    helping = threading.Thread(target=helper)
    helping.start()
    assert begun.wait(PATIENCE)
    write = Base.write

    def waiting(self: Base, *arguments: Any, **more: Any) -> Any:
        go_on.set()
        return write(self, *arguments, **more)

    monkeypatch.setattr(Base, "write", waiting)
    try:
        found.append(replay_into_memory(base, path / "log", store_id))
    finally:
        go_on.set()
        helping.join(PATIENCE)
        give_back(base, owner=loan)
    assert [(each.boundary, each.commits) for each in found] == [(20, 10)]
    assert base.history_below == 20
