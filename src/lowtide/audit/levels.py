"""Which anomalies each isolation level proscribes; docs/isolation.md says by which mechanism.

A stronger level proscribes what a weaker one does, and more. Real time is part of it: a transaction of Lowtide sees
every commit that was over before it began, at every level, so edges of session and time count as dependencies.
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
    """The level that is called so, in either case; UsageError if there is none."""
    return policy_of(name).level


def allowed(level: Isolation) -> list[str]:
    """What a level does not forbid, the gravest first.

    >>> from lowtide import Isolation
    >>> from lowtide.audit.levels import allowed
    >>> allowed(Isolation.SNAPSHOT)
    ['write-skew', 'G2-item', 'G2']
    """
    return [name for name in MEANINGS if name not in PROSCRIBED[level]]


def levels_without(names: set[str]) -> list[Isolation]:
    """The levels that proscribe none of these anomalies."""
    return [level for level in Isolation if not PROSCRIBED[level] & names]
