"""The steps of the audit as functions of Arrow batches, as Spark runs them in its tasks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide.audit.history import Name
from lowtide.errors import UsageError
from lowtide.pipeline.audit.batches import (
    ANOMALY,
    BACK,
    COUNT,
    ERROR,
    FIRST,
    GLIMPSE,
    HEADER,
    LINK,
    SCAN,
    Batches,
    TaskOutput,
    by,
    each,
    pausing_collector,
)
from lowtide.pipeline.audit.check import HistoryPiece, broken_instants
from lowtide.pipeline.audit.keys import Audited, audit_key
from lowtide.pipeline.audit.phantoms import Firsts
from lowtide.pipeline.audit.pieces import Pieces, Places, after
from lowtide.pipeline.audit.records import (
    Anomaly,
    First,
    Glimpse,
    KeyShare,
    Link,
    RangeRead,
    TransactionHeader,
    brevity,
    label,
    packed,
    unpacker,
)
from lowtide.pipeline.audit.transactions import Beliefs, Scale, position

KEPT = 20
"""Witnesses of each name that the report gets: the shortest."""


def see_doubted(beliefs: Beliefs, batches: Batches) -> Batches:
    """Of shares, who saw a transaction of unknown outcome."""
    output, unpack = TaskOutput(), unpacker(KeyShare)
    for key, kind, payload in each(batches, "key kind payload"):
        share = unpack(payload)
        for writer in set(beliefs.seen(key, share)):
            output.add(COUNT, name=label(share.facts.name), other=label(writer), kind=kind)
        yield from output.full()
    yield from output.rest()


@pausing_collector
def audit_keys(scale: Scale, believed: Collection[Name], batches: Batches) -> Batches:
    """Shares, sorted by key, to edges, spans, first writes and anomalies."""
    output, unpack = TaskOutput(), unpacker(KeyShare)
    for key, payloads in by("key", batches, "payload"):
        shares = [unpack(payload) for (payload,) in payloads]
        try:
            audited = audit_key(key, shares, believed)
        except UsageError as error:
            output.add(ERROR, name=str(error))
            continue
        _put_audited(
            output,
            audited,
            {share.facts.name: position(share.facts, scale) for share in shares},
            {share.facts.name: share.facts.last for share in shares},
        )
        yield from output.full()
    yield from output.rest()


def _put_audited(
    output: TaskOutput, audited: Audited, at: dict[Name, float | None], commits: dict[Name, int | None]
) -> None:
    labels = {name: label(name) for name in at}
    for link in audited.links:
        source, target = at[link.source], at[link.target]
        output.add(
            LINK,
            # Names are needed only where a position is still to be found.
            name=labels[link.source] if source is None else None,
            other=labels[link.target] if target is None else None,
            at=source,
            other_at=target,
            kind=link.kind,
            payload=packed(link),
        )
    for glimpse in audited.glimpses:
        put_glimpse(output, glimpse, labels[glimpse.name], commits[glimpse.name])
    for first in audited.firsts:
        output.add(FIRST, name=labels[first.name], key=first.key, at=at[first.name], payload=packed(first))
    for anomaly in audited.anomalies:
        put_anomaly(output, anomaly)
    if audited.unplaced or audited.unresolved:
        output.add(COUNT, begin=audited.unplaced, end=audited.unresolved)


def put_glimpse(output: TaskOutput, glimpse: Glimpse, name: str, commit: int | None) -> None:
    """Put a span down. ``size`` is 1 if it does not hold what was before the transaction's own commit."""
    apart = commit is not None and not glimpse.begin < commit <= glimpse.end
    output.add(GLIMPSE, name=name, begin=glimpse.begin, end=glimpse.end, size=int(apart), payload=packed(glimpse))


def put_anomaly(output: TaskOutput, anomaly: Anomaly) -> None:
    output.add(ANOMALY, name=anomaly.name, payload=packed(anomaly))


def just_after(batches: Batches) -> Batches:
    """Positions from the last ones that transactions saw."""
    for batch in batches:
        found = [after(seen) for seen in batch.column("at").to_pylist()]
        yield pa.RecordBatch.from_arrays([batch.column("name"), pa.array(found, pa.float64())], ["name", "at"])


# Scans that did not find a key


def spread(bounds: list[str], batches: Batches) -> Batches:
    """First writes to the stretch of keys that each is in, and scans to all that they reach into."""
    output, unpack = TaskOutput(), unpacker(RangeRead)
    for what, name, key, high, at, payload in each(batches, "what name key high at payload"):
        first = bisect_right(bounds, key)
        if what == FIRST:
            output.add(FIRST, name=name, key=key, at=at, number=first, payload=payload)
        else:
            scan = unpack(payload)
            last = len(bounds) if high is None else bisect_left(bounds, high)
            for number in range(first, last + 1):
                part = _within(scan, bounds[number - 1] if number else "", bounds[number : number + 1])
                output.add(SCAN, name=name, at=at, number=number, payload=packed(part))
        yield from output.full()
    yield from output.rest()


