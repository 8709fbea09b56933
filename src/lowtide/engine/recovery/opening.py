"""Opening a directory in any state. The result is a base and a log that holds everything above it, or an error that
changes nothing. See ``replay`` for where the commits in the log go."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lowtide.engine.base.borrowing import borrow, give_back, loan_of
from lowtide.engine.base.consumers import ConsumerRow
from lowtide.engine.base.environment import Base
from lowtide.engine.base.exchange import settle
from lowtide.engine.base.leases import Leases
from lowtide.engine.base.types import Txn
from lowtide.engine.garbage.horizon import make_horizon
from lowtide.engine.garbage.sweep import EVERYTHING, sweep_history, sweep_tombstones
from lowtide.engine.log.files import ClosedSegment
from lowtide.engine.log.retention import Retention
from lowtide.engine.log.segment import Scan, scan_segment, segment_paths, sequence_of
from lowtide.engine.log.writer import LogWriter
from lowtide.engine.recovery.cases import Verdict
from lowtide.engine.recovery.members import MEMBERS, unanswered_since
from lowtide.engine.recovery.ownership import Ownership
from lowtide.engine.recovery.replay import Followed, Pending, header_of, replay_into_base, replay_into_memory
from lowtide.errors import CorruptionError, UsageError
from lowtide.options import Options
from lowtide.system.disk import Disk

logger = logging.getLogger("lowtide")

FORMAT = 2
"""Format 1 has no pins, no consumers and another kind of index; a store of format 1 is converted when it is opened."""

MANIFEST = "store.json"
LOCK = "lock"
BACKUP = "backup.json"
"""Marks a directory as a backup; see upkeep.destination. Opening the directory removes it, since the store may then get
commits of its own."""

CACHE = "cache"
"""The directory of Spark's columnar cache. It may be deleted at any time."""

ARCHIVES = "archives.json"
"""Names the archives that have the store's history. It may be deleted at any time."""

_OURS = {
    *(MANIFEST, MANIFEST + ".tmp", LOCK, BACKUP, BACKUP + ".tmp"),
    *("base", "base.tmp", "log", "published", "staging", MEMBERS, CACHE, ARCHIVES),
}


@dataclass(frozen=True, slots=True)
class OpenedFiles:
    """The files of an open store. ``case`` is the row of the table of start-up cases, ``replayed`` the number of
    commits replayed from the log, ``loan`` the object that returns the base. The base holds the commits up to
    ``boundary``, and ``pending`` those above it, if there are any."""

    store_id: bytes
    base: Base
    loan: int
    log: LogWriter
    last_ts: int
    boundary: int
    case: str
    replayed: int
    pending: Pending | None


