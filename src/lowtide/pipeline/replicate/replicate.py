"""``replicate``: applies the change stream of one store to another, one transaction per batch of commits.

A round takes a snapshot of the source. Known collections are followed: the changes from the last position up to the
snapshot are applied in batches of whole commits, with the new position. A collection that is new to the replica, or
that a rename, a bulk load or a change of its indexes or schema has replaced, is copied from the snapshot: the
differences are written in parts, and then recorded in the state. Each step can be repeated, and a step that is done is
recorded in its own transaction, so the process can be killed at any point.

The replication is a named consumer of the source, so the log is kept for it. If the log was lost anyway, everything is
copied again, by its differences.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lowtide
from lowtide.documents.catalog import DOCUMENTS, check_collection_name
from lowtide.engine import MANIFEST, check_name, read_manifest
from lowtide.errors import ChangesLost, UsageError
from lowtide.feed.change import Change
from lowtide.pipeline.replicate.replica import PLAIN, UNKNOWN, CollectionShape, Latest, Replica, ReplicaState, shape_of
from lowtide.sharing.loading.staged_changes import StagedChange
from lowtide.store.kinds import is_reserved
from lowtide.store.store import backend_of
from lowtide.store.transactions import Snapshot
from lowtide.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_CHANGES: Final = 10_000
BATCH_BYTES: Final = 16 << 20
_WAIT: Final = 1.0
"""Seconds that a following replication waits for the next commit before it checks whether to continue."""


@dataclass(frozen=True)
class ReplicateReport:
    """What a replication did. ``commit`` is the commit of the source that the destination is at. ``changes`` were
    applied in ``batches`` transactions; ``copied`` documents and values, of the collections and keyspaces in
    ``resynced``, came from a snapshot."""

    source: str
    destination: str
    name: str
    commit: int
    changes: int
    batches: int
    copied: int
    resynced: tuple[str, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)


def replicate(
    spark: SparkSession | None,
    source_path: str | Path,
    dest_path: str | Path,
    collections: Iterable[str] | None = None,
    *,
    name: str = "replica",
    keyspaces: Iterable[str] | None = None,
    batch_changes: int = BATCH_CHANGES,
    batch_bytes: int = BATCH_BYTES,
    follow: Callable[[], bool] | None = None,
    progress: Callable[[str], None] | None = None,
) -> ReplicateReport:
    """Bring the store in ``dest_path``, which is created if it does not exist, to the last commit of ``source_path``.

    Without ``collections`` and ``keyspaces``, all of both are replicated, with indexes and schemas; if one is given,
    only what is named. ``name`` names the position, and the consumer of the source's change feed. A batch is at most
    ``batch_changes`` changes and ``batch_bytes``, but at least one commit. With ``follow`` it continues with each
    further commit for as long as ``follow`` returns true. The source may be in use; the destination is owned by this
    process.

    It runs in the driver alone: changes of one store have one order. ``spark`` is accepted as by the other jobs of the
    pipeline, and may be None.
    """
    started = SYSTEM_CLOCK.monotonic()
    source_path, dest_path = Path(source_path).absolute(), Path(dest_path).absolute()
    if source_path.resolve() == dest_path.resolve():
        raise UsageError(f"the source and the destination are the same store, {source_path}; give two")
    if not (source_path / MANIFEST).exists():
        raise UsageError(f"there is no Lowtide store in {source_path} to replicate")
    check_name(name, "replication")
    if batch_changes < 1 or batch_bytes < 1:
        raise UsageError(f"a batch has at least one change and one byte, not {batch_changes} and {batch_bytes}")
    selection = _Selection.of(collections, keyspaces)
    with lowtide.open(source_path, read_only=True) as source, lowtide.open(dest_path) as dest:
        job = _Replication(
            source=source,
            source_id=read_manifest(source_path / MANIFEST)[0],
            replica=Replica(dest, name),
            name=name,
            selection=selection,
            batch=_Size(batch_changes, batch_bytes),
            tell=progress or _silent,
        )
        commit = job.round()
        while follow is not None and follow():
            with source.watch(since=commit, timeout=_WAIT) as coming:
                if next(coming, None) is not None:
                    commit = job.round()
    return ReplicateReport(
        source=str(source_path),
        destination=str(dest_path),
        name=name,
        commit=commit,
        changes=job.changes,
        batches=job.batches,
        copied=job.copied,
        resynced=tuple(sorted(job.resynced)),
        seconds=SYSTEM_CLOCK.monotonic() - started,
    )


def _silent(step: str) -> None:
    pass


@dataclass(frozen=True)
class _Size:
    """How large a batch may become."""

    changes: int
    bytes: int


@dataclass(frozen=True)
class _Selection:
    """What is replicated; None for all."""

    collections: tuple[str, ...] | None
    keyspaces: tuple[str, ...] | None

    @classmethod
    def of(cls, collections: Iterable[str] | None, keyspaces: Iterable[str] | None) -> _Selection:
        if collections is None and keyspaces is None:
            return cls(None, None)
        if isinstance(collections, str) or isinstance(keyspaces, str):
            raise UsageError("collections and keyspaces are lists of names, not one string")
        names = tuple(sorted(keyspaces or ()))
        if reserved := [each for each in names if is_reserved(each)]:
            raise UsageError(f"keyspace {reserved[0]!r} belongs to a kind of data; name the collection instead")
        return cls(tuple(sorted(map(check_collection_name, collections or ()))), names)

    def shapes(self, snapshot: Snapshot) -> dict[str, CollectionShape]:
        """The selected collections that exist."""
        return {each: shape_of(snapshot, each) for each in snapshot.list_collection_names() if self.has(each)}

    def has(self, collection: str) -> bool:
        """Whether a collection is selected."""
        return self.collections is None or collection in self.collections

    def values(self, store: lowtide.Store) -> list[str]:
        """The selected keyspaces that exist."""
        names = [each for each in store.keyspaces() if not is_reserved(each)]
        return [each for each in names if self.keyspaces is None or each in self.keyspaces]


@dataclass(kw_only=True)
class _Replication:
    """A replication while it runs."""

    source: lowtide.Store
    source_id: bytes
    replica: Replica
    name: str
    selection: _Selection
    batch: _Size
    tell: Callable[[str], None]
    changes: int = 0
    batches: int = 0
    copied: int = 0
    resynced: set[str] = field(default_factory=set)

    def round(self) -> int:
        """Bring the replica to the last commit of the source, and return that."""
        state = self.replica.state()
        self._keep_log(state)
        with self.source.snapshot() as snapshot:
            shapes = self.selection.shapes(snapshot)
            if state is None or not self._can_follow(state, snapshot.ts):
                begun = () if state is None else filter(self.selection.has, state.collections)
                state = self._nothing(snapshot.ts, {*shapes, *begun})
                stale: Collection[str] = state.collections
                values = self.selection.values(self.source)
            else:
                stale, values = _stale(shapes, state), []
                # Also on the way: a collection may look as before when the next round, after a kill, finds it.
                state = state.having(collections=state.collections | dict.fromkeys(stale, UNKNOWN))
                state = self._follow(state, shapes, stale, snapshot.ts)
            if stale or values:
                # First, so that what is copied is known, and dropped, if the source drops it before the copy is done.
                self.tell("recording what is copied")
                self.replica.apply({}, {}, state)
                self._copy(snapshot, shapes, stale, values)
            if state.copying or stale or state.position < snapshot.ts:
                self.tell("recording the position")
                done = state.having(position=snapshot.ts, collections=shapes, copying=False)
                self.replica.apply({}, {}, done)
            self.tell("acknowledging")
            self.source.consumer(self.name).ack(snapshot.ts)
            return snapshot.ts

    def _nothing(self, ts: int, names: set[str]) -> ReplicaState:
        """The state of a replica of which nothing is known to be right."""
        selection = (self.selection.collections, self.selection.keyspaces)
        return ReplicaState(self.source_id, ts, selection, dict.fromkeys(names, UNKNOWN), copying=True)

    def _keep_log(self, state: ReplicaState | None) -> None:
        """Have the source keep the log from the replica's position on, or from now on."""
        try:
            self.source.consumer(self.name, None if state is None else state.position)
        except (ChangesLost, UsageError):  # it is lost, or of another store
            self.source.consumer(self.name)

    def _can_follow(self, state: ReplicaState, last: int) -> bool:
        """Whether the changes since the replica's position lead to the source as it is."""
        selection = (self.selection.collections, self.selection.keyspaces)
        if state.copying or state.source != self.source_id:
            return False
        if state.position > last or state.selection != selection:
            return False
        try:
            if state.position < last:
                backend_of(self.source).feed.check_kept(state.position)
        except ChangesLost:
            return False
        return True

    # Following

    def _follow(
        self, state: ReplicaState, shapes: dict[str, CollectionShape], stale: Collection[str], until: int
    ) -> ReplicaState:
        """Apply the changes of the collections that are not stale, and of keyspaces; returns the state after that."""
        if state.position == until:
            return state
        known = {shape.keyspace: name for name, shape in shapes.items() if name not in stale}
        values = set(self.selection.values(self.source))
        state = state.having(collections={**state.collections, **{each: shapes[each] for each in known.values()}})
        feed = backend_of(self.source).feed
        found = feed.reader(state.position, [*known, *values], False, exactly=True).read(until)
        for batch in _batches(found, self.batch):
            documents: dict[str, Latest] = {}
            entries: dict[str, Latest] = {}
            for change in batch:
                is_document = change.keyspace in known
                target = documents if is_document else entries
                name = known[change.keyspace] if is_document else change.keyspace
                target.setdefault(name, {})[change.key] = StagedChange(change.ts, change.value)
            state = state.having(position=batch[-1].ts)
            self.tell(f"applying {len(batch):,} changes up to commit {state.position}")
            self.replica.apply(documents, entries, state)
            self.changes += len(batch)
            self.batches += 1
        return state

    # Copying

    def _copy(
        self, snapshot: Snapshot, shapes: dict[str, CollectionShape], stale: Collection[str], values: Collection[str]
    ) -> None:
        """Make stale collections, and keyspaces, equal to the snapshot's."""
        for name in sorted(stale):
            self.resynced.add(name)
            shape = shapes.get(name)
            if shape is None:
                self.tell(f"dropping collection {name!r}")
                self.replica.drop(name)
                continue
            self.tell(f"copying collection {name!r}")
            self.replica.loosen(name, shape)
            for part in _parts(self.replica.differing(snapshot, name, shape.keyspace), self.batch, snapshot.ts):
                self.tell(f"writing {len(part):,} documents of collection {name!r}")
                self.replica.apply({name: part}, {}, None)
                self.copied += len(part)
            self.tell(f"defining collection {name!r}")
            self.replica.define(name, shape)
        for name in sorted(values):
            self.resynced.add(name)
            self.tell(f"copying keyspace {name!r}")
            for part in _parts(self.replica.differing_values(snapshot, name), self.batch, snapshot.ts):
                self.replica.apply({}, {name: part}, None)
                self.copied += len(part)


