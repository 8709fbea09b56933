"""A takeover by a process that has followed the log: it reads only the rest, with the result of a full read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.engine.base.borrowing import borrow, give_back, loan_of
from lowtide.engine.checkpoint.apply import Changes
from lowtide.engine.log.segment import Scan, scan_segment
from lowtide.engine.recovery import replay
from lowtide.engine.recovery.opening import MANIFEST, read_manifest
from lowtide.engine.recovery.replay import Followed, Replayed, replay_into_memory
from lowtide.errors import CorruptionError
from lowtide.sharing.joined import Joined
from lowtide.store import backend_of
from tests.crash.stores import SMALL, content_of, killed

RELAXED: dict[str, Any] = {**SMALL, "durability": "relaxed"}


def left_behind(tmp_path: Path, *, moved: bool = False, rest: int = 3) -> tuple[Path, Followed]:
    """A store whose owner was killed, and what a process has followed of its log: commits 5 to 30, and not the ``rest``
    after that. Commits 1 to 4 are in the base, or 1 to 13 if it has ``moved`` since."""
    with lowtide.open(tmp_path / "living", **RELAXED) as store, lowtide.open(tmp_path / "living", **RELAXED) as joined:
        rows = store.keyspace("k")
        for key in (b"a", b"b", b"c", b"d"):
            rows.put(key, b"old")
        store.checkpoint()
        follower = backend_of(joined)
        assert isinstance(follower, Joined)
        assert joined.keyspace("k").get(b"a") == b"old"
        with joined.snapshot():  # chains of several versions
            for number in range(22):
                rows.put(b"a", b"%d" % number * 200)
                if number in (3, 20):
                    rows.put(b"d" if number == 3 else b"b", b"%d" % number)
                assert joined.keyspace("k").get(b"a") == b"%d" % number * 200
                if moved and number == 7:
                    store.checkpoint()
        rows.delete(b"c")
        store.keyspace("new").put(b"x", b"1")
        assert joined.keyspace("new").get(b"x") == b"1"
        followed = follower.followed()
        for number in range(rest):
            store.keyspace("later").put(b"a", b"%d" % number * 200)
        assert followed is not None
        assert (followed.after, followed.upto) == (4, 30)
        return killed(store.path, tmp_path / "killed"), followed


def replayed(path: Path, followed: Followed | None) -> Replayed:
    base = borrow(path / "base", 1 << 20, owner=True)
    loan = loan_of(base)
    try:
        return replay_into_memory(base, path / "log", read_manifest(path / MANIFEST)[0], followed)
    finally:
        give_back(base, owner=loan)


@pytest.mark.parametrize("rest", [0, 1, 30])
@pytest.mark.parametrize("moved", [False, True])
def test_it_finds_the_same_and_reads_only_the_rest(
    tmp_path: Path, moved: bool, rest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, followed = left_behind(tmp_path, moved=moved, rest=rest)
    whole = replayed(path, None)
    read: list[str] = []

    def scan(path: Path, data: bytes) -> Scan:
        read.append(path.name)
        return scan_segment(path, data)

    monkeypatch.setattr(replay, "scan_segment", scan)
    found = replayed(path, followed)
    assert (found.boundary, found.commits) == (whole.boundary, whole.commits) == (13 if moved else 4, found.commits)
    assert found.verdict.last_ts == whole.verdict.last_ts == 30 + rest
    assert found.pending is not None
    assert whole.pending is not None
    assert found.pending.changes == whole.pending.changes
    assert found.pending.bytes >= whole.pending.bytes
    assert [each.path for each in (*found.verdict.older, *found.verdict.needed)] == [
        each.path for each in (*whole.verdict.older, *whole.verdict.needed)
    ]
    assert len(read) < len(whole.verdict.needed)


@pytest.mark.parametrize("how", ["ahead", "behind"])
def test_what_was_followed_and_does_not_fit_the_base_is_not_used(tmp_path: Path, how: str) -> None:
    path, followed = left_behind(tmp_path)
    other = replace(followed, after=5) if how == "ahead" else replace(followed, after=1, upto=4)
    assert replayed(path, replace(other, changes=Changes({}, {}))).pending == replayed(path, None).pending


@pytest.mark.parametrize("number", range(3))
def test_a_damaged_log_is_judged_as_if_nothing_was_followed(tmp_path: Path, number: int) -> None:
    """A file is missing: one that was followed, or the last one."""
    path, followed = left_behind(tmp_path)
    segments = sorted((path / "log").glob("0*.log"))
    assert len(segments) == 3
    segments[number].unlink()

    def outcome(followed: Followed | None) -> object:
        try:
            found = replayed(path, followed)
            return found.boundary, found.commits, found.verdict.last_ts
        except CorruptionError as error:
            return str(error)

    assert outcome(followed) == outcome(None)


def test_what_a_snapshot_of_the_process_reads_stays_and_what_is_committed_next_is_kept(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", **RELAXED) as owner, lowtide.open(tmp_path / "store", **RELAXED) as joined:
        for number in range(20):
            owner.keyspace("k").put(b"%d" % (number % 3), b"%d" % number)
        snapshot = joined.snapshot()
        owner.keyspace("k").put(b"0", b"later")
        content = content_of(owner)
        owner.close()
        joined.keyspace("k").put(b"1", b"new")
        assert snapshot.keyspace("k").get(b"0") == b"18"
        assert content_of(joined) == {"k": {**content["k"], b"1": b"new"}}
        snapshot.close()
        joined.checkpoint()
        assert joined.verify().ok
    with lowtide.open(tmp_path / "store", **RELAXED) as store:
        assert content_of(store) == {"k": {**content["k"], b"1": b"new"}}
