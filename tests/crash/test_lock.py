"""One owner at a time, in this process or any other (K7). A dead owner does not count. An exclusive owner is the only
process that has the store open."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.crash.stores import both, child, commit, content_of, files_of, lines_of, reopened
from tests.support.stopping import stopped

OWNER = """
import json, sys, lowtide
store = lowtide.open(sys.argv[1], exclusive=len(sys.argv) > 2)
store.keyspace("k").put(b"a", b"1")
print(json.dumps("open"), flush=True)
sys.stdin.readline()
"""

INTRUDER = """
import json, os, sys, lowtide
try:
    lowtide.open(sys.argv[1])
    print(json.dumps("got in"), flush=True)
except lowtide.StoreLocked as error:
    print(json.dumps([str(error), error.holder]), flush=True)
"""


@pytest.mark.parametrize("other", [True, False])
def test_an_exclusive_store_is_opened_by_nobody_else_in_its_process(open_store: OpenStore, other: bool) -> None:
    store = open_store(exclusive=True)
    before = files_of(store.path)
    with pytest.raises(lowtide.StoreLocked, match="this process") as caught:
        lowtide.open(store.path, exclusive=other)
    assert str(store.path) in str(caught.value)
    assert files_of(store.path) == before
    commit(store, both(1))
    assert content_of(store)["left"] == {b"key 1": b"1."}


def test_nobody_opens_a_store_exclusively_that_another_one_has_open(open_store: OpenStore) -> None:
    store = open_store()
    with pytest.raises(lowtide.StoreLocked, match="this process"):
        lowtide.open(store.path, exclusive=True)
    joined = lowtide.open(store.path)
    store.close()
    with pytest.raises(lowtide.StoreLocked, match="this process"):
        lowtide.open(store.path, exclusive=True)
    joined.close()
    lowtide.open(store.path, exclusive=True).close()


def test_an_exclusive_store_is_opened_by_no_other_process_which_is_told_whose_it_is(open_store: OpenStore) -> None:
    store = open_store(exclusive=True)
    with child(INTRUDER, store.path) as process:
        message, holder = next(lines_of(process))
    assert f"process {os.getpid()}" in holder
    assert holder in message
    commit(store, both(1))


def test_the_owner_in_another_process_is_named(tmp_path: Path) -> None:
    with child(OWNER, tmp_path / "store", "exclusive") as owner:
        assert next(lines_of(owner)) == "open"
        with pytest.raises(lowtide.StoreLocked, match=f"process {owner.pid} on "):
            lowtide.open(tmp_path / "store")


def test_a_read_only_open_is_no_owner(open_store: OpenStore) -> None:
    open_store().close()
    open_store(read_only=True)
    open_store().keyspace("k").put(b"a", b"1")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_of_a_dead_process_is_not_honoured(tmp_path: Path, how: signal.Signals) -> None:
    with child(OWNER, tmp_path / "store") as owner:
        assert next(lines_of(owner)) == "open"
        owner.send_signal(how)
        owner.wait()
        assert str(owner.pid) in (tmp_path / "store" / "lock").read_text(), "its name is still in the file"
        assert reopened(tmp_path / "store") == {"k": {b"a": b"1"}}


def test_a_stopped_process_still_holds_its_lock(tmp_path: Path) -> None:
    with child(OWNER, tmp_path / "store") as owner:
        assert next(lines_of(owner)) == "open"
        with stopped(owner.pid), pytest.raises(lowtide.StoreLocked):
            lowtide.open(tmp_path / "store", exclusive=True)


def test_a_closed_store_is_free_and_names_nobody(open_store: OpenStore) -> None:
    store = open_store()
    store.close()
    assert (store.path / "lock").read_text() == ""
    with child(INTRUDER, store.path) as process:
        assert next(lines_of(process)) == "got in"


def test_an_opening_that_failed_gives_the_lock_back(open_store: OpenStore) -> None:
    store = open_store()
    store.close()
    manifest = (store.path / "store.json").read_bytes()
    for _ in range(3):
        (store.path / "store.json").write_bytes(b"damaged")
        with pytest.raises(lowtide.CorruptionError):
            lowtide.open(store.path)
    (store.path / "store.json").write_bytes(manifest)
    lowtide.open(store.path).close()


def test_a_store_that_was_dropped_without_closing_gives_the_lock_back(tmp_path: Path) -> None:
    store = lowtide.open(tmp_path / "store")
    commit(store, both(1))
    del store
    assert reopened(tmp_path / "store")["left"] == {b"key 1": b"1."}
