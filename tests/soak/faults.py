"""Broken engines that the soak must convict, chosen by name when an owner is started."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.transaction.transaction import EngineTransaction


def lost_commit() -> None:
    """Now and then a commit is acknowledged and discarded."""
    real, count = EngineTransaction.commit, itertools.count(1)

    def commit(self: EngineTransaction) -> int:
        if next(count) % 60 == 0:
            ts = self.ts
            self.rollback()
            return ts + 1
        return real(self)

    EngineTransaction.commit = commit  # type: ignore[method-assign]


def half_commit() -> None:
    """Now and then a commit omits its last write."""
    real, count = EngineTransaction.commit, itertools.count(1)

    def commit(self: EngineTransaction) -> int:
        if next(count) % 60 == 0 and len(self.writes) > 1:
            self.writes.popitem()
        return real(self)

    EngineTransaction.commit = commit  # type: ignore[method-assign]


def blind_collector() -> None:
    """The collector ignores live snapshots, and drops what they see."""
    Exact.needs = lambda self, begin, end: end > self.bound  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    "lost-commit": lost_commit,
    "half-commit": half_commit,
    "blind-collector": blind_collector,
}
