"""The anomalies that each isolation level forbids. docs/isolation.md describes the mechanisms.

A stronger level forbids everything that a weaker one does. Real time is included: at every level, a transaction sees
every commit that finished before it began, so session and time edges count as dependencies.
"""

from __future__ import annotations

from lowtide.audit.anomalies import MEANINGS
from lowtide.engine import Isolation, policy_of

_NONE = frozenset({"garbage", "duplicate", "future-read"})
_READ_COMMITTED = _NONE | {"internal", "G0", "G1a", "G1b", "G1c", "observed-vanishes", "stale-read"}
_SNAPSHOT_READ = _READ_COMMITTED | {"fractured-scan"}
_SNAPSHOT = _SNAPSHOT_READ | {"incompatible-order", "lost-update", "G-single", "long-fork", "G-nonadjacent"}

PROSCRIBED: dict[Isolation, frozenset[str]] = {
    Isolation.NONE: _NONE,
    Isolation.READ_COMMITTED: _READ_COMMITTED,
    Isolation.SNAPSHOT_READ: _SNAPSHOT_READ,
    Isolation.SNAPSHOT: _SNAPSHOT,
    Isolation.SERIALIZABLE: frozenset(MEANINGS),
}


def level_of(name: Isolation | str) -> Isolation:
    """Return the level with this name, ignoring case. Raises UsageError if there is none."""
    return policy_of(name).level


def allowed(level: Isolation) -> list[str]:
    """Return the anomalies that a level allows, most severe first.

    >>> from lowtide import Isolation
    >>> from lowtide.audit.levels import allowed
    >>> allowed(Isolation.SNAPSHOT)
    ['write-skew', 'G2-item', 'G2']
    """
    return [name for name in MEANINGS if name not in PROSCRIBED[level]]


def levels_without(names: set[str]) -> list[Isolation]:
    """Return the levels that allow all of these anomalies."""
    return [level for level in Isolation if not PROSCRIBED[level] & names]
