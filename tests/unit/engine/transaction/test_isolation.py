"""The policies of the five levels, and the names that select them."""

from __future__ import annotations

import pytest

from lowtide import Isolation, UsageError
from lowtide.engine.transaction.isolation import Policy, policy_of

FLAGS = ("buffered", "scan_snapshot", "fixed", "tracks_reads")


def flags(policy: Policy) -> list[str]:
    return [flag for flag in FLAGS if getattr(policy, flag)]


def test_each_level_does_all_that_the_weaker_one_does_and_more() -> None:
    assert [flags(policy_of(level)) for level in Isolation] == [
        [],
        ["buffered"],
        ["buffered", "scan_snapshot"],
        ["buffered", "scan_snapshot", "fixed"],
        ["buffered", "scan_snapshot", "fixed", "tracks_reads"],
    ]


@pytest.mark.parametrize("level", list(Isolation))
def test_a_level_is_asked_for_by_member_or_by_name_in_either_case(level: Isolation) -> None:
    for given in (level, level.name, level.value, level.name.lower(), level.name.title()):
        assert policy_of(given).level is level


@pytest.mark.parametrize("given", ["", "serialisable", "read committed", None, 3, [], {}, b"snapshot", FLAGS])
def test_anything_else_is_refused_and_the_levels_are_named(given: object) -> None:
    with pytest.raises(UsageError, match=r"unknown isolation level .*'read_committed'.*'serializable'"):
        policy_of(given)  # type: ignore[arg-type]
