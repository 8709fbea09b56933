"""The five isolation levels, each a small policy over the same machinery. docs/isolation.md says what they promise."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from lowtide.errors import UsageError


class Isolation(enum.Enum):
    """How much of what others commit a transaction may see, weakest first."""

    NONE = "none"
    READ_COMMITTED = "read_committed"
    SNAPSHOT_READ = "snapshot_read"
    SNAPSHOT = "snapshot"
    SERIALIZABLE = "serializable"


@dataclass(frozen=True, slots=True)
class Policy:
    """What a level does.

    ``buffered``: writes wait for the commit (else each is committed at once). ``scan_snapshot``: a scan is of one
    snapshot, if only its own. ``fixed``: all reads are of one snapshot, drawn at begin, and the first committer wins:
    the commit fails if a key that it writes was committed since. ``tracks_reads``: also if a key that it read was.
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
    """The policy of a level, given as the enum's member or its name in either case."""
    policy = _BY_NAME.get(isolation) if isinstance(isolation, Isolation | str) else None
    if policy is None and isinstance(isolation, str):
        policy = _BY_NAME.get(isolation.lower())
    if policy is None:
        names = ", ".join(repr(level.value) for level in Isolation)
        raise UsageError(f"unknown isolation level {isolation!r}; known are {names}")
    return policy
