"""The five isolation levels, each a small policy over the same machinery. docs/isolation.md defines them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from lowtide.errors import UsageError


class Isolation(enum.Enum):
    """The isolation levels, weakest first: how much a transaction may see of concurrent commits."""

    NONE = "none"
    READ_COMMITTED = "read_committed"
    SNAPSHOT_READ = "snapshot_read"
    SNAPSHOT = "snapshot"
    SERIALIZABLE = "serializable"


@dataclass(frozen=True, slots=True)
class Policy:
    """What an isolation level does.

    ``buffered``: writes are buffered until the commit; otherwise each write is committed immediately.
    ``scan_snapshot``: each scan reads one snapshot. ``fixed``: all reads are of one snapshot, taken at begin, and the
    first committer wins: the commit fails if a key that it writes was changed since. ``tracks_reads``: the commit also
    fails if a key that it read was changed.
    """

    level: Isolation
    buffered: bool = True
    scan_snapshot: bool = False
    fixed: bool = False
    tracks_reads: bool = False


_POLICIES = [
    Policy(Isolation.NONE, buffered=False),
    Policy(Isolation.READ_COMMITTED),
    Policy(Isolation.SNAPSHOT_READ, scan_snapshot=True),
    Policy(Isolation.SNAPSHOT, scan_snapshot=True, fixed=True),
    Policy(Isolation.SERIALIZABLE, scan_snapshot=True, fixed=True, tracks_reads=True),
]

_BY_NAME: dict[object, Policy] = {policy.level: policy for policy in _POLICIES}
_BY_NAME |= {policy.level.value: policy for policy in _POLICIES}
_BY_NAME |= {policy.level.name: policy for policy in _POLICIES}

SNAPSHOT = _BY_NAME[Isolation.SNAPSHOT]


def policy_of(isolation: Isolation | str) -> Policy:
    """The policy of a level, given as a member of the enum or its name, in upper or lower case."""
    policy = _BY_NAME.get(isolation) if isinstance(isolation, Isolation | str) else None
    if policy is None and isinstance(isolation, str):
        policy = _BY_NAME.get(isolation.lower())
    if policy is None:
        names = ", ".join(repr(level.value) for level in Isolation)
        raise UsageError(f"unknown isolation level {isolation!r}; the levels are {names}")
    return policy
