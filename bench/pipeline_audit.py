"""How long the audit on Spark takes, for the history of a correct store with a given number of transactions.

    python -m bench.pipeline_audit 100000

A model of a serializable store makes the history. It has eight concurrent sessions. A transaction has two reads, every
tenth also scans a small range, and two of three have one or two writes. One in ``--skew`` transactions commits although
what it read has changed, so that there is an anomaly to find.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SESSIONS = 8


@dataclass
class Running:
    """An open transaction of the model."""

    name: int
    session: int
    snapshot: int
    reads: list[int] = field(default_factory=list)
    ranges: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def note(self, fields: str) -> None:
        self.lines.append(f'{{"tx": {self.name}, "index": {len(self.lines)}, {fields}}}')


class Model:
    """Keys with all of their versions; reads are of the snapshot of the transaction's begin."""

    def __init__(self, keys: int, skew: int) -> None:
        self._chance = random.Random(1)
        self._keys, self._skew = keys, skew
        self._versions: list[list[int]] = [[] for _ in range(keys)]
        self._last = 0
        self._moment = 0

    def lines(self, count: int) -> Iterator[str]:
        """The rows of this many transactions."""
        running: list[Running] = []
        for name in range(1, count + 1):
            free = set(range(SESSIONS)) - {each.session for each in running}
            running.append(self._begun(name, min(free)))
            if len(running) == SESSIONS:
                yield from self._ended(running.pop(self._chance.randrange(SESSIONS)))
        while running:
            yield from self._ended(running.pop())

    def _begun(self, name: int, session: int) -> Running:
        tx = Running(name, session, self._last)
        self._moment += 1
        tx.note(f'"op": "begin", "session": {session}, "turn": {name}, "time": {self._moment}')
        for _ in range(2):
            key = int(self._keys * self._chance.random() ** 2)
            tx.reads.append(key)
            tx.note(f'"op": "read", "key": "k{key:07}", "version": {self._seen(key, tx.snapshot)}')
        if self._chance.random() < 0.1:
            low = self._chance.randrange(self._keys // 10) * 10
            tx.ranges.append(low)
            seen = {f"k{key:07}": self._seen(key, tx.snapshot) for key in range(low, low + 10)}
            found = json.dumps({key: version for key, version in seen.items() if version})
            tx.note(f'"op": "scan", "low": "k{low:07}", "high": "k{low + 10:07}", "versions": {found}')
        return tx

    def _seen(self, key: int, snapshot: int) -> int:
        return next((version for version in reversed(self._versions[key]) if version <= snapshot), 0)

    def _ended(self, tx: Running) -> list[str]:
        written = tx.reads[: self._chance.randrange(3)]
        for key in written:
            tx.note(f'"op": "write", "key": "k{key:07}", "value": {tx.name}')
        self._moment += 1
        # A right store refuses a writer if anything that it read has changed; a skewed one only looks at its writes.
        lenient = self._skew and tx.name % self._skew == 0
        watched = written if lenient else [*tx.reads, *(key for low in tx.ranges for key in range(low, low + 10))]
        if written and any(self._versions[key] and self._versions[key][-1] > tx.snapshot for key in watched):
            tx.note(f'"op": "abort", "time": {self._moment}')
        elif written:
            self._last += 1
            for key in set(written):
                self._versions[key].append(self._last)
            tx.note(f'"op": "commit", "version": {self._last}, "time": {self._moment}')
        else:
            tx.note(f'"op": "commit", "time": {self._moment}')
        return tx.lines


def processor_time(root: int) -> dict[str, float]:
    """Seconds of processor time of a process and all that it started, by what they are; ended ones included."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[str, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text()
                command = (entry / "cmdline").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            fields = text.rpartition(")")[2].split()
            pid = int(entry.name)
            parents[pid] = int(fields[1])
            kind = "JVM" if b"java" in command.split(b"\0")[0] else "driver" if pid == root else "workers"
            seconds = [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11:15]]
            # What has ended under the workers' daemon is the workers'; the driver and the JVM end nothing that counts.
            used[pid] = kind, sum(seconds if kind == "workers" else seconds[:2])
    found = {"driver": 0.0, "workers": 0.0, "JVM": 0.0}
    for pid, (kind, seconds_used) in used.items():
        above = pid
        while above != root and above in parents:
            above = parents[above]
        if above == root:
            found[kind] += seconds_used
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("transactions", type=int)
    parser.add_argument("--skew", type=int, default=0)
    parser.add_argument("--keys", type=int, default=0, help="a tenth of the transactions, if 0")
    arguments = parser.parse_args()

    import lowtide.spark
    from lowtide import pipeline

    with tempfile.TemporaryDirectory() as place:
        history = Path(place, "history.jsonl")
        model = Model(arguments.keys or max(100, arguments.transactions // 10), arguments.skew)
        with history.open("w") as file:
            file.writelines(f"{line}\n" for line in model.lines(arguments.transactions))
        print(f"{arguments.transactions:,} transactions, {history.stat().st_size / 1e6:.0f} MB")
        settings = {"spark.local.dir": place, "spark.sql.shuffle.partitions": "8"}
        spark = lowtide.spark.session("local[2]", settings=settings)
        spark.range(1).count()
        before, used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, processor_time(os.getpid())
        begun = last = time.perf_counter()

        def tell(what: str) -> None:
            nonlocal last
            now, so_far = time.perf_counter(), processor_time(os.getpid())
            spent = ", ".join(f"{kind} {so_far[kind] - used[kind]:.1f}" for kind in used)
            print(f"  {now - begun:7.1f} s (+{now - last:.1f})  {what}; processor time: {spent} s", flush=True)
            last = now

        report = pipeline.audit(spark, history, "serializable", progress=tell)
        taken = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        spent = {kind: seconds - used[kind] for kind, seconds in processor_time(os.getpid()).items()}
        print(f"{taken:.1f} s, {taken / arguments.transactions * 1e6:.0f} us a transaction; ok: {report.ok}")
        print(f"{report.pieces} pieces, {report.largest} transactions in the largest; found {report.counts}")
        parts = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in spent.items())
        print(f"processor time {sum(spent.values()):.1f} s: {parts}")
        print(f"the driver: {after // 1024} MB at most, {before // 1024} MB before")
        spark.stop()


if __name__ == "__main__":
    main()
