"""The dependency graph: which committed transaction comes before which, and why.

An edge of each kind is kept once for a pair of transactions, with the first reason that was met. Edges of writes go
from a version to the next one only; longer ones follow from them. Edges of time are as few as possible for the same
reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

from lowtide.audit.anomalies import Edge, Kind
from lowtide.audit.history import Name, RecordedTransaction
from lowtide.audit.observations import Observations
from lowtide.audit.orders import UNKNOWN, AppendList, Order, Read, Write

_Reason = tuple[str, Write | Read | None, Write | Read | None]
_UNREAD_EDGES = 1_000_000
"""Of a key with more edges from reads to appends that no read shows, these appends are left out."""
KINDS: tuple[Kind, ...] = ("ww", "wr", "rw", "session", "time")


class Graph:
    """Edges between transactions, by kind."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._reasons: dict[Kind, dict[int, dict[int, _Reason]]] = {kind: {} for kind in KINDS}

    def add(
        self,
        kind: Kind,
        source: int,
        target: int,
        key: str = "",
        earlier: Write | Read | None = None,
        later: Write | Read | None = None,
    ) -> None:
        """Note an edge, unless there is one of its kind already, or it leads to where it begins."""
        if source == target:
            return
        reasons = self._reasons[kind]
        targets = reasons.get(source)
        if targets is None:
            reasons[source] = {target: (key, earlier, later)}
        elif target not in targets:
            targets[target] = (key, earlier, later)

    def targets(self, kind: Kind, node: int) -> Iterable[int]:
        """Where the edges of this kind lead."""
        return self._reasons[kind].get(node, ())

    def successors(self) -> list[list[int]]:
        """Where all edges lead, by node; a target may come more than once."""
        everything: list[list[int]] = [[] for _ in range(self.count)]
        for of_kind in self._reasons.values():
            for node, targets in of_kind.items():
                everything[node].extend(targets)
        return everything

    def edge(self, source: int, target: int, kinds: Iterable[Kind]) -> Edge:
        """The edge from ``source`` to ``target``, of the first of these kinds that there is."""
        for kind in kinds:
            if (reason := self._reasons[kind].get(source, {}).get(target)) is not None:
                return Edge(source, target, kind, *reason)
        raise KeyError((source, target))


def dependencies(observed: Observations, doubtful: Collection[str] = ()) -> Graph:
    """The graph of a history. Of the keys that are ``doubtful`` some appends may be lost, so that one that no read
    shows says nothing."""
    graph = Graph(len(observed.transactions))
    following = {key: _following(order) for key, order in observed.orders.items()}
    for key, order in observed.orders.items():
        for before, after in pairwise(order.order):
            graph.add("ww", before.tx, after.tx, key, before, after)
    for read in observed.reads:
        writer, key = read.writer, read.key
        if writer is not None:
            graph.add("wr", writer.tx, read.tx, key, writer, read)
        if read.position != UNKNOWN and key in following:
            overwriting = following[key][read.position + 1]
            if overwriting is not None:
                graph.add("rw", read.tx, overwriting.tx, key, read, overwriting)
    _add_unread(graph, observed, doubtful)
    for kind, earlier, later in in_order(observed.transactions, observed.counted):
        graph.add(kind, earlier, later)
    return graph


def _add_unread(graph: Graph, observed: Observations, doubtful: Collection[str]) -> None:
    """The edges to appends that no read shows. A list only grows, so they come after each read, and after what was
    read; of what a transaction read after its own appends only the part before these counts, since those were not yet
    committed."""
    unread = {
        key: order.unread
        for key, order in observed.orders.items()
        if isinstance(order, AppendList) and order.unread and key not in doubtful
    }
    last_reads: dict[str, list[Read]] = {}
    for read in observed.reads:
        if read.key not in unread or read.position == UNKNOWN:
            continue
        reads = last_reads.setdefault(read.key, [])
        if reads and reads[0].position < read.position:
            reads.clear()
        if not reads or reads[0].position == read.position:
            reads.append(read)
    for key, reads in last_reads.items():
        writes, position = unread[key], reads[0].position
        if len(reads) * len(writes) > _UNREAD_EDGES:
            continue
        for write in writes:
            if position >= 0:
                before = observed.orders[key].order[position]
                graph.add("ww", before.tx, write.tx, key, before, write)
            for read in reads:
                graph.add("rw", read.tx, write.tx, key, read, write)


def _following(order: Order) -> list[Write | None]:
    """For each position, beginning with that before all writes: the next write of another transaction."""
    writes = order.order
    following: list[Write | None] = [None] * (len(writes) + 1)
    for position in range(len(writes) - 1, -1, -1):
        write = writes[position]
        same = position > 0 and writes[position - 1].tx == write.tx
        following[position] = following[position + 1] if same else write
    return following


def in_order(transactions: list[RecordedTransaction], counted: list[bool]) -> Iterator[tuple[Kind, int, int]]:
    """The edges of sessions, and of time."""
    sessions: dict[Name, list[tuple[int, int]]] = {}
    events: list[tuple[float, int, int]] = []
    for tx, each in enumerate(transactions):
        if not counted[tx]:
            continue
        if each.session is not None and each.turn is not None:
            sessions.setdefault(each.session, []).append((each.turn, tx))
        if each.begun is not None and each.ended is not None:
            # At the same moment a beginning comes before an end: it is not known that the end was earlier.
            events += [(each.begun, 0, tx), (each.ended, 1, tx)]
    for turns in sessions.values():
        turns.sort()
        for (_, earlier), (_, later) in pairwise(turns):
            yield "session", earlier, later
    yield from _in_time(transactions, sorted(events))


def _in_time(
    transactions: list[RecordedTransaction], events: list[tuple[float, int, int]]
) -> Iterator[tuple[Kind, int, int]]:
    """An edge from each transaction that ended to each that began later, unless others between them imply it."""
    frontier: dict[int, float] = {}
    for _, ended, tx in events:
        if not ended:
            yield from (("time", earlier, tx) for earlier in frontier)
            continue
        begun = transactions[tx].begun or 0.0
        frontier = {earlier: end for earlier, end in frontier.items() if end >= begun}
        frontier[tx] = transactions[tx].ended or 0.0
