"""The scheduler finds the faults it is meant to find: engines that are broken at one seam are convicted within its
bounds, and the schedule is repeated exactly. Of some, others in the next run, it is shrunk. Each case names the
expected kind of complaint."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lowtide import Isolation
from tests.schedules import broken
from tests.schedules.exploring import Finding, Stops, explore, explore_seeds, replay, shrink
from tests.schedules.program import Append, Delete, Direct, Get, Job, Program, Put, Scan, Tx, View
from tests.schedules.running import Laboratory
from tests.support.attack import some

SNAPSHOT, SERIALIZABLE = Isolation.SNAPSHOT, Isolation.SERIALIZABLE
A, B, C = b"a", b"b", b"c"

READER = Tx(SNAPSHOT, (Get(A), Get(B)))
CHECKPOINT = Job("checkpoint")
POPPED = Program((Direct((Delete(A), Scan(), Scan())), Direct((Put(A),))))
"""One worker deletes the first key, so its scan records a gap; another puts the key again."""
GAPS = frozenset(("scan.watch", "scan.chains", "gaps.note", "gaps.noted", "gaps.cut", "gaps.watches", "publish.gaps"))


@dataclass(frozen=True)
class Case:
    """The kind of complaint that a broken engine must be convicted of, a program that shows it, how many preemptions
    that takes at most, and at which points, None for all. A store that keeps what is broken is used once."""

    kind: str
    program: Program
    bound: int
    stops: frozenset[str] | None = None
    uses: int = 20
    short_scans: bool = False


CASES = {
    "draw_without_a_second_look": Case("read", Program((READER, Direct((Put(A),))), checkpointed=False), 1),
    "visible_before_the_chains": Case("read", Program((READER, Tx(SNAPSHOT, (Put(A), Put(B)))), checkpointed=False), 2),
    "layer_dropped_before_the_base_has_it": Case("read", Program((READER, CHECKPOINT), checkpointed=False), 2),
    "base_before_the_chains": Case("read", Program((READER, CHECKPOINT), checkpointed=False), 1),
    "cache_that_outlives_its_layer": Case("read", Program((Direct((Get(A), Put(A), Get(A))), CHECKPOINT)), 1, uses=1),
    "cache_of_another_view": Case(
        "read", Program((Direct((Get(A), Get(A))), Direct((Put(A),)), CHECKPOINT)), 2, uses=1
    ),
    "group_that_is_not_judged_within": Case(
        "lost update",
        Program((Tx(SNAPSHOT, (Append(A),)), Tx(SNAPSHOT, (Append(A),)), Tx(SNAPSHOT, (Append(B),)))),
        1,
        frozenset(("commit.enter", "commit.log", "commit.wait")),
    ),
    "no_phantoms_looked_for": Case(
        "not serializable", Program((Tx(SERIALIZABLE, (Scan(), Put(A))), Tx(SERIALIZABLE, (Put(C),)))), 2
    ),
    "waiters_stay_asleep": Case("deadlock", Program((Tx(SNAPSHOT, (Put(A),)), CHECKPOINT), checkpointed=False), 2),
    "pin_that_nothing_holds": Case(
        "read",
        Program((View((Get(A),), True), Direct((Put(A),)), CHECKPOINT)),
        2,
        frozenset(("pin.take", "checkpoint.sampled", "commit.log")),
    ),
    "keys_that_are_nowhere": Case(
        "read", Program((READER, Tx(SNAPSHOT, (Scan(),)), Direct((Scan(),))), checkpointed=False), 2
    ),
    "gap_noted_unwatched": Case("content", POPPED, 1, GAPS, short_scans=True),
    "gaps_looked_for_before_watches": Case("content", POPPED, 2, GAPS, short_scans=True),
    "nothing_cut_where_no_gap_is_yet": Case("content", POPPED, 1, GAPS, short_scans=True),
    "table_taken_after_the_look": Case("content", POPPED, 2, GAPS, short_scans=True),
}


def repeat(laboratory: Laboratory, finding: Finding, kind: str, stops: Stops = None) -> None:
    """Repeat a finding, exactly."""
    assert finding.complaint.kind == kind, finding
    again = replay(laboratory, finding, stops)
    assert again is not None, f"it was not repeated\n{finding}"
    assert (again.trace, again.complaint) == (finding.trace, finding.complaint)


def convict(laboratory: Laboratory, finding: Finding, kind: str, stops: Stops = None) -> Finding:
    """Repeat a finding, exactly, then shrink it, and repeat that."""
    repeat(laboratory, finding, kind, stops)
    small = shrink(laboratory, finding, stops)
    assert len(small.program.workers) <= len(finding.program.workers)
    repeat(laboratory, small, kind, stops)
    return small


@pytest.mark.parametrize("name", CASES)
def test_a_broken_engine_is_convicted_within_the_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    with Laboratory(points=broken.WITH_BROKEN, uses=case.uses, short_scans=case.short_scans) as laboratory:
        explore(laboratory, case.program, bound=case.bound, stops=case.stops, most=25).check()
        breaking: broken.Break = getattr(broken, name)
        breaking(monkeypatch)
        found = explore(laboratory, case.program, bound=case.bound, stops=case.stops)
        assert found.finding is not None, f"{found.schedules} schedules, and none was wrong"
        if name in some(list(CASES), 5):
            small = convict(laboratory, found.finding, case.kind, case.stops)
            assert small.preemptions <= case.bound, small
        else:
            repeat(laboratory, found.finding, case.kind, case.stops)


@pytest.mark.parametrize(
    ("name", "kind", "workers"),
    [
        ("draw_without_a_second_look", "read", 2),
        ("waiters_stay_asleep", "deadlock", 2),
    ],
)
def test_a_broken_engine_is_convicted_by_a_seed(
    name: str, kind: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Laboratory(points=broken.WITH_BROKEN) as laboratory:
        breaking: broken.Break = getattr(broken, name)
        breaking(monkeypatch)
        found = explore_seeds(laboratory, range(2000))
        assert found.finding is not None, f"{found.schedules} seeds, and none was wrong"
        assert f"LOWTIDE_SCHEDULE={found.finding.seed} " in str(found.finding)
        small = convict(laboratory, found.finding, kind)
        assert len(small.program.workers) <= workers, small
        assert small.preemptions <= 2, small


def test_every_broken_engine_is_convicted_here() -> None:
    defined = {name for name, value in vars(broken).items() if getattr(value, "__module__", "") == broken.__name__}
    assert defined == set(CASES)
