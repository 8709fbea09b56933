"""The targets of the comparison of graphs, and the reasons where one is missed."""

from __future__ import annotations

from math import log
from statistics import geometric_mean

from bench.figures import BASE, Figures, paired
from bench.rdf import EVALUATOR
from bench.rdf.workloads import QUERY_NAMES
from bench.section import Data, Finding

LOAD = 100_000
"""Triples per second."""
OVER_OX = 2.0
OVER_MEMORY = 3.0
NOISE = 1.5
"""What a growth may be besides that of the logarithm."""
MOST_PEAK = 1.5
"""How much more memory a load of the largest file may take than one of the file before it."""

_IN_C = "its indexes and its terms are made in Rust; here each of five keys of a statement is met in Python"


def query_mean(figures: Figures, size: int, peer: str) -> float | None:
    """The geometric mean of the ratios of all queries to a peer; None if they were not all measured."""
    ratios = [figures.ratio(f"{name}/{size}", peer) for name in QUERY_NAMES]
    known = [ratio.middle for ratio in ratios if ratio is not None]
    return geometric_mean(known) if len(known) == len(QUERY_NAMES) else None


def findings(data: Data) -> list[Finding]:
    """Every target that was measured, with its outcome."""
    figures = Figures.from_data(data["figures"])
    largest = max(data["sizes"])
    return [
        *_loads(figures, largest),
        *_adds(figures),
        *(found for size in data["sizes"] for found in _queries(figures, size)),
        *_growth(data),
        *_memory(data),
    ]


def _loads(figures: Figures, size: int) -> list[Finding]:
    found = []
    rate = figures.rate(f"load/{size}", BASE)
    if rate is not None:
        met = rate.middle >= LOAD
        why = "" if met else "terms, ids and five keys of each statement are made, looked up and logged in Python"
        target = f"load of a file of {size:,} triples: at least {LOAD:,} triples/s"
        found.append(Finding(target, f"{rate.middle:,.0f}", met, why))
    ratio = paired(figures.of(f"load/{size}", BASE), figures.of(f"add-many/{size}", "oxrdflib"))
    if ratio is not None:
        met = ratio.middle >= OVER_OX
        target = f"load of a file of {size:,} triples: at least {OVER_OX:g}x oxrdflib's addN"
        found.append(Finding(target, f"{ratio.middle:.2f}x", met, "" if met else _IN_C))
    return found


def _adds(figures: Figures) -> list[Finding]:
    found = []
    for name, title in (("add/0", "single adds, each on disk"), ("add-unsynced/0", "single adds, unsynced")):
        ratio = figures.ratio(name, "oxrdflib")
        if ratio is not None:
            met = ratio.middle >= 1
            why = "" if met else "without a disk to wait for, a transaction with five keys in Python costs more"
            found.append(Finding(f"{title}: at least as fast as oxrdflib", f"{ratio.middle:.2f}x", met, why))
    return found


def _queries(figures: Figures, size: int) -> list[Finding]:
    found = []
    for peer, floor in (("rdflib Memory", OVER_MEMORY), (EVALUATOR, 1.0)):
        mean = query_mean(figures, size, peer)
        if mean is not None:
            worst = min(QUERY_NAMES, key=lambda name: figures.ratio(f"{name}/{size}", peer).middle)  # type: ignore[union-attr]
            least = figures.ratio(f"{worst}/{size}", peer)
            assert least is not None
            target = f"12 queries over {size:,} triples: at least {floor:g}x {peer}, geometric mean"
            found.append(Finding(target, f"{mean:.1f}x; least {least.middle:.2f}x, {worst}", mean >= floor))
    return found


def _growth(data: Data) -> list[Finding]:
    found = []
    sizes = sorted({row["triples"] for row in data["growth"]})
    most = NOISE * log(sizes[-1]) / log(sizes[0])
    seconds = {(row["query"], row["triples"]): row["seconds"] for row in data["growth"]}
    for query in dict.fromkeys(row["query"] for row in data["growth"]):
        grown = seconds[query, sizes[-1]] / seconds[query, sizes[0]]
        grows = f"{query}, from {sizes[0]:,} to {sizes[-1]:,} triples"
        target = f"{grows}: grows as the logarithm does, so by at most {most:.1f}x"
        found.append(Finding(target, f"{grown:.2f}x", grown <= most))
    return found


def _memory(data: Data) -> list[Finding]:
    before, last = data["memory"][-2:]
    grown = last["peak"] / before["peak"]
    target = (
        f"memory of a load of {last['triples']:,} triples: at most {MOST_PEAK:g}x that of {before['triples']:,} triples"
    )
    return [Finding(target, f"{grown:.2f}x, {last['peak'] / 2**20:.0f} MiB", grown <= MOST_PEAK)]
