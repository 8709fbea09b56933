"""Staged files count only if their job names them, and are removed with their driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.errors import UsageError
from lowtide.sharing.loading import staged
from lowtide.sharing.loading.job import Job, StagedFile, new_job_name
from lowtide.sharing.loading.staged import (
    driver_process,
    make_staging,
    remove_staging,
    stage,
    staged_batches,
    staging_of,
    sweep,
)
from lowtide.system.identity import Identity, identify
from tests.conftest import OpenStore
from tests.unit.sharing.loading.jobs import apply, documents, prepare


def gone() -> Identity:
    """A process that is over."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = identify(child.pid)
    child.communicate(b"\n")
    assert found is not None
    return found


def test_directories_of_drivers_that_are_gone_are_removed_by_the_next_job_and_on_opening(
    open_store: OpenStore,
) -> None:
    store = open_store()
    dead, other, living = new_job_name(), new_job_name(), new_job_name()
    make_staging(store.path, living, driver_process())
    make_staging(store.path, dead, gone())
    apply(store, prepare(store.path, "append", [{"_id": 1}]))
    assert not staging_of(store.path, dead).exists()
    make_staging(store.path, other, Identity("an earlier start", "pid:[1]", os.getpid(), 1))
    store.close()
    open_store()
    assert not staging_of(store.path, other).exists()
    assert staging_of(store.path, living).exists()


def test_a_directory_without_a_driver_goes_after_a_while(store: lowtide.Store) -> None:
    unfinished = store.path / "staging" / (new_job_name() + ".new")
    unfinished.mkdir(parents=True)
    assert sweep(store.path) == 0
    os.utime(unfinished, (0, 0))
    assert sweep(store.path) == 1
    assert not unfinished.exists()


def test_a_sweep_beside_an_attempt_that_still_writes_or_killed_half_way_leaves_nothing(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks of a killed driver live a little longer than it."""
    directory = make_staging(store.path, new_job_name(), gone())
    stage(directory, [([b"k"], [b"v"])])

    def is_killed(doomed: Path, **_: Any) -> None:
        assert os.listdir(doomed) == ["driver"]
        with pytest.raises(UsageError, match="has ended"):
            stage(directory, [([b"late"], [b"v"])])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("lowtide.sharing.loading.staged.shutil.rmtree", is_killed)
        with pytest.raises(KeyboardInterrupt):
            sweep(store.path)
    assert sweep(store.path) == 1
    assert os.listdir(store.path / "staging") == []


def test_files_that_the_job_does_not_name_do_not_count(store: lowtide.Store) -> None:
    name = prepare(store.path, "append", [{"_id": 1}])
    directory = staging_of(store.path, name)
    stage(directory, [([b"another attempt"], [b""])])
    apply(store, name)
    assert documents(store) == [{"_id": 1}]


def test_a_task_whose_job_is_over_fails_and_makes_nothing(store: lowtide.Store) -> None:
    name = new_job_name()
    directory = make_staging(store.path, name, driver_process())
    remove_staging(store.path, name)
    with pytest.raises(UsageError, match="the write that this task belongs to has ended"):
        stage(directory, [([b"k"], [b"v"])])
    assert os.listdir(store.path / "staging") == []


def test_a_job_that_ends_while_a_task_writes_leaves_no_file(store: lowtide.Store) -> None:
    name = new_job_name()
    directory = make_staging(store.path, name, driver_process())

    def batches() -> Iterator[tuple[list[bytes], list[bytes]]]:
        yield [b"a"], [b"1"]
        remove_staging(store.path, name)
        yield [b"b"], [b"2"]

    with pytest.raises(UsageError, match="has ended"):
        stage(directory, batches())
    assert os.listdir(store.path / "staging") == []


def test_a_task_that_fails_leaves_no_file(store: lowtide.Store) -> None:
    directory = make_staging(store.path, new_job_name(), driver_process())

    def batches() -> Iterator[tuple[list[bytes], list[bytes]]]:
        yield [b"a"], [b"1"]
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        stage(directory, batches())
    assert os.listdir(directory) == ["driver"]


def test_a_file_has_what_was_staged(store: lowtide.Store) -> None:
    directory = make_staging(store.path, new_job_name(), driver_process())
    file = stage(directory, [([b"a", b"b"], [b"1", b"2"]), ([b"c"], [b"3"])])
    assert list(staged_batches(directory, [file])) == [([b"a", b"b", b"c"], [b"1", b"2", b"3"])]
    with pytest.raises(UsageError, match="has 3 rows, but its task wrote 4"):
        list(staged_batches(directory, [StagedFile(file.name, 4, 0)]))
    with pytest.raises(UsageError, match="not the name of a staged file"):
        list(staged_batches(directory, [StagedFile(f"../{directory.name}/{file.name}", 3, 0)]))


def test_there_is_no_staging_without_a_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no store"):
        make_staging(tmp_path / "none", new_job_name(), driver_process())
    assert not (tmp_path / "none").exists()


def test_a_job_is_stored_as_json(store: lowtide.Store) -> None:
    name = prepare(store.path, "delete", [{"_id": 1}], app="a", version=7)
    stored = json.loads((staging_of(store.path, name) / staged.READY).read_text())
    assert stored["how"] == "delete"
    assert stored["version"] == 7
    staged.announce(staging_of(store.path, name), Job(collection="c", how="append", app="a"))
    with pytest.raises(UsageError, match="an app and a version"):
        apply(store, name)
