"""The location of a store: the same store on this machine, or an error that says where it is."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

import lowtide
from lowtide.errors import UsageError
from lowtide.spark.location import StoreLocation
from tests.conftest import OpenStore
from tests.unit.spark.loading import crossed

POINTS_TO_EXPORT = r"is on the local disk of .*, and this task runs on .*, {}.*lowtide\.spark\.export"


@pytest.fixture
def location(store: lowtide.Store) -> StoreLocation:
    return StoreLocation.here(store.path)


def test_a_store_is_found_in_another_process_of_its_machine(store: lowtide.Store, location: StoreLocation) -> None:
    assert crossed(location) == location
    assert crossed(location).check() == store.path
    assert location.host == socket.gethostname()


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: None], ids=["directory", "file", "nothing"])
def test_where_there_is_no_store_the_option_is_named(tmp_path: Path, make: object) -> None:
    path = tmp_path / "none"
    assert callable(make)
    make(path)
    with pytest.raises(UsageError, match=f"there is no Lowtide store in {path} on .*; check the option 'path'"):
        StoreLocation.here(path)


def test_a_task_on_another_machine_is_told_of_exports(location: StoreLocation) -> None:
    with pytest.raises(UsageError, match=POINTS_TO_EXPORT.format("which is another machine")):
        replace(location, boot="another").check()


def test_and_so_is_one_that_does_not_have_the_directory(location: StoreLocation, tmp_path: Path) -> None:
    for missing in (tmp_path / "none", tmp_path / "store" / "base" / "data.mdb"):
        with pytest.raises(UsageError, match=POINTS_TO_EXPORT.format("where that directory does not exist")):
            replace(location, path=str(missing)).check()


def test_and_one_that_has_another_store_there(location: StoreLocation, open_store: OpenStore, tmp_path: Path) -> None:
    open_store("other").close()
    with pytest.raises(UsageError, match=POINTS_TO_EXPORT.format("where another store is in that directory")):
        replace(location, path=str(tmp_path / "other")).check()


def test_a_copy_of_the_store_counts_as_the_store(open_store: OpenStore, tmp_path: Path) -> None:
    open_store("first").close()
    location = StoreLocation.here(tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    assert replace(location, path=str(tmp_path / "copy")).check() == tmp_path / "copy"
