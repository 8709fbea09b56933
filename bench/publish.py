"""Writes the report: bench/results with its plots and README.md, and the figures in the project's README."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.collections.workloads import WORKLOADS as WORK_ON_COLLECTIONS
from bench.comparison import measured, titled
from bench.figures import BASE, Figures
from bench.promises import Line
from bench.report import Document, machine_sentence, markdown_table, read_documents, report_markdown, shortened, times
from bench.section import Section
from bench.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures of bench/results: begin -->", "<!-- figures of bench/results: end -->"
LINES_OF_README = {
    "compare": ("fast-read", "range", "rmw-4"),
    "documents": ("find-id", "update", "insert-many"),
}
"""The lines that the project's README shows, by section."""
PEERS_OF_README = ("sqlite3", "py-lmdb", "ZODB")
PLOT_OF_README = "long_reader"
"""The section whose first plot is shown in the project's README."""

Plots = Mapping[str, Sequence[tuple[str, str]]]
"""Of each section: captions with the names of files beside the report."""


def draw(results: Path, sections: Sequence[Section], documents: Mapping[str, Document]) -> Plots:
    """Draw all plots into the directory."""
    import matplotlib

    plots = {}
    # Letters as text and not as curves: a file is a third as long, and can be searched.
    with matplotlib.rc_context({"svg.fonttype": "none", "path.simplify_threshold": 1.0}):
        for section in sections:
            if section.name in documents:
                drawn = section.plot(documents[section.name]["data"], results)
                for _, file in drawn:
                    file.write_text(lightened(file.read_text()))
                plots[section.name] = [(caption, file.name) for caption, file in drawn]
    return plots


def lightened(drawing: str) -> str:
    """The same with places to a tenth of a point, without indentation and names of groups that nothing refers to.

    >>> lightened('  <g id="line_1"><path style="opacity: 0.25" d="M 12.345678 9.5 \\nL 0.001 2 \\n"/></g>')
    '<g><path style="opacity: 0.25" d="M12.3 9.5L0 2"/></g>'
    """
    places = re.sub(r'(?<= )(?:d|x|y|x1|x2|y1|y2)="[^"]*"', lambda found: _rounded(found[0]), drawing)
    return re.sub(r"^ +", "", re.sub(r'<g id="[^"]*"', "<g", places), flags=re.MULTILINE)


def _rounded(attribute: str) -> str:
    shorter = re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), attribute)
    return re.sub(r'\s+"$', '"', re.sub(r"\s*([A-Zz])\s*", r"\1", shorter))


def publish(results: Path, sections: Sequence[Section]) -> Path:
    """Make the report from the raw figures in the directory; if it is the project's own, its README as well."""
    documents = read_documents(results, sections)
    plots = draw(results, sections, documents)
    report = results / "README.md"
    report.write_text(report_markdown(sections, documents, plots))
    if results.resolve() == RESULTS and "compare" in documents:
        README.write_text(with_figures(README.read_text(), figures_of_readme(sections, documents, plots)))
    return report


def with_figures(readme: str, figures: str) -> str:
    """The text with these figures between its two markers.

    >>> with_figures(f"a\\n{BEGIN}\\nold\\n{END}\\nz", "new") == f"a\\n{BEGIN}\\nnew\\n{END}\\nz"
    True
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the README has no place for figures")
    return f"{before}{BEGIN}\n{figures}\n{END}{after}"


def figures_of_readme(sections: Sequence[Section], documents: Mapping[str, Document], plots: Plots) -> str:
    """Six lines beside three peers, one plot, and how many targets were met."""
    document = documents["compare"]
    met, missed = outcomes(sections, documents)
    parts = [
        _wrapped(
            "Operations per second, and how many times as fast Lowtide is as each peer (bold: the peer is ahead). "
            "Medians of paired ratios; 100,000 documents of 150 bytes (keyspaces) and 300 bytes with two indexes "
            "(collections). " + machine_sentence(document["machine"], PEERS_OF_README)
        ),
        _few_ratios(documents),
        *(f"![{caption}](bench/results/{file})" for caption, file in plots.get(PLOT_OF_README, ())[:1]),
        f"[The report](bench/results/README.md) has all of it: {len(met)} targets met, {len(missed)} missed, and why.",
    ]
    if any(each["quick"] for each in documents.values()):
        parts.insert(0, "*These are of a rough run (`--quick`): a check that it works, not a measurement.*")
    return "\n\n".join(parts)


def _wrapped(paragraph: str) -> str:
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False)


def _few_ratios(documents: Mapping[str, Document]) -> str:
    rows = []
    for section, workloads in (("compare", WORKLOADS), ("documents", WORK_ON_COLLECTIONS)):
        if section not in documents:
            continue
        figures = Figures.from_data(documents[section]["data"]["figures"])
        chosen = [line for line in workloads if line.name in LINES_OF_README[section]]
        rows += _rows_of(figures, chosen, PEERS_OF_README)
    return markdown_table(("work", "Lowtide", *(f"/ {peer}" for peer in PEERS_OF_README)), rows)


def _rows_of(figures: Figures, lines: Sequence[Line], peers: Sequence[str]) -> list[tuple[str, ...]]:
    """Of each line that was measured: its title, the rate, and the ratio to each peer."""
    rows = []
    for line in measured(figures, lines):
        rate = figures.rate(line.name, BASE)
        ratios = [figures.ratio(line.name, peer) if peer in figures.peers() else None for peer in peers]
        cells = ("–" if ratio is None else bold_if_behind(ratio.middle) for ratio in ratios)
        rows.append((titled(line), "–" if rate is None else shortened(rate.middle), *cells))
    return rows


def bold_if_behind(ratio: float) -> str:
    return times(ratio) if ratio >= 1 else f"**{times(ratio)}**"


def outcomes(sections: Sequence[Section], documents: Mapping[str, Document]) -> tuple[list[str], list[str]]:
    """The targets that were met, and those that were missed with what was measured."""
    met, missed = [], []
    for section in sections:
        if section.name in documents:
            for finding in section.findings(documents[section.name]["data"]):
                if finding.met:
                    met.append(finding.target)
                else:
                    missed.append(f"{finding.target} ({finding.measured})")
    return met, missed
