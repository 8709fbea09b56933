"""The six core workloads of YCSB: keys drawn from a scrambled Zipfian distribution, each operation its own transaction.

A is half reads, half updates; B is 95 % reads; C is only reads; D is 95 % reads of the last inserted records; E is 95 %
scans of up to 100 records; F is half reads, half read-modify-writes. An update puts a whole new document without
reading the old one. Documents are those of the comparison, with 150 bytes instead of 1,000. Values are decoded.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal

from bench.comparison import Extent, rounds_note
from bench.documents import Dataset, change, decode, decode_all, encode, make_document
from bench.drawing import label, make_figure, save
from bench.figures import BASE, Figure, Figures
from bench.peers import PEERS, Need, Session, adapter
from bench.report import shortened, times
from bench.section import Data, Finding, Grid, Plan
from bench.stores import Stores, unable, undisturbed, unwalked
from bench.timing import Portion, Step, Worker, rate, run_together, turns
from bench.zipf import Zipfian, fnv64, scrambled

Kind = Literal["read", "update", "insert", "scan", "modify"]

LONGEST_SCAN = 100
THREADS = (1, 4)
DRAWS = 4096  # operations that a thread repeats
PORTION = 16
FULL = Extent(rounds=5, few=2, seconds=0.4, documents=100_000)
QUICK = Extent(rounds=1, few=1, seconds=0.08, documents=20_000)


@dataclass(frozen=True)
class Mix:
    """One workload: the share of each kind of operation."""

    name: str
    title: str
    shares: tuple[tuple[Kind, float], ...]
    latest: bool = False
    """Asks for what was inserted last, instead of for what is popular."""

    @property
    def needs(self) -> frozenset[Need]:
        needs: set[Need] = {"unsynced"}
        if any(kind == "scan" for kind, _ in self.shares):
            needs.add("order")
        return frozenset(needs)


MIXES = (
    Mix("ycsb-a", "A: half updates", (("read", 0.5), ("update", 0.5))),
    Mix("ycsb-b", "B: 5 % updates", (("read", 0.95), ("update", 0.05))),
    Mix("ycsb-c", "C: reads", (("read", 1.0),)),
    Mix("ycsb-d", "D: 5 % inserts, newest read", (("read", 0.95), ("insert", 0.05)), latest=True),
    Mix("ycsb-e", "E: 5 % inserts, scans", (("scan", 0.95), ("insert", 0.05))),
    Mix("ycsb-f", "F: half read-modify-writes", (("read", 0.5), ("modify", 0.5))),
)


class Records:
    """The keys that one store holds by now."""

    def __init__(self, dataset: Dataset) -> None:
        self.keys = list(dataset.keys)
        self.loaded = dataset.count
        self._numbers = count(dataset.count)

    def insert(self, session: Session) -> None:
        """Put a new record, with a key somewhere among the others. It is asked for only after it is there."""
        number = next(self._numbers)
        key = self.keys[fnv64(number) % self.loaded] + b"-%d" % number
        session.put(key, encode(make_document(number)))
        self.keys.append(key)


def operations(mix: Mix, zipfian: Zipfian, items: int, seed: int) -> list[Portion]:
    """What one thread does: kinds with ranks, drawn beforehand, so that drawing is not measured."""
    source = random.Random(seed)
    kinds = source.choices([kind for kind, _ in mix.shares], [share for _, share in mix.shares], k=DRAWS)
    drawn = []
    for kind in kinds:
        rank = zipfian.draw(source)
        number = rank if mix.latest else scrambled(rank, items)
        drawn.append((kind, number, source.randint(1, LONGEST_SCAN)))
    return [drawn[start : start + PORTION] for start in range(0, DRAWS, PORTION)]


def worker(mix: Mix, records: Records, zipfian: Zipfian, seed: int) -> Worker:
    def prepare(session: Session) -> tuple[Step, Sequence[Portion]]:
        keys, loaded, draft = records.keys, records.loaded, make_document(seed)
        doing: dict[Kind, Callable[[bytes, int], object]] = {
            "read": lambda key, length: decode(session.read_directly(key)),
            "modify": lambda key, length: session.modify(key, change),
            "scan": lambda key, length: session.read_from(key, length, decode_all),
            "insert": lambda key, length: records.insert(session),
            "update": lambda key, length: update(key),
        }

        def update(key: bytes) -> None:
            draft["revision"] += 1
            session.put(key, encode(draft))

        def step(portion: Portion) -> int:
            if mix.latest:
                for kind, rank, length in portion:
                    doing[kind](keys[-1 - rank], length)
            else:
                for kind, number, length in portion:
                    doing[kind](keys[number], length)
            return len(portion)

        return step, operations(mix, zipfian, loaded, seed)

    return prepare


class Ycsb:
    name = "ycsb"
    title = "YCSB A to F"
    workloads = tuple(mix.name for mix in MIXES)

    def run(self, plan: Plan) -> Data:
        extent = (QUICK if plan.quick else FULL).asked(plan)
        documents = extent.documents
        names = [name for name in PEERS.chosen(plan.peers) if unable(adapter(name), frozenset({"unsynced"})) is None]
        mixes = [mix for mix in MIXES if not plan.only or mix.name in plan.only]
        dataset, zipfian, figures = Dataset(documents, 1), Zipfian(documents), Figures()
        records = {name: Records(dataset) for name in names}
        total = len(names) + len(mixes) * len(THREADS)
        with closing(Stores(plan.place, dataset.pairs)) as stores:
            for number, name in enumerate(names):
                plan.step(f"loading {name}", number / total)
                stores.load(name, "unsynced")
            with unwalked():
                for at, (mix, threads) in enumerate((mix, threads) for mix in mixes for threads in THREADS):
                    plan.step(f"{mix.title}, {threads} threads", (len(names) + at) / total)
                    able = [name for name in names if unable(adapter(name), mix.needs) is None]
                    for number, order in enumerate(turns(able, PEERS.slow(able), extent.rounds, extent.few)):
                        for name in order:
                            peer = stores.get(name, "unsynced")
                            workers = [
                                worker(mix, records[name], zipfian, number * 16 + thread) for thread in range(threads)
                            ]
                            done, settled = undisturbed(peer, partial(run_together, peer, workers, extent.seconds))
                            figures.add(Figure(f"{mix.name}/{threads}", name, number, rate(done), None, settled))
        return extent.as_data() | {"peers": PEERS.described(names), "figures": figures.as_data()}

    def grids(self, data: Data) -> list[Grid]:
        figures = Figures.from_data(data["figures"])
        peers = figures.peers()
        grids = []
        for threads in THREADS:
            rows = []
            for mix in MIXES:
                cells = []
                for peer in peers:
                    found = figures.rate(f"{mix.name}/{threads}", peer)
                    ratio = None if peer == BASE else figures.ratio(f"{mix.name}/{threads}", peer)
                    cells.append("–" if found is None else shortened(found.middle))
                    if ratio is not None:
                        cells[-1] += f" ({times(ratio.middle)})"
                if any(each != "–" for each in cells):
                    rows.append((mix.title, *cells))
            grids.append(
                Grid(
                    f"Operations per second, {threads} thread{'s' * (threads > 1)}; in brackets Lowtide relative to it",
                    ("workload", *peers),
                    rows,
                    f"{data['documents']:,} documents, unsynced, scrambled Zipfian keys; medians; {rounds_note(data)} "
                    "Stores that sync every commit are left out."
                    if threads == THREADS[0]
                    else "",
                )
            )
        return grids

    def findings(self, data: Data) -> list[Finding]:
        return []

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        figures = Figures.from_data(data["figures"])
        peers = figures.peers()
        figure, panels = make_figure(columns=len(THREADS), width=5.5)
        for axes, threads in zip(panels, THREADS, strict=True):
            width = 0.8 / len(peers)
            for at, peer in enumerate(peers):
                rates = [figures.rate(f"{mix.name}/{threads}", peer) for mix in MIXES]
                places = [x + at * width for x in range(len(MIXES))]
                axes.bar(
                    places, [0 if r is None else r.middle for r in rates], width, color=PEERS.colour(peer), label=peer
                )
            axes.set_yscale("log")
            axes.set_xticks([x + 0.4 - width / 2 for x in range(len(MIXES))], [mix.title[0] for mix in MIXES])
            label(axes, f"{threads} thread{'s' * (threads > 1)}", "YCSB workload", "operations per second")
        panels[-1].legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
        return [("YCSB A to F, operations per second, unsynced", save(figure, directory, "ycsb"))]


SECTION = Ycsb()
