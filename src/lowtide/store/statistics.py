"""The figures of an owned store: what its parts count, and what its snapshots, pins and processes hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.garbage.account import NOTHING, Holder, HolderId, Holding
from lowtide.engine.recovery.members import members_of
from lowtide.engine.transaction.registration import Entry
from lowtide.observe.stats import PinStats, ProcessStats, SnapshotStats, Stats

if TYPE_CHECKING:
    from lowtide.store.owned import OwnedStore


def held_by(
    owned: OwnedStore, entries: list[Entry], pins: list[tuple[str, PinRow]] | None = None
) -> dict[HolderId, Holding]:
    """What each snapshot alone holds, by token, and each pin, by name. A pin counts as long as its row exists."""
    holders = [Holder(entry.token, entry.ts) for entry in entries]
    for name, row in owned.pinning.leases.all() if pins is None else pins:
        holders.append(Holder(name, row.ts, None if row.prefixes is None else frozenset(row.prefixes)))
    return owned.accountant.account(holders)


def stats_of(owned: OwnedStore) -> Stats:
    """The figures of a store at this moment."""
    bound = owned.registry.published
    entries = owned.registry.entries()
    pins = owned.pinning.leases.all()
    held = held_by(owned, entries, pins)
    time = owned.options.clock.time()
    now = owned.options.clock.monotonic()
    layers = owned.versions.layers
    return Stats(
        last_commit=bound,
        low_water_mark=min([entry.ts for entry in entries] + [row.ts for _, row in pins], default=bound),
        boundary=owned.versions.boundary,
        versions=sum(layer.versions for layer in layers),
        chains=sum(len(layer.chains) for layer in layers),
        version_bytes=sum(layer.bytes for layer in layers),
        history=owned.base.count_history(),
        log_bytes=owned.log.bytes_kept,
        snapshots=[SnapshotStats.of(entry, now, held.get(entry.token, NOTHING)) for entry in entries],
        pins=[PinStats.of(name, row, time, held[name]) for name, row in sorted(pins, key=lambda pin: pin[1].ts)],
        collected=owned.committer.collected + owned.collector.swept,
        checkpoints=owned.checkpointer.count,
        checkpoint_failures=owned.checkpointer.failures,
        last_checkpoint_failure=owned.checkpointer.last_failure,
        collect_failures=owned.committer.collect_failures + owned.collector.failures,
        failure=str(owned.failure) if owned.failure is not None else None,
        commits=bound - owned.opened_at,
        conflicts=owned.committer.conflicts,
        expired=owned.registry.expirations,
        last_checkpoint_seconds=owned.checkpointer.last_seconds,
        processes=_processes(owned, pins, held),
    )


def _processes(owned: OwnedStore, pins: list[tuple[str, PinRow]], held: dict[HolderId, Holding]) -> list[ProcessStats]:
    """The processes that have the store open, this one first. What a joined one holds is what its leases hold."""
    _count(owned)
    leased: dict[int, Holding] = {}
    for name, row in pins:
        if row.writer and row.process is not None:
            before, more = leased.get(row.process.pid, NOTHING), held[name]
            leased[row.process.pid] = Holding(before.versions + more.versions, before.bytes + more.bytes)
    members = sorted(members_of(owned.path), key=lambda each: (each.role != "owner", each.since))
    return [ProcessStats.of(each, leased.get(each.pid, NOTHING)) for each in members]


def _count(owned: OwnedStore) -> None:
    """Tell the other processes how much this one has committed itself."""
    commits = owned.registry.published - owned.opened_at - owned.joined.commits
    owned.members.count(commits=max(0, commits), conflicts=max(0, owned.committer.conflicts - owned.joined.conflicts))
