"""Selects the blocks of the columnar cache that a read uses. The driver plans them; the tasks read or fill them.

A block is labelled with a commit at which its key range had the content that the snapshot sees. If the last commit that
changed the keyspace is known, that one is used, so all snapshots between two changes share the block. Otherwise the
snapshot's own timestamp is used. A block of an earlier commit is still valid if the log holds all commits since then
and none of them changed the block's range.

So a change invalidates only the blocks whose ranges it touches, provided that the ranges stay the same. The ranges are
therefore stored beside the blocks and reused as long as they are roughly even.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from lowtide.columnar.cache import Block, Cache
from lowtide.engine import EngineSnapshot, LogCursor, tidy
from lowtide.errors import Error
from lowtide.system.messages import UNDECODABLE

KeyRange = tuple[bytes, bytes | None]
"""Keys without the keyspace's prefix, ``low <= key < high``. A ``high`` of None is the end."""

_LAYOUT: Final = 1
"""Increment this when the same documents and schema produce different columns. It changes the names of all blocks."""

_MOST_LOG: Final = 64 << 20
"""Maximum number of log bytes to search for changes. Beyond that, reading the store is faster."""

_CELLS: Final = 20
_LEAST, _MOST = 17, 23
"""Stored cuts are reused while each part has between 17/20 and 23/20 of an even share."""


def content_of(store_id: bytes, keyspace: str, schema: pa.Schema, *details: str | int | None) -> bytes:
    """Return a hash that identifies the content of a read's blocks, apart from their ranges and commits.

    ``details`` is everything besides the schema that affects how documents become rows: the mode, the column for
    corrupt records, the batch size.
    """
    return _hash(_LAYOUT, store_id, keyspace, schema.serialize().to_pybytes(), details)


def _hash(*parts: object) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=20).digest()


def plan_blocks(
    cache: Cache,
    path: Path,
    store_id: bytes,
    snapshot: EngineSnapshot,
    keyspace: str,
    *,
    ranges: Sequence[KeyRange],
    of: bytes,
) -> list[Block]:
    """Return one block per range, for the snapshot of the store in ``path``. ``ranges`` must ascend.

    ``of`` is the content hash from ``content_of``. A returned block that is not in the cache yet must be filled.
    """
    newest = snapshot.unchanged_since(keyspace)
    commit = snapshot.ts if newest is None else newest
    blocks = [Block(_hash(of, low, high).hex(), commit) for low, high in ranges]
    known = cache.commits({block.name for block in blocks})
    older = {
        index: max(commits)
        for index, block in enumerate(blocks)
        if (commits := [each for each in known.get(block.name, ()) if each <= commit]) and max(commits) < commit
    }
    if older:
        prefix = snapshot.keyspace(keyspace).prefix
        cursor = LogCursor(path / "log", store_id, min(older.values()))
        changed = _last_changes(cursor, commit, prefix, ranges)
        for index, kept in older.items() if changed is not None else ():
            if changed is not None and changed[index] <= kept:
                cache.renew(Block(blocks[index].name, kept), commit)
    return blocks


def _last_changes(cursor: LogCursor, upto: int, prefix: bytes, ranges: Sequence[KeyRange]) -> list[int] | None:
    """Return for each range the last commit up to ``upto`` that changed one of its keys, or 0.

    Reads on from the cursor, and closes it. Returns None if the log no longer holds these commits or there is too much
    of it to search.
    """
    starts = [prefix + low for low, _ in ranges]
    ends = [None if high is None else prefix + high for _, high in ranges]
    changed = [0] * len(ranges)
    try:
        for commit in cursor.read(upto):
            if cursor.bytes > _MOST_LOG:
                return None
            for key in commit.writes:
                if key.startswith(prefix) and (index := bisect_right(starts, key) - 1) >= 0:
                    end = ends[index]
                    if end is None or key < end:
                        changed[index] = commit.ts
        return changed
    except (Error, OSError):
        return None
    finally:
        cursor.close()


class _Cuts(msgspec.Struct, frozen=True):
    """Where a keyspace was cut, at a commit."""

    commit: int
    cuts: tuple[bytes, ...]


_decode = msgspec.msgpack.Decoder(_Cuts).decode


def stable_cuts(
    cache: Cache, store_id: bytes, snapshot: EngineSnapshot, keyspace: str, parts: int, within: KeyRange = (b"", None)
) -> list[bytes]:
    """Return cuts as ``snapshot.cuts`` does, reusing those of an earlier read if they are still roughly even."""
    low, high = within
    path = cache.directory / f"{_hash(store_id, keyspace, parts, low, high).hex()}.cuts"
    remembered = _remembered(path)
    if remembered is not None:
        cuts = tidy(remembered.cuts, low, high)
        same = remembered.commit == snapshot.unchanged_since(keyspace)
        if len(cuts) == len(remembered.cuts) and (same or _are_even(snapshot, keyspace, parts, within, cuts)):
            with contextlib.suppress(OSError):
                os.utime(path)
            return cuts
    cuts = snapshot.cuts(keyspace, parts, low or None, high)
    newest = snapshot.unchanged_since(keyspace)
    with contextlib.suppress(OSError):
        cache.make()
        _remember(path, _Cuts(snapshot.ts if newest is None else newest, tuple(cuts)))
    return cuts


def _are_even(snapshot: EngineSnapshot, keyspace: str, parts: int, within: KeyRange, cuts: list[bytes]) -> bool:
    fine = snapshot.cuts(keyspace, parts * _CELLS, within[0] or None, within[1])
    places = [0, *(bisect_left(fine, cut) + 1 for cut in cuts), len(fine) + 1]
    return len(cuts) == parts - 1 and all(_LEAST <= end - start <= _MOST for start, end in pairwise(places))


def _remembered(path: Path) -> _Cuts | None:
    try:
        return _decode(path.read_bytes())
    except (OSError, *UNDECODABLE):
        return None


def _remember(path: Path, cuts: _Cuts) -> None:
    """Write the cuts atomically, so that concurrent readers see all of them or none."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(msgspec.msgpack.encode(cuts))
    os.rename(temporary, path)
