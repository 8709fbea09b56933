"""How figures are shown: numbers with few digits, tables for the terminal and for Markdown, and the report of a run."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.section import Data, Finding, Grid, Section

Document = Mapping[str, Any]
"""What is kept of one section: its name, the circumstances, and its data."""


# -- numbers ----------------------------------------------------------------------------------------------------------


def shortened(value: float) -> str:
    """Three digits are more than the noise leaves meaningful.

    >>> shortened(181_234), shortened(5_234), shortened(17.2), shortened(1_250_000)
    ('181k', '5.2k', '17', '1.25M')
    """
    if value >= 999_500:
        return f"{value / 1e6:.2f}M"
    if value >= 9_950:
        return f"{value / 1e3:.0f}k"
    if value >= 995:
        return f"{value / 1e3:.1f}k"
    return f"{value:.0f}"


def times(ratio: float) -> str:
    """
    >>> times(0.756), times(12.34), times(123.4)
    ('0.76', '12.3', '123')
    """
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}" if ratio < 99.95 else f"{ratio:.0f}"


# -- the terminal -----------------------------------------------------------------------------------------------------


def make_console() -> Console:
    """Output that is not a terminal has no width of its own; the widest table needs this much."""
    console = Console()
    return console if console.is_terminal else Console(width=150)


def make_table(title: str, words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in words:
        table.add_column(heading)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def verdict(met: bool) -> Text:
    return Text("met", style="bold green") if met else Text("missed", style="bold red")


def grid_table(grid: Grid) -> Table:
    table = make_table(grid.title, grid.headings[:1], ())
    for heading in grid.headings[1:]:
        table.add_column(heading, justify="right")
    for row in grid.rows:
        table.add_row(*row)
    return table


def findings_table(found: Sequence[Finding]) -> Table:
    table = make_table("Targets", ["target", "measured"], ["outcome"])
    for finding in found:
        table.add_row(finding.target, finding.measured, verdict(finding.met))
    return table


def show(section: Section, data: Data, console: Console) -> None:
    """Print the tables of one section."""
    console.rule(section.title, align="left", characters="-")
    for grid in section.grids(data):
        console.print(grid_table(grid))
        if grid.note:
            console.print(grid.note, style="dim")
    found = section.findings(data)
    if found:
        console.print(findings_table(found))


# -- what is kept -----------------------------------------------------------------------------------------------------


def write_document(directory: Path, name: str, circumstances: Document, quick: bool, data: Data) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    document = {"section": name, "quick": quick, "machine": circumstances, "data": data}
    (directory / f"{name}.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")


def read_documents(directory: Path, sections: Sequence[Section]) -> dict[str, Document]:
    """Those that are there, in the order of the sections."""
    files = {section.name: directory / f"{section.name}.json" for section in sections}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


# -- Markdown ---------------------------------------------------------------------------------------------------------


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """
    >>> print(markdown_table(("work", "rate"), [("a", "1")]))
    | work | rate |
    | :-- | --: |
    | a | 1 |
    """
    lines = [headings, [":--", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell(each) for each in line) + " |" for line in lines)


def findings_markdown(found: Sequence[Finding]) -> str:
    lines = ["| target | measured | outcome |", "| :-- | :-- | :-- |"]
    for finding in found:
        outcome = "met" if finding.met else "**missed**"
        lines.append(f"| {cell(finding.target)} | {cell(finding.measured)} | {outcome} |")
    return "\n".join(lines)


def machine_sentence(circumstances: Document, named: Collection[str] | None = None) -> str:
    """Where and with what it was measured; ``named`` are the peers that are shown, None for all."""
    known = dict(circumstances)
    commit = str(known.get("commit") or "unknown")[:12] + (" and changes" if known.get("uncommitted_changes") else "")
    gibibytes = known["memory_bytes"] / (1 << 30)
    shown = set(known.get("peers", {})) - {"lowtide"} if named is None else named
    peers = ", ".join(f"{name} {version}" for name, version in known.get("peers", {}).items() if name in shown)
    return (
        f"{known['cores']} cores of {known['processor']}, {gibibytes:.0f} GiB, {known['filesystem']}, "
        f"Linux {known['kernel']}, {known['python']}, Lowtide {known['lowtide']} at commit {commit}; "
        f"SQLite {known['sqlite3']}, LMDB {known['lmdb']}{', ' + peers if peers else ''}."
    )


def section_markdown(section: Section, document: Document, plots: Sequence[tuple[str, str]]) -> str:
    data = document["data"]
    parts = [f"## {section.title}"]
    if document["quick"]:
        parts.append("*A rough run (`--quick`): a check that it works, not a measurement.*")
    parts += [f"![{caption}]({file})" for caption, file in plots]
    for grid in section.grids(data):
        parts += [f"### {grid.title}", markdown_table(grid.headings, grid.rows)]
        if grid.note:
            parts.append(grid.note)
    found = section.findings(data)
    if found:
        parts += ["### Targets", findings_markdown(found)]
        reasons = [f"* {finding.target} ({finding.measured}): {finding.why}." for finding in found if finding.why]
        if reasons:
            parts += ["Where it falls short, or a peer is ahead:", "\n".join(reasons)]
    parts.append(f"Raw figures: [{section.name}.json]({section.name}.json). {machine_sentence(document['machine'])}")
    return "\n\n".join(parts)


def report_markdown(
    sections: Sequence[Section], documents: Mapping[str, Document], plots: Mapping[str, Sequence[tuple[str, str]]]
) -> str:
    """The whole report. The plots of a section are captions with the names of their files."""
    parts = [
        "# What was measured",
        (
            "Made by `python -m bench`; `python -m bench --report` makes it again from the raw figures beside it. "
            "Trust ratios within one run, not figures: the machine has its say in all of them."
        ),
    ]
    shown = [section for section in sections if section.name in documents]
    counts = []
    for section in shown:
        found = section.findings(documents[section.name]["data"])
        anchor = section.title.lower().replace(" ", "-").replace(",", "").replace(":", "")
        missed = sum(not finding.met for finding in found)
        counts.append((f"[{section.title}](#{anchor})", str(len(found) - missed), str(missed)))
    parts.append(markdown_table(("section", "targets met", "missed"), counts))
    parts += [section_markdown(section, documents[section.name], plots.get(section.name, ())) for section in shown]
    return "\n\n".join(parts) + "\n"
