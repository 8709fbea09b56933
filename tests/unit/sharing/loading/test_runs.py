"""Staged documents are read in key order, in whatever order they were staged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lowtide
from lowtide.sharing.loading import staged
from lowtide.sharing.loading.job import StagedFile, new_job_name
from lowtide.sharing.loading.runs import Batch, merge, merged, runs_of
from lowtide.sharing.loading.staged import driver_process, make_staging, stage, staged_batches


def rows(*numbers: int) -> Batch:
    return [b"%04d" % each for each in numbers], [b"document %d" % each for each in numbers]


@pytest.fixture
def directory(store: lowtide.Store) -> Path:
    return make_staging(store.path, new_job_name(), driver_process())


def all_of(directory: Path, files: list[StagedFile]) -> Batch:
    blocks = list(merged(directory, runs_of(directory, files)))
    return [key for keys, _ in blocks for key in keys], [each for _, found in blocks for each in found]


def test_a_task_sorts_a_run_and_begins_another_one(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "RUN_BYTES", 80)
    monkeypatch.setattr(staged, "_ROWS", 4)
    file = stage(directory, [rows(9, 1, 5), rows(7, 3, 2), rows(8, 0, 6, 4), rows(11, 10)])
    found = [keys for keys, _ in staged_batches(directory, [file])]
    assert found == [rows(1, 2, 3, 5)[0], rows(7, 9)[0], rows(0, 4, 6, 8)[0], rows(10, 11)[0]]
    assert [(run.begin, run.end) for run in runs_of(directory, [file])] == [(0, 2), (2, 4)]
    assert all_of(directory, [file]) == rows(*range(12))


def test_large_documents_are_in_small_batches(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "_BYTES", 1000)
    file = stage(directory, [([b"%d" % each for each in range(9)], [b"x" * 500] * 9)])
    assert [len(keys) for keys, _ in staged_batches(directory, [file])] == [1] * 9


def test_keys_to_delete_are_sorted_too(directory: Path) -> None:
    file = stage(directory, [([b"b", b"a"], None), ([b"c", b"a"], None)])
    [(keys, found)] = merged(directory, runs_of(directory, [file]))
    assert keys == [b"a", b"a", b"b", b"c"]
    assert not any(found)


@pytest.mark.parametrize("seed", range(10))
def test_runs_are_merged(directory: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(staged, "RUN_BYTES", chance.choice((1, 50, 1 << 20)))
    monkeypatch.setattr(staged, "_ROWS", chance.randrange(1, 8))
    numbers = list(range(100))
    if seed % 3:
        chance.shuffle(numbers)
    files = []
    while numbers:
        part, numbers = numbers[: (size := chance.randrange(1, 40))], numbers[size:]
        files.append(stage(directory, [rows(*part[:7]), rows(*part[7:])]))
    chance.shuffle(files)
    assert all_of(directory, files) == rows(*range(100))


def test_equal_keys_are_in_one_block() -> None:
    blocks = list(merge([iter([rows(1, 5), rows(7)]), iter([rows(5), rows(6, 7)]), iter([rows(0, 5)])]))
    assert sorted(key for keys, _ in blocks for key in keys) == rows(0, 1, 5, 5, 5, 6, 7, 7)[0]
    for number, (keys, _) in enumerate(blocks):
        for others, _ in blocks[number + 1 :]:
            assert keys[-1] < others[0]


def test_nothing_is_no_run(directory: Path) -> None:
    assert runs_of(directory, [stage(directory, [])]) == []
    assert list(merge([iter([]), iter([([], [])])])) == []
