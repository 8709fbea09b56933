"""Every state that a store may be found in, one test each: the table of docs/recovery.md (K5, K7).

A refusal names the file, and leaves every file as it was.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

import lowtide
from lowtide.engine.log.segment import Header, decode_header, encode_header, scan_segment, segment_paths
from tests.crash.stores import (
    SMALL,
    Content,
    Model,
    both,
    commit,
    content_of,
    files_of,
    killed,
    reopened,
    taken_over,
)
from tests.support.parts import parts_of


def fill(path: Path, *, commits: int = 8, size: int = 600, checkpoint_at: int = 0, closed: bool = False) -> Model:
    """Make a store in ``path`` with several segments; it is left as a kill would leave it, unless it is ``closed``."""
    model = Model()
    living = path if closed else path.with_name(path.name + " living")
    store = lowtide.open(living, **SMALL)
    for number in range(1, commits + 1):
        commit(store, both(number, size))
        model.apply(both(number, size))
        if number == checkpoint_at:
            store.checkpoint()
    if not closed:
        killed(living, path)
    store.close()
    return model


def case_of(path: Path, content: Content, last_commit: int, replayed: int | None = None) -> str:
    """The case that opening the store in ``path`` reports. Opening it once more must find it clean and unchanged. A
    process that takes it over finds the same content, and may be killed."""
    copy, again = path.with_name(f"{path.name} taken over"), path.with_name(f"{path.name} killed again")
    if path.exists():
        shutil.copytree(path, copy)
    with taken_over(copy, **SMALL) as store:
        taken_as = parts_of(store).case
        assert content_of(store) == content
        assert commit(store, {"left": {b"more": b"1"}}) == last_commit + 1
        killed(copy, again)
    with lowtide.open(again, **SMALL) as store:
        assert store.keyspace("left").get(b"more") == b"1"
        assert store.stats().last_commit == last_commit + 1
        assert store.verify().ok
    with lowtide.open(path, **SMALL) as store:
        parts = parts_of(store)
        case = parts.case
        assert content_of(store) == content
        assert store.stats().last_commit == last_commit
        if replayed is not None:
            assert parts.replayed == replayed
    with lowtide.open(path, **SMALL) as store:
        assert (parts_of(store).case, parts_of(store).replayed) == ("clean", 0)
        assert content_of(store) == content
        assert commit(store, {"left": {b"goes on": b"1"}}) == last_commit + 1
    assert taken_as == case
    return case


def refusal_of(path: Path, kind: type[lowtide.Error] = lowtide.CorruptionError) -> str:
    """What the refusal says; it must be the same twice, and change nothing."""
    before = files_of(path)
    told = set()
    for _ in range(2):
        with pytest.raises(kind) as caught:
            lowtide.open(path, **SMALL)
        told.add(str(caught.value))
        assert files_of(path) == before
    (message,) = told
    return message


@contextlib.contextmanager
def changed_base(path: Path) -> Iterator[Callable[[bytes, bytes | None], None]]:
    """Change the meta table of a closed base from outside."""
    environment = lmdb.open(str(path / "base"), max_dbs=8, map_size=1 << 20)
    table = environment.open_db(b"meta")
    with environment.begin(write=True) as txn:

        def change(key: bytes, value: bytes | None) -> None:
            if value is None:
                txn.delete(key, db=table)
            else:
                txn.put(key, value, db=table)

        yield change
    environment.close()


def segments(path: Path) -> list[Path]:
    return segment_paths(path / "log")


# Accepted


def test_fresh(tmp_path: Path) -> None:
    assert case_of(tmp_path / "new", {}, 0, replayed=0) == "fresh"
    (tmp_path / "empty").mkdir()
    assert case_of(tmp_path / "empty", {}, 0) == "fresh"


def test_clean(tmp_path: Path) -> None:
    model = fill(tmp_path / "store", closed=True)
    assert case_of(tmp_path / "store", model.content, 8, replayed=0) == "clean"


def test_clean_although_killed(tmp_path: Path) -> None:
    """Every commit that was acknowledged is whole; those above the boundary are replayed."""
    model = fill(tmp_path / "store", checkpoint_at=3)
    assert case_of(tmp_path / "store", model.content, 8, replayed=5) == "clean"


def test_clean_in_a_recycled_segment(tmp_path: Path) -> None:
    """What the segment held before is no torn tail."""
    store = lowtide.open(tmp_path / "store", **SMALL)
    model = Model()
    dirty = False
    for number, size in enumerate([1900, 1900, 1700, 600, 1900] * 6):
        commit(store, both(number, size))
        model.apply(both(number, size))
        last = segments(store.path)[-1]
        dirty = scan_segment(last, last.read_bytes()).dirty
        if dirty:
            break
        store.checkpoint()
    assert dirty, "no segment was ever recycled"
    path = killed(store.path, tmp_path / "killed")
    store.close()
    assert case_of(path, model.content, len(model.states) - 1) == "clean"


def test_torn_tail(tmp_path: Path) -> None:
    model = fill(tmp_path / "store")
    last = segments(tmp_path / "store")[-1]
    log = last.read_bytes()
    scan = scan_segment(last, log)
    last.write_bytes(log[: scan.end - 100].ljust(len(log), b"\x00"))
    assert case_of(tmp_path / "store", model.states[7], 7) == "torn tail"


def test_what_is_left_of_a_torn_tail_is_erased(tmp_path: Path) -> None:
    """Else it would lie behind the commits that are written next, as if it had been there before them."""
    fill(tmp_path / "store")
    last = segments(tmp_path / "store")[-1]
    log = last.read_bytes()
    last.write_bytes(log[: scan_segment(last, log).end - 100].ljust(len(log), b"\x00"))
    with lowtide.open(tmp_path / "store", **{**SMALL, "durability": "relaxed"}):
        scan = scan_segment(last, last.read_bytes())
        assert (scan.last_ts, scan.dirty) == (7, False)


def test_boundary_ahead_of_log(tmp_path: Path) -> None:
    """The base was brought up to date from commits that had not reached the disk, and then the power went."""
    model = fill(tmp_path / "store", commits=3, size=10)
    (segment,) = segments(tmp_path / "store")
    log = segment.read_bytes()
    shorter = log[: scan_segment(segment, log).frames[0].end].ljust(len(log), b"\x00")
    reopened(tmp_path / "store")
    (segment,) = segments(tmp_path / "store")
    segment.write_bytes(shorter)
    assert case_of(tmp_path / "store", model.content, 3, replayed=0) == "boundary ahead of log"


def test_half_made_store(tmp_path: Path) -> None:
    """The manifest is written last, so without one nothing was ever committed."""
    fill(tmp_path / "store", commits=0, closed=True)
    (tmp_path / "store" / "store.json").unlink()
    assert case_of(tmp_path / "store", {}, 0) == "half-made"


@pytest.mark.parametrize("content", [b"", bytes(100), bytes(4096)], ids=["no byte", "short", "zeros"])
def test_zero_length_segment(tmp_path: Path, content: bytes) -> None:
    """An empty file with the name of the next segment: there is nothing in it to lose."""
    model = fill(tmp_path / "store")
    last = segments(tmp_path / "store")[-1]
    last.with_name(f"{int(last.stem) + 1:010d}.log").write_bytes(content)
    assert case_of(tmp_path / "store", model.content, 8) == "clean"


def test_header_only_segment(tmp_path: Path) -> None:
    """A power loss right after a rotation: the header is on disk, no commit is."""
    model = fill(tmp_path / "store")
    last = segments(tmp_path / "store")[-1]
    header = decode_header(last.read_bytes())
    assert header is not None
    following = Header(header.store_id, header.sequence + 1, 9, salt=5)
    path = last.with_name(f"{following.sequence:010d}.log")
    for content in (encode_header(following), encode_header(following).ljust(4096, b"\x00")):
        path.write_bytes(content)
        copy = killed(tmp_path / "store", tmp_path / f"copy {len(content)}")
        assert case_of(copy, model.content, 8) == "clean"


def test_blank_log(tmp_path: Path) -> None:
    """All segments are empty, and the base has everything up to its boundary."""
    model = fill(tmp_path / "store", size=10, closed=True)
    (segment,) = segments(tmp_path / "store")
    segment.write_bytes(b"")
    assert case_of(tmp_path / "store", model.content, 8) == "blank log"


def test_leftover_spares_and_segments_below_the_boundary(tmp_path: Path) -> None:
    """They are removed: a kill came between the checkpoint and their release."""
    path = tmp_path / "store"
    model = fill(path, checkpoint_at=0)
    old = [(each.name, each.read_bytes()) for each in segments(path)[:-1]]
    assert len(old) > 1
    reopened(path)
    for name, content in old:
        (path / "log" / name).write_bytes(content)
    (path / "log" / "spare-77.tmp").write_bytes(old[0][1])
    assert case_of(path, model.content, 8) == "clean"
    assert len(segments(path)) == 1
    assert not (path / "log" / "spare-77.tmp").exists()


def test_missing_last_segment_cannot_be_seen(tmp_path: Path) -> None:
    """Nothing else says that it was there. A disk that keeps names once its directory was synced does not lose it."""
    model = fill(tmp_path / "store")
    last = segments(tmp_path / "store")[-1]
    first_lost = scan_segment(last, last.read_bytes()).frames[0].ts
    last.unlink()
    assert case_of(tmp_path / "store", model.states[first_lost - 1], first_lost - 1) == "clean"


# Refused


def test_corrupt_middle(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    first = segments(tmp_path / "store")[0]
    log = bytearray(first.read_bytes())
    frame = scan_segment(first, bytes(log)).frames[0]
    log[frame.end - 1] ^= 1
    first.write_bytes(log)
    told = refusal_of(tmp_path / "store")
    assert f"{first.name}: commit 1 at offset 64 is damaged" in told


def test_corrupt_end_of_a_full_segment(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    first = segments(tmp_path / "store")[0]
    log = bytearray(first.read_bytes())
    last = scan_segment(first, bytes(log)).frames[-1]
    log[last.end - 1] ^= 1
    first.write_bytes(log)
    assert f"{first.name}: commit {last.ts} at offset {last.offset} is damaged" in refusal_of(tmp_path / "store")


def test_damaged_header(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    for segment in segments(tmp_path / "store"):
        path = killed(tmp_path / "store", tmp_path / f"copy {segment.stem}")
        log = bytearray(segment.read_bytes())
        log[33] ^= 1
        (path / "log" / segment.name).write_bytes(log)
        assert f"{segment.name}: the header of this log segment is damaged" in refusal_of(path)


def test_missing_segment(tmp_path: Path) -> None:
    fill(tmp_path / "store", checkpoint_at=0)
    for segment in segments(tmp_path / "store")[1:-1]:
        path = killed(tmp_path / "store", tmp_path / f"copy {segment.stem}")
        (path / "log" / segment.name).unlink()
        assert f"segment {int(segment.stem)} is missing" in refusal_of(path)


def test_missing_first_segment(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    first = segments(tmp_path / "store")[0]
    first.unlink()
    told = refusal_of(tmp_path / "store")
    assert "commits 1 to " in told
    assert "are missing" in told


def test_missing_log(tmp_path: Path) -> None:
    fill(tmp_path / "store", closed=True)
    for segment in segments(tmp_path / "store"):
        segment.unlink()
    assert "no segment at all" in refusal_of(tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "log")
    assert "the log is missing" in refusal_of(tmp_path / "store")
    assert not (tmp_path / "store" / "log").exists()


def test_foreign_segment(tmp_path: Path) -> None:
    fill(tmp_path / "store", size=10)
    fill(tmp_path / "other", size=10)
    (segment,) = segments(tmp_path / "other")
    shutil.copy(segment, tmp_path / "store" / "log" / segment.name)
    assert f"{segment.name}: this log segment belongs to another store" in refusal_of(tmp_path / "store")


def test_segment_under_another_name(tmp_path: Path) -> None:
    fill(tmp_path / "store", size=10)
    (segment,) = segments(tmp_path / "store")
    shutil.copy(segment, segment.with_name("0000000002.log"))
    assert "0000000002.log: this file is segment 1 under another name" in refusal_of(tmp_path / "store")


@pytest.mark.parametrize("version", [0, 2])
def test_log_of_another_format(tmp_path: Path, version: int) -> None:
    fill(tmp_path / "store", size=10)
    (segment,) = segments(tmp_path / "store")
    log = segment.read_bytes()
    header = decode_header(log)
    assert header is not None
    other = Header(header.store_id, header.sequence, header.first_ts, header.salt, version)
    segment.write_bytes(encode_header(other) + log[64:])
    assert f"unknown log format {version}" in refusal_of(tmp_path / "store")


def with_manifest(path: Path, **changes: Any) -> None:
    manifest = json.loads((path / "store.json").read_text())
    (path / "store.json").write_text(json.dumps({**manifest, **changes}))


def test_older_format(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    with_manifest(tmp_path / "store", format=0)
    assert "an older format, 0" in refusal_of(tmp_path / "store", lowtide.UsageError)


def test_newer_format(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    with_manifest(tmp_path / "store", format=3)
    assert "a newer format, 3" in refusal_of(tmp_path / "store", lowtide.UsageError)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[1]", b'{"format": 1}', b'{"format": 1, "store": "xyz"}']
)
def test_manifest_damaged(tmp_path: Path, content: bytes) -> None:
    fill(tmp_path / "store")
    (tmp_path / "store" / "store.json").write_bytes(content)
    assert "store.json: cannot be decoded" in refusal_of(tmp_path / "store")


def test_manifest_missing_while_commits_exist(tmp_path: Path) -> None:
    for name, closed in (("killed", False), ("closed", True)):
        fill(tmp_path / name, closed=closed)
        (tmp_path / name / "store.json").unlink()
        assert "store.json is missing" in refusal_of(tmp_path / name)


def test_base_of_another_store(tmp_path: Path) -> None:
    fill(tmp_path / "store", closed=True)
    fill(tmp_path / "other", closed=True)
    shutil.copy(tmp_path / "other" / "base" / "data.mdb", tmp_path / "store" / "base" / "data.mdb")
    assert "this base belongs to another store" in refusal_of(tmp_path / "store")


def test_boundary_missing_while_records_exist(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    with changed_base(tmp_path / "store") as change:
        change(b"boundary", None)
    assert "lost its boundary" in refusal_of(tmp_path / "store")


def test_base_missing(tmp_path: Path) -> None:
    fill(tmp_path / "store", closed=True)
    (tmp_path / "store" / "base" / "data.mdb").unlink()
    assert "base is missing" in refusal_of(tmp_path / "store")
    assert not (tmp_path / "store" / "base" / "data.mdb").exists()
    shutil.rmtree(tmp_path / "store" / "base")
    assert "base is missing" in refusal_of(tmp_path / "store")
    assert not (tmp_path / "store" / "base").exists()


@pytest.mark.parametrize("content", [b"", bytes(8192), b"not LMDB" * 2000], ids=["empty", "zeros", "text"])
def test_base_damaged(tmp_path: Path, content: bytes) -> None:
    fill(tmp_path / "store")
    (tmp_path / "store" / "base" / "data.mdb").write_bytes(content)
    assert "base" in refusal_of(tmp_path / "store")


def test_base_that_is_another_programs(tmp_path: Path) -> None:
    """An LMDB environment without our tables: it is not changed by being looked at."""
    fill(tmp_path / "store")
    (tmp_path / "store" / "base" / "data.mdb").unlink()
    environment = lmdb.open(str(tmp_path / "store" / "base"), max_dbs=2)
    with environment.begin(write=True) as txn:
        txn.put(b"somebody", b"else's", db=environment.open_db(b"theirs", txn=txn))
    environment.close()
    refusal_of(tmp_path / "store")


def test_a_store_that_was_refused_opens_again_once_the_file_is_back(tmp_path: Path) -> None:
    model = fill(tmp_path / "store")
    first = segments(tmp_path / "store")[0]
    log = first.read_bytes()
    first.write_bytes(log.replace(b"1.xxx", b"1.xyx"))
    refusal_of(tmp_path / "store")
    first.write_bytes(log)
    assert case_of(tmp_path / "store", model.content, 8) == "clean"
