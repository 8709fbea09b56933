"""The table of processes that have a store open: slots end with their holder, and one process may be exclusive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.recovery.members import Members, members_of, unanswered_since

NOTHING = (1 << 63) - 1

HOLDER = """
import sys
from pathlib import Path
from lowtide.engine.recovery.members import Members
held = Members(Path(sys.argv[1]))
held.begin_waiting(5)
held.count(commits=7, conflicts=2)
print("held", flush=True)
sys.stdin.read()
"""


def test_each_has_a_slot_until_it_is_closed(tmp_path: Path) -> None:
    with Members(tmp_path) as first, Members(tmp_path) as second:
        second.owns()
        first.count(commits=3, conflicts=1)
        found = members_of(tmp_path)
        assert [(each.role, each.commits, each.conflicts) for each in found] == [("joined", 3, 1), ("owner", 0, 0)]
        assert {each.pid for each in found} == {os.getpid()}
    assert members_of(tmp_path) == []


def test_the_slot_of_a_killed_process_is_free_and_what_it_waited_for_is_forgotten(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert [(each.pid, each.commits, each.conflicts) for each in members_of(tmp_path)] == [(process.pid, 7, 2)]
        assert unanswered_since(tmp_path) == 5
        process.kill()
    assert members_of(tmp_path) == []
    assert unanswered_since(tmp_path) == NOTHING


def test_the_oldest_commit_that_anyone_waits_for_counts(tmp_path: Path) -> None:
    with Members(tmp_path) as first, Members(tmp_path) as second:
        assert unanswered_since(tmp_path) == NOTHING
        seven, nine, eight = first.begin_waiting(7), first.begin_waiting(9), second.begin_waiting(8)
        assert unanswered_since(tmp_path) == 7
        first.end_waiting(seven)
        assert unanswered_since(tmp_path) == 8
        second.end_waiting(eight)
        assert unanswered_since(tmp_path) == 9
        first.end_waiting(nine)
        assert unanswered_since(tmp_path) == NOTHING


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_an_exclusive_one_is_alone(tmp_path: Path, first: bool, second: bool) -> None:
    with Members(tmp_path, exclusive=first), pytest.raises(lowtide.StoreLocked, match=f"process {os.getpid()}"):
        Members(tmp_path, exclusive=second)
    Members(tmp_path, exclusive=second).close()


def test_a_directory_without_a_table_has_no_members(tmp_path: Path) -> None:
    assert members_of(tmp_path) == []
    assert unanswered_since(tmp_path) == NOTHING
