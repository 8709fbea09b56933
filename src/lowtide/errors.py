"""Every error that Lowtide raises, grouped by what the caller should do next.

* try again: :class:`TransientError` (``store.run`` does it for you);
* mend the call: :class:`UsageError`;
* mend the machine: :class:`StoreLocked`, :class:`StoreFailed`, :class:`DiskFull`, :class:`CorruptionError`.
"""

from __future__ import annotations

from pathlib import Path


class Error(Exception):
    """The root of all errors of Lowtide."""


class UsageError(Error):
    """The call cannot be served as it stands. Nothing was changed; correct the call."""


class TransientError(Error):
    """Nothing was changed, and the same work may succeed if it is begun anew, as ``store.run`` does."""


class ConflictError(TransientError):
    """Another transaction committed first. Begin anew and repeat the work.

    ``keyspace`` and ``key`` name what both touched, ``snapshot_ts`` the instant this transaction
    read from, ``committed_ts`` the commit that it did not see.
    """

    def __init__(self, keyspace: str, key: bytes, snapshot_ts: int, committed_ts: int, *, read: bool = False) -> None:
        self.keyspace = keyspace
        self.key = key
        self.snapshot_ts = snapshot_ts
        self.committed_ts = committed_ts
        verb = "read" if read else "wrote"
        super().__init__(
            f"this transaction {verb} key {key!r} of keyspace {keyspace!r} as of commit {snapshot_ts}, "
            f"but commit {committed_ts} changed it first; nothing was written, begin anew (store.run does)"
        )


class SnapshotExpired(TransientError):
    """The asked-for instant is no longer kept. Take a new snapshot.

    If it was kept for longer than ``max_snapshot_age`` allows, ``age`` says for how many seconds, and ``where`` which
    line had opened it (file:line); otherwise both are None.
    """

    def __init__(self, message: str, *, age: float | None = None, where: str | None = None) -> None:
        self.age = age
        self.where = where
        super().__init__(message)


class ChangesLost(Error):
    """The change feed no longer has what was asked for. Read the store itself, and go on from there.

    ``since`` is the commit after which changes were asked for, ``kept`` the first commit that is still there.
    """

    def __init__(self, since: int, kept: int) -> None:
        self.since = since
        self.kept = kept
        super().__init__(
            f"the changes after commit {since} are no longer kept: the log begins with commit {kept}. Copy what you "
            "need from a snapshot and go on from its ts; a named consumer, or more feed_bytes, keeps them for longer"
        )


class StoreLocked(Error):
    """Another owner has the store open. Close it there, or wait; ``holder`` says who it is."""

    def __init__(self, path: Path, holder: str) -> None:
        self.holder = holder
        super().__init__(f"{path} is open for writing elsewhere: held by {holder}; close it there first")


class StoreFailed(Error):
    """The log could not be written or synced, so no further commit is accepted. Reads go on; mend the disk and
    reopen."""


class DiskFull(Error):
    """There is no room for this commit. It changed nothing, and the store goes on; make room and repeat."""


class CorruptionError(Error):
    """The files of the store contradict each other or their checksums. Nothing was changed; restore from a backup."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path}: {reason}")
