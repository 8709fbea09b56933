"""A commit that is interrupted either does not exist at all, or exists and later commits are validated against it
(P1, C7).

Here a KeyboardInterrupt is raised at each line of the commit in turn. A serializable transaction that has read what
the commit writes is open at that time. It must be refused if others see the commit, and accepted if they do not.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

import lowtide
from lowtide.engine.transaction.commit import Committer
from lowtide.engine.transaction.validate import RecentCommits
from lowtide.engine.versions.layers import VersionStore
from tests.conftest import OpenStore
from tests.isolation.world import commits, get, put
from tests.support.parts import parts_of

_EVERY_WAY = (Committer._remember, RecentCommits.remember, RecentCommits.trim)
WAYS: dict[str, tuple[Any, ...]] = {
    "at once": (Committer._commit_unchanged, VersionStore.publish_one, *_EVERY_WAY),
    "several keys at once": (Committer._commit_unchanged, VersionStore.publish, *_EVERY_WAY),
    "by a request": (Committer.commit_alone, Committer._may_commit, Committer._log_and_publish, *_EVERY_WAY),
}
_CODES = {method.__code__ for methods in WAYS.values() for method in methods}


def lines_of(way: str) -> list[tuple[str, int]]:
    codes = [method.__code__ for method in WAYS[way]]
    return sorted({(code.co_name, line) for code in codes for _, _, line in code.co_lines() if line is not None})


class Interrupt:
    """Raises KeyboardInterrupt when a thread first comes to a line of the commit."""

    def __init__(self, name: str, line: int) -> None:
        self._where = (name, line)
        self.came = False

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code not in _CODES:
            return None
        if event == "line" and not self.came and (frame.f_code.co_name, frame.f_lineno) == self._where:
            self.came = True
            raise KeyboardInterrupt
        return self.trace


def commit_interrupted(store: lowtide.Store, interrupt: Interrupt, way: str) -> None:
    writer = store.begin()
    put(writer, "a", 2)
    if way == "several keys at once":
        put(writer, "d", 2)
    if way == "by a request":
        writer.on_commit(lambda ts: None)
    sys.settrace(interrupt.trace)
    try:
        writer.commit()
    except KeyboardInterrupt:
        assert interrupt.came
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("way", WAYS)
def test_a_serializable_reader_never_misses_a_commit_that_was_interrupted(open_store: OpenStore, way: str) -> None:
    came, outcomes, lines = [], set(), lines_of(way)
    for name, line in lines:
        store = open_store(f"{name}-{line}")
        with store.transaction() as tx:
            put(tx, "a", 1)
            put(tx, "b", 1)
        reader = store.begin("serializable")
        assert get(reader, "a") == 1
        interrupt = Interrupt(name, line)
        commit_interrupted(store, interrupt, way)
        if interrupt.came:
            came.append((name, line))
        with store.snapshot() as snapshot:
            seen = get(snapshot, "a")
        outcomes.add(seen)
        put(reader, "b", 2)
        assert commits(reader) == (seen == 1), f"after an interrupt at {name}:{line}"
        check_that_the_store_goes_on(store)
    assert {name for name, _ in came} == {name for name, _ in lines}, "each function was interrupted somewhere"
    assert outcomes == {1, 2}, "before the log had it, and after"


def check_that_the_store_goes_on(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        put(tx, "c", 3)
    with store.snapshot() as snapshot:
        assert get(snapshot, "c") == 3
    for layer in parts_of(store).versions.layers:
        layer.check()
    store.checkpoint()
