"""A commit that is killed at one of its steps: all or nothing, and the next commit works (P1, K4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.versions.layers import VersionStore
from tests.conftest import OpenStore
from tests.crash.interrupts import calling_at, raising_at
from tests.crash.stores import SMALL, Content, Model, both, commit, content_of, in_time, killed, reopened
from tests.support.parts import parts_of

STEPS = ["commit.log", "commit.publish", "commit.visible", "collect.sampled"]
"""In the order in which a commit comes by them; before the first it is nowhere, after it in the log."""

BEFORE: Content = {"left": {b"key 0": b"0.", b"key 1": b"1."}, "right": {b"key 0": b"0.", b"key 1": b"1."}}
AFTER: Content = {"left": {b"key 0": b"7.", b"key 1": b"1."}, "right": {b"key 0": b"7.", b"key 1": b"1."}}
"""Commit 7 overwrites a key, so that its chain is pruned as well."""


@pytest.fixture(params=["full", "relaxed"])
def store(request: pytest.FixtureRequest, open_store: OpenStore) -> Iterator[lowtide.Store]:
    store = open_store(durability=request.param, **SMALL)
    for number in range(2):
        commit(store, both(number))
    with store.snapshot():  # the collector must keep for it what commit 7 overwrites
        yield store


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_before_a_step_leaves_all_of_the_commit_or_nothing(
    store: lowtide.Store, step: str, tmp_path: Path
) -> None:
    with calling_at(step, lambda: killed(store.path, tmp_path / "killed")):
        commit(store, both(7))
    assert content_of(store) == AFTER
    assert reopened(tmp_path / "killed") == (BEFORE if step == "commit.log" else AFTER)


@pytest.mark.parametrize("error", [RuntimeError("broken"), MemoryError(), KeyboardInterrupt(), SystemExit()])
@pytest.mark.parametrize("step", STEPS)
def test_an_exception_in_a_step_leaves_all_of_the_commit_or_nothing(
    store: lowtide.Store, step: str, error: BaseException, tmp_path: Path
) -> None:
    with raising_at(step, error) as raised:
        try:
            commit(store, both(7))
            failed = False
        except type(error):
            failed = True
    assert raised == [step]
    expected = BEFORE if step == "commit.log" else AFTER
    assert failed or expected == AFTER, "what was acknowledged is there"
    assert content_of(store) == expected
    assert reopened(killed(store.path, tmp_path / "killed")) == expected
    for layer in parts_of(store).versions.layers:
        layer.check()

    in_time(lambda: commit(store, both(1, 5)))
    model = Model()
    model.states.append(expected)
    model.apply(both(1, 5))
    assert content_of(store) == model.content
    assert reopened(killed(store.path, tmp_path / "killed later")) == model.content


def test_a_conflict_is_found_after_an_interrupted_commit_that_stands(store: lowtide.Store) -> None:
    """The interrupted commit counts as committed for those that began before it."""
    early = store.begin()
    early.keyspace("left").put(b"key 0", b"late")
    with raising_at("commit.publish", KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        commit(store, both(7))
    with pytest.raises(lowtide.ConflictError):
        early.commit()
    assert content_of(store) == AFTER


def test_a_commit_that_cannot_be_published_at_all_is_the_last_one(
    store: lowtide.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the log, and no reader sees it. A further commit would take its timestamp, and would be lost with all
    later ones when the log is read. So no commit is accepted until the store is opened again."""

    def no_memory(self: VersionStore, *arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(VersionStore, "publish", no_memory)
        with pytest.raises((MemoryError, lowtide.StoreFailed)):
            commit(store, both(7))
    acknowledged = []
    for number in (2, 3):
        try:
            commit(store, both(number))
            acknowledged.append(number)
        except lowtide.StoreFailed:
            pass
    left = reopened(killed(store.path, tmp_path / "killed"))
    for number in acknowledged:
        assert left["left"].get(b"key %d" % number) == b"%d." % number
    assert content_of(store).get("left", {}).keys() <= left["left"].keys()


def test_a_transaction_whose_commit_failed_has_ended(store: lowtide.Store) -> None:
    tx = store.begin()
    tx.keyspace("left").put(b"key 0", b"never")
    with raising_at("commit.log", RuntimeError("broken")), pytest.raises(RuntimeError, match="broken"):
        tx.commit()
    with pytest.raises(lowtide.UsageError):
        tx.commit()
    assert len(store.stats().snapshots) == 1, "the fixture's own"
    assert content_of(store) == BEFORE
