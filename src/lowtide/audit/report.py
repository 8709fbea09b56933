"""The audit of a history at a level: what was found, what of it the level forbids, and how much could be told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lowtide.audit.anomalies import MEANINGS, Finding
from lowtide.audit.graph import dependencies
from lowtide.audit.history import History, RecordedTransaction
from lowtide.audit.instants import broken_instants
from lowtide.audit.levels import PROSCRIBED, level_of, levels_without
from lowtide.audit.observations import Observations
from lowtide.audit.orders import UNKNOWN
from lowtide.audit.search import cycles_in
from lowtide.audit.witness import because, witness
from lowtide.engine import Isolation

_SHOWN = 3
"""Witnesses of each anomaly that the report prints."""


@dataclass(frozen=True)
class Report:
    """What an audit found.

    ``findings`` are in the order of their gravity; of cycles they are witnesses, not all that there are. ``unplaced``
    writes and ``unresolved`` reads are those that the history does not say enough about; anomalies among them stay
    hidden.
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
        """The anomalies that were found, each once, the gravest first."""
        return list(dict.fromkeys(finding.name for finding in self.findings))

    @property
    def violations(self) -> list[str]:
        """Those of them that the level proscribes."""
        return [name for name in self.names if name in PROSCRIBED[self.level]]

    @property
    def ok(self) -> bool:
        """Whether the history is one that the level allows."""
        return not self.violations

    def of(self, name: str) -> list[str]:
        """The witnesses of one anomaly, in words."""
        return [witness(finding, self.transactions) for finding in self.findings if finding.name == name]

    def __str__(self) -> str:
        counts = Counter(finding.name for finding in self.findings)
        lines = [
            f"{len(self.transactions)} transactions, {self.committed} of them committed, {self.operations} operations",
            f"{self.level.name}: {'violated' if self.violations else 'holds'}",
        ]
        for name in self.names:
            verdict = "PROSCRIBED" if name in PROSCRIBED[self.level] else "allowed"
            lines.append(
                f"\n{verdict}, {counts[name]} found, the first {_SHOWN}:" if counts[name] > _SHOWN else f"\n{verdict}:"
            )
            lines += self.of(name)[:_SHOWN]
        lines.append(f"\nwhat was found is allowed at: {', '.join(self._holding()) or 'no level'}")
        if self.unplaced or self.unresolved:
            lines.append(
                f"not known: the place of {self.unplaced} writes in the order of their key, "
                f"and what {self.unresolved} reads of nothing saw"
            )
        return "\n".join(lines)

    def _holding(self) -> list[str]:
        return [level.name for level in levels_without(set(self.names))]

    def as_data(self) -> dict[str, Any]:
        """The report as a JSON document."""
        return {
            "level": self.level.name,
            "ok": self.ok,
            "transactions": len(self.transactions),
            "committed": self.committed,
            "operations": self.operations,
            "violations": self.violations,
            "allowed_at": self._holding(),
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
    """Look for every anomaly in a history, and say which of them ``level`` forbids.

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
        wanted,
        history.transactions,
        sum(observed.counted),
        sum(len(each.operations) for each in history.transactions),
        ordered,
        observed.unplaced,
        observed.unresolved,
    )


def lost_updates(observed: Observations) -> Iterator[Finding]:
    """Transactions that read the same version of a key and wrote the key afterwards: at most one of them saw what it
    replaced. This needs no order of the writes, so it finds appends that vanished, too."""
    updaters: dict[tuple[str, int], list[int]] = {}
    for read in observed.reads:
        final = observed.finals[read.tx].get(read.key)
        if final is not None and read.position != UNKNOWN and final.place >= read.place:
            together = updaters.setdefault((read.key, read.position), [])
            if not together or together[-1] != read.tx:
                together.append(read.tx)
    for (key, position), together in updaters.items():
        distinct = list(dict.fromkeys(together))
        if len(distinct) > 1:
            first, second = (observed.transactions[tx] for tx in distinct[:2])
            write = observed.orders[key].order[position] if position >= 0 else None
            what = "as it was at first" if write is None else f"as {observed.transactions[write.tx]} left it"
            words = f"{first} and {second} both read {key} {what}, and both wrote it"
            yield Finding("lost-update", tuple(distinct[:2]), (key,), words)
