"""A commit that fails between its steps, in compiled code: all or nothing, and the next commit works.

tests/crash does the same at each line of the interpreted commit. Here the error is raised in the log, which is always
interpreted, before or after it has the commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.log.writer import LogWriter
from tests.conftest import OpenStore
from tests.crash.stores import SMALL, Content, both, commit, content_of, in_time, killed, reopened
from tests.support.groups import commit_in_one_group
from tests.support.parts import parts_of

BEFORE: Content = {"left": {b"key 0": b"0.", b"key 1": b"1."}, "right": {b"key 0": b"0.", b"key 1": b"1."}}
AFTER: Content = {"left": {b"key 0": b"7.", b"key 1": b"1."}, "right": {b"key 0": b"7.", b"key 1": b"1."}}
ERRORS = [RuntimeError("broken"), MemoryError(), KeyboardInterrupt(), SystemExit()]


@pytest.fixture(params=["full", "relaxed"])
def store(request: pytest.FixtureRequest, open_store: OpenStore) -> Iterator[lowtide.Store]:
    store = open_store(durability=request.param, **SMALL)
    for number in range(2):
        commit(store, both(number))
    with store.snapshot():  # the collector must keep for it what commit 7 overwrites
        yield store


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("logged", [False, True])
def test_an_error_of_the_log_leaves_all_of_the_commit_or_nothing(
    store: lowtide.Store, logged: bool, error: BaseException, tmp_path: Path
) -> None:
    append = LogWriter.append

    def failing(self: LogWriter, ts: int, payload: bytes, durably: bool) -> None:
        if logged:
            append(self, ts, payload, durably)
        raise error

    failed = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogWriter, "append", failing)
        try:
            commit(store, both(7))
        except type(error):
            failed = True
    expected = AFTER if logged else BEFORE
    assert failed or logged, "what was acknowledged is there"
    assert content_of(store) == expected
    assert reopened(killed(store.path, tmp_path / "killed")) == expected
    for layer in parts_of(store).versions.layers:
        layer.check()
    in_time(lambda: commit(store, both(1, 5)))
    assert content_of(store) != expected


@pytest.mark.parametrize("error", ERRORS[:2], ids=repr)
def test_an_error_of_the_log_fails_every_member_of_a_group(store: lowtide.Store, error: Exception) -> None:
    def failing(self: LogWriter, first_ts: int, payloads: list[bytes], durably: bool) -> None:
        raise error

    members = [lambda number=number: commit(store, both(number)) for number in (5, 6, 7)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogWriter, "append_group", failing)
        assert commit_in_one_group(store, members) == [error] * 3
    assert content_of(store) == BEFORE
    assert commit_in_one_group(store, members) == [None] * 3
    assert content_of(store) == {name: {**AFTER[name], b"key 5": b"5.", b"key 6": b"6."} for name in AFTER}
