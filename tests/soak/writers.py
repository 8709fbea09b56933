"""Many processes write to one store while they are killed and stopped, most often the owner; then everything is
audited.

``python -m tests.soak.writers --kills N [--seed S] [--processes P]``. Histories are audited at the level that they were
made at, every acknowledged commit must be there once, and money and unique slots must be right.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import lowtide
from lowtide.audit import History, audit
from tests.soak.process import run_module
from tests.soak.writer import ACCOUNTS, BALANCE, LEVELS, keyspace_of, prepare
from tests.support.warm import Started

_PAUSE: Final = (0.05, 0.5)
"""Seconds between two kills."""
_STOPPED: Final = 0.2
"""Seconds for which a process is stopped."""


class Fleet:
    """The processes of one run."""

    def __init__(self, directory: Path, processes: int, seed: int) -> None:
        self.directory = directory
        self.random = random.Random(seed)
        self.seed = seed
        self.processes: list[Started] = []
        self.started = 0
        self.kills = self.stops = self.owners = 0
        with lowtide.open(directory / "store") as store:
            prepare(store)
        for _ in range(processes):
            self._start()
        for each in self.processes:
            _wait_for(each)

    def _start(self) -> Started:
        self.started += 1
        arguments = [str(self.directory), f"p{self.started}", f"{self.seed} {self.started}", "1e6"]
        process = run_module("tests.soak.writer", *arguments)
        self.processes.append(process)
        return process

    def owner(self) -> Started | None:
        """The process that owns the store now."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            pid = json.loads((self.directory / "store" / "lock").read_bytes())["pid"]
            return next((each for each in self.processes if each.pid == pid), None)
        return None

    def disturb(self) -> None:
        """Kill or stop one process, the owner more often than not, and replace one that was killed."""
        owner = self.owner()
        victim = owner if owner is not None and self.random.random() < 0.6 else self.random.choice(self.processes)
        assert victim.poll() is None, f"a writer ended with {victim.returncode}"
        if self.random.random() < 0.2:
            victim.send_signal(signal.SIGSTOP)
            time.sleep(_STOPPED)
            victim.send_signal(signal.SIGCONT)
            self.stops += 1
            return
        victim.close()
        self.kills += 1
        self.owners += victim is owner
        self.processes.remove(victim)
        _wait_for(self._start())

    def run(self, kills: int) -> None:
        while self.kills < kills:
            time.sleep(self.random.uniform(*_PAUSE))
            self.disturb()

    def end(self) -> None:
        for each in self.processes:
            each.close()


def _wait_for(process: Started) -> None:
    """Wait until a process has opened the store."""
    assert process.stdout.readline().strip() == str(process.pid), "a writer could not open the store"


def check(directory: Path) -> list[str]:
    """The problems in what the processes recorded and left behind. Prints how much there is."""
    problems: list[str] = []
    ledger = [
        json.loads(line)
        for path in directory.glob("ledger-*.jsonl")
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]
    problems += [f"{words}" for what, words in (entry[:2] for entry in ledger) if what == "broken"]
    with lowtide.open(directory / "store", exclusive=True) as store:
        report = store.verify()
        if not report.ok:
            problems.append(str(report))
        for level in LEVELS:
            paths = sorted(directory.glob(f"{level}-*.jsonl"))
            found = audit(History.load(*paths), level)
            commits = _acknowledged(paths)
            print(f"{level}: {len(commits)} acknowledged commits, {found.names or 'no anomalies'}")
            if not found.ok:
                problems.append(str(found))
            problems += _lost_or_twice(store, level, commits)
            bank = [int(value) for _, value in store.keyspace(f"bank {level}").scan()]
            if sum(bank) != BALANCE * len(ACCOUNTS):
                problems.append(f"the bank at {level} has {bank}")
        problems += _wrong_slots(store, ledger)
    return problems


def _acknowledged(paths: list[Path]) -> dict[Any, list[tuple[str, str]]]:
    """The appends of every transaction whose commit was acknowledged."""
    appends: dict[Any, list[tuple[str, str]]] = collections.defaultdict(list)
    committed = {}
    for path in paths:
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                row = json.loads(line)
                if row["op"] == "append":
                    appends[row["tx"]].append((row["key"], row["value"]))
                elif row["op"] == "commit":
                    committed[row["tx"]] = appends[row["tx"]]
    return committed


def _lost_or_twice(store: lowtide.Store, level: str, commits: dict[Any, list[tuple[str, str]]]) -> list[str]:
    problems = []
    keyspace = store.keyspace(keyspace_of(level))
    lists: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for key, value in keyspace.scan(prefix=b"list "):
        lists[key.decode()] = collections.Counter(json.loads(value))
    for tx, appends in commits.items():
        for name, element in appends:
            if lists[name][element] != 1:
                problems.append(f"{level}: {element!r} of {tx} is {lists[name][element]} times in {name!r}")
    for name, counted in lists.items():
        problems += [f"{level}: {each!r} is {times} times in {name!r}" for each, times in counted.items() if times > 1]
    return problems


def _wrong_slots(store: lowtide.Store, ledger: list[list[str]]) -> list[str]:
    documents = list(store.collection("slots").find())
    slots = collections.Counter(each["slot"] for each in documents)
    problems = [f"slot {slot} is taken {times} times" for slot, times in slots.items() if times > 1]
    there = {each["_id"] for each in documents}
    tried = {(what, identity) for kind, what, identity in (entry[:3] for entry in ledger if entry[0] == "try")}
    done = {(what, identity) for kind, what, identity in (entry[:3] for entry in ledger if entry[0] == "done")}
    for what, identity in done:
        if what == "insert" and identity not in there and ("delete", identity) not in tried:
            problems.append(f"the document {identity!r} was inserted, never deleted, and is gone")
        if what == "delete" and identity in there:
            problems.append(f"the document {identity!r} was deleted and is there")
    problems += [f"the document {each!r} was never inserted" for each in there if ("insert", each) not in tried]
    return problems


def soak(kills: int, *, processes: int = 4, seed: int = 0, directory: Path) -> tuple[Fleet, list[str]]:
    """Run the processes until so many were killed, and check what is left."""
    fleet = Fleet(directory, processes, seed)
    try:
        fleet.run(kills)
    finally:
        fleet.end()
    return fleet, check(directory)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    asked = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="lowtide-writers-"))
    print(f"seed {asked.seed}, in {directory}", flush=True)
    fleet, problems = soak(asked.kills, processes=asked.processes, seed=asked.seed, directory=directory)
    print(f"{fleet.kills} kills, {fleet.owners} of them of the owner, and {fleet.stops} stops")
    for problem in problems[:20]:
        print(problem)
    if problems:
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
