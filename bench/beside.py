"""``python -m bench.beside``: processes that read, or follow the changes, beside one that writes.

An owner commits as fast as it can, or at a given rate. Readers in other processes get random keys, at a pin or of the
latest commit (``read_only=True``). The figures are: reads per second of 1, 2 and 4 readers beside the owner, relative
to one reader alone; the owner's commit latency with and without readers; the time to take a new pin from another
process; and the commits per second that a consumer in another process keeps up with, with its lag.
"""

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles

import lowtide
from bench import machine
from bench.documents import make_key
from bench.report import make_console, make_table, shortened
from lowtide.sharing.owner import reach_owner

KEYS = 50_000
VALUE = bytes(150)
PIN = "bench"
PAUSES = {"no pause between commits": 0.0, "1 ms between commits": 0.001}
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Commits:
    """What an owner did: commits per second, and latencies in milliseconds."""

    rate: float
    p50: float
    p99: float


@dataclass(frozen=True)
class Line:
    """One setting: the number and kind of readers beside the owner, and what the owner and the readers did."""

    kind: str
    readers: int
    beside_owner: bool
    reads: float  # per second, of all readers together
    commits: Commits | None


def make_store(path: Path) -> None:
    with lowtide.open(path, durability="relaxed") as store:
        for start in range(0, KEYS, 5000):
            with store.transaction() as tx:
                for number in range(start, start + 5000):
                    tx.keyspace("documents").put(make_key(number), VALUE)
        store.pin(PIN, ttl=86400)


def own(path: Path, pause: float, until: Connection) -> None:
    """The owner: one update a commit, with a pause in between, until it is told to stop; says what it did."""
    numbers = random.Random(1)
    latencies: list[float] = []
    with lowtide.open(path, durability="relaxed") as store:
        documents = store.keyspace("documents")
        until.send("ready")
        started = time.perf_counter()
        while not until.poll():
            key = make_key(numbers.randrange(KEYS))
            begun = time.perf_counter()
            documents.put(key, b"%0150d" % len(latencies))
            latencies.append(time.perf_counter() - begun)
            if pause:
                time.sleep(pause)
        seconds = time.perf_counter() - started
    cuts = quantiles(latencies, n=100)
    until.send(Commits(len(latencies) / seconds, cuts[49] * 1e3, cuts[98] * 1e3))


def read(path: Path, kind: str, seconds: float, said: Connection) -> None:
    """A reader: gets of random keys in snapshots of a hundred; says how many it made."""
    numbers = random.Random(2)
    with ExitStack() as stack:
        if kind == "pin":
            pinned = stack.enter_context(lowtide.open_snapshot(path, pin=PIN))
        else:
            store = stack.enter_context(lowtide.open(path, read_only=True))
        said.send("ready")
        said.recv()
        count, deadline = 0, time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            keys = [make_key(numbers.randrange(KEYS)) for _ in range(100)]
            if kind == "pin":
                get = pinned.keyspace("documents").get
                for key in keys:
                    assert get(key) is not None
            else:
                with store.snapshot() as snapshot:
                    get = snapshot.keyspace("documents").get
                    for key in keys:
                        assert get(key) is not None
            count += len(keys)
        said.send(count / seconds)


class Child:
    """A process and the pipe to it; stopped at the end whatever happened."""

    def __init__(self, stack: ExitStack, work: Callable[..., None], *arguments: object) -> None:
        self.pipe, other = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=work, args=(*arguments, other), daemon=True)
        self._process.start()
        other.close()
        stack.callback(self._process.join)
        assert self.pipe.recv() == "ready"


def measure(path: Path, kind: str, readers: int, beside: bool, pause: float, seconds: float) -> Line:
    with ExitStack() as stack:
        owner = Child(stack, own, path, pause) if beside else None
        children = [Child(stack, read, path, kind, seconds) for _ in range(readers)]
        for child in children:
            child.pipe.send("go")
        if not children:
            time.sleep(seconds)
        reads = sum(child.pipe.recv() for child in children)
        commits = None
        if owner is not None:
            owner.pipe.send("stop")
            commits = owner.pipe.recv()
        return Line(kind, readers, beside, reads, commits)


