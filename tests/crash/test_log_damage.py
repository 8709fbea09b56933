"""The log of a killed store, cut short or damaged: a prefix survives, or the store is refused (K5)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.engine.log.segment import scan_segment
from tests.crash.stores import SMALL, Content, Durability, Model, both, commit, content_of, files_of, killed, reopened
from tests.support.attack import FULL, SAMPLE

LAST = 6


class Killed:
    """A killed store with six commits in one segment. None of them is in the base."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        self.model = Model()
        self.directory = directory
        store = lowtide.open(directory / "store", **{**SMALL, "segment_bytes": 8192}, durability=durability)
        for number in range(LAST):
            commit(store, both(number, 40))
            self.model.apply(both(number, 40))
        self.path = killed(store.path, directory / "killed")
        store.close()
        self.segment = "log/0000000001.log"
        self.log = (self.path / self.segment).read_bytes()
        frames = scan_segment(Path("0000000001.log"), self.log).frames
        assert len(frames) == LAST
        self.ends = [frame.end for frame in frames]
        self.starts = [frame.offset for frame in frames]

    def with_log(self, log: bytes) -> Path:
        """A copy of the store with another log."""
        copy = self.directory / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        killed(self.path, copy)
        (copy / self.segment).write_bytes(log)
        return copy

    def opened(self, log: bytes) -> Content | None:
        """The content with that log, or None if it was refused, in which case nothing may have been changed."""
        path = self.with_log(log)
        before = files_of(path)
        try:
            with lowtide.open(path, **SMALL, durability="relaxed") as store:
                return content_of(store)
        except lowtide.CorruptionError as refusal:
            named = "0000000001.log" in str(refusal)
        assert named
        assert files_of(path) == before
        return None


@pytest.fixture(params=["full", "relaxed"])
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Killed:
    return Killed(tmp_path, request.param)


def commits_before(damaged: Killed, length: int) -> int:
    return sum(end <= length for end in damaged.ends)


@pytest.mark.parametrize("kind", ["shortened", "zeroed"])
def test_a_tail_that_is_cut_off_leaves_the_prefix_and_the_store_goes_on(damaged: Killed, kind: str) -> None:
    """By any number of bytes of the last two commits, then append, then reopen: the prefix and what is new."""
    for length in range(damaged.ends[-1] - (0 if FULL else SAMPLE % 23), damaged.starts[-2], -7 if FULL else -23):
        log = damaged.log[:length] if kind == "shortened" else damaged.log[:length].ljust(len(damaged.log), b"\x00")
        path = damaged.with_log(log)
        kept = commits_before(damaged, length)
        with lowtide.open(path, **SMALL, durability="relaxed") as store:
            assert content_of(store) == damaged.model.states[kept], length
            assert commit(store, both(20)) == kept + 1
        after = Model()
        after.states.append(damaged.model.states[kept])
        after.apply(both(20))
        assert reopened(path) == after.content


def test_every_length_of_the_log_opens_to_a_prefix_or_is_refused(damaged: Killed) -> None:
    """A log that is shorter than what its frames say was on disk cannot be told from one that was torn: the frames that
    said so are cut off with it. So any length opens, as long as the header is whole."""
    for length in [52, 55, 63, *range(64, damaged.ends[-1], 41), *damaged.ends, *(end - 1 for end in damaged.ends)]:
        assert damaged.opened(damaged.log[:length]) == damaged.model.states[commits_before(damaged, length)]
    for length in (1, 8, 30, 51):
        assert damaged.opened(damaged.log[:length]) is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_flipped_bit_is_never_applied(damaged: Killed, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, damaged.ends[-1] * 8 - 1), "bit")
    log = bytearray(damaged.log)
    log[bit // 8] ^= 1 << bit % 8
    content = damaged.opened(bytes(log))
    assert content is None or content in damaged.model.states
    hit = commits_before(damaged, bit // 8)
    if 52 <= bit // 8 < 64:
        assert content == damaged.model.content, "padding of the header, which nothing reads"
    elif content is not None:
        assert bit // 8 >= 64
        assert content == damaged.model.states[hit]


def test_with_full_durability_only_the_last_commit_can_be_taken_for_a_torn_tail(tmp_path: Path) -> None:
    damaged = Killed(tmp_path, "full")
    for number, (start, end) in enumerate(zip(damaged.starts, damaged.ends, strict=True), 1):
        for at in (start, start + 6, start + 20, end - 1):
            log = bytearray(damaged.log)
            log[at] ^= 0x10
            content = damaged.opened(bytes(log))
            if number < LAST:
                assert content is None, (number, at)
            else:
                assert content == damaged.model.states[LAST - 1]


def test_a_damaged_first_commit_of_three_is_refused_and_named(tmp_path: Path) -> None:
    store = lowtide.open(tmp_path / "store", **SMALL)
    for number in range(3):
        commit(store, both(number))
    path = killed(store.path, tmp_path / "killed")
    store.close()
    segment = path / "log" / "0000000001.log"
    log = bytearray(segment.read_bytes())
    log[64 + 40] ^= 1
    segment.write_bytes(log)
    before = files_of(path)
    for _ in range(2):
        with pytest.raises(lowtide.CorruptionError, match=r"0000000001\.log: commit 1 at offset 64 is damaged"):
            lowtide.open(path, **SMALL)
        assert files_of(path) == before


def test_after_a_clean_close_damage_to_a_commit_costs_nothing(tmp_path: Path) -> None:
    """The closing marker says that all of them were on disk, and the base has them all."""
    model = Model()
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        for number in range(3):
            commit(store, both(number))
            model.apply(both(number))
    segment = tmp_path / "store" / "log" / "0000000001.log"
    log = segment.read_bytes()
    for frame in scan_segment(segment, log).frames:
        flipped = bytearray(log)
        flipped[frame.end - 1] ^= 1
        segment.write_bytes(flipped)
        assert reopened(killed(tmp_path / "store", tmp_path / f"copy {frame.ts}")) == model.content


def test_a_damaged_commit_below_the_boundary_does_not_cost_the_commits_above_it(tmp_path: Path) -> None:
    store = lowtide.open(tmp_path / "store", **SMALL)
    model = Model()
    for number in range(4):
        commit(store, both(number))
        model.apply(both(number))
    store.checkpoint()
    commit(store, both(5))
    model.apply(both(5))
    path = killed(store.path, tmp_path / "killed")
    store.close()
    segment = path / "log" / "0000000001.log"
    log = bytearray(segment.read_bytes())
    log[scan_segment(segment, bytes(log)).frames[1].end - 1] ^= 1
    segment.write_bytes(log)
    before = files_of(path)
    try:
        assert reopened(path) == model.content
    except lowtide.CorruptionError:
        assert files_of(path) == before


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400), st.booleans())
def test_random_bytes_for_a_log_raise_nothing_but_our_errors(damaged: Killed, content: bytes, headed: bool) -> None:
    found = damaged.opened(damaged.log[: 64 if headed else 0] + content)
    assert found in (None, {})
