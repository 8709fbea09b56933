"""Broken engines, to show that the soak convicts them: chosen by name when an owner is started."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.transaction.transaction import EngineTransaction


def lost_commit() -> None:
    """Now and then a commit is acknowledged and thrown away."""
    real, count = EngineTransaction.commit, itertools.count(1)

    def commit(self: EngineTransaction) -> int:
        if next(count) % 60 == 0:
            ts = self.ts
            self.rollback()
            return ts + 1
        return real(self)

    EngineTransaction.commit = commit  # type: ignore[method-assign]


def half_commit() -> None:
    """Now and then a commit leaves out the last of its writes."""
    real, count = EngineTransaction.commit, itertools.count(1)

    def commit(self: EngineTransaction) -> int:
        if next(count) % 60 == 0 and len(self.writes) > 1:
            self.writes.popitem()
        return real(self)

    EngineTransaction.commit = commit  # type: ignore[method-assign]


def blind_collector() -> None:
    """The collector asks nobody: what a live snapshot sees goes all the same."""
    Exact.needs = lambda self, begin, end: end > self.bound  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    "lost-commit": lost_commit,
    "half-commit": half_commit,
    "blind-collector": blind_collector,
}
