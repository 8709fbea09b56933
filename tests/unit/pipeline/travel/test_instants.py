"""Which instants an archive can be read at, from the entries of its ledger alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import UsageError
from lowtide.pipeline.errors import ArchiveBehind, ArchiveGap
from lowtide.pipeline.tables.ledger import GAP, RUN, TIMELINE, VACUUM, LedgerEntry
from lowtide.pipeline.travel.instants import Instants, parse_at

START = datetime(2026, 5, 1, tzinfo=UTC)


def minutes(number: float) -> datetime:
    return START + timedelta(minutes=number)


def run(since: int, until: int, **values: Any) -> LedgerEntry:
    """A run to a commit that was made in the minute of its number, and archived half a minute later, in six seconds."""
    values = {"time": minutes(until), "at": minutes(until + 0.5), "detail": {"seconds": 6.0}, **values}
    return LedgerEntry(RUN, since=since, until=until, **values)


def gap(since: int, until: int, tables: list[str] | None = None) -> LedgerEntry:
    return LedgerEntry(GAP, START, since=since, until=until, detail={"reason": "lost", "tables": tables})


def vacuum(until: int, *instants: int) -> LedgerEntry:
    return LedgerEntry(VACUUM, START, until=until, detail={"instants": list(instants)})


def timeline(since: int, until: int) -> LedgerEntry:
    return LedgerEntry(TIMELINE, START, since=since, until=until, detail={"lost": "lost/1"})


def of(*entries: LedgerEntry) -> Instants:
    return Instants.of("/archive", entries)


def readable(instants: Instants, table: str = "collections/a") -> list[int]:
    return [each for each in range(30) if instants.is_readable(each, table)]


def test_without_gaps_everything_up_to_the_last_run_can_be_read() -> None:
    assert readable(of()) == [0]
    assert readable(of(run(0, 3), run(3, 5))) == [0, 1, 2, 3, 4, 5]


def test_a_gap_hides_what_is_between_its_ends_and_only_in_its_tables() -> None:
    instants = of(run(0, 3), gap(3, 6), gap(7, 9, ["collections/b"]), run(3, 10))
    assert readable(instants) == [0, 1, 2, 3, 6, 7, 8, 9, 10]
    assert readable(instants, "collections/b") == [0, 1, 2, 3, 6, 7, 9, 10]
    with pytest.raises(
        ArchiveGap, match=r"lacks commits 8 to 8: lost. The nearest that can be read: commit 7 and"
    ) as found:
        instants.check(8, "collections/b")
    assert (found.value.first, found.value.last) == (8, 8)


def test_a_vacuum_leaves_some_instants() -> None:
    instants = of(run(0, 10), vacuum(8, 2, 5, 6), vacuum(9, 5, 8))
    assert readable(instants) == [0, 5, 8, 9, 10]
    with pytest.raises(ArchiveGap, match=r"a vacuum removed it.*commit 5 and commit 8") as found:
        instants.check(6, "collections/a")
    assert (found.value.first, found.value.last) == (6, 7)
    with pytest.raises(ArchiveGap, match=r"can be read: commit 5$"):
        instants.check(2, "collections/a")


def test_a_vacuum_notes_for_how_long_an_instant_was_the_last_commit() -> None:
    times = [[minutes(2).isoformat(), minutes(3).isoformat()], [minutes(6).isoformat(), None]]
    entry = LedgerEntry(VACUUM, START, until=8, detail={"instants": [2, 6], "times": times})
    instants = of(run(0, 10), entry)
    assert [instants.kept_at(minutes(each), "collections/a") for each in (1.9, 2, 2.9, 3, 6.5)] == [
        None,
        2,
        2,
        None,
        None,
    ]
    assert of(run(0, 10), entry, vacuum(9)).kept_at(minutes(2), "collections/a") is None


def test_what_a_restored_store_has_undone_is_forgotten() -> None:
    instants = of(run(0, 5), run(5, 8), gap(8, 12), run(8, 12), vacuum(11, 4, 10), timeline(6, 12))
    assert instants.commit == 5
    assert (instants.gaps, readable(instants)) == ([], [0, 4])
    with pytest.raises(
        ArchiveBehind, match=r"has not reached commit 9: its last one is 5.*is in the tables of /archive/lost/1"
    ):
        instants.check(9, "collections/a")
    after = of(run(0, 5), run(5, 8), timeline(5, 8), run(5, 7))
    assert readable(after) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert after.around(minutes(6)) == (5, 7)


def test_a_time_lies_between_the_last_commits_of_two_runs() -> None:
    instants = of(run(0, 3), run(3, 5), run(5, 9))
    assert instants.around(minutes(2.9)) == (0, 3)
    assert instants.around(minutes(3)) == (3, 5)
    assert instants.around(minutes(8)) == (5, 9)
    assert instants.around(minutes(99)) == (9, None)
    assert instants.complete_until == minutes(9.4)


def test_a_run_that_does_not_know_the_time_of_its_commit_takes_the_latest_possible() -> None:
    assert of(run(0, 3), run(3, 5, time=None)).around(minutes(5.2)) == (3, 5)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=4),
    st.lists(st.integers(0, 25)),
    st.integers(0, 25),
)
def test_what_is_named_as_nearest_can_be_read_and_is(
    gaps: list[tuple[int, int]], instants: list[int], until: int
) -> None:
    known = of(*(gap(since, since + size) for since, size in gaps), vacuum(until, *instants), run(0, 25))
    possible = readable(known)
    for commit in range(26):
        before = max((each for each in possible if 0 < each < commit), default=None)
        after = min((each for each in possible if each > commit), default=None)
        if commit not in possible:
            assert known.nearest(commit, "collections/a") == (before, after)
            with pytest.raises(ArchiveGap) as found:
                known.check(commit, "collections/a")
            assert found.value.first <= commit <= found.value.last
        else:
            known.check(commit, "collections/a")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (0, 0),
        ("12", 12),
        ("2026-05-01", START),
        ("2026-05-01T00:00:00Z", START),
        ("2026-05-01T02:00:00+02:00", START),
        (datetime(2026, 5, 1), START),
    ],
)
def test_an_instant_is_a_commit_or_a_time(given: object, meant: object) -> None:
    assert parse_at(given) == meant


@pytest.mark.parametrize("given", [True, -1, 1.5, "", "noon", b"1", 2**63])
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(UsageError):
        parse_at(given)