def _within(scan: RangeRead, low: str, high: list[str]) -> RangeRead:
    """A scan with only those of its keys that are in one stretch."""

    def cut(keys: list[str]) -> list[str]:
        return keys[bisect_left(keys, low) : bisect_left(keys, high[0]) if high else None]

    return RangeRead(scan.facts, scan.place, scan.low, scan.high, cut(scan.found), own=cut(scan.own))


def find_missed(batches: Batches) -> Batches:
    """Of scans, sorted by stretch of keys with the first writes before them: how far back they lead, and the first
    commit that they missed."""
    output, unpack_first, unpack_scan = TaskOutput(), unpacker(First), unpacker(RangeRead)
    for _, rows in by("number", batches, "what name at payload"):
        gathered: list[tuple[First, float]] = []
        firsts: Firsts | None = None
        for what, name, at, payload in rows:
            if what == FIRST:
                gathered.append((unpack_first(payload), at))
                continue
            firsts = firsts or Firsts(gathered)
            scan = unpack_scan(payload)
            missed = firsts.missed(scan)
            if missed is not None and missed.position <= at:
                output.add(BACK, at=at, other_at=missed.position)
            if missed is not None and missed.glimpse is not None:
                put_glimpse(output, missed.glimpse, name, scan.facts.last)
            yield from output.full()
    yield from output.rest()


# Pieces


def reach(bounds: list[float], batches: Batches) -> Batches:
    """Of edges that lead back, how far they reach from each stretch between two bounds."""
    places = Places(bounds)
    for batch in batches:
        places.note(batch.column("other_at").to_numpy(), batch.column("at").to_numpy())
    found = np.flatnonzero(places.reach > -np.inf)
    output = TaskOutput()
    for number in found.tolist():
        output.add(COUNT, number=number, at=float(places.reach[number]))
    yield from output.rest()


def in_pieces(pieces: Pieces, batches: Batches) -> Batches:
    """Of shares, the keys of those that are in a piece with a possible cycle."""
    for batch in batches:
        found = pieces.of(batch.column("at").to_numpy(zero_copy_only=False)) >= 0
        if found.any():
            keys = batch.column("key").filter(pa.array(found)).unique()
            yield pa.RecordBatch.from_arrays([keys], ["key"])


def tag(pieces: Pieces, batches: Batches) -> Batches:
    """Only the rows that are in a piece with a possible cycle, numbered by it."""
    for batch in batches:
        if not batch.num_rows:
            continue
        found = pieces.of(batch.column("at").to_numpy(zero_copy_only=False))
        others = batch.column("other_at").to_numpy(zero_copy_only=False)
        same = np.isnan(others) | (pieces.of(np.nan_to_num(others)) == found)
        kept = (found >= 0) & same
        if kept.any():
            column = batch.schema.get_field_index("number")
            numbered = batch.set_column(column, "number", pa.array(found, pa.int64()))
            yield numbered.filter(pa.array(kept))


@pausing_collector
def check_pieces(batches: Batches) -> Batches:
    """Headers, edges, scans and first writes, sorted by piece, to the anomalies of each."""
    output = TaskOutput()
    headers, links, scans, firsts = unpacker(TransactionHeader), unpacker(Link), unpacker(RangeRead), unpacker(First)
    for _, rows in by("number", batches, "what at other_at payload"):
        piece = HistoryPiece()
        for what, at, other_at, payload in rows:
            if what == HEADER:
                piece.headers.append((at, partial(headers, payload)))
            elif what == LINK:
                piece.links.append((at, other_at, partial(links, payload)))
            elif what == SCAN:
                piece.scans.append((at, partial(scans, payload)))
            elif what == FIRST:
                piece.firsts.append((at, partial(firsts, payload)))
            else:
                piece.back.append((at, other_at))
        output.add(COUNT, size=len(piece.headers))
        for anomaly in piece.anomalies():
            put_anomaly(output, anomaly)
        yield from output.full()
    yield from output.rest()


def look_at_instants(batches: Batches) -> Batches:
    """Spans of reads, sorted by transaction, to the anomalies of each."""
    output, unpack = TaskOutput(), unpacker(Glimpse)
    for _, rows in by("name", batches, "payload"):
        for anomaly in broken_instants(unpack(payload) for (payload,) in rows):
            put_anomaly(output, anomaly)
        yield from output.full()
    yield from output.rest()


def shortest(batches: Batches) -> Batches:
    """The shortest few anomalies of each name, and how many there are."""
    unpack = unpacker(Anomaly)
    found: dict[str, list[tuple[Any, bytes]]] = {}
    counts: dict[str, int] = {}
    for name, payload in each(batches, "name payload"):
        counts[name] = counts.get(name, 0) + 1
        kept = found.setdefault(name, [])
        kept.append((brevity(unpack(payload)), payload))
        if len(kept) > 4 * KEPT:
            kept.sort()
            del kept[KEPT:]
    output = TaskOutput()
    for name, kept in found.items():
        output.add(COUNT, name=name, size=counts[name])
        for _, payload in sorted(kept)[:KEPT]:
            output.add(ANOMALY, name=name, payload=payload)
    yield from output.rest()
