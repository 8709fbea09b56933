"""Applying a checkpoint: rows, history, marks and boundary in one LMDB transaction.

The background thread, the helper process and recovery use the same function. They differ only in where the chains come
from. The function depends only on LMDB, the chains and the live snapshots.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from operator import itemgetter

from lowtide.engine.base.codec import encode_ts
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval
from lowtide.engine.base.marks import put_marks
from lowtide.engine.base.pin_table import oldest_writer_among
from lowtide.engine.base.types import Txn
from lowtide.engine.checkpoint.plan import plan_key
from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.garbage.ledger import Cell
from lowtide.engine.garbage.living import Living, with_pins
from lowtide.engine.log.frame import Commit
from lowtide.engine.types import KEYSPACE_PREFIX, Names, after_prefix
from lowtide.engine.versions.chain import Chain
from lowtide.engine.versions.layers import Chains
from lowtide.errors import Error

_BATCH = 4096
_FEW = 4
_TS = itemgetter(0)


class _Heads(dict[int, bytes]):
    """The first bytes of rows, by timestamp: most commits have many rows."""

    def __missing__(self, ts: int) -> bytes:
        head = self[ts] = encode_ts(ts)
        return head


@dataclass(frozen=True, slots=True)
class CheckpointTarget:
    """The range of a checkpoint: from which boundary to which.

    ``sample`` returns the horizon of the live snapshots and the oldest writer. It is called inside the write
    transaction, in which the pins are read too: a snapshot taken at a pin then counts even if the pin was removed
    meanwhile.
    """

    boundary: int
    upto: int
    sample: Callable[[], tuple[Exact, int | None]]


@dataclass(frozen=True, slots=True)
class Applied:
    """What a checkpoint wrote: the number of rows and of versions moved to the history, and ``cells``, which counts
    these versions by the snapshots that see them. ``cells`` is None if another process had already made the
    checkpoint."""

    rows: int
    kept: int
    cells: dict[Cell, int] | None = field(default_factory=dict, compare=False)


class BoundaryMoved(Error):
    """Another process moved the boundary meanwhile: the helper of a killed owner finished its work."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes since the last checkpoint: the chains, and the names of new keyspaces."""

    chains: Chains
    names: Names


def changes_of(commits: Iterable[Commit], horizon: Exact) -> Changes:
    """The changes of ``commits``, without the versions that no live snapshot sees. Pins are older than all of them."""
    changes = Changes({}, {})
    chains = changes.chains
    alone = not horizon.live
    for commit in commits:
        ts, writes = commit.ts, commit.writes
        if commit.names is not None:
            changes.names.update(commit.names)
        if alone:  # loops in C for many writes, because a takeover waits for this
            if len(writes) > _FEW:
                chains.update(zip(writes, zip(repeat(ts), writes.values(), repeat(None)), strict=False))
            else:
                for key, value in writes.items():
                    chains[key] = (ts, value, None)
            continue
        for key, value in writes.items():
            older: Chain | None = chains.get(key)
            if older is not None and not horizon.needs(older[0], ts):
                older = older[2]
            chains[key] = (ts, value, older)
    return changes


def apply_checkpoint(base: Base, changes: Changes, target: CheckpointTarget) -> Applied:
    """Move the base from ``target.boundary`` to ``target.upto``: completely or, on any error, not at all.

    The boundary inside the transaction decides: if another process has moved it meanwhile, nothing is left to do.
    """
    chains = changes.chains
    keys = sorted(chains)

    def change(txn: Txn) -> Applied:
        found = base.boundary_in(txn)
        if found is not None and found >= target.upto:
            return Applied(0, 0, None)
        if found != target.boundary:
            raise BoundaryMoved(f"the boundary of {base.directory} is {found}, not {target.boundary}")
        horizon, oldest_writer = target.sample()  # point: checkpoint.sampled
        rows = [row for _, row in base.pins.all(txn)]
        living = with_pins(horizon, rows).for_ended()
        oldest_writer = oldest_writer_among(rows, oldest_writer)
        cells: dict[Cell, int] = {}
        newest: dict[bytes, int] = {}
        for batch in _batches(keys):
            of_batch = list(map(chains.__getitem__, batch))
            _apply_batch(
                base, txn, keys=batch, chains=of_batch, living=living, oldest_writer=oldest_writer, cells=cells
            )
            prefix = batch[0][:KEYSPACE_PREFIX]
            newest[prefix] = max(newest.get(prefix, 0), max(map(_TS, of_batch)))
        base.put_keyspaces(txn, changes.names)
        put_marks(base, txn, target.boundary, target.upto, newest)
        base.put_boundary(txn, target.upto)  # point: checkpoint.boundary
        return Applied(len(keys), sum(cells.values()), cells)

    return base.write(change)


def _batches(keys: list[bytes]) -> Iterator[list[bytes]]:
    """The sorted ``keys`` in batches, each of one keyspace."""
    start = 0
    while start < len(keys):
        beyond = after_prefix(keys[start][:KEYSPACE_PREFIX])
        end = bisect_left(keys, beyond, start) if beyond is not None else len(keys)
        yield keys[start : min(end, start + _BATCH)]
        start = min(end, start + _BATCH)


def _apply_batch(
    base: Base,
    txn: Txn,
    keys: list[bytes],
    chains: list[Chain],
    living: Living,
    oldest_writer: int | None,
    cells: dict[Cell, int],
) -> None:
    """Apply keys of one keyspace, which have these chains, and count in ``cells`` the versions that move to the
    history."""
    horizon = living.of(keys[0])
    heads = _Heads()
    puts: list[tuple[bytes, bytes]] = []
    planned: Iterable[tuple[bytes, Chain]] = zip(keys, chains, strict=True)
    old_rows: dict[bytes, bytes] = {}
    if horizon.live:
        old_rows = dict(txn.cursor(base.rows).getmulti(keys))
    else:
        # No superseded version is needed, so only a deletion has to be planned.
        puts = [(key, heads[ts] + value) for key, (ts, value, _) in planned if value is not None]
        deleted = len(puts) < len(keys)
        planned = [each for each in zip(keys, chains, strict=True) if each[1][1] is None] if deleted else ()
    seen_by_nobody = encode_ts(horizon.unseen_after + 1)
    deletes: list[bytes] = []
    keep: list[tuple[Interval, bytes]] = []
    for key, chain in planned:
        old_row = old_rows.get(key)
        if chain[1] is not None and chain[2] is None and (old_row is None or old_row >= seen_by_nobody):
            # The result of plan_key, inlined: nothing that this write supersedes is needed.
            puts.append((key, heads[chain[0]] + chain[1]))
            continue
        plan = plan_key(key, chain, old_row, horizon, oldest_writer)
        keep += plan.keep
        if plan.row is None:
            deletes.append(key)
        else:
            puts.append((key, plan.row))
        if plan.tombstone is not None:
            txn.put(encode_ts(plan.tombstone) + key, b"", db=base.tombstones)
    txn.cursor(base.rows).putmulti(puts)
    for key in deletes:
        txn.delete(key, db=base.rows)
    if keep:
        base.history.add(txn, keep)
    prefix = keys[0][:KEYSPACE_PREFIX]
    for interval, _ in keep:
        seers = horizon.seers(interval.begin, interval.end)
        assert seers is not None, "kept, so someone sees it: all of it ended at or before the horizon's bound"
        cells[prefix, *seers] = cells.get((prefix, *seers), 0) + 1
