"""The audit of one key: its order, what its reads saw, the edges that follow, and what is wrong with single reads.

``lowtide.audit`` does it, with a history of that key alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from lowtide.audit.anomalies import Finding
from lowtide.audit.graph import Dependency, key_dependencies, last_reads, writes_after
from lowtide.audit.history import History, Name, Value
from lowtide.audit.instants import span_of
from lowtide.audit.observations import Observations
from lowtide.audit.orders import INITIAL, AppendList, Read, Write
from lowtide.audit.report import lost_updates
from lowtide.pipeline.audit.records import Anomaly, First, Glimpse, KeyShare, Link, ReadNote, WriteNote, in_name_order
from lowtide.pipeline.audit.records import anomaly as described
from lowtide.pipeline.audit.transactions import restored

_SHOWN = 9
"""Elements of a list that a witness may need: of a longer one it shows the last six."""


@dataclass
class Audited:
    """What came out of one key."""

    links: list[Link] = field(default_factory=list)
    glimpses: list[Glimpse] = field(default_factory=list)
    firsts: list[First] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    unplaced: int = 0
    unresolved: int = 0


def audit_key(key: str, shares: Iterable[KeyShare], believed: Collection[Name] = ()) -> Audited:
    """Audit one key, from the shares of all transactions that have one."""
    ordered = sorted(shares, key=lambda share: in_name_order(share.facts.name))
    return _Key(key, ordered, believed).audited()


class _Key:
    def __init__(self, key: str, shares: list[KeyShare], believed: Collection[Name]) -> None:
        self._key = key
        self._places = [[operation.place for operation in share.operations] for share in shares]
        history = History([])
        history.transactions = [restored(share, key, believed) for share in shares]
        self._names = [share.facts.name for share in shares]
        self._observed = Observations(history)

    def audited(self) -> Audited:
        observed = self._observed
        findings = [*observed.findings, *lost_updates(observed)]
        doubtful = {key for finding in findings for key in finding.keys}
        return Audited(
            list(self._links(doubtful)),
            list(self._glimpses()),
            list(self._firsts(doubtful)),
            [described(finding, observed.transactions) for finding in _distinct(findings)],
            unplaced=observed.unplaced,
            unresolved=observed.unresolved,
        )

    def _links(self, doubtful: Collection[str]) -> Iterator[Link]:
        for each in key_dependencies(self._observed, doubtful):
            if each.earlier.tx != each.later.tx:
                yield self._link(each)

    def _link(self, each: Dependency) -> Link:
        earlier, later = each.earlier, each.later
        return Link(
            self._names[earlier.tx],
            self._names[later.tx],
            each.kind,
            each.key,
            each.stage,
            rank=each.rank,
            earlier_write=_write_note(earlier) if isinstance(earlier, Write) else None,
            earlier_read=self._read_note(earlier) if isinstance(earlier, Read) else None,
            later_write=_write_note(later) if isinstance(later, Write) else None,
            later_read=self._read_note(later) if isinstance(later, Read) else None,
        )

    def _read_note(self, read: Read) -> ReadNote:
        writer = None if read.writer is None else _write_note(read.writer)
        return ReadNote(self._places[read.tx][read.place], _end_of(read.shown), writer, read.phantom)

    def _glimpses(self) -> Iterator[Glimpse]:
        for read in self._observed.reads:
            span = span_of(self._observed, read)
            if span is not None:
                yield Glimpse(
                    self._names[read.tx],
                    self._places[read.tx][span.place],
                    span.scan,
                    span.key,
                    span.begin,
                    end=span.end,
                    writers=[self._names[writer] for writer in span.writers],
                )

    def _firsts(self, doubtful: Collection[str]) -> Iterator[First]:
        """The writes that a transaction missed if a scan of its does not find the key. It has none of its own; those
        that do are among the shares. After a delete, a scan does not tell which state it saw."""
        order = self._observed.orders.get(self._key)
        if order is None or order.seen(None, None, given=True) is None:
            return
        for write in writes_after(order)[0]:
            end = None if write.version is None or write.merged else float(write.version)
            yield First(self._key, self._names[write.tx], end, unread=False, rank=0, write=_write_note(write))
        if isinstance(order, AppendList) and self._key not in doubtful:
            last = last_reads(self._observed, self._observed.reads).get(self._key, [])
            if not last or last[0].position == INITIAL:
                for rank, write in enumerate(order.unread):
                    note = _write_note(write)
                    yield First(self._key, self._names[write.tx], None, unread=True, rank=rank, write=note)


def _distinct(findings: list[Finding]) -> Iterator[Finding]:
    seen = set()
    for finding in findings:
        form = finding.name, frozenset(finding.transactions), finding.keys
        if form not in seen:
            seen.add(form)
            yield finding


def _write_note(write: Write) -> WriteNote:
    return WriteNote(write.value, write.version, write.appended)


def _end_of(value: Value) -> Value:
    return value[-_SHOWN:] if isinstance(value, list) else value
