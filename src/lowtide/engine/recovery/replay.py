"""Replays the commits in the log above the boundary: into the base or, in a takeover, into memory.

A replay into the base is a checkpoint, made by the same function. A replay into memory restores the state that the last
owner had: the base as of the boundary, and the commits above it in chains, which the next checkpoint writes to the
base. This needs no write of rows, so the processes that wait for the new owner wait only until the log has been read. A
process that has followed the log already has most of these commits in chains, and reads only the rest; see
``Followed``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lowtide.engine.base.codec import MAX_TS
from lowtide.engine.base.environment import Base
from lowtide.engine.checkpoint.apply import BoundaryMoved, Changes, CheckpointTarget, apply_checkpoint, changes_of
from lowtide.engine.garbage.horizon import make_horizon
from lowtide.engine.log.frame import Commit, decode, decode_payloads
from lowtide.engine.log.segment import HEADER_SIZE, Header, Scan, decode_header, scan_segment, segment_paths
from lowtide.engine.recovery.cases import Verdict, judge
from lowtide.errors import CorruptionError
from lowtide.system.cycles import count_as_old, without_collector
from lowtide.system.messages import UNDECODABLE

_MANY: Final = 512
"""Commits that are decoded together."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Commits above the boundary that only the log has: the newest version of each key that they changed, the names of
    new keyspaces, and an upper bound of their bytes in the log."""

    changes: Changes
    bytes: int


@dataclass(frozen=True, slots=True)
class Followed:
    """The part of the log that a process has read before it takes the store over: all commits after ``after``, up to
    ``upto``. ``changes`` has the newest version of each key that they changed, and perhaps older ones. No thread
    changes it any more."""

    after: int
    upto: int
    changes: Changes


@dataclass(frozen=True, slots=True)
class Replayed:
    """The verdict on the log, the boundary of the base before the replay, and how many commits were replayed. They are
    in the base or in ``pending``."""

    verdict: Verdict
    boundary: int
    commits: int
    pending: Pending | None = None


def replay_into_base(base: Base, log_directory: Path, store_id: bytes) -> Replayed:
    """Judge the log and bring the base up to date. Retries if the helper of a killed owner moved the boundary
    meanwhile."""
    with without_collector():
        while True:
            boundary = _check_base(base, store_id)
            verdict = _examine(log_directory, store_id, boundary)
            try:
                return Replayed(verdict, boundary, _apply(base, verdict, boundary))
            except BoundaryMoved:
                continue


def replay_into_memory(base: Base, log_directory: Path, store_id: bytes, followed: Followed | None = None) -> Replayed:
    """Judge the log and read the commits above the boundary that were not ``followed``. The boundary does not move.

    The helper of a killed owner may still be about to move it. The helper asks its owner for the live snapshots inside
    its write transaction, and ends if the owner does not answer. So once this process, which now owns the store, has
    had a write transaction, the boundary no longer moves.
    """
    with without_collector():
        base.write(lambda txn: None)
        boundary = _check_base(base, store_id)
        if followed is not None and (rest := _read_rest(log_directory, store_id, boundary, followed)) is not None:
            count_as_old()
            return rest
        verdict = _examine(log_directory, store_id, boundary)
        if verdict.last_ts <= boundary:
            return Replayed(verdict, boundary, 0)
        # Every snapshot of this process begins after the last of these commits, and every pin is below the boundary.
        changes = changes_of(_decoded(verdict, boundary), make_horizon("exact", (), verdict.last_ts))
        for scan in verdict.needed:
            scan.frames.clear()  # the chains have everything that is needed from the frames
        size = sum(scan.end for scan in verdict.needed)
        count_as_old()
        return Replayed(verdict, boundary, verdict.last_ts - boundary, Pending(changes, size))


def _read_rest(directory: Path, store_id: bytes, boundary: int, followed: Followed) -> Replayed | None:
    """Judge the log from the last followed commit on, and read the commits after it. Earlier commits were checked when
    they were followed. None if the log does not hold all of them or is damaged: then the caller judges the whole log,
    which reports what is wrong."""
    if not followed.after <= boundary < followed.upto:
        return None
    try:
        verdict = _examine(directory, store_id, followed.upto)
    except CorruptionError:
        return None
    kept = [(scan, scan.header.first_ts) for scan in (*verdict.older, *verdict.needed) if scan.header is not None]
    if not kept or kept[0][1] > boundary + 1 or verdict.last_ts < followed.upto:
        return None
    # As in ``replay_into_memory``, no snapshot sees older versions.
    chains = {
        key: chain if chain[2] is None else (chain[0], chain[1], None)
        for key, chain in followed.changes.chains.items()
        if chain[0] > boundary
    }
    later = changes_of(_decoded(verdict, followed.upto), make_horizon("exact", (), verdict.last_ts))
    chains.update(later.chains)
    for scan in verdict.needed:
        scan.frames.clear()
    first = max(number for number, (_, first_ts) in enumerate(kept) if first_ts <= boundary + 1)
    changes = Changes(chains, {**followed.changes.names, **later.names})
    size = sum(scan.end for scan, _ in kept[first:])
    return Replayed(verdict, boundary, verdict.last_ts - boundary, Pending(changes, size))


def _check_base(base: Base, store_id: bytes) -> int:
    boundary = base.read_boundary()
    if boundary is None:
        raise CorruptionError(base.directory, "the base has lost its boundary, so its contents are unknown")
    if boundary > MAX_TS:
        raise CorruptionError(base.directory, f"the base cannot end with commit {boundary}")
    if base.store_id() != store_id:
        raise CorruptionError(base.directory, "this base belongs to another store")
    base.history_below = max(base.history_below, boundary)  # a helper may have moved it since the base was borrowed
    return boundary


def _examine(directory: Path, store_id: bytes, boundary: int) -> Verdict:
    if not directory.is_dir():
        raise CorruptionError(directory, "the log is missing; commits after the last checkpoint are lost")
    paths = segment_paths(directory)
    headers = [header_of(path) for path in paths]
    needed = max((i for i, each in enumerate(headers) if each is not None and each.first_ts <= boundary + 1), default=0)
    # Commits below the boundary are not read here: only the change feed may read them, and it checks them then.
    scans = [Scan(path, path.stat().st_size, header) for path, header in zip(paths, headers, strict=True)][:needed]
    for scan in scans:
        scan.end = scan.size
    scans += [scan_segment(path, path.read_bytes()) for path in paths[needed:]]
    return judge(directory, scans, store_id, boundary)


def header_of(path: Path) -> Header | None:
    """The header of a segment; None if it is damaged."""
    with path.open("rb") as file:
        return decode_header(file.read(HEADER_SIZE))


def _above(verdict: Verdict, boundary: int) -> int:
    """How many commits lie above the boundary."""
    return sum(frame.ts > boundary for scan in verdict.needed for frame in scan.frames)


def _decoded(verdict: Verdict, boundary: int) -> Iterator[Commit]:
    """The commits above the boundary, decoded in batches."""
    for scan in verdict.needed:
        frames = [frame for frame in scan.frames if frame.ts > boundary]
        for start in range(0, len(frames), _MANY):
            some = frames[start : start + _MANY]
            try:
                yield from decode_payloads([frame.payload for frame in some], some[0].ts)
            except UNDECODABLE:
                yield from (decode(scan.path, frame) for frame in some)  # raises an error that names the damaged frame


def _apply(base: Base, verdict: Verdict, boundary: int) -> int:
    """Checkpoint the commits above the boundary; return how many. Only pins are live yet, and they all lie below it."""
    replayed = _above(verdict, boundary)
    if not replayed:
        return 0
    upto = verdict.last_ts
    base.history_below = max(base.history_below, upto)  # before the commit that makes it true; see its definition
    horizon = make_horizon("exact", (), upto)
    commits = _decoded(verdict, boundary)
    changes = changes_of(commits, horizon)
    apply_checkpoint(base, changes, CheckpointTarget(boundary, upto, lambda: (horizon, None)))
    return replayed
