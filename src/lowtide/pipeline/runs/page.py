"""A run's report as one self-contained HTML page: no scripts, no network, plots inline."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

import msgspec

from lowtide.pipeline.audit.pictures import picture
from lowtide.pipeline.audit.records import Anomaly
from lowtide.pipeline.plots import bars, line
from lowtide.pipeline.runs.report import ATTENTION, SUCCEEDED, RunReport, StepReport
from lowtide.system.quantities import size, span

_WITNESSES: Final = 10
"""Anomalies of an audit that the page shows; of each name, the shortest with a picture."""
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b2733; --soft: #5b6b7a; --line: #d9e0e6; --paper: #fff; --tide: #1f6f8b;
  --good: #1b7f4d; --care: #a86400; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9fb0bf; --line: #2f3b46; --paper: #12181f;
  --tide: #5cb3cf; --good: #4cc38a; --care: #e0a23d; --bad: #f2786e; } }
body { margin: 2rem auto; max-width: 46rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.verdict { font-weight: 600; } .good { color: var(--good); } .care { color: var(--care); } .bad { color: var(--bad); }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .75rem .25rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 500; } .number { text-align: right; font-variant-numeric: tabular-nums; }
.soft { color: var(--soft); } svg { width: 100%; height: auto; } pre { white-space: pre-wrap; }
img { max-width: 100%; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .name { text-anchor: end; fill: var(--soft); }
svg .bar, svg .dot { fill: var(--tide); } svg .line { fill: none; stroke: var(--tide); stroke-width: 2; }
svg .grid { stroke: var(--line); }
""".strip()


def page_of(report: RunReport) -> str:
    """The page."""
    status: Mapping[str, Any] = report.status
    sections = [
        f"<h1>Pipeline run of {_moment(report)}</h1>",
        f'<p class="soft">{escape(report.store)} → {escape(report.archive)}</p>',
        _verdict(report),
        _figures(report),
        _section("Steps", _steps(report.steps) + _plot_of_steps(report.steps)),
        _section("Versions by run", _growth(status.get("runs", ()))),
        _section("Versions by table", _tables(status.get("tables", {}))),
        _section(
            "Gaps",
            _list(
                status.get("gaps", report.gaps),
                none=f"none: the archive has every commit from {status.get('first', 1):,} on",
            ),
        ),
    ]
    audit = report.step("audit")
    if audit is not None and audit.detail:
        sections.append(_section("Audit", _audit(audit)))
    title = f"Lowtide pipeline, {_moment(report)}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>\n" + "\n".join(sections) + "\n</body></html>\n"
    )


def _moment(report: RunReport) -> str:
    return report.at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def _verdict(report: RunReport) -> str:
    if report.exit_code == SUCCEEDED:
        notes = "".join(f'<p class="soft">{escape(each)}</p>' for each in report.notes)
        return f'<p class="verdict good">Done. Nothing needs attention.</p>{notes}'
    if report.exit_code == ATTENTION:
        return f'<p class="verdict care">Done, with remarks:</p>{_list(report.remarks, none="")}'
    failed = [f"{each.name}: {each.error}" for each in report.steps if each.error is not None]
    return f'<p class="verdict bad">Failed.</p>{_list(failed, none="")}'


def _figures(report: RunReport) -> str:
    status = report.status
    rows: list[tuple[str, str]] = [
        ("archived up to commit", f"{report.commit:,}"),
        ("versions added", f"{report.rows:,}"),
        ("versions in the archive", f"{status.get('rows', 0):,}"),
        ("bytes in the archive", f"{size(report.bytes)} in {status.get('files', 0):,} files"),
        ("took", span(report.seconds)),
    ]
    if report.kept is not None and report.dropped is not None:
        rows.insert(2, ("versions kept and dropped by vacuum", f"{report.kept:,} and {report.dropped:,}"))
    if report.step("audit") is not None:
        rows.append(("anomalies", ", ".join(report.anomalies) or "none"))
    if report.quarantined:
        rows.append(("rows quarantined", f"{report.quarantined:,}"))
    return _grid((), rows, numbers=(1,))


def _steps(steps: Sequence[StepReport]) -> str:
    rows = [(each.name, f"{each.seconds:.2f}", each.state, each.error or "") for each in steps]
    return _grid(("step", "seconds", "state", ""), rows, numbers=(1,))


def _plot_of_steps(steps: Sequence[StepReport]) -> str:
    return bars("Time by step", [(each.name, each.seconds, span(each.seconds)) for each in steps])


def _growth(runs: Sequence[Mapping[str, Any]]) -> str:
    points = [(f"{each['at'][:19].replace('T', ' ')}, commit {each['commit']}", float(each["total"])) for each in runs]
    return line("Versions archived, by run", points, "versions archived in all")


def _tables(tables: Mapping[str, Mapping[str, int]]) -> str:
    largest = sorted(tables.items(), key=lambda each: -each[1]["rows"])
    plot = bars("Rows by table", [(name, each["rows"], f"{each['rows']:,}") for name, each in largest[:20]])
    rows = [
        (name, f"{each['rows']:,}", size(each["bytes"]), f"{each['files']:,}", f"{each['tail']:,}")
        for name, each in largest
    ]
    return plot + _grid(("table", "versions", "bytes", "files", "not compacted"), rows, numbers=(1, 2, 3, 4))


def _audit(step: StepReport) -> str:
    detail = step.detail
    verdict = "holds" if not detail.get("violations") else "violated"
    summary = f"{detail.get('transactions', 0):,} transactions, {detail.get('level', '')}: {verdict}"
    found = msgspec.convert(detail.get("anomalies", ()), list[Anomaly])
    undrawn = {each.name for each in found}
    shown = [f"<p>{escape(summary)}</p>"]
    for each in found[:_WITNESSES]:
        shown.append(f"<pre>{escape(each.witness)}</pre>")
        if each.steps and each.name in undrawn:
            undrawn.remove(each.name)
            shown.append(_drawn(each))
    return "".join(shown)


def _drawn(anomaly: Anomaly) -> str:
    """The picture of a cycle, apart from the styles of the page."""
    data = base64.b64encode(picture(anomaly).encode()).decode()
    return f'<img alt="{escape(anomaly.name)}" src="data:image/svg+xml;base64,{data}">'


def _list(items: Iterable[str], *, none: str) -> str:
    entries = "".join(f"<li>{escape(str(each))}</li>" for each in items)
    return f"<ul>{entries}</ul>" if entries else f'<p class="soft">{escape(none)}</p>'


def _grid(headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[int]) -> str:
    """A table; the columns ``numbers`` are on the right, with their headings."""

    def row(cells: Sequence[str], tag: str) -> str:
        kinds = [' class="number"' if place in numbers else "" for place in range(len(cells))]
        inside = (f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{''.join(inside)}</tr>"

    head = row(headings, "th") if headings else ""
    return f"<table>{head}{''.join(row(each, 'td') for each in rows)}</table>"
