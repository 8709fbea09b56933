"""The dependency graph: which committed transaction comes before which, and why.

A pair of transactions has at most one edge of each kind, with the first reason found. Write edges lead only from a
version to the next one, since the others follow by transitivity. Time edges are reduced for the same reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from lowtide.audit.anomalies import Edge, Kind
from lowtide.audit.history import Name, RecordedTransaction
from lowtide.audit.observations import Observations
from lowtide.audit.orders import UNKNOWN, AppendList, Order, Read, Write

_Reason = tuple[str, Write | Read | None, Write | Read | None]
_NO_REASON: _Reason = ("", None, None)
_UNREAD_EDGES = 1_000_000
"""Maximum number of edges per key from reads to unread appends. If there would be more, all of them are omitted."""
KINDS: tuple[Kind, ...] = ("ww", "wr", "rw", "session", "time")


class DependencyGraph:
    """Edges between transactions, by kind."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._reasons: dict[Kind, dict[int, dict[int, _Reason]]] = {kind: {} for kind in KINDS}

    def add(
        self,
        kind: Kind,
        source: int,
        target: int,
        reason: _Reason = _NO_REASON,
    ) -> None:
        """Add an edge, unless there is one of its kind already or it is a loop."""
        if source == target:
            return
        reasons = self._reasons[kind]
        targets = reasons.get(source)
        if targets is None:
            reasons[source] = {target: reason}
        elif target not in targets:
            targets[target] = reason

    def connect(self, kind: Kind, key: str, earlier: Write | Read, later: Write | Read) -> None:
        """Note an edge from the transaction of ``earlier`` to that of ``later``, which are about ``key``."""
        self.add(kind, earlier.tx, later.tx, (key, earlier, later))

    def targets(self, kind: Kind, node: int) -> Iterable[int]:
        """Return the successors by edges of this kind."""
        return self._reasons[kind].get(node, ())

    def successors(self) -> list[list[int]]:
        """Return the successors of each node by all edges. A target may be repeated."""
        everything: list[list[int]] = [[] for _ in range(self.count)]
        for of_kind in self._reasons.values():
            for node, targets in of_kind.items():
                everything[node].extend(targets)
        return everything

    def edge(self, source: int, target: int, kinds: Iterable[Kind]) -> Edge:
        """Return the edge from ``source`` to ``target`` of the first of these kinds that exists."""
        for kind in kinds:
            if (reason := self._reasons[kind].get(source, {}).get(target)) is not None:
                return Edge(source, target, kind, *reason)
        raise KeyError((source, target))


class Dependency(NamedTuple):
    """An edge from a key, with its rank: of several edges between two transactions the graph keeps the first.

    ``stage`` is 0 for the order of writes, 1 for reads and 2 for unread appends. ``rank`` is the position in the order
    of the key, or among the unread appends.
    """

    kind: Kind
    key: str
    earlier: Write | Read
    later: Write | Read
    stage: int = 1
    rank: int = 0


def dependencies(observed: Observations, doubtful: Collection[str] = ()) -> DependencyGraph:
    """Return the graph of a history. Appends to ``doubtful`` keys may be lost, so unread ones get no edges there."""
    graph = DependencyGraph(len(observed.transactions))
    for each in key_dependencies(observed, doubtful):
        graph.connect(each.kind, each.key, each.earlier, each.later)
    for kind, earlier, later in in_order(observed.transactions, observed.counted):
        graph.add(kind, earlier, later)
    return graph


def key_dependencies(observed: Observations, doubtful: Collection[str] = ()) -> Iterator[Dependency]:
    """Yield the edges that come from keys, in an order that only keys and transactions decide.

    The edges of a key depend on that key alone, so a history can be audited key by key.
    """
    following = {key: writes_after(order) for key, order in observed.orders.items()}
    for key in sorted(observed.orders):
        for index, (before, after) in enumerate(_overwritten(observed.orders[key])):
            yield Dependency("ww", key, before, after, stage=0, rank=index)
    reads = sorted(observed.reads, key=lambda read: (read.tx, read.place, read.phantom, read.key))
    for read in reads:
        writer, key = read.writer, read.key
        if writer is not None:
            yield Dependency("wr", key, writer, read)
        if read.position != UNKNOWN and key in following:
            for overwriting in following[key][read.position + 1]:
                yield Dependency("rw", key, read, overwriting)
    yield from _unread(observed, reads, doubtful)