def fresh_pins(path: Path, count: int, pause: float) -> tuple[list[float], list[float]]:
    """Seconds until a request to a writing owner is answered, and until a new pin is taken."""
    with ExitStack() as stack:
        owner = Child(stack, own, path, pause)
        reached, taken = [], []
        with lowtide.open(path, read_only=True) as store:
            for number in range(count):
                begun = time.perf_counter()
                connection = reach_owner(path)
                assert connection is not None
                with connection:
                    connection.ask("hello")
                reached.append(time.perf_counter() - begun)
                begun = time.perf_counter()
                pin = store.pin(f"fresh {number}", ttl=60)
                taken.append(time.perf_counter() - begun)
                pin.release()
        owner.pipe.send("stop")
        owner.pipe.recv()
        return reached, taken


def follow(path: Path, pause: float, seconds: float) -> tuple[float, float, float, float]:
    """The owner's commits per second, those that a consumer in this process saw, and its lag in milliseconds."""
    lags: list[float] = []
    with ExitStack() as stack:
        owner = Child(stack, own, path, pause)
        store = stack.enter_context(lowtide.open(path, read_only=True))
        consumer = store.consumer("bench")
        seen, started = 0, time.perf_counter()
        with consumer.watch() as changes:
            for change in changes:
                seen += 1
                if seen % 1000 == 0:
                    consumer.ack(change.ts)
                if seen % 16 == 0:
                    lags.append(time.time() - change.time)
                    if time.perf_counter() - started > seconds:
                        break
        rate = seen / (time.perf_counter() - started)
        owner.pipe.send("stop")
        commits: Commits = owner.pipe.recv()
        consumer.remove()
        cuts = quantiles(lags, n=100)
        return commits.rate, rate, cuts[49] * 1e3, cuts[98] * 1e3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.beside", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures and the circumstances here")
    parser.add_argument("--directory", type=Path, help="where to put the stores, on a disk")
    options = parser.parse_args(arguments)
    console = make_console()
    with tempfile.TemporaryDirectory(prefix="lowtide-bench-", dir=options.directory) as directory:
        path = Path(directory) / "store"
        make_store(path)
        circumstances = machine.describe(Path(directory))
        settings = [(0, True), *((count, beside) for beside in (False, True) for count in (1, 2, 4))]
        lines: list[Line] = []
        with console.status("measuring") as status:
            for number in range(options.rounds):
                for kind in ("pin", "newest"):
                    for count, beside in settings:
                        status.update(f"round {number + 1}: {count} readers ({kind}){' beside an owner' * beside}")
                        lines.append(measure(path, kind, count, beside, 0.001, options.seconds))
            status.update("fresh pins")
            pins = {title: fresh_pins(path, 30, pause) for title, pause in PAUSES.items()}
            status.update("following the changes")
            feed = {title: follow(path, pause, options.seconds) for title, pause in PAUSES.items()}
    table = make_table(
        "Readers beside an owner that commits every millisecond", ["readers"], ["reads/s", "of one alone"]
    )
    for title in ("commits/s", "p50 ms", "p99 ms"):
        table.add_column(title, justify="right")
    for kind in ("pin", "newest"):
        alone = median(each.reads for each in lines if (each.kind, each.readers, each.beside_owner) == (kind, 1, False))
        for count, beside in settings:
            found = [each for each in lines if (each.kind, each.readers, each.beside_owner) == (kind, count, beside)]
            reads = median(each.reads for each in found)
            commits = [each.commits for each in found if each.commits is not None]
            table.add_row(
                f"{count} at {'a pin' if kind == 'pin' else 'the newest state'}{', owner beside' * beside}",
                shortened(reads) if count else "",
                f"{reads / alone:.2f}" if count else "",
                *(
                    [shortened(median(each.rate for each in commits))]
                    + [f"{median(getattr(each, name) for each in commits):.3f}" for name in ("p50", "p99")]
                    if commits
                    else ["", "", ""]
                ),
            )
    console.print(table)
    for title, (reached, taken) in pins.items():
        console.print(
            f"Owner with {title}: a request of another process is answered within {median(reached) * 1e3:.1f} ms "
            f"(longest {max(reached) * 1e3:.0f}), a fresh pin is there after {median(taken) * 1e3:.0f} ms "
            f"(longest {max(taken) * 1e3:.0f})."
        )
    for title, (made, seen, middle, late) in feed.items():
        console.print(
            f"Feed, owner with {title}: it made {shortened(made)} commits/s, a consumer in another process saw "
            f"{shortened(seen)}/s, {middle:.1f} ms late in the median, {late:.1f} ms at p99."
        )
    if options.json:
        document = {"machine": circumstances, "lines": [asdict(each) for each in lines], "pins": pins, "feed": feed}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
