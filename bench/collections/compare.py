"""Collections of documents beside other stores of documents: the same work on all, interleaved, as paired ratios."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.collections import adapter, colour, installed, open_loaded
from bench.collections.protocol import Durability
from bench.collections.targets import findings, peers_ahead
from bench.collections.workloads import MANY, RANGE_LENGTH, WORKLOADS, Subject, Workload, measure, missing, revisions
from bench.drawing import label, make_figure, save
from bench.figures import BASE, Figure, Figures, Summary
from bench.report import shortened, times
from bench.section import Data, Finding, Grid, Plan
from bench.stores import undisturbed
from bench.timing import turns

Place = tuple[str, Durability]
"""A store by its name and its durability."""


class LostWrite(Exception):
    """A store that loses writes has no figures worth showing."""


class Documents:
    name = "documents"
    title = "Documents"
    workloads = tuple(workload.name for workload in WORKLOADS)

    # -- measuring ----------------------------------------------------------------------------------------------------

    def run(self, plan: Plan) -> Data:
        rounds = plan.rounds or (2 if plan.quick else 9)
        seconds = plan.seconds or (0.05 if plan.quick else 0.3)
        documents = max(plan.documents or (5_000 if plan.quick else 100_000), RANGE_LENGTH)
        few = min(rounds, 1 if plan.quick else 3)
        names = [name for name in installed() if not plan.peers or name in plan.peers]
        workloads = [workload for workload in WORKLOADS if not plan.only or workload.name in plan.only]
        places = sorted({place for work in workloads for place in able(names, work).values()})
        total = len(places) + len(workloads)
        figures = Figures()
        subjects: dict[Place, Subject] = {}
        try:
            for number, place in enumerate(places):
                plan.step(f"loading {' '.join(place)}", number / total)
                subjects[place] = load(place, plan.place, documents, plan.quick)
            # What was imported stays until the end; walking it in each collection would be for nothing.
            gc.collect()
            gc.freeze()
            for number, workload in enumerate(workloads):
                plan.step(workload.title, (len(places) + number) / total)
                chosen = able(names, workload)
                slow = [name for name in chosen if adapter(name).slow]
                order = turns(list(chosen), slow, rounds, few) if chosen else []
                self._measure(workload, {name: subjects[chosen[name]] for name in chosen}, order, seconds, figures)
        finally:
            gc.unfreeze()
            for subject in subjects.values():
                subject.store.close()
        return {
            "rounds": rounds,
            "rounds_of_slow_peers": few,
            "seconds": seconds,
            "documents": documents,
            "peers": describe(names, {name: subject.loaded for (name, _), subject in subjects.items()}),
            "figures": figures.as_data(),
        }

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
        return [self._rates(figures, data), self._ratios(figures), *self._ahead(figures), *self._settling(figures)]

    def _rates(self, figures: Figures, data: Data) -> Grid:
        peers = figures.peers()
        rows = []
        for workload in measured(figures):
            rates = (figures.rate(workload.name, peer) for peer in peers)
            rows.append((titled(workload), *("–" if rate is None else shortened(rate.middle) for rate in rates)))
        return Grid("Operations per second, medians", ("work", *peers), rows, note(data))

    def _ratios(self, figures: Figures) -> Grid:
        peers = [peer for peer in figures.peers() if peer != BASE]
        rows = [
            (titled(workload), *(_ratio(figures.ratio(workload.name, peer)) for peer in peers))
            for workload in measured(figures)
        ]
        return Grid(
            "Lowtide relative to each store: median of the paired ratios, least to most",
            ("work", *peers),
            rows,
            "Above 1, Lowtide is ahead. A ratio is of two measurements in the same round.",
        )

    def _ahead(self, figures: Figures) -> list[Grid]:
        rows = [
            (f"{each.workload.title}, {each.peer}: {each.why}", times(each.ratio.middle))
            for each in peers_ahead(figures)
        ]
        title = "Where another store is ahead, and why"
        return [Grid(title, ("work, store: reason", "Lowtide / store"), rows)] if rows else []

    def _settling(self, figures: Figures) -> list[Grid]:
        peers = figures.peers()
        rows = []
        for workload in measured(figures):
            if workload.writes:
                settled = [figures.settle_seconds(workload.name, peer) for peer in peers]
                rows.append((workload.title, *("–" if s is None else f"{s.middle * 1e3:.0f}" for s in settled)))
        title = "Work put off: milliseconds to come to rest after writing, median"
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
        label(axes, "Collections relative to each store of documents", "times as fast; right of 1 Lowtide is ahead")
        caption = "Lowtide's collections relative to each store of documents, medians of paired ratios."
        return [(caption, save(figure, directory, self.name))]


def load(place: Place, directory: Path, documents: int, quick: bool) -> Subject:
    """Open the store and fill it, with fewer documents where it says so, and with a fifth of those in a rough run."""
    name, durability = place
    most = adapter(name).documents
    count = documents if most is None else min(documents, max(most // 5 if quick else most, RANGE_LENGTH))
    return Subject(open_loaded(name, directory, durability, count), count)


def able(names: Sequence[str], workload: Workload) -> dict[str, Place]:
    """Those that can do this work, and in which of their stores they do it: reads in the synced one, if there is."""
    found: dict[str, Place] = {}
    for name in names:
        chosen = adapter(name)
        wanted: Durability = workload.durability or ("synced" if "synced" in chosen.settings else "unsynced")
        if wanted in chosen.settings and workload.work not in chosen.cannot:
            found[name] = (name, wanted)
    return found


def total_revisions(name: str, subject: Subject) -> int:
    return revisions(subject, "scan" not in adapter(name).cannot)


def describe(names: Sequence[str], loaded: dict[str, int]) -> Data:
    """What a report says about the stores beside their figures."""
    found = {}
    for name in names:
        chosen = adapter(name)
        found[name] = {
            "settings": dict(chosen.settings),
            "cannot": dict(chosen.cannot),
            "weaker": chosen.weaker,
            "documents": loaded.get(name, 0),
            "slow": chosen.slow,
            "remark": chosen.remark,
        }
    return found


def measured(figures: Figures) -> list[Workload]:
    found = set(figures.workloads())
    return [workload for workload in WORKLOADS if workload.name in found]


def titled(workload: Workload) -> str:
    return workload.title if workload.unit == "operation" else f"{workload.title}, {workload.unit}s/s"


def note(data: Data) -> str:
    """How it was measured, and what each store was and could not."""
    slow = [name for name, each in data["peers"].items() if each["slow"]]
    fewer = f" ({data['rounds_of_slow_peers']} for {', '.join(slow)})" if slow else ""
    told = [
        (
            f"{data['documents']:,} documents of about 300 bytes of JSON with two indexes, dicts in and dicts out; "
            f"each operation is a transaction. Rounds, interleaved: {data['rounds']} of {data['seconds']:g} s{fewer}; "
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


def _ratio(ratio: Summary | None) -> str:
    return "–" if ratio is None else f"{times(ratio.middle)} ({times(ratio.least)}..{times(ratio.most)})"


SECTION = Documents()