def path_of(path: object) -> Path:
    """The absolute path of a store, or a UsageError."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"the path of a store must be a string or a path, not {path!r}")
    if not os.fspath(path):
        raise UsageError('an empty path names no store; for the current directory write "."')
    try:
        whole = Path(path).absolute()
        os.stat(whole)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return whole
    except (TypeError, ValueError, OSError) as error:
        raise UsageError(f"{path!r} cannot be the path of a store: {error}") from error
    return whole


def check_directory(path: Path) -> None:
    """Raise UsageError for a path that is not a store and must not become one."""
    if not path.exists():
        return
    if not path.is_dir():
        raise UsageError(f"{path} is a file; a store is a directory")
    strangers = sorted(each.name for each in path.iterdir() if each.name not in _OURS)
    if strangers and not (path / MANIFEST).exists():
        raise UsageError(
            f"{path} is not a Lowtide store and not empty (it holds {strangers[0]!r}); choose another directory"
        )


def open_files(
    path: Path, options: Options, *, taking_over: bool = False, followed: Followed | None = None
) -> OpenedFiles:
    """Open or create the store in ``path``, which the caller owns, and bring its base up to date.

    If the caller is ``taking_over`` from an owner that has ended, other processes are waiting for it. The base is then
    left as it is, and the background later drops what was kept for the snapshots and pins of that owner. The part of
    the log that the caller has ``followed`` is not read again.
    """
    case, made = "clean", None
    if not (path / MANIFEST).exists():
        if (path / BACKUP).exists():
            raise UsageError(f"{path} is a backup that was never finished; run the backup again, or open another one")
        case, made = _make(path, options)
    else:
        _tidy(path, options)
    store_id, written_by = read_manifest(path / MANIFEST)
    base = made or borrow(path / "base", options.map_size, create=written_by == 1, owner=True)
    loan = loan_of(base)
    try:
        if written_by == 1:
            base.write(lambda txn: base.history.rebuild_index(base.env, txn))
        if taking_over:
            found = replay_into_memory(base, path / "log", store_id, followed)
        else:
            found = replay_into_base(base, path / "log", store_id)
        verdict, boundary = found.verdict, found.boundary
        log = LogWriter(options.disk, path / "log", store_id, options.segment_bytes, options.clock.time)
        _resume(log, options.disk, path / "log", verdict, boundary)
        last_ts = max(boundary, verdict.last_ts)
        held_upto = last_ts if found.pending is None else boundary
        log.release(retained_from(log, base, path, options, held_upto))
        _take_back_consumers(base, last_ts)
        if not taking_over:
            Leases(base, options.clock.time, owner=True).expire()
            _sweep(base, last_ts)
        if written_by != FORMAT:
            _write_manifest(path, store_id, options.disk)
    except BaseException:
        give_back(base, owner=loan)
        raise
    if verdict.case != "clean":
        case = verdict.case
        logger.warning("%s: %s; %d commits were replayed from the log", path, case, found.commits)
    return OpenedFiles(
        store_id=store_id,
        base=base,
        loan=loan,
        log=log,
        last_ts=last_ts,
        boundary=held_upto,
        case=case,
        replayed=found.commits,
        pending=found.pending,
    )


@contextlib.contextmanager
def recovered(path: Path, options: Options) -> Iterator[OpenedFiles]:
    """The recovered files of a store that no process owns. This process owns them until the block ends, and other
    processes wait."""
    with contextlib.ExitStack() as stack:
        stack.callback(Ownership(path / LOCK, passing=True).release)
        opened = open_files(path, options)
        stack.callback(give_back, opened.base, owner=opened.loan)
        stack.callback(opened.log.close)
        yield opened


def _tidy(path: Path, options: Options) -> None:
    """Remove the leftovers of an interrupted compaction, and the mark of a backup.

    A backup may have been restored over a store with later commits. The cache of those commits is then invalid.
    """
    settle(path / "base")
    if (path / BACKUP).exists():
        shutil.rmtree(path / CACHE, ignore_errors=True)
        (path / BACKUP).unlink()
        options.disk.sync_directory(path)


def _make(path: Path, options: Options) -> tuple[str, Base]:
    """Create the files of a new store. The manifest comes last, so a store without one was never finished. Returns the
    row of the table of start-up cases, and the base, borrowed by the owner."""
    half_made = (path / "base").exists() or (path / "log").exists()
    if half_made:
        _discard_half_made(path)
    store_id = os.urandom(16)
    (path / "log").mkdir(mode=0o700)
    (path / "base").mkdir(mode=0o700)
    base = borrow(path / "base", options.map_size, create=True, owner=True)
    try:
        base.initialise(store_id)
        log = LogWriter(options.disk, path / "log", store_id, options.segment_bytes)
        log.start(0, 1)
        log.close()
        options.disk.sync_directory(path / "base")
        _write_manifest(path, store_id, options.disk)
        options.disk.sync_directory(path.parent)
    except BaseException:
        give_back(base, owner=loan_of(base))
        raise
    return "half-made" if half_made else "fresh", base


def _write_manifest(path: Path, store_id: bytes, disk: Disk) -> None:
    temporary = path / (MANIFEST + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as file:
        json.dump({"format": FORMAT, "store": store_id.hex()}, file)
        file.flush()
        os.fsync(file.fileno())
    disk.sync_directory(path)
    os.rename(temporary, path / MANIFEST)
    disk.sync_directory(path)


def _discard_half_made(path: Path) -> None:
    """Remove what an interrupted creation left, after making sure that nothing was ever committed to it.

    The log alone shows this: every commit was in it, and a log whose first commits were released begins with a later
    one.
    """
    for segment in segment_paths(path / "log") if (path / "log").exists() else ():
        scan = scan_segment(segment, segment.read_bytes())
        if scan.frames or (scan.header is not None and scan.header.first_ts > 1):
            raise CorruptionError(path, f"{MANIFEST} is missing, but the log has commits: restore the file")
    if not any((path / "log").glob("*")) and _holds_commits(path / "base"):
        raise CorruptionError(path, f"{MANIFEST} and the log are missing, but the base holds commits: restore them")
    for name in ("base", "log"):
        shutil.rmtree(path / name, ignore_errors=True)


def _holds_commits(directory: Path) -> bool:
    try:
        base = Base(directory, 1 << 30)
    except CorruptionError:
        return False
    try:
        return bool(base.read_boundary())
    finally:
        base.close()


def read_manifest(path: Path) -> tuple[bytes, int]:
    """The id of the store, and the format it was written in."""
    try:
        manifest = json.loads(path.read_text())
        version, store_id = manifest["format"], bytes.fromhex(manifest["store"])
    except (ValueError, KeyError, TypeError, RecursionError, IsADirectoryError) as error:
        raise CorruptionError(path, f"cannot be decoded: {error!r}") from error
    if version not in (1, FORMAT):
        age = "an older" if isinstance(version, int) and version < FORMAT else "a newer"
        raise UsageError(
            f"{path.parent} has {age} format, {version}; this release of Lowtide reads format {FORMAT}: "
            "open it with the release that wrote it"
        )
    return store_id, version


def _resume(log: LogWriter, disk: Disk, directory: Path, verdict: Verdict, boundary: int) -> None:
    """Prepare the log for appending: erase a torn tail, remove files that are not needed, continue after the last
    frame."""
    for spare in directory.glob("spare-*.tmp"):
        disk.remove(spare)
    obsolete = list(verdict.obsolete)
    needed = verdict.needed
    if needed and verdict.cut:
        tail = needed[-1]
        file = disk.open(tail.path)
        file.write(tail.end, bytes(file.size - tail.end))
        file.sync()
        file.close()
    if needed and needed[-1].last_ts >= boundary:
        full = [*verdict.older, *needed]
        log.resume(needed[-1], [_closed(scan, following) for scan, following in pairwise(full)])
    else:
        obsolete += [scan.path for scan in (*verdict.older, *needed)]
        log.start(boundary, max(map(sequence_of, obsolete), default=0) + 1)
    for path in obsolete:
        disk.remove(path)
    disk.sync_directory(directory)


def _closed(scan: Scan, following: Scan) -> ClosedSegment:
    """The record of a full segment. It is full because another one follows it."""
    assert following.header is not None
    last_ts = following.header.first_ts - 1
    return ClosedSegment(scan.path, last_ts, scan.end, scan.size, scan.path.stat().st_mtime)


def retained_from(log: LogWriter, base: Base, path: Path, options: Options, boundary: int) -> int:
    """The commit up to which the log may be released. Recovery needs the commits above ``boundary``. The change feed
    needs more. Joined processes need the commits that they have sent but that are not answered yet.

    Nothing is kept for a consumer whose next commit is gone: it gets ChangesLost regardless.
    """
    full = log.full_segments
    if not full:
        return 0
    oldest = None
    with contextlib.suppress(FileNotFoundError):  # an interrupted release did this already
        oldest = header_of(full[0].path)
    kept = oldest.first_ts if oldest is not None else 0
    positions = [row.position for _, row in base.read(base.consumers.all) if row.position + 1 >= kept]
    retention = Retention(options.feed_bytes, options.consumer_bytes, options.consumer_age)
    floor = retention.floor(full, boundary, positions, options.clock.time(), log.position)
    return min(floor, unanswered_since(path))


def _take_back_consumers(base: Base, last_ts: int) -> None:
    """Move consumers back to ``last_ts``. With relaxed durability a power loss may lose commits that a consumer has
    acknowledged, and the consumer must see the new commits that get the same timestamps."""

    def change(txn: Txn) -> None:
        for name, row in base.consumers.all(txn):
            if row.position > last_ts:
                base.consumers.put(txn, name, ConsumerRow(last_ts, row.acknowledged))

    if any(row.position > last_ts for _, row in base.read(base.consumers.all)):
        base.write(change)


def _sweep(base: Base, last_ts: int) -> None:
    """Drop what was kept for the snapshots of an earlier owner. The snapshots ended with it; the pins did not."""
    sweep_history(base, lambda: make_horizon("exact", (), last_ts), [EVERYTHING], 0)
    sweep_tombstones(base, last_ts, 1 << 62)
