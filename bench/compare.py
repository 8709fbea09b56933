"""Lowtide compared with its peers: the same work on all, interleaved, as operations per second and paired ratios."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from bench import comparison
from bench.comparison import Extent, rounds_note
from bench.documents import Dataset
from bench.figures import Figure, Figures
from bench.peers import PEERS, adapter
from bench.section import Data, Finding, Grid, Plan
from bench.stores import Stores, unable, undisturbed, unwalked
from bench.targets import PROMISES, findings
from bench.timing import turns
from bench.workloads import BATCH_LENGTH, RANGE_LENGTH, WORKLOADS, Workload, measure

# Many short rounds: a disturbance lasts for seconds, and should hit both sides of a ratio or few ratios.
FULL = Extent(rounds=15, few=3, seconds=0.4, documents=100_000)
QUICK = Extent(rounds=3, few=1, seconds=0.08, documents=20_000)


class LostUpdate(Exception):
    """Raised if a store lost updates. Its figures are not shown."""


class Compare:
    name = "compare"
    title = "Beside its peers"
    workloads = tuple(workload.name for workload in WORKLOADS)

    # -- measuring ----------------------------------------------------------------------------------------------------

    def run(self, plan: Plan) -> Data:
        extent = (QUICK if plan.quick else FULL).asked(plan, least=RANGE_LENGTH + 1)
        names = PEERS.chosen(plan.peers)
        workloads = [workload for workload in WORKLOADS if not plan.only or workload.name in plan.only]
        dataset = Dataset(extent.documents, BATCH_LENGTH)
        figures = Figures()
        with closing(Stores(plan.place, dataset.pairs)) as stores:
            places = sorted({(name, w.durability) for w in workloads for name in able(names, w)})
            total = len(places) + len(workloads) * extent.rounds
            for number, (name, durability) in enumerate(places):
                plan.step(f"loading {name} ({durability})", number / total)
                stores.load(name, durability)
            with unwalked():
                for number, workload in enumerate(workloads):
                    plan.step(workload.title, (len(places) + number * extent.rounds) / total)
                    order = turns(able(names, workload), PEERS.slow(names), extent.rounds, extent.few)
                    self._measure(workload, stores, dataset, order, extent.seconds, figures)
        return extent.as_data() | {"peers": PEERS.described(names), "figures": figures.as_data()}

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
        note = (
            f"{data['documents']:,} documents of about 150 bytes, values decoded; {rounds_note(data)} "
            "Unsynced work is on stores of its own. " + settings_note(data) + cannot_note(data)
        )
        return [
            comparison.rates(figures, WORKLOADS, note),
            comparison.ratios(figures, PROMISES),
            *comparison.ahead(figures, PROMISES, "Where a peer is ahead, and why"),
            *comparison.settling(figures, WORKLOADS, f"{data['seconds']:g} s of writing"),
        ]

    def findings(self, data: Data) -> list[Finding]:
        return findings(Figures.from_data(data["figures"]))

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        figures = Figures.from_data(data["figures"])
        title = "Lowtide relative to each peer"
        file = comparison.draw(figures, WORKLOADS, PEERS.colour, title, directory, self.name)
        return [(f"{title}, medians of paired ratios", file)]


def able(names: Sequence[str], workload: Workload) -> list[str]:
    """Those that can do this work."""
    return [name for name in names if unable(adapter(name), workload.needs) is None]


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


SECTION = Compare()