def _unread(observed: Observations, reads: list[Read], doubtful: Collection[str]) -> Iterator[Dependency]:
    """Yield the edges to unread appends.

    A list only grows, so unread appends come after every read and after every append that was read. Of a list that a
    transaction read after its own appends, only the part before these counts, since they were not yet committed.
    """
    last = last_reads(observed, reads)
    for key in sorted(last.keys() - set(doubtful)):
        order = observed.orders[key]
        writes = order.unread if isinstance(order, AppendList) else []
        position = last[key][0].position
        if len(last[key]) * len(writes) > _UNREAD_EDGES:
            continue
        for index, write in enumerate(writes):
            if position >= 0:
                before = order.order[position]
                yield Dependency("ww", key, before, write, stage=2, rank=index)
            for read in last[key]:
                yield Dependency("rw", key, read, write, stage=2, rank=index)


def last_reads(observed: Observations, reads: Iterable[Read]) -> dict[str, list[Read]]:
    """Return the longest reads of each list that has unread appends."""
    unread = {key for key, order in observed.orders.items() if isinstance(order, AppendList) and order.unread}
    last: dict[str, list[Read]] = {}
    for read in reads:
        if read.key not in unread or read.position == UNKNOWN:
            continue
        longest = last.setdefault(read.key, [])
        if longest and longest[0].position < read.position:
            longest.clear()
        if not longest or longest[0].position == read.position:
            longest.append(read)
    return last


def _overwritten(order: Order) -> Iterator[tuple[Write, Write]]:
    """Yield the writes that another one overwrote, each with that one."""
    current: list[Write] = []
    for write in order.order:
        if write.merged:
            current.append(write)
        else:
            yield from ((before, write) for before in current)
            current = [write]


def writes_after(order: Order) -> list[tuple[Write, ...]]:
    """Return for each position, starting before all writes, the next write of another transaction that did not merge,
    and those that merged with it."""
    writes = order.order
    following: list[tuple[Write, ...]] = [()] * (len(writes) + 1)
    merged: tuple[Write, ...] = ()
    for position in range(len(writes) - 1, -1, -1):
        write = writes[position]
        if write.merged:
            merged = (write, *merged)
            following[position] = following[position + 1]
            continue
        same = position > 0 and writes[position - 1].tx == write.tx
        following[position] = following[position + 1] if same else (write, *merged)
        merged = ()
    return following


def in_order(transactions: list[RecordedTransaction], counted: list[bool]) -> Iterator[tuple[Kind, int, int]]:
    """Add the session and time edges."""
    sessions: dict[Name, list[tuple[int, int]]] = {}
    events: list[tuple[float, int, int]] = []
    for tx, each in enumerate(transactions):
        if not counted[tx]:
            continue
        if each.session is not None and each.turn is not None:
            sessions.setdefault(each.session, []).append((each.turn, tx))
        if each.begun is not None and each.ended is not None:
            # At equal times a begin sorts before an end, since the end is not known to be earlier.
            events += [(each.begun, 0, tx), (each.ended, 1, tx)]
    for turns in sessions.values():
        turns.sort()
        for (_, earlier), (_, later) in pairwise(turns):
            yield "session", earlier, later
    yield from _in_time(transactions, sorted(events))


def _in_time(
    transactions: list[RecordedTransaction], events: list[tuple[float, int, int]]
) -> Iterator[tuple[Kind, int, int]]:
    """Add an edge from each transaction to each that began after its end, unless transitivity implies it."""
    frontier: dict[int, float] = {}
    for _, ended, tx in events:
        if not ended:
            yield from (("time", earlier, tx) for earlier in frontier)
            continue
        begun = transactions[tx].begun or 0.0
        frontier = {earlier: end for earlier, end in frontier.items() if end >= begun}
        frontier[tx] = transactions[tx].ended or 0.0
