"""``python -m bench.memory``: what a key costs in memory, in each state that it can be in.

Each state is made in a new process, and compared with a process that has an empty store open. Memory of the process
itself is distinguished from mapped pages of the base, which belong to the page cache and which the system takes back
when it needs them.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import lowtide
from bench.documents import make_key
from bench.drawing import label, make_figure, save
from bench.fresh import in_fresh_process, occupied
from bench.section import Data, Finding, Grid, Plan
from lowtide.options import OpenOptions

VALUE_BYTES = 150
TRANSACTION_UPDATES = 100
AT_REST = 8.0  # bytes of own memory per key: the noise of an allocator, and nothing that grows
EMPTY = "an empty store"
_NEVER = 1 << 60


@dataclass(frozen=True)
class Scale:
    keys: int
    rounds: int


FULL = Scale(200_000, 3)
QUICK = Scale(20_000, 1)


def value_of(serial: int) -> bytes:
    return b"%0*d" % (VALUE_BYTES, serial)


def load(directory: str, keys: int) -> Data:
    with lowtide.open(directory, durability="relaxed") as store:
        for start in range(0, keys, 10_000):
            with store.transaction() as transaction:
                put = transaction.keyspace("documents").put
                for number in range(start, min(start + 10_000, keys)):
                    put(make_key(number), value_of(0))
    return {}


def update_all(store: lowtide.Store, keys: int, times: int) -> None:
    for number in range(times):
        for start in range(0, keys, TRANSACTION_UPDATES):
            with store.transaction() as transaction:
                put = transaction.keyspace("documents").put
                for key in range(start, min(start + TRANSACTION_UPDATES, keys)):
                    put(make_key(key), value_of(number + 1))


def nothing(store: lowtide.Store, keys: int) -> None:
    pass


def read_all(store: lowtide.Store, keys: int) -> None:
    documents = store.keyspace("documents")
    for number in range(keys):
        documents.get(make_key(number))


def update_once(store: lowtide.Store, keys: int) -> None:
    update_all(store, keys, 1)


def update_often(store: lowtide.Store, keys: int) -> None:
    update_all(store, keys, 5)


def update_beside_reader(store: lowtide.Store, keys: int) -> None:
    _kept.append(store.snapshot())
    update_all(store, keys, 1)
    _kept.append(store.snapshot())
    update_all(store, keys, 4)


def update_and_checkpoint(store: lowtide.Store, keys: int) -> None:
    _kept.append(store.snapshot())
    for _ in range(5):
        update_all(store, keys, 1)
        store.checkpoint()


_kept: list[lowtide.Snapshot] = []

_UNCHECKPOINTED: OpenOptions = {"checkpoint_bytes": _NEVER, "checkpoint_versions": _NEVER}


@dataclass(frozen=True)
class State:
    """How a state is made, and the most bytes of own memory that a key may cost in it, if that is promised."""

    make: Callable[[lowtide.Store, int], None]
    options: OpenOptions
    most: float | None = None


STATES = {
    EMPTY: State(nothing, {}),
    "loaded, at rest": State(nothing, {}, AT_REST),
    "every key read, in a cache that holds all": State(read_all, {"cache_rows": 1 << 30}),
    "every key read, in a cache of 1,000 rows": State(read_all, {"cache_rows": 1_000}, AT_REST + 10),
    "every key updated once, no checkpoint yet": State(update_once, _UNCHECKPOINTED),
    "every key updated 5 times, no checkpoint yet": State(update_often, _UNCHECKPOINTED),
    "the same beside two readers": State(update_beside_reader, _UNCHECKPOINTED),
    "updated 5 times beside a reader, checkpointed": State(update_and_checkpoint, {"checkpointer": "process"}),
}


def memory_of(directory: str, state: str, keys: int) -> Data:
    """Make the state, and say what the process occupies in it."""
    options = STATES[state].options.copy()
    options["durability"] = "relaxed"
    store = lowtide.open(directory, **options)
    STATES[state].make(store, keys)
    gc.collect()
    stats = store.stats()
    memory = occupied()
    answer = {
        "own": memory["RssAnon"],
        "mapped": memory["RssFile"],
        "peak": memory["VmHWM"],
        "versions": stats.versions,
        "history": stats.history,
    }
    for snapshot in _kept:
        snapshot.close()
    store.close()
    return answer


def measure(plan: Plan, scale: Scale) -> Data:
    samples = []
    loaded = plan.place / "loaded"
    plan.step("loading", 0.0)
    in_fresh_process(load, directory=str(loaded), keys=scale.keys)
    for number in range(scale.rounds):
        for done, state in enumerate(STATES):
            plan.step(state, (number + done / len(STATES)) / scale.rounds)
            place = plan.place / f"{number}-{done}"
            if state != EMPTY:
                shutil.copytree(loaded, place)
            found = in_fresh_process(memory_of, directory=str(place), state=state, keys=scale.keys)
            shutil.rmtree(place)
            samples.append({"state": state, "round": number} | found)
    return {"keys": scale.keys, "payload_bytes": len(make_key(0)) + VALUE_BYTES, "samples": samples}


@dataclass(frozen=True)
class Line:
    """A state: bytes per key beyond those of an empty store, medians; and the versions that it has in memory."""

    state: str
    own: float
    mapped: float
    versions: int
    history: int


def lines(data: Data) -> list[Line]:
    found: dict[str, list[dict[str, int]]] = {}
    for sample in data["samples"]:
        found.setdefault(sample["state"], []).append(sample)

    def middle(state: str, field: str) -> float:
        return median(sample[field] for sample in found[state])

    return [
        Line(
            state,
            (middle(state, "own") - middle(EMPTY, "own")) / data["keys"],
            (middle(state, "mapped") - middle(EMPTY, "mapped")) / data["keys"],
            samples[0]["versions"],
            samples[0]["history"],
        )
        for state, samples in found.items()
        if state != EMPTY
    ]


class Memory:
    name = "memory"
    title = "Memory per key"

    def run(self, plan: Plan) -> Data:
        return measure(plan, QUICK if plan.quick else FULL)

    def grids(self, data: Data) -> list[Grid]:
        rows: list[tuple[str, ...]] = [
            (
                line.state,
                f"{max(0.0, line.own):,.0f}",
                f"{line.own * data['keys'] / line.versions:,.0f}" if line.versions else "–",
                f"{max(0.0, line.mapped):,.0f}",
                f"{line.versions:,}",
                f"{line.history:,}",
            )
            for line in lines(data)
        ]
        headings = ("state", "own bytes per key", "per version", "mapped per key", "versions in memory", "in history")
        note = (
            f"{data['keys']:,} keys; a key and its value are {data['payload_bytes']} bytes. Mapped pages can be taken "
            "back by the system; own memory without versions is what the allocator keeps for the next ones."
        )
        return [Grid("Resident memory beyond that of an empty store", headings, rows, note)]

    def findings(self, data: Data) -> list[Finding]:
        found = []
        for line in lines(data):
            most = STATES[line.state].most
            if most is not None:
                target = f"{line.state}: at most {most:g} bytes of own memory per key"
                found.append(Finding(target, f"{max(0.0, line.own):.1f}", line.own <= most))
        by_state = {line.state: line for line in lines(data)}
        once = by_state["every key updated once, no checkpoint yet"].versions
        often = by_state["every key updated 5 times, no checkpoint yet"].versions
        found.append(
            Finding(
                "versions that no snapshot sees do not stay: 5 updates keep what one keeps", f"{often:,}", often == once
            )
        )
        after = by_state["updated 5 times beside a reader, checkpointed"]
        found.append(
            Finding(
                "a reader costs no versions in memory after a checkpoint, and one row per key in the history",
                f"{after.versions:,} versions, {after.history:,} rows",
                after.versions == 0 and after.history <= data["keys"],
            )
        )
        return found

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        figure, (axes,) = make_figure(width=8.0)
        found = lines(data)
        places = range(len(found))
        own = [max(0.0, line.own) for line in found]
        bars = axes.barh(places, own, label="own")
        axes.bar_label(bars, fmt="%.0f", fontsize="x-small", padding=2)
        axes.barh(places, [max(0.0, line.mapped) for line in found], left=own, alpha=0.3, label="mapped base")
        axes.set_yticks(places, [line.state for line in found])
        axes.invert_yaxis()
        axes.legend(frameon=False)
        label(axes, "resident bytes per key", "")
        return [("Memory per key, beyond that of an empty store.", save(figure, directory, self.name))]


SECTION = Memory()

if __name__ == "__main__":
    from bench import alone

    alone.main("memory")
