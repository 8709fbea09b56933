"""``python -m bench.amplification``: bytes that a store writes to its files, per byte committed.

The kernel counts the bytes of all writing system calls of each process (``wchar`` in /proc/self/io, children included).
Bytes that Lowtide copies into its mapped log are counted by its own disk interface. The count starts with a loaded
store at rest and ends when the store is closed, so deferred work is included, above all checkpoints. Whole blocks of
the disk and the journal of the file system are extra costs for every store. The kernel's own count of disk writes
(``write_bytes``) would include them, but it counts the whole of a large folio for any byte changed in it.
"""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import lowtide
from bench.documents import make_key
from bench.drawing import label, make_figure, save
from bench.fresh import in_fresh_process
from bench.peers import Durability, LowtidePeer, adapter
from bench.section import Data, Finding, Grid, Plan
from lowtide.system.disk import LogFile, RealDisk

STORES = ("lowtide", "sqlite3", "py-lmdb")
KEYS = 100_000
LOAD_BYTES = 2_000_000


@dataclass(frozen=True)
class Work:
    """Updates of random keys: how many in a transaction, of what size, and how."""

    title: str
    durability: Durability
    transactions: int
    puts: int
    value_bytes: int
    keys: int = KEYS


FULL = (
    Work("single updates of 150 bytes, synced", "synced", 4_000, 1, 150),
    Work("single updates of 150 bytes, unsynced", "unsynced", 200_000, 1, 150),
    Work("batches of 1,000 x 150 bytes, synced", "synced", 200, 1_000, 150),
    Work("values of 100,000 bytes, synced", "synced", 1_000, 1, 100_000, 1_000),
)
QUICK = (
    Work("single updates of 150 bytes, synced", "synced", 400, 1, 150, 10_000),
    Work("single updates of 150 bytes, unsynced", "unsynced", 10_000, 1, 150, 10_000),
    Work("batches of 1,000 x 150 bytes, synced", "synced", 20, 1_000, 150, 10_000),
    Work("values of 100,000 bytes, synced", "synced", 100, 1, 100_000, 100),
)


def written_bytes() -> int:
    """The bytes that this process and its children, running or ended, have passed to writing system calls so far."""
    living = " ".join(file.read_text() for file in Path("/proc/self/task").glob("*/children")).split()
    return sum(_written_by(process) for process in ("self", *living))


def _written_by(process: str) -> int:
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


class CountedFile:
    """A log file that counts the bytes written through its mapping, which the kernel does not count."""

    def __init__(self, file: LogFile, disk: CountingDisk) -> None:
        self._file, self._disk = file, disk
        self.size = file.size
        self.read, self.write_durably, self.sync, self.close = file.read, file.write_durably, file.sync, file.close

    def write(self, offset: int, data: bytes) -> None:
        self._disk.mapped_bytes += len(data)
        self._file.write(offset, data)


class CountingDisk(RealDisk):
    def __init__(self) -> None:
        self.mapped_bytes = 0

    def create(self, path: Path, size: int) -> LogFile:
        return CountedFile(super().create(path, size), self)

    def open(self, path: Path) -> LogFile:
        return CountedFile(super().open(path), self)


