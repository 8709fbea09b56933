"""Lowtide beside its peers: the same work on all, interleaved, as operations per second and as paired ratios."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.documents import Dataset
from bench.drawing import label, make_figure, save
from bench.figures import BASE, Figure, Figures, Summary, colour
from bench.peers import adapter
from bench.report import shortened, times
from bench.section import Data, Finding, Grid, Plan
from bench.stores import Stores, chosen_peers, describe, slow_ones, unable, undisturbed
from bench.targets import findings, peers_ahead
from bench.timing import turns
from bench.workloads import BATCH_LENGTH, RANGE_LENGTH, WORKLOADS, Workload, measure


class LostUpdate(Exception):
    """A store that loses updates has no figures worth showing."""


class Compare:
    name = "compare"
    title = "Beside its peers"
    workloads = tuple(workload.name for workload in WORKLOADS)

    # -- measuring ----------------------------------------------------------------------------------------------------

    def run(self, plan: Plan) -> Data:
        # Many short rounds: a disturbance lasts for seconds, and should hit both sides of a ratio or few ratios.
        rounds = plan.rounds or (3 if plan.quick else 15)
        seconds = plan.seconds or (0.08 if plan.quick else 0.4)
        documents = max(plan.documents or (20_000 if plan.quick else 100_000), RANGE_LENGTH + 1)
        few = min(rounds, 1 if plan.quick else 3)
        names = chosen_peers(plan)
        workloads = [workload for workload in WORKLOADS if not plan.only or workload.name in plan.only]
        dataset = Dataset(documents, BATCH_LENGTH)
        figures = Figures()
        with closing(Stores(plan.place, dataset.pairs)) as stores:
            places = sorted({(name, w.durability) for w in workloads for name in able(names, w)})
            total = len(places) + len(workloads) * rounds
            for number, (name, durability) in enumerate(places):
                plan.step(f"loading {name} ({durability})", number / total)
                stores.load(name, durability)
            # The dataset stays until the end; walking it in each collection would cost all stores alike, for nothing.
            gc.collect()
            gc.freeze()
            try:
                for number, workload in enumerate(workloads):
                    plan.step(workload.title, (len(places) + number * rounds) / total)
                    order = turns(able(names, workload), slow_ones(names), rounds, few)
                    self._measure(workload, stores, dataset, order, seconds, figures)
            finally:
                gc.unfreeze()
        return {
            "rounds": rounds,
            "rounds_of_slow_peers": few,
            "seconds": seconds,
            "documents": documents,
            "peers": describe(names),
            "figures": figures.as_data(),
        }

    def _measure(
        self,
        workload: Workload,
        stores: Stores,
        dataset: Dataset,
        plan: Sequence[Sequence[str]],
        seconds: float,
        figures: Figures,
    ) -> None:
        names = {name for order in plan for name in order}
        before = {name: stores.revisions(name, workload.durability) for name in names} if workload.modifies else {}
        done = dict.fromkeys(names, 0)
        for number, order in enumerate(plan):
            for name in order:
                peer = stores.get(name, workload.durability)
                sample, settled = undisturbed(peer, partial(measure, workload, peer, dataset, seconds, number))
                figures.add(Figure(workload.name, name, number, sample.rate, sample.beside, settled))
                done[name] += sample.modified
        for name, revisions in before.items():
            found = stores.revisions(name, workload.durability) - revisions
            if found != done[name]:
                raise LostUpdate(f"{name}, {workload.name}: {done[name]} updates were made, {found} are found")

    # -- showing ------------------------------------------------------------------------------------------------------

    def grids(self, data: Data) -> list[Grid]:
        figures = Figures.from_data(data["figures"])
        return [
            self._rates(figures, data),
            self._ratios(figures, data),
            *self._ahead(figures),
            *self._settling(figures, data),
        ]

    def _rates(self, figures: Figures, data: Data) -> Grid:
        peers = figures.peers()
        rows = []
        for workload in measured(figures):
            cells = []
            for peer in peers:
                rate, beside = figures.rate(workload.name, peer), figures.beside(workload.name, peer)
                cells.append("–" if rate is None else shortened(rate.middle))
                if beside is not None:
                    cells[-1] += f" ({shortened(beside.middle)})"
            rows.append((titled(workload), *cells))
        return Grid(
            "Operations per second, medians",
            ("work", *peers),
            rows,
            f"{data['documents']:,} documents of about 150 bytes, values decoded; {rounds_note(data)} "
            "Unsynced work is on stores of its own. " + settings_note(data) + cannot_note(data),
        )

    def _ratios(self, figures: Figures, data: Data) -> Grid:
        peers = [peer for peer in figures.peers() if peer != BASE]
        rows = [
            (titled(workload), *(_ratio(figures.ratio(workload.name, peer)) for peer in peers))
            for workload in measured(figures)
        ]
        return Grid(
            "Lowtide relative to each peer: median of the paired ratios, least to most",
            ("work", *peers),
            rows,
            "Above 1, Lowtide is ahead. A ratio is of two measurements in the same round.",
        )

    def _ahead(self, figures: Figures) -> list[Grid]:
        rows = [
            (f"{each.workload.title}, {each.peer}: {each.why}", times(each.ratio.middle))
            for each in peers_ahead(figures)
        ]
        return [Grid("Where a peer is ahead, and why", ("work, peer: reason", "Lowtide / peer"), rows)] if rows else []

    def _settling(self, figures: Figures, data: Data) -> list[Grid]:
        peers = figures.peers()
        rows = []
        for workload in measured(figures):
            if workload.writes:
                settled = [figures.settle_seconds(workload.name, peer) for peer in peers]
                rows.append((workload.title, *("–" if s is None else f"{s.middle * 1e3:.0f}" for s in settled)))
        title = f"Work put off: milliseconds to come to rest after {data['seconds']:g} s of writing, median"
        return [Grid(title, ("work", *peers), rows)] if rows else []

    def findings(self, data: Data) -> list[Finding]:
        return findings(Figures.from_data(data["figures"]))

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        figures = Figures.from_data(data["figures"])
        peers = [peer for peer in figures.peers() if peer != BASE]
        lines = measured(figures)[::-1]
        figure, (axes,) = make_figure(width=9, height=1.2 + 0.38 * len(lines))
        axes.axvline(1, color="black", linewidth=1)
        for at, peer in enumerate(peers):
            points = [(y, figures.ratio(workload.name, peer)) for y, workload in enumerate(lines)]
            known = [(y, ratio) for y, ratio in points if ratio is not None]
            if known:
                axes.plot(
                    [ratio.middle for _, ratio in known],
                    [y for y, _ in known],
                    linestyle="none",
                    marker="oDsv^P*X"[at % 8],
                    color=colour(peer),
                    alpha=0.85,
                    label=peer,
                )
        axes.set_xscale("log")
        axes.set_yticks(range(len(lines)), [workload.title for workload in lines])
        axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
        label(axes, "Lowtide relative to each peer", "times as fast; right of 1 Lowtide is ahead")
        return [("Lowtide relative to each peer, medians of paired ratios", save(figure, directory, "compare"))]


def able(names: Sequence[str], workload: Workload) -> list[str]:
    """Those that can do this work."""
    return [name for name in names if unable(adapter(name), workload.needs) is None]


def measured(figures: Figures) -> list[Workload]:
    found = set(figures.workloads())
    return [workload for workload in WORKLOADS if workload.name in found]


def titled(workload: Workload) -> str:
    return workload.title if workload.unit == "operation" else f"{workload.title}, {workload.unit}s/s"


def rounds_note(data: Data) -> str:
    slow = [name for name, each in data["peers"].items() if each["slow"]]
    fewer = f" ({data['rounds_of_slow_peers']} for {', '.join(slow)})" if slow else ""
    return f"rounds, interleaved: {data['rounds']} of {data['seconds']:g} s{fewer}."


def settings_note(data: Data) -> str:
    told = []
    for name, each in data["peers"].items():
        settings = " and ".join(dict.fromkeys(each["settings"].values()))
        told.append(f"{name} ({settings}): {each['remark']}" if each["remark"] else f"{name} ({settings}).")
    return " ".join(told)


def cannot_note(data: Data) -> str:
    told = [
        f"{name}: {'; '.join(dict.fromkeys(each['cannot'].values()))}."
        for name, each in data["peers"].items()
        if each["cannot"]
    ]
    return " A dash is what a store cannot do, or not rightly: " + " ".join(told) if told else ""


def _ratio(ratio: Summary | None) -> str:
    return "–" if ratio is None else f"{times(ratio.middle)} ({times(ratio.least)}..{times(ratio.most)})"


SECTION = Compare()
