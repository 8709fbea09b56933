"""Describes a finding as text: the transactions, the keys, and the reason for each edge of a cycle."""

from __future__ import annotations

from lowtide.audit.anomalies import MEANINGS, Edge, Finding
from lowtide.audit.history import RecordedTransaction
from lowtide.audit.orders import Read, Write, shortened


def witness(finding: Finding, transactions: list[RecordedTransaction]) -> str:
    """Return the finding as text of several lines."""
    who = ", ".join(dict.fromkeys(str(transactions[tx]) for tx in finding.transactions))
    lines = [f"{finding.name} ({MEANINGS[finding.name]}): {who}"]
    if finding.words:
        lines.append(f"  {finding.words}")
    lines += [f"  {because(edge, transactions)}" for edge in finding.edges]
    if finding.edges:
        lines.append(f"  which puts {_cycle(finding, transactions)}")
    return "\n".join(lines)


def _cycle(finding: Finding, transactions: list[RecordedTransaction]) -> str:
    return ", ".join(f"{transactions[edge.source]} before {transactions[edge.target]}" for edge in finding.edges)


def because(edge: Edge, transactions: list[RecordedTransaction]) -> str:
    """Explain why the source of an edge comes before its target."""
    source, target = transactions[edge.source], transactions[edge.target]
    earlier, later = edge.earlier, edge.later
    match edge.kind:
        case "session":
            return f"{source} came before {target} in session {source.session!r} ({source.turn}, {target.turn})"
        case "time":
            return f"{source} ended at {source.ended}, before {target} began at {target.begun}"
    if isinstance(earlier, Write) and isinstance(later, Write):
        if earlier.appended:
            return f"{source} appended {earlier.value!r} to {edge.key}, and {target} appended {later.value!r} after it"
        return f"{source} {_wrote(earlier)}, which {target} {_overwrote(later)}"
    if isinstance(earlier, Write) and isinstance(later, Read):
        if earlier.appended:
            return f"{target} read {edge.key} = {_seen(later)}, to which {source} had appended {earlier.value!r}"
        return f"{target} {_read(later, target)}, which {source} wrote"
    if isinstance(earlier, Read) and isinstance(later, Write):
        return f"{source} {_read(earlier, source)}, which {target} {_overwrote(later, earlier.writer is None)}"
    return f"{source} comes before {target}"


def _read(read: Read, reader: RecordedTransaction) -> str:
    if read.phantom:
        row = reader.operations[read.place]
        end = "the end" if row.high is None else repr(row.high)
        return f"scanned from {row.low or ''!r} to {end} and found no {read.key}"
    if read.writer is None and not read.shown:
        return f"found no {read.key}"
    return f"read {read.key} = {_seen(read)}"


def _seen(read: Read) -> str:
    if read.writer is None or read.writer.appended:
        return shortened(read.shown)
    return f"{shortened(read.writer.value)}{_version(read.writer)}"


def _wrote(write: Write) -> str:
    if write.value is None:
        return f"deleted {write.key}{_version(write)}"
    return f"wrote {write.key} = {write.value!r}{_version(write)}"


def _overwrote(write: Write, created: bool = False) -> str:
    if write.appended:
        return f"overwrote by appending {write.value!r}"
    if write.value is None:
        return f"deleted{_version(write)}"
    return f"{'then wrote as' if created else 'overwrote with'} {write.value!r}{_version(write)}"


def _version(write: Write) -> str:
    return f" (version {write.version})" if write.version is not None else ""
