"""A first pass over all keys at once, with arrays instead of records: which keys are plain, and where edges lead back.

A key is plain if it is written with versions and read by versions, each read shows an existing version, no two
transactions updated the same version, and no write merged with an equal one. A plain key alone has no anomaly. Its
edges follow from sorting: from version to version, from writer to reader, from reader to the next writer. Only those
that lead back matter for where a history can be cut; the edges themselves are made later, for the keys of transactions
in pieces. All other keys are audited one by one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from lowtide.audit.history import WRITES
from lowtide.pipeline.audit.batches import BACK, COUNT, FIRST, GLIMPSE, Batches, columns_of
from lowtide.pipeline.audit.pieces import Floats, Indexes
from lowtide.pipeline.audit.records import First, KeyShare, Operation, WriteNote, name_of, packed

READS, WRITTEN, DELETES, FINDS_NOTHING, ABORTED, OTHER = (1 << bit for bit in range(6))
"""Traits of a share. OTHER: the key of such a share is not plain."""
_LARGEST: Final = 1 << 62

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def traits_of(key: str, share: KeyShare) -> tuple[int, int]:
    """What kind of share this is, and the version that it read, 0 if none or nothing."""
    facts, traits, seen = share.facts, 0, 0
    if facts.outcome == "aborted":
        plain = facts.version is None and all(each.op == "write" and each.version is None for each in share.operations)
        deletes = any(each.value is None for each in share.operations)
        return ABORTED | (DELETES if deletes else 0) | (0 if plain else OTHER), 0
    for each in share.operations:
        if each.op in WRITES:
            if each.op != "write" or each.version is not None or facts.version is None or traits & WRITTEN:
                return OTHER, 0
            if each.merged:
                return OTHER, 0
            traits |= WRITTEN | (DELETES if each.value is None else 0)
            continue
        read = _version(key, each)
        if read is None or traits & WRITTEN or (traits & READS and read != seen):
            return OTHER, 0
        seen = read
        traits |= READS | (0 if each.version is not None else FINDS_NOTHING)
    return (traits, seen) if facts.outcome == "committed" else (OTHER, 0)


def _version(key: str, read: Operation) -> int | None:
    """The version that a read shows, 0 for nothing; None if it is not that simple."""
    if read.version is None:
        return 0 if read.op == "read" and read.given and read.value is None else None
    within = (read.low or "") <= key and (read.high is None or key < read.high)
    return None if read.given or not read.found or (read.op == "scan" and not within) else read.version


def sketch_keys(batches: Batches) -> Batches:
    """Shares of whole keys (key, name, at, version, number, size) to the edges that lead back, the spans of reads that
    may not fit the others of their transaction, first writes, and the keys that are not plain."""
    filled = [batch for batch in batches if batch.num_rows]
    if filled:
        yield from _Sketch(pa.Table.from_batches(filled)).found()


class _Sketch:
    """The shares of some keys as arrays; ``_code`` numbers the keys."""

    def __init__(self, table: Any) -> None:
        keys = table.column("key").combine_chunks()
        if isinstance(keys, pa.ChunkedArray):
            keys = pa.concat_arrays(keys.chunks)
        encoded = keys.dictionary_encode()
        self._keys = encoded.dictionary
        self._code: Indexes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self._names = table.column("name")
        self._at: Floats = table.column("at").to_numpy()
        versions = table.column("version").to_numpy()
        self._committed: Mask = ~np.isnan(versions)
        self._version: Indexes = np.nan_to_num(versions).astype(np.int64)
        self._seen: Indexes = table.column("number").to_numpy()
        self._traits: Indexes = table.column("size").to_numpy()
        self._other: Mask = np.zeros(len(self._keys), bool)
        self._back: list[tuple[Indexes, Indexes]] = []

    def _of(self, traits: int) -> Mask:
        found: Mask = (self._traits & traits) != 0
        return found

    def _keys_with(self, rows: Mask) -> Mask:
        found = np.zeros(len(self._keys), bool)
        found[self._code[rows]] = True
        return found

    def found(self) -> Batches:
        deleted = self._keys_with(self._of(DELETES))
        self._other |= self._keys_with(self._of(OTHER)) | (deleted & self._keys_with(self._of(FINDS_NOTHING)))
        width = int(max(self._version.max(), self._seen.max())) + 2
        if len(self._keys) * width >= _LARGEST:
            self._other[:] = True
        plain = ~self._other[self._code] & ~self._of(ABORTED)
        writes = np.flatnonzero(plain & self._of(WRITTEN))
        places = self._code[writes] * width + self._version[writes]
        order = np.argsort(places, kind="stable")
        self._writes, self._places = writes[order], places[order]
        repeated = self._places[1:] == self._places[:-1]
        self._other[self._code[self._writes[1:][repeated]]] = True
        spans = self._reads(np.flatnonzero(plain & self._of(READS)), width)
        source, target = self._writes[:-1], self._writes[1:]
        self._edges(source, target, self._code[source] == self._code[target])
        yield from self._back_edges()
        yield from spans
        yield from self._firsts(deleted)
        complex_keys = self._keys.filter(pa.array(self._other))
        if len(complex_keys):
            yield columns_of(COUNT, len(complex_keys), key=complex_keys)

    def _reads(self, reads: Indexes, width: int) -> list[Any]:
        """The edges of reads, and their spans."""
        code, seen = self._code[reads], self._seen[reads]
        begins = np.searchsorted(self._places, code * width)
        ends = np.searchsorted(self._places, (code + 1) * width)
        after = np.searchsorted(self._places, code * width + seen, side="right")
        # The write that a read shows is the last one up to its version; before all writes, it is the first state.
        writer = after - 1
        initial = after <= begins
        known = np.append(self._places, -1)
        exact = ~initial & (known[writer] == code * width + seen)
        rows = np.append(self._writes, -1)
        own = exact & (rows[writer] == reads)
        # Version 0 is before all writes; any other must be that of a write, or older than all of them.
        self._other[code[own | (~initial & ~exact)]] = True
        has_next = after < ends
        following = rows[np.where(has_next, after, -1)]
        updates = reads[(self._traits[reads] & WRITTEN) != 0]
        of_update = np.isin(reads, updates, assume_unique=True)
        both = np.stack([code[of_update], after[of_update]], axis=1)
        _, index, count = np.unique(both, axis=0, return_index=True, return_counts=True)
        self._other[both[index[count > 1], 0]] = True
        self._edges(rows[writer], reads, exact)
        self._edges(reads, following, has_next & (following != reads))
        begin = np.where(exact, np.append(self._version, 0)[rows[writer]], 0).astype(np.float64)
        end = np.where(has_next, np.append(self._version, 0)[following], np.inf)
        own_version = self._version[reads]
        # Spans that all hold the commit before the transaction's own have that in common.
        common = self._committed[reads] & (begin < own_version) & (own_version <= end)
        told = ~common & ~self._other[code] & ((begin > 0) | (end < np.inf))
        if not told.any():
            return []
        apart = self._committed[reads][told].astype(np.int64)
        names = self._names.take(pa.array(reads[told]))
        return [columns_of(GLIMPSE, len(apart), name=names, begin=begin[told], end=end[told], size=apart)]

    def _edges(self, sources: Indexes, targets: Indexes, there: Mask) -> None:
        """Note the edges that lead back, of plain keys, which are known when all have been looked at."""
        sources, targets = sources[there], targets[there]
        leading = self._at[sources] >= self._at[targets]
        self._back.append((sources[leading], targets[leading]))

    def _back_edges(self) -> Batches:
        sources = np.concatenate([source for source, _ in self._back])
        targets = np.concatenate([target for _, target in self._back])
        kept = ~self._other[self._code[sources]]
        if kept.any():
            at, other_at = self._at[sources[kept]], self._at[targets[kept]]
            yield columns_of(BACK, len(at), at=at, other_at=other_at)

    def _firsts(self, deleted: Mask) -> Batches:
        """The first write of each plain key. After a delete, a scan does not tell which state it saw."""
        codes, index = np.unique(self._code[self._writes], return_index=True)
        kept = ~self._other[codes] & ~deleted[codes]
        rows = self._writes[index[kept]]
        if not len(rows):
            return
        keys = self._keys.take(pa.array(codes[kept]))
        names, versions = self._names.take(pa.array(rows)), self._version[rows].tolist()
        payloads = [
            packed(
                First(key, name_of(name), float(version), unread=False, rank=0, write=WriteNote(None, version, False))
            )
            for key, name, version in zip(keys.to_pylist(), names.to_pylist(), versions, strict=True)
        ]
        yield columns_of(FIRST, len(rows), name=names, key=keys, at=self._at[rows], payload=pa.array(payloads))