def _stale(shapes: dict[str, CollectionShape], state: ReplicaState) -> set[str]:
    """The collections whose changes since the replica's position are not all in their keyspace's log: a rename or a
    bulk load gave them another keyspace, they are gone, or their indexes or schema are others. A new collection without
    indexes and schema has all of its documents in the log."""
    stale = {name for name in state.collections if name not in shapes}
    for name, shape in shapes.items():
        if name in state.collections:
            is_known = state.collections[name] == shape
        else:
            is_known = shape == CollectionShape(DOCUMENTS + name, PLAIN)
        if not is_known:
            stale.add(name)
    return stale


def _batches(changes: Iterator[Change], size: _Size) -> Iterator[list[Change]]:
    """The changes in batches of whole commits."""
    batch: list[Change] = []
    weight = 0
    for change in changes:
        if batch and change.ts != batch[-1].ts and (len(batch) >= size.changes or weight >= size.bytes):
            yield batch
            batch, weight = [], 0
        batch.append(change)
        weight += len(change.key) + len(change.value or b"")
    if batch:
        yield batch


def _parts(found: Iterator[tuple[bytes, bytes | None]], size: _Size, ts: int) -> Iterator[Latest]:
    """What a snapshot has, in parts."""
    part: Latest = {}
    weight = 0
    for key, value in found:
        part[key] = StagedChange(ts, value)
        weight += len(key) + len(value or b"")
        if len(part) >= size.changes or weight >= size.bytes:
            yield part
            part, weight = {}, 0
    if part:
        yield part
