"""Every interleaving of two small transactions has an outcome that their levels allow.

*Every* means: of the operations, of begin's draw and its registration, and of a commit's write to the log and its
publication, without a bound. Over all points of the engine it means at most two preemptions, of all pairs three if
``LOWTIDE_SCHEDULES`` is set: a fault that needs more is left to the seeds.
"""

from __future__ import annotations

import os

import pytest

from lowtide import Isolation
from tests.schedules.exploring import explore
from tests.schedules.program import Append, Delete, Get, Op, Program, Put, Savepoint, Scan, Tx
from tests.schedules.running import Laboratory
from tests.support.attack import FULL

A, B, C = b"a", b"b", b"c"

STEPS = frozenset(("begin.drawn", "commit.log", "commit.visible"))
"""Besides the operations: before a snapshot that was drawn is registered, before a commit is logged, and before it can
be seen."""

MORE = 1 if "LOWTIDE_SCHEDULES" in os.environ else 0

PAIRS: dict[str, tuple[tuple[Op, ...], tuple[Op, ...]]] = {
    "two updates of a key": ((Append(A),), (Append(A),)),
    "two inserts of a key": ((Put(C),), (Put(C),)),
    "write skew": ((Get(A), Put(B)), (Get(B), Put(A))),
    "read skew": ((Get(A), Get(B)), (Put(A), Put(B))),
    "a scan and an insert": ((Scan(), Put(A)), (Put(C),)),
    "two scans and inserts": ((Scan(), Put(C)), (Scan(b"b"), Delete(B))),
    "a read and a delete": ((Get(A), Get(A)), (Delete(A),)),
    "a delete and an update": ((Delete(A),), (Append(A),)),
    "a savepoint that is undone": ((Savepoint((Put(A), Put(C)), True), Put(B)), (Append(A),)),
}

STRICT = (Isolation.SNAPSHOT, Isolation.SERIALIZABLE)
READS = ("write skew", "read skew", "a scan and an insert", "two scans and inserts", "a read and a delete")
"""Where the two levels differ: without a read they are the same."""
BOTH = READS if FULL else ("write skew", "a scan and an insert")
"""Of these, the pairs that are tried at both levels; the others at SERIALIZABLE, which refuses whatever SNAPSHOT does
and more."""


def program(pair: str, level: Isolation, other: Isolation | None = None, *, checkpointed: bool) -> Program:
    first, second = PAIRS[pair]
    return Program((Tx(level, first), Tx(other or level, second)), checkpointed=checkpointed)


@pytest.mark.parametrize(
    ("pair", "level"),
    [(pair, level) for pair in PAIRS for level in STRICT if pair in BOTH or (level is STRICT[1]) == (pair in READS)],
)
def test_every_interleaving_of_their_steps_is_allowed(pair: str, level: Isolation) -> None:
    with Laboratory() as laboratory:
        found = explore(laboratory, program(pair, level, checkpointed=False), stops=STEPS).check()
        assert found.complete
        assert found.schedules > 50, "two transactions of so many steps have more interleavings"


@pytest.mark.parametrize(
    ("pair", "level"),
    [("two updates of a key", Isolation.SNAPSHOT), ("a scan and an insert", Isolation.SERIALIZABLE)]
    + [(pair, level) for pair in PAIRS for level in STRICT if MORE],
)
def test_every_interleaving_with_two_preemptions_at_any_point_is_allowed(pair: str, level: Isolation) -> None:
    with Laboratory() as laboratory:
        assert explore(laboratory, program(pair, level, checkpointed=True), bound=2 + MORE).check().complete


@pytest.mark.parametrize("level", [Isolation.NONE, Isolation.READ_COMMITTED, Isolation.SNAPSHOT_READ])
@pytest.mark.parametrize(
    "pair", ["two updates of a key", "read skew", "a scan and an insert", "a delete and an update"]
)
def test_the_weaker_levels_show_only_what_was_committed(pair: str, level: Isolation) -> None:
    with Laboratory() as laboratory:
        explore(laboratory, program(pair, level, checkpointed=True), bound=1 + MORE).check()
        explore(laboratory, program(pair, level, Isolation.SERIALIZABLE, checkpointed=False), bound=1 + MORE).check()
