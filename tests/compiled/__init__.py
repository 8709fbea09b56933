"""Tests of the compiled build, and the list of other tests that do not apply to it. ``make test-compiled`` runs them.

``make test`` runs the tests of this folder on plain Python, where they hold as well. Compiled code has no lines that a
test could trace and no methods that it could replace, so a test that does either to a compiled module is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

_LINE = "it stops or breaks a compiled function at one of its lines, and compiled code has no lines to trace"
_METHOD = "it puts another method in the place of a compiled one, and compiled callers do not look it up"

LEFT_OUT: Final[dict[str, str]] = {
    "tests/crash/test_interrupted_snapshots.py::"
    "test_an_interrupted_follower_leaves_nothing_registered_and_is_not_committed": _METHOD,
    "tests/crash/test_killed_at_every_place.py::test_a_kill_at_any_point_loses_nothing_that_was_acknowledged": _LINE,
    "tests/crash/test_killed_commit.py": f"{_LINE}; tests/compiled/test_failed_commits.py has what can be done",
    "tests/garbage/test_nothing_stays.py::test_a_collection_that_fails_leaves_the_commit_and_is_counted": _METHOD,
    "tests/isolation/test_batches.py::test_a_commit_that_is_half_published_is_not_seen_at_all": _LINE,
    "tests/isolation/test_callbacks.py::"
    "test_the_callbacks_of_a_group_run_in_commit_order_each_after_all_of_the_group_is_visible": _LINE,
    "tests/isolation/test_convicted.py": _METHOD,
    "tests/isolation/test_convicted_in_pieces.py": _METHOD,
    "tests/isolation/test_hot_key.py::test_a_member_of_a_group_conflicts_with_the_leader_that_it_waited_for": _LINE,
    "tests/isolation/test_hot_key.py::"
    "test_a_serializable_transaction_conflicts_with_any_member_of_a_group_that_committed_meanwhile": _LINE,
    "tests/isolation/test_hot_key.py::"
    "test_in_a_group_a_serializable_reader_conflicts_with_members_before_it_only": _LINE,
    "tests/isolation/test_hot_key.py::test_in_a_group_the_weaker_levels_are_always_accepted": _LINE,
    "tests/isolation/test_hot_key.py::test_losers_on_a_hot_key_never_fail_others_in_their_group": _LINE,
    "tests/isolation/test_interrupted_commits.py": _LINE,
    "tests/isolation/test_no_locks.py::test_readers_go_on_while_a_commit_stands_still": _LINE,
    "tests/isolation/test_recorded_collections.py::test_a_broken_store_is_convicted": _METHOD,
    "tests/isolation/test_recorded_store.py::test_a_broken_store_is_convicted": _METHOD,
    "tests/isolation/test_recorded_stories.py::test_a_reader_beside_a_publication": _LINE,
    "tests/isolation/test_recorded_stories.py::test_a_reader_that_begins_beside_a_collection": _LINE,
    "tests/isolation/test_recorded_stories.py::test_what_is_put_behind_a_scan_of_deleted_keys": _LINE,
    "tests/isolation/test_recorded_stories.py::test_what_is_put_while_a_scan_notes_deleted_keys": _LINE,
}
"""Tests, cases or files of tests that are not run against a compiled build, and the reason for each."""

_ROOT = Path(__file__).resolve().parents[2]


def is_left_out(path: Path) -> bool:
    """Whether no test of a file can apply. Such a file may not even be importable."""
    return path.is_relative_to(_ROOT) and str(path.relative_to(_ROOT)) in LEFT_OUT


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what cannot apply to a compiled build."""
    left = [item for item in items if any(is_of(item.nodeid, node) for node in LEFT_OUT)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def is_of(nodeid: str, node: str) -> bool:
    """Whether a test is ``node`` itself, a case of it, or in the file."""
    return nodeid == node or nodeid.startswith((f"{node}[", f"{node}::"))