class CountedLowtide(LowtidePeer):
    """The same, with a disk that counts."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        self.disk = CountingDisk()
        self._store = lowtide.open(
            directory, durability="full" if durability == "synced" else "relaxed", disk=self.disk
        )


def update(directory: str, name: str, work: dict[str, Any]) -> Data:
    """Load a store, bring it to rest, make the updates and close it. Returns what that wrote."""
    does = Work(**work)
    place = Path(directory) / name
    peer = CountedLowtide(place, does.durability) if name == "lowtide" else adapter(name).open(place, does.durability)
    disk = peer.disk if isinstance(peer, CountedLowtide) else CountingDisk()
    numbers = random.Random(1)
    committed = 0
    with closing(peer.session()) as session:
        length = max(1, LOAD_BYTES // does.value_bytes)
        for start in range(0, does.keys, length):
            stop = min(start + length, does.keys)
            session.put_all([(make_key(number), numbers.randbytes(does.value_bytes)) for number in range(start, stop)])
        peer.settle()
        before, mapped = written_bytes(), disk.mapped_bytes
        for _ in range(does.transactions):
            # New from the first byte to the last: sqlite3 writes only those pages of a value that differ.
            chosen = numbers.choices(range(does.keys), k=does.puts)
            pairs = [(make_key(number), numbers.randbytes(does.value_bytes)) for number in chosen]
            session.put_all(pairs)
            committed += sum(len(key) + len(value) for key, value in pairs)
    peer.settle()
    peer.close()
    return {
        "committed_bytes": committed,
        "called_bytes": written_bytes() - before,
        "mapped_bytes": disk.mapped_bytes - mapped,
    }


def measure(plan: Plan, works: tuple[Work, ...]) -> Data:
    samples = []
    for number, work in enumerate(works):
        for place, name in enumerate(STORES):
            plan.step(f"{name}: {work.title}", (number * len(STORES) + place) / len(works) / len(STORES))
            directory = plan.place / str(number)
            directory.mkdir(exist_ok=True)
            counted = in_fresh_process(update, directory=str(directory), name=name, work=vars(work))
            samples.append({"store": name} | vars(work) | counted)
    return {"samples": samples}


Factors = dict[str, dict[str, float]]
"""Bytes written per byte committed: by title of the work, by store."""


def factors(data: Data) -> Factors:
    found: Factors = {}
    for sample in data["samples"]:
        written = sample["called_bytes"] + sample["mapped_bytes"]
        found.setdefault(sample["title"], {})[sample["store"]] = written / sample["committed_bytes"]
    return found


class Amplification:
    name = "amplification"
    title = "Bytes written per byte committed"

    def run(self, plan: Plan) -> Data:
        return measure(plan, QUICK if plan.quick else FULL)

    def grids(self, data: Data) -> list[Grid]:
        rows = [(title, *(f"{stores[name]:.1f}" for name in STORES)) for title, stores in factors(data).items()]
        committed = {sample["title"]: sample["committed_bytes"] for sample in data["samples"]}
        note = (
            "What the files were asked to write, the checkpoint at closing included. "
            "Committed: " + ", ".join(f"{size / 1e6:.1f} MB" for size in committed.values()) + "."
        )
        return [Grid("Bytes written per byte of key and value", ("work", *STORES), rows, note)]

    def findings(self, data: Data) -> list[Finding]:
        found = []
        for title, stores in factors(data).items():
            best = min((name for name in STORES if name != "lowtide"), key=lambda name: stores[name])
            met = stores["lowtide"] <= stores[best]
            why = "every byte goes to the log first and to the base later" if not met else ""
            found.append(
                Finding(
                    f"{title}: no more than the best peer",
                    f"{stores['lowtide']:.1f}, {best} {stores[best]:.1f}",
                    met,
                    why,
                )
            )
        middle = median(stores["lowtide"] / stores["sqlite3"] for stores in factors(data).values())
        found.append(Finding("over all works, the median relative to sqlite3 at most 1", f"{middle:.2f}x", middle <= 1))
        return found

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        found = factors(data)
        figure, (axes,) = make_figure(width=8.0)
        for number, name in enumerate(STORES):
            places = [at + (number - 1) * 0.26 for at in range(len(found))]
            bars = axes.barh(places, [stores[name] for stores in found.values()], height=0.24, label=name)
            axes.bar_label(bars, fmt="%.1f", fontsize="x-small", padding=2)
        axes.set_yticks(range(len(found)), list(found))
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.legend(frameon=False)
        label(axes, "bytes written per byte committed", "")
        return [("Bytes written per byte of key and value committed.", save(figure, directory, self.name))]


SECTION = Amplification()

if __name__ == "__main__":
    from bench import alone

    alone.main("amplification")
