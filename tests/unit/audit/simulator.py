"""A tiny in-memory store that runs transactions step by step, at a level or with a fault, and writes a history.

It is as simple as possible, so that it is obviously right: all versions are kept, and a commit is one step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Rows = list[dict[str, Any]]
KEYS = "abcd"


@dataclass
class Running:
    """A transaction that is under way."""

    name: int
    steps: list[str]
    snapshot: int
    rows: Rows = field(default_factory=list)
    own: dict[str, Any] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def note(self, **row: Any) -> None:
        self.rows.append({"tx": self.name, "index": len(self.rows), **row})


class Simulator:
    """``snapshot``: reads are of the instant of begin. ``writers``, ``readers``: a commit is refused if a key that it
    wrote, or read, was committed since. ``lists``: keys are lists that are appended to; ``blind``: what an append reads
    is not written down."""

    def __init__(
        self, seed: int, *, snapshot: bool, writers: bool, readers: bool, lists: bool, blind: bool = False
    ) -> None:
        self.random = random.Random(seed)
        self.snapshot, self.writers, self.readers, self.lists, self.blind = snapshot, writers, readers, lists, blind
        self.versions: dict[str, list[tuple[int, Any]]] = {}
        self.last = 0
        self.moment = 0
        self.rows: Rows = []

    def run(self, count: int, at_once: int) -> Rows:
        """Run the given number of transactions, up to ``at_once`` of them concurrently."""
        running: list[Running] = []
        begun = 0
        while begun < count or running:
            self.moment += 1
            if begun < count and len(running) < at_once and self.random.random() < 0.5:
                begun += 1
                steps = self.random.choices(["read", "write", "scan"], [5, 4, 1], k=self.random.randint(1, 5))
                tx = Running(begun, steps, self.last)
                tx.note(op="begin", time=self.moment)
                running.append(tx)
            elif running:
                tx = self.random.choice(running)
                if tx.steps:
                    self.step(tx, tx.steps.pop())
                else:
                    running.remove(tx)
                    self.end(tx)
                    self.rows += tx.rows
        return self.rows

    def see(self, tx: Running, key: str) -> Any:
        upto = tx.snapshot if self.snapshot else self.last
        seen = [value for version, value in self.versions.get(key, ()) if version <= upto]
        return tx.own[key] if key in tx.own else seen[-1] if seen else None

    def step(self, tx: Running, what: str) -> None:
        key = self.random.choice(KEYS)
        if what == "scan":
            tx.read |= set(KEYS)
            seen = {each: self.see(tx, each) for each in KEYS}
            tx.note(op="scan", low=None, high=None, values={each: value for each, value in seen.items() if value})
            return
        if what == "read" or self.lists:
            tx.read.add(key)
            if what == "read" or not self.blind:
                tx.note(op="read", key=key, value=self.see(tx, key))
        if what == "write":
            element = tx.name * 100 + len(tx.rows)
            tx.note(op="append" if self.lists else "write", key=key, value=element)
            tx.own[key] = [*(self.see(tx, key) or []), element] if self.lists else element

    def end(self, tx: Running) -> None:
        changed = {key for key, versions in self.versions.items() if versions[-1][0] > tx.snapshot}
        refused = (self.writers and changed & tx.own.keys()) or (self.readers and tx.own and changed & tx.read)
        if refused or self.random.random() < 0.1:
            tx.note(op="abort", time=self.moment)
            return
        version = None
        if tx.own:
            self.last = version = self.last + 1
            for key, value in tx.own.items():
                self.versions.setdefault(key, []).append((version, value))
        tx.note(op="commit", version=version, time=self.moment)
