"""Checks a history against an isolation level and reports the anomalies found, with those that the level forbids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lowtide.audit.anomalies import MEANINGS, Edge, Finding
from lowtide.audit.graph import dependencies
from lowtide.audit.history import History, RecordedTransaction
from lowtide.audit.instants import broken_instants
from lowtide.audit.levels import PROSCRIBED, level_of
from lowtide.audit.observations import Observations
from lowtide.audit.orders import UNKNOWN, Read
from lowtide.audit.search import cycles_in
from lowtide.audit.verdict import AuditVerdict
from lowtide.audit.witness import because, witness
from lowtide.engine import Isolation

_SHOWN = 3
"""Number of witnesses that the report prints per anomaly."""


@dataclass(frozen=True)
class Report(AuditVerdict):
    """The result of an audit.

    ``findings`` are ordered by severity. For cycles they are witnesses, not a complete list. ``unplaced`` writes and
    ``unresolved`` reads are those for which the history has too little information. Anomalies among them are not found.
    """

    level: Isolation
    transactions: list[RecordedTransaction]
    committed: int
    operations: int
    findings: list[Finding]
    unplaced: int
    unresolved: int

    @property
    def names(self) -> list[str]:
        """The anomalies found, each once, most severe first."""
        return list(dict.fromkeys(finding.name for finding in self.findings))

    def of(self, name: str) -> list[str]:
        """Return the witnesses of one anomaly as text."""
        return [witness(finding, self.transactions) for finding in self.findings if finding.name == name]

    def __str__(self) -> str:
        counts = Counter(finding.name for finding in self.findings)
        lines = [
            f"{len(self.transactions)} transactions, {self.committed} of them committed, {self.operations} operations",
            self._summary(),
        ]
        for name in self.names:
            verdict = self._judged(name)
            lines.append(
                f"\n{verdict}, {counts[name]} found, the first {_SHOWN}:" if counts[name] > _SHOWN else f"\n{verdict}:"
            )
            lines += self.of(name)[:_SHOWN]
        return "\n".join(lines + self._last_lines())

    def as_data(self) -> dict[str, Any]:
        """The report as a JSON document."""
        return {
            "level": self.level.name,
            "ok": self.ok,
            "transactions": len(self.transactions),
            "committed": self.committed,
            "operations": self.operations,
            "violations": self.violations,
            "allowed_at": self.allowed_at,
            "anomalies": list(self._anomalies()),
            "unplaced_writes": self.unplaced,
            "unresolved_reads": self.unresolved,
        }

    def _anomalies(self) -> Iterator[dict[str, Any]]:
        for finding in self.findings:
            yield {
                "name": finding.name,
                "proscribed": finding.name in PROSCRIBED[self.level],
                "transactions": [self.transactions[tx].name for tx in finding.transactions],
                "keys": list(finding.keys),
                "edges": [
                    {
                        "from": self.transactions[edge.source].name,
                        "to": self.transactions[edge.target].name,
                        "kind": edge.kind,
                        "why": because(edge, self.transactions),
                    }
                    for edge in finding.edges
                ],
                "witness": witness(finding, self.transactions),
            }


def audit(history: History, level: Isolation | str = Isolation.SERIALIZABLE) -> Report:
    """Search a history for all anomalies and report which of them ``level`` forbids.

    >>> from lowtide.audit import History, audit
    >>> rows = [{"tx": tx, "op": "read", "key": "x", "value": None} for tx in (1, 2)]
    >>> rows += [{"tx": tx, "op": "write", "key": "x", "value": tx} for tx in (1, 2)]
    >>> rows += [{"tx": tx, "op": "commit", "version": tx} for tx in (1, 2)]
    >>> audit(History.of(rows), "SNAPSHOT").violations
    ['lost-update']
    """
    wanted = level_of(level)
    observed = Observations(history)
    findings = [*observed.findings, *lost_updates(observed)]
    doubtful = {key for finding in findings for key in finding.keys}
    findings += [*broken_instants(observed), *cycles_in(dependencies(observed, doubtful))]
    gravity = {name: rank for rank, name in enumerate(MEANINGS)}
    distinct = {(finding.name, frozenset(finding.transactions), finding.keys): finding for finding in findings[::-1]}
    ordered = sorted(
        distinct.values(), key=lambda each: (gravity[each.name], len(each.transactions), each.transactions, each.keys)
    )
    return Report(
        level=wanted,
        transactions=history.transactions,
        committed=sum(observed.counted),
        operations=sum(len(each.operations) for each in history.transactions),
        findings=ordered,
        unplaced=observed.unplaced,
        unresolved=observed.unresolved,
    )


def lost_updates(observed: Observations) -> Iterator[Finding]:
    """Find transactions that read the same version of a key and then wrote the key.

    At most one of them saw the version it replaced. This needs no order of the writes, so it also finds lost appends.
    A write that merged with an equal one has replaced nothing.
    """
    updaters: dict[tuple[str, int], dict[int, Read]] = {}
    for read in observed.reads:
        final = observed.finals[read.tx].get(read.key)
        if final is not None and not final.merged and read.position != UNKNOWN and final.place >= read.place:
            updaters.setdefault((read.key, read.position), {}).setdefault(read.tx, read)
    for (key, position), together in updaters.items():
        if len(together) > 1:
            pair = list(together)[:2]
            first, second = (observed.transactions[tx] for tx in pair)
            write = observed.orders[key].order[position] if position >= 0 else None
            what = "as it was at first" if write is None else f"as {observed.transactions[write.tx]} left it"
            words = f"{first} and {second} both read {key} {what}, and both wrote it"
            yield Finding("lost-update", tuple(pair), (key,), words, _overwritten(observed, key, together, pair))


def _overwritten(observed: Observations, key: str, reads: Mapping[int, Read], pair: list[int]) -> tuple[Edge, ...]:
    """Return the cycle that a lost update is, if the two writes are known to follow on what was read, and on each
    other."""
    earlier, later = sorted((observed.finals[tx][key] for tx in pair), key=lambda write: write.position)
    missed = reads[later.tx]
    if (earlier.position, later.position) != (missed.position + 1, missed.position + 2):
        return ()
    ww = Edge(earlier.tx, later.tx, "ww", key, earlier=earlier, later=later)
    rw = Edge(later.tx, earlier.tx, "rw", key, earlier=missed, later=earlier)
    return (ww, rw) if earlier.tx == pair[0] else (rw, ww)
