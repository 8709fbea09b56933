"""The statistics of a store: ``store.stats()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.garbage.account import NOTHING, Holding
from lowtide.engine.recovery.members import MemberState
from lowtide.engine.transaction.registration import Entry
from lowtide.system.build import BUILD


@dataclass(frozen=True, slots=True)
class SnapshotStats:
    """One live snapshot: the commit it reads at, its age in seconds, where it was opened (file:line), and how many
    superseded versions are kept because of this timestamp alone, and the bytes of their keys and values."""

    ts: int
    age: float
    where: str
    versions_held: int
    bytes_held: int

    @classmethod
    def of(cls, entry: Entry, now: float, held: Holding = NOTHING) -> Self:
        """The figures of a live snapshot at ``now``, the clock's monotonic time."""
        return cls(entry.ts, now - entry.begun, str(entry.origin), *held)


@dataclass(frozen=True, slots=True)
class PinStats:
    """One pin: its name, the commit that it keeps, its age and the time until it expires in seconds, the process and
    the line that took it, the keyspaces that it keeps (None for all), and what is kept because of its timestamp
    alone."""

    name: str
    ts: int
    age: float
    expires_in: float
    owner: str
    keyspaces: tuple[str, ...] | None
    versions_held: int
    bytes_held: int

    @classmethod
    def of(cls, name: str, row: PinRow, time: float, held: Holding = NOTHING) -> Self:
        """The figures of a pin at ``time``, in seconds since the epoch."""
        return cls(
            name=name,
            ts=row.ts,
            age=time - row.taken,
            expires_in=row.expires - time,
            owner=row.owner,
            keyspaces=row.keyspaces,
            versions_held=held.versions,
            bytes_held=held.bytes,
        )


@dataclass(frozen=True, slots=True)
class ProcessStats:
    """One process that has the store open to write: its id, host and program, since when (seconds since the epoch),
    whether it is the ``"owner"`` or ``"joined"``, what it has committed since, how many of its commits were refused
    because of a conflict, and what is kept because of its snapshots alone."""

    pid: int
    host: str
    program: str
    since: float
    role: str
    commits: int
    conflicts: int
    versions_held: int
    bytes_held: int

    @classmethod
    def of(cls, member: MemberState, held: Holding = NOTHING) -> Self:
        """The figures of a process."""
        return cls(
            pid=member.pid,
            host=member.host,
            program=member.program,
            since=member.since,
            role=member.role,
            commits=member.commits,
            conflicts=member.conflicts,
            versions_held=held.versions,
            bytes_held=held.bytes,
        )


@dataclass(frozen=True, slots=True)
class Stats:
    """A store's figures at one moment.

    Timestamps: ``last_commit``, ``low_water_mark`` (the oldest live snapshot, or the last commit), ``boundary`` (the
    base holds everything up to it). In memory, exact: ``versions``, ``chains``, ``version_bytes``. On disk:
    ``history`` (superseded versions kept for live snapshots), ``log_bytes`` (log that is still kept). Totals since
    the store was opened: ``collected`` (versions dropped), ``checkpoints``, ``checkpoint_failures``,
    ``collect_failures``, ``commits``, ``conflicts`` (commits that were refused), ``expired`` (snapshots that
    ``max_snapshot_age`` ended). ``failure`` says why the store accepts no commits; ``last_checkpoint_seconds`` how long
    the last checkpoint took. ``processes`` are those that have the store open to write. ``build`` is
    the build of Lowtide that runs in this process: ``"pure Python"`` or ``"compiled"``.
    """

    last_commit: int
    low_water_mark: int
    boundary: int
    versions: int
    chains: int
    version_bytes: int
    history: int
    log_bytes: int
    snapshots: list[SnapshotStats]
    pins: list[PinStats]
    collected: int
    checkpoints: int
    checkpoint_failures: int
    last_checkpoint_failure: str | None
    collect_failures: int
    failure: str | None
    commits: int
    conflicts: int
    expired: int
    last_checkpoint_seconds: float | None
    processes: list[ProcessStats]
    build: str = BUILD
