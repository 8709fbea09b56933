"""The check of one piece: the graph of its transactions, and the cycles that ``lowtide.audit`` finds in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowtide.audit.graph import DependencyGraph, in_order
from lowtide.audit.history import Name, RecordedTransaction, Row
from lowtide.audit.instants import TimeSpan, broken_spans
from lowtide.audit.orders import UNKNOWN, Read, Write
from lowtide.audit.search import cycles_in
from lowtide.pipeline.audit.phantoms import Firsts
from lowtide.pipeline.audit.pieces import Stretches
from lowtide.pipeline.audit.records import (
    Anomaly,
    First,
    Glimpse,
    Link,
    RangeRead,
    ReadNote,
    TransactionHeader,
    WriteNote,
    anomaly,
    in_name_order,
)


@dataclass
class HistoryPiece:
    """A piece of a history: its transactions, edges, scans and first writes, each with its position.

    Records come as functions that give them: most of them are not needed.
    """

    headers: list[tuple[float, Callable[[], TransactionHeader]]] = field(default_factory=list)
    links: list[tuple[float, float, Callable[[], Link]]] = field(default_factory=list)
    """With the positions of their sources and targets."""
    back: list[tuple[float, float]] = field(default_factory=list)
    """Positions from and to which other edges lead back: those of sessions, and from scans to what they missed."""
    scans: list[tuple[float, Callable[[], RangeRead]]] = field(default_factory=list)
    firsts: list[tuple[float, Callable[[], First]]] = field(default_factory=list)

    def anomalies(self) -> Iterator[Anomaly]:
        """The cycles of this piece."""
        scans = [(position, scan()) for position, scan in self.scans]
        firsts = Firsts((first(), position) for position, first in self.firsts)
        stretches = self._stretches()
        transactions = [
            _transaction(header())
            for (_, header), stretch in zip(self.headers, stretches.of(_positions(self.headers)), strict=True)
            if stretch >= 0
        ]
        transactions.sort(key=lambda each: in_name_order(each.name))
        numbers = {each.name: number for number, each in enumerate(transactions)}
        links = self._links(stretches)
        for (position, scan), stretch in zip(scans, stretches.of(_positions(scans)), strict=True):
            if stretch >= 0:
                _show_scan(transactions[numbers[scan.facts.name]], scan)
                links += firsts.links(scan, *stretches.bounds(position))
        graph = _graph(transactions, numbers, links)
        for finding in cycles_in(graph):
            yield anomaly(finding, transactions)

    def _stretches(self) -> Stretches:
        back = [(target, source) for source, target, _ in self.links if source >= target]
        back += [(target, source) for source, target in self.back]
        return Stretches([target for target, _ in back], [source for _, source in back])

    def _links(self, stretches: Stretches) -> list[Link]:
        sources = stretches.of([source for source, _, _ in self.links])
        targets = stretches.of([target for _, target, _ in self.links])
        return [self.links[number][2]() for number in ((sources >= 0) & (sources == targets)).nonzero()[0].tolist()]


def _positions(pairs: Sequence[tuple[float, Any]]) -> list[float]:
    return [position for position, _ in pairs]


def _transaction(header: TransactionHeader) -> RecordedTransaction:
    facts = header.facts
    return RecordedTransaction(
        facts.name,
        outcome="committed",
        version=facts.version,
        session=header.session,
        turn=header.turn,
        begun=facts.begun,
        ended=facts.ended,
    )


def _show_scan(transaction: RecordedTransaction, scan: RangeRead) -> None:
    """Put a scan to its place among the operations, where a witness looks for its range."""
    row = Row(tx=transaction.name, op="scan", low=scan.low, high=scan.high, values={})
    transaction.operations += [row] * (scan.place + 1 - len(transaction.operations))
    transaction.operations[scan.place] = row


def _graph(transactions: list[RecordedTransaction], numbers: dict[Name, int], links: list[Link]) -> DependencyGraph:
    """The graph, its edges added in the order in which the audit of the whole history adds them."""
    graph = DependencyGraph(len(transactions))
    for each in sorted(links, key=lambda link: _rank(link, numbers)):
        source, target = numbers[each.source], numbers[each.target]
        earlier = _write_or_read(source, each.key, each.earlier_write, each.earlier_read)
        later = _write_or_read(target, each.key, each.later_write, each.later_read)
        graph.connect(each.kind, each.key, earlier, later)
    for kind, before, after in in_order(transactions, [True] * len(transactions)):
        graph.add(kind, before, after)
    return graph


def _rank(link: Link, numbers: dict[Name, int]) -> tuple[Any, ...]:
    """The order of ``audit.graph.key_dependencies``."""
    read = link.earlier_read or link.later_read
    reader, place = (
        (-1, 0) if read is None else (numbers[link.target if link.kind == "wr" else link.source], read.place)
    )
    if link.stage == 1:
        return 1, reader, place, read is not None and read.phantom, link.key
    return link.stage, link.key, link.rank, reader, place


def _write_or_read(tx: int, key: str, write: WriteNote | None, read: ReadNote | None) -> Write | Read:
    if write is not None:
        return _write(tx, key, write)
    assert read is not None
    writer = None if read.writer is None else _write(tx, key, read.writer)
    return Read(tx, read.place, key, UNKNOWN, writer, shown=read.shown, phantom=read.phantom)


def _write(tx: int, key: str, note: WriteNote) -> Write:
    return Write(tx, 0, key, note.value, note.version, appended=note.appended)


def broken_instants(glimpses: Iterable[Glimpse]) -> Iterator[Anomaly]:
    """What is wrong with what one transaction saw, one read after the other."""
    seen = sorted(glimpses, key=lambda each: (each.place, each.key))
    names = list(dict.fromkeys(name for each in seen for name in (each.name, *each.writers)))
    numbers = {name: number for number, name in enumerate(names)}
    spans = [
        TimeSpan(
            each.place,
            each.scan,
            each.key,
            each.begin,
            each.end,
            writers=tuple(numbers[name] for name in each.writers),
        )
        for each in seen
    ]
    transactions = [RecordedTransaction(name) for name in names]
    for finding in broken_spans(0, str(transactions[0]), spans):
        yield anomaly(finding, transactions)
