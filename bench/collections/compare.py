"""Collections compared with other document stores: the same work on all, interleaved, as paired ratios."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench import comparison
from bench.collections import STORES, adapter, open_loaded
from bench.collections.protocol import Durability
from bench.collections.targets import PROMISES
from bench.collections.workloads import MANY, RANGE_LENGTH, WORKLOADS, Subject, Workload, measure, missing, revisions
from bench.comparison import Extent, rounds_told
from bench.figures import Figure, Figures
from bench.section import Data, Finding, Grid, Plan
from bench.stores import undisturbed, unwalked
from bench.timing import turns

FULL = Extent(rounds=9, few=3, seconds=0.3, documents=100_000)
QUICK = Extent(rounds=2, few=1, seconds=0.05, documents=5_000)

Place = tuple[str, Durability]
"""A store by its name and its durability."""


class LostWrite(Exception):
    """Raised if a store lost writes. Its figures are not shown."""


class Documents:
    name = "documents"
    title = "Documents"
    workloads = tuple(workload.name for workload in WORKLOADS)

    # -- measuring ----------------------------------------------------------------------------------------------------

    def run(self, plan: Plan) -> Data:
        extent = (QUICK if plan.quick else FULL).asked(plan, least=RANGE_LENGTH)
        names = STORES.chosen(plan.peers)
        workloads = [workload for workload in WORKLOADS if not plan.only or workload.name in plan.only]
        places = sorted({place for work in workloads for place in able(names, work).values()})
        total = len(places) + len(workloads)
        figures = Figures()
        subjects: dict[Place, Subject] = {}
        try:
            for number, place in enumerate(places):
                plan.step(f"loading {' '.join(place)}", number / total)
                subjects[place] = load(place, plan.place, extent.documents, plan.quick)
            with unwalked():
                for number, workload in enumerate(workloads):
                    plan.step(workload.title, (len(places) + number) / total)
                    chosen = able(names, workload)
                    order = turns(list(chosen), STORES.slow(chosen), extent.rounds, extent.few) if chosen else []
                    taking_part = {name: subjects[chosen[name]] for name in chosen}
                    self._measure(workload, taking_part, order, extent.seconds, figures)
        finally:
            for subject in subjects.values():
                subject.store.close()
        loaded = {name: subject.loaded for (name, _), subject in subjects.items()}
        peers = {name: each | {"documents": loaded.get(name, 0)} for name, each in STORES.described(names).items()}
        return extent.as_data() | {"peers": peers, "figures": figures.as_data()}

    def _measure(
        self,
        workload: Workload,
        subjects: dict[str, Subject],
        plan: Sequence[Sequence[str]],
        seconds: float,
        figures: Figures,
    ) -> None:
        updates = workload.work == "update"
        before = {name: total_revisions(name, subject) for name, subject in subjects.items() if updates}
        done = dict.fromkeys(subjects, 0)
        for number, order in enumerate(plan):
            for name in order:
                subject, slow = subjects[name], adapter(name).slow
                work = partial(measure, workload, subject, seconds, number, slow)
                sample, settled = undisturbed(subject.store, work)
                figures.add(Figure(workload.name, name, number, sample.rate, None, settled))
                done[name] += sample.updated
        for name, subject in subjects.items():
            if updates and (found := total_revisions(name, subject) - before[name]) != done[name]:
                raise LostWrite(f"{name}, {workload.name}: {done[name]} updates were made, {found} are found")
            if workload.writes and (lost := missing(subject, 4 if adapter(name).slow else 100)):
                raise LostWrite(f"{name}, {workload.name}: {lost} documents that were inserted are not found")

    # -- showing ------------------------------------------------------------------------------------------------------

    def grids(self, data: Data) -> list[Grid]:
        figures = Figures.from_data(data["figures"])
        return [
            comparison.rates(figures, WORKLOADS, note(data)),
            comparison.ratios(figures, PROMISES),
            *comparison.ahead(figures, PROMISES, "Where another store is ahead, and why"),
            *comparison.settling(figures, WORKLOADS, "writing"),
        ]

    def findings(self, data: Data) -> list[Finding]:
        return PROMISES.findings(Figures.from_data(data["figures"]))

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        figures = Figures.from_data(data["figures"])
        title = "Collections relative to each store of documents"
        file = comparison.draw(figures, WORKLOADS, STORES.colour, title, directory, self.name)
        return [("Lowtide's collections relative to each store of documents, medians of paired ratios.", file)]


def load(place: Place, directory: Path, documents: int, quick: bool) -> Subject:
    """Open the store and fill it, with fewer documents where it says so, and with a fifth of those in a rough run."""
    name, durability = place
    most = adapter(name).documents
    count = documents if most is None else min(documents, max(most // 5 if quick else most, RANGE_LENGTH))
    return Subject(open_loaded(name, directory, durability, count), count)


def able(names: Sequence[str], workload: Workload) -> dict[str, Place]:
    """The stores that can do this work, each with its durability: reads use the synced one, if there is one."""
    found: dict[str, Place] = {}
    for name in names:
        chosen = adapter(name)
        wanted: Durability = workload.durability or ("synced" if "synced" in chosen.settings else "unsynced")
        if wanted in chosen.settings and workload.work not in chosen.cannot:
            found[name] = (name, wanted)
    return found


def total_revisions(name: str, subject: Subject) -> int:
    return revisions(subject, "scan" not in adapter(name).cannot)


def note(data: Data) -> str:
    """How it was measured, and what each store was and could not."""
    told = [
        (
            f"{data['documents']:,} documents of about 300 bytes of JSON with two indexes, dicts in and dicts out; "
            f"each operation is a transaction. Rounds, interleaved: {rounds_told(data)}; "
            f"scans, groups and batches of {MANY:,} are one of each a round. Reads do not sync, so they are measured "
            "once."
        )
    ]
    for name, each in data["peers"].items():
        settings = " and ".join(dict.fromkeys(each["settings"].values()))
        told.append(f"{name} ({settings}): {each['remark']}")
        if 0 < each["documents"] < data["documents"]:
            told.append(f"It holds {each['documents']:,} documents, which is in its favour: its costs grow with them.")
        if each["weaker"]:
            told.append(f"It has no fsynced lines, since {each['weaker']}.")
        if each["cannot"]:
            told.append(f"Left out: {'; '.join(dict.fromkeys(each['cannot'].values()))}.")
    return " ".join(told)


SECTION = Documents()
