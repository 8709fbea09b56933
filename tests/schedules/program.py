"""The programs of a schedule's workers: small, over a few keys, as plain values that can be printed and shrunk.

Every written value is unique, so a read shows which write it saw.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from lowtide import Isolation

KEYS = (b"a", b"b", b"c")


@dataclass(frozen=True, slots=True)
class Get:
    key: bytes

    def __str__(self) -> str:
        return f"get {self.key.decode()}"


@dataclass(frozen=True, slots=True)
class Put:
    key: bytes

    def __str__(self) -> str:
        return f"put {self.key.decode()}"


@dataclass(frozen=True, slots=True)
class Append:
    """Read a key, and put its value with a unique mark appended."""

    key: bytes

    def __str__(self) -> str:
        return f"append {self.key.decode()}"


@dataclass(frozen=True, slots=True)
class Delete:
    key: bytes

    def __str__(self) -> str:
        return f"delete {self.key.decode()}"


@dataclass(frozen=True, slots=True)
class Scan:
    """All entries, or those from ``start`` up to, not including, ``stop``."""

    start: bytes | None = None
    stop: bytes | None = None
    reverse: bool = False

    def __str__(self) -> str:
        limits = "".join(f" {name} {key.decode()}" for name, key in (("from", self.start), ("to", self.stop)) if key)
        return f"scan{limits}{' reverse' if self.reverse else ''}"


@dataclass(frozen=True, slots=True)
class Savepoint:
    """Operations inside a savepoint, which is rolled back or kept."""

    inside: tuple[Op, ...]
    undone: bool

    def __str__(self) -> str:
        return f"savepoint({', '.join(map(str, self.inside))}){' undone' if self.undone else ''}"


Op: TypeAlias = Get | Put | Append | Delete | Scan | Savepoint

READS = (Get, Scan)


@dataclass(frozen=True, slots=True)
class Tx:
    """A transaction. ``end`` is "commit", "rollback" or "drop", which leaves it to its destructor."""

    level: Isolation
    ops: tuple[Op, ...]
    end: str = "commit"
    read_only: bool = False

    def __str__(self) -> str:
        kind = " read-only" if self.read_only else ""
        return f"{self.level.name}{kind}: {', '.join([*map(str, self.ops), self.end])}"


@dataclass(frozen=True, slots=True)
class Direct:
    """Operations on a keyspace of the store itself: each is its own transaction."""

    ops: tuple[Op, ...]

    def __str__(self) -> str:
        return f"directly: {', '.join(map(str, self.ops))}"


@dataclass(frozen=True, slots=True)
class View:
    """Reads at one snapshot. If it is ``pinned``, a pin is taken, read at, and removed."""

    ops: tuple[Op, ...]
    pinned: bool = False

    def __str__(self) -> str:
        return f"{'pin' if self.pinned else 'snapshot'}: {', '.join(map(str, self.ops))}"


JOBS = ("checkpoint", "collect", "maintain", "expire", "close")


@dataclass(frozen=True, slots=True)
class Job:
    """Work of the background: a checkpoint, a collection of everything, what the background thread does when it is
    woken, the end of snapshots that are too old, or the end of the store."""

    kind: str

    def __str__(self) -> str:
        return self.kind


WorkerProgram: TypeAlias = Tx | Direct | View | Job


@dataclass(frozen=True, slots=True)
class Program:
    """The workers, what the store holds when they begin, and where: in the base, in chains, or deleted a moment ago."""

    workers: tuple[WorkerProgram, ...]
    present: frozenset[bytes] = frozenset((b"a", b"b"))
    checkpointed: bool = True
    watched: bool = False
    """Whether an old snapshot is open throughout, and checked at the end."""

    @property
    def names(self) -> list[str]:
        return [f"W{number}" for number in range(1, len(self.workers) + 1)]

    def has(self, kind: str) -> bool:
        return Job(kind) in self.workers

    def __str__(self) -> str:
        there = ", ".join(sorted(key.decode() for key in self.present)) or "nothing"
        watched = ", an old snapshot beside them" if self.watched else ""
        lines = [f"  there: {there}, {'in the base' if self.checkpointed else 'in chains'}{watched}"]
        return "\n".join(lines + [f"  {name} {worker}" for name, worker in zip(self.names, self.workers, strict=True)])


def random_program(chance: random.Random) -> Program:
    """A program of three to five workers."""
    count = chance.randint(3, 5)
    workers = [_random_worker(chance) for _ in range(count)]
    if not any(isinstance(worker, Tx | Direct) for worker in workers):
        workers[0] = _random_transaction(chance)
    present = frozenset(key for key in KEYS if chance.random() < 0.7)
    return Program(tuple(workers), present, chance.random() < 0.6, chance.random() < 0.3)


def _random_worker(chance: random.Random) -> WorkerProgram:
    kind = chance.random()
    if kind < 0.5:
        return _random_transaction(chance)
    if kind < 0.6:
        return Direct(tuple(_random_op(chance, nested=False) for _ in range(chance.randint(1, 2))))
    if kind < 0.7:
        return View(tuple(chance.choice((Get(chance.choice(KEYS)), Scan())) for _ in range(2)), chance.random() < 0.5)
    return Job(chance.choices(JOBS, (5, 4, 4, 1, 1))[0])


def _random_transaction(chance: random.Random) -> Tx:
    level = chance.choices(list(Isolation), (1, 1, 1, 4, 4))[0]
    ops = tuple(_random_op(chance, nested=level is not Isolation.NONE) for _ in range(chance.randint(1, 3)))
    return Tx(level, ops, chance.choices(("commit", "rollback", "drop"), (8, 1, 1))[0])


def _random_op(chance: random.Random, *, nested: bool) -> Op:
    kind = chance.random()
    if nested and kind < 0.08:
        inside = tuple(_random_op(chance, nested=False) for _ in range(chance.randint(1, 2)))
        return Savepoint(inside, chance.random() < 0.7)
    key = chance.choice(KEYS)
    return chance.choices(
        (Get(key), Put(key), Append(key), Delete(key), Scan(reverse=chance.random() < 0.3), Scan(b"b", b"c")),
        (3, 3, 3, 2, 2, 1),
    )[0]


def smaller(program: Program) -> Iterator[tuple[Program, str | None]]:
    """Programs with one thing less: a worker, whose name goes with it; an operation; a savepoint around its operations;
    the old snapshot; a key. The largest first."""
    workers = program.workers
    for index, name in enumerate(program.names):
        yield replace(program, workers=workers[:index] + workers[index + 1 :]), name
    for index, worker in enumerate(workers):
        if isinstance(worker, Job):
            continue
        for ops in _fewer(worker.ops):
            if ops or isinstance(worker, View):
                fewer = _with_ops(worker, ops)
                yield replace(program, workers=(*workers[:index], fewer, *workers[index + 1 :])), None
    if program.watched:
        yield replace(program, watched=False), None
    for key in sorted(program.present):
        yield replace(program, present=program.present - {key}), None


def _with_ops(worker: Tx | Direct | View, ops: tuple[Op, ...]) -> WorkerProgram:
    if isinstance(worker, Tx):
        return replace(worker, ops=ops)
    return replace(worker, ops=ops) if isinstance(worker, View) else Direct(ops)


def _fewer(ops: tuple[Op, ...]) -> Iterator[tuple[Op, ...]]:
    for at, op in enumerate(ops):
        before, after = ops[:at], ops[at + 1 :]
        yield before + after
        if isinstance(op, Savepoint):
            yield before + op.inside + after
        if isinstance(op, Append):
            yield (*before, Put(op.key), *after)
            yield (*before, Get(op.key), *after)
