"""After recovery the timestamp of the next commit is above every one that was ever acknowledged (K7)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lowtide
from tests.crash.stores import SMALL, both, commit, killed


@pytest.mark.parametrize("checkpointed", [0, 3, 7])
def test_the_next_commit_follows_the_last_one_that_was_replayed(tmp_path: Path, checkpointed: int) -> None:
    store = lowtide.open(tmp_path / "store", **SMALL)
    for number in range(1, 8):
        assert commit(store, both(number, 500)) == number
        if number == checkpointed:
            store.checkpoint()
    path = killed(store.path, tmp_path / "killed")
    store.close()
    with lowtide.open(path, **SMALL) as again:
        assert again.stats().last_commit == 7
        assert again.begin(read_only=True).ts == 7
        assert commit(again, both(8)) == 8
    with lowtide.open(path, **SMALL) as again:
        assert again.stats().last_commit == 8


def test_timestamps_grow_by_one_over_any_number_of_kills_and_closes(tmp_path: Path) -> None:
    chance = random.Random(7)
    path, expected = tmp_path / "store 0", 0
    for round_ in range(1, 16):
        store = lowtide.open(path, **SMALL, durability=chance.choice(["full", "relaxed"]))
        assert store.stats().last_commit == expected
        for _ in range(chance.randrange(4)):
            expected += 1
            assert commit(store, both(expected, chance.randrange(1500))) == expected
        if chance.random() < 0.3:
            store.checkpoint()
        if chance.random() < 0.7:
            path = killed(path, tmp_path / f"store {round_}")
        store.close()


def test_a_commit_that_was_cut_off_gives_its_timestamp_to_the_next(tmp_path: Path) -> None:
    """It was never acknowledged as durable, so its timestamp may be given to another commit."""
    store = lowtide.open(tmp_path / "store", **SMALL, durability="relaxed")
    for number in range(1, 4):
        commit(store, both(number))
    path = killed(store.path, tmp_path / "killed")
    store.close()
    segment = path / "log" / "0000000001.log"
    log = segment.read_bytes()
    end = len(log.rstrip(b"\x00"))
    segment.write_bytes(log[: end - 3].ljust(len(log), b"\x00"))
    with lowtide.open(path, **SMALL) as again:
        assert again.stats().last_commit == 2
        assert commit(again, {"left": {b"other": b"content"}}) == 3


def test_conflicts_are_judged_by_timestamps_that_survive_a_restart(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        commit(store, both(1))
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        first, second = store.begin(), store.begin()
        first.keyspace("left").put(b"key 1", b"first")
        second.keyspace("left").put(b"key 1", b"second")
        assert first.commit() == 2
        with pytest.raises(lowtide.ConflictError) as caught:
            second.commit()
        assert (caught.value.snapshot_ts, caught.value.committed_ts) == (1, 2)
