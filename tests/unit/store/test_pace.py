"""When commits look for background work."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from lowtide.store.pace import Pace


class Background:
    """A log, versions and a checkpointer of which only the sizes matter, and how often the background was woken."""

    def __init__(self) -> None:
        self.log = SimpleNamespace(spare_mark=1 << 40, position=0, appended=0)
        self.versions = SimpleNamespace(active=SimpleNamespace(versions=0))
        self.checkpointer = SimpleNamespace(due_at=1_000)
        self._woken = 0
        self.during_wake: Callable[[], None] = lambda: None
        options: Any = SimpleNamespace(checkpoint_versions=1_000)
        log: Any = self.log
        versions: Any = self.versions
        checkpointer: Any = self.checkpointer
        self.pace = Pace(options, log, versions, checkpointer, self.wake)

    def wake(self) -> None:
        self._woken += 1
        self.during_wake()

    def woken(self) -> int:
        return self._woken

    def commit(self, size: int) -> bool:
        """Append to the log as a commit does; return whether it looked."""
        self.log.appended += size
        looks = bool(self.log.appended >= self.pace.look_at)
        if looks:
            self.pace.look()
        return looks


def test_the_commit_that_makes_work_due_wakes_the_background() -> None:
    background = Background()
    looked = [background.commit(100) for _ in range(9)]
    assert looked[0]
    assert not any(looked[1:])
    assert background.woken() == 0
    assert background.commit(100)
    assert background.woken() == 1


def test_commits_do_not_look_while_the_background_is_busy() -> None:
    background = Background()
    background.commit(1_000)
    assert not any(background.commit(100) for _ in range(600))
    assert background.commit(1 << 16)
    assert background.woken() == 2


def test_a_commit_looks_again_after_the_background_has_begun() -> None:
    background = Background()
    background.commit(1_000)
    background.pace.look_again()
    assert background.commit(100)
    assert background.woken() == 2
    background.checkpointer.due_at = 2_000
    background.pace.look_again()
    assert background.commit(100)
    assert not background.commit(100)
    assert background.commit(700)
    assert background.woken() == 3


def test_a_background_that_begins_at_once_is_not_overwritten() -> None:
    background = Background()
    background.during_wake = background.pace.look_again
    background.commit(1_000)
    assert background.commit(1)
