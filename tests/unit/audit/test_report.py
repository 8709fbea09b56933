"""Each anomaly is found in the smallest history that shows it, and not in one that differs only slightly."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from lowtide import Isolation, UsageError
from lowtide.audit import History, audit
from lowtide.audit.anomalies import MEANINGS
from lowtide.audit.levels import PROSCRIBED
from tests.unit.audit.histories import IMPLIED, SETUP, SMALLEST, Rows, a, found, r, report, s, tx, v, w

NEAR_MISSES: dict[str, list[Rows]] = {
    "garbage": [tx(1, r("x", 8)), tx(2, w("x", 8), version=1)],
    "duplicate": [tx(1, a("x", 1)), tx(2, r("x", [1]))],
    "future-read": [tx(1, a("x", 1), r("x", [1]))],
    "internal": [tx(1, w("x", 1), r("x", 1), version=1)],
    "incompatible-order": [tx(1, a("x", 1)), tx(2, a("x", 2)), tx(3, r("x", [1, 2])), tx(4, r("x", [1]))],
    "G0": [tx(1, w("x", 1, version=1), w("y", 1, version=2)), tx(2, w("x", 2, version=3), w("y", 2, version=4))],
    "G1a": [tx(1, w("x", 1), end="abort"), tx(2, r("x", None))],
    "G1b": [tx(1, a("x", 1), a("x", 2)), tx(2, r("x", [1, 2]))],
    "G1c": [tx(1, w("x", 1), r("y", None), version=1), tx(2, w("y", 2), r("x", 1), version=2)],
    "observed-vanishes": [SETUP, tx(1, w("x", 1), w("y", 1), version=2), tx(2, r("x", 1), r("y", 1))],
    "fractured-scan": [SETUP, tx(1, w("x", 1), w("y", 1), version=2), tx(2, s("x", "z", x=0, y=0))],
    "stale-read": [SETUP, tx(1, w("x", 1), version=2, begun=1, ended=3), tx(2, r("x", 0), begun=3, ended=4)],
    "lost-update": [SETUP, tx(1, r("x", 0), w("x", 1), version=2), tx(2, r("x", 1), w("x", 2), version=3)],
    "G-single": [SETUP, tx(1, w("x", 1), version=2), tx(2, w("y", 2), version=3), tx(3, r("x", 1), r("y", 0))],
    "long-fork": [
        SETUP,
        tx(1, w("x", 1), version=2),
        tx(2, w("y", 2), version=3),
        tx(3, r("x", 1), r("y", 0)),
        tx(4, r("y", 2), r("x", 1)),
    ],
    "G-nonadjacent": [
        SETUP,
        tx(1, w("x", 1), w("z", 1), version=2),
        tx(2, w("z", 2), r("y", 0), version=3),
        tx(3, w("y", 3), w("u", 3), version=4),
        tx(4, w("u", 4), r("x", 1), version=5),
    ],
    "write-skew": [
        SETUP,
        tx(1, r("x", 0), r("y", 0), w("x", 1), version=2),
        tx(2, r("x", 1), r("y", 0), w("y", 2), version=3),
    ],
    "G2-item": [
        tx(100, w("x", 0), w("y", 0), w("z", 0), version=1),
        tx(1, r("x", 0), w("y", 1), version=2),
        tx(2, r("y", 0), w("z", 2), version=3),
        tx(3, r("z", 2), w("x", 3), version=4),
    ],
    "G2": [
        SETUP,
        tx(1, s("a", "b"), w("x", 1), version=2),
        tx(2, r("x", 0), w("y", 2), version=3),
        tx(3, r("y", 0), w("b", 3), version=4),
    ],
}


def test_there_is_a_history_for_each_anomaly_that_is_known() -> None:
    assert SMALLEST.keys() == NEAR_MISSES.keys() == MEANINGS.keys()


@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_history_of_an_anomaly_shows_it_and_nothing_else(name: str) -> None:
    names = set(found(*SMALLEST[name]))
    assert names == {name} | IMPLIED.get(name, set())


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_differs_by_little_shows_nothing(name: str) -> None:
    assert found(*NEAR_MISSES[name]) == []


@pytest.mark.parametrize("level", Isolation)
@pytest.mark.parametrize("name", SMALLEST)
def test_a_level_is_violated_by_what_it_proscribes(name: str, level: Isolation) -> None:
    result = report(*SMALLEST[name], level=level)
    assert result.ok is not bool(PROSCRIBED[level] & set(result.names))
    assert set(result.violations) == PROSCRIBED[level] & set(result.names)


def test_a_stronger_level_proscribes_what_a_weaker_one_does() -> None:
    levels = [PROSCRIBED[level] for level in Isolation]
    assert all(weaker < stronger for weaker, stronger in pairwise(levels))
    assert levels[-1] == set(MEANINGS)


def test_appends_give_the_same_names_without_versions() -> None:
    """The order comes from the longest read."""
    reader = tx(9, r("x", [1, 2]), r("y", [3, 4]))
    first, second = tx(1, a("x", 1), a("y", 4)), tx(2, a("x", 2), a("y", 3))
    assert found(first, second, reader) == ["G0"]
    skewed = tx(1, r("y", []), a("x", 1)), tx(2, r("x", None), a("y", 3)), tx(9, r("x", [1]), r("y", [3]))
    assert found(*skewed) == ["write-skew"]
    single = tx(1, a("x", 1), a("y", 2)), tx(2, r("x", []), r("y", [2])), tx(9, r("x", [1]))
    assert found(*single) == ["G-single"]
    circle = tx(1, a("x", 1), r("y", [2])), tx(2, a("y", 2), r("x", [1]))
    assert found(*circle) == ["G1c"]


def test_a_lost_append_is_a_lost_update_though_its_place_is_not_known() -> None:
    lost = tx(1, r("x", []), a("x", 1)), tx(2, r("x", []), a("x", 2)), tx(3, r("x", [2]))
    result = report(*lost, level="snapshot")
    assert result.violations == ["lost-update"]
    assert result.unplaced == 1
    assert "T1 and T2 both read x as it was at first, and both wrote it" in result.of("lost-update")[0]


def test_of_three_that_update_one_version_two_are_lost() -> None:
    updates = [tx(number, r("x", 0), w("x", number), version=number + 1) for number in (1, 2, 3)]
    assert found(SETUP, *updates) == ["lost-update"]


def test_reads_may_name_versions_instead_of_values() -> None:
    both = [tx(1, v("x", 1), v("y", 1), w("x", 5), version=2), tx(2, v("x", 1), v("y", 1), w("y", 5), version=3)]
    assert found(SETUP, *both) == ["write-skew"]
    assert found(SETUP, both[0], tx(2, v("x", 2), v("y", 1), w("y", 5), version=3)) == []
    assert found(SETUP, tx(1, v("x", 0), v("y", 1))) == ["G-single"]
    assert found(SETUP, tx(1, w("x", 3), version=5), tx(2, v("x", 4))) == ["garbage"]
    assert found(SETUP, tx(1, r("x", 9, version=1))) == ["garbage"]
    assert found(tx(1, w("x", 1), version=4), tx(2, w("x", 2), version=4)) == ["duplicate"]


def test_a_version_from_before_the_recording_is_the_first_state() -> None:
    assert found(tx(1, v("x", 17), w("x", 1), version=30), tx(2, v("x", 17), w("x", 2), version=31)) == ["lost-update"]
    assert found(tx(1, v("x", 17))) == []


def test_a_phantom_makes_a_write_skew() -> None:
    first, second = tx(1, s("a", "m"), w("b", 1), version=1), tx(2, s("a", "m"), w("c", 2), version=2)
    result = report(first, second)
    assert result.names == ["write-skew"]
    assert "T1 scanned from 'a' to 'm' and found no c, which T2 then wrote as 2 (version 2)" in str(result)
    assert found(first, tx(2, s("a", "m", b=1), w("c", 2), version=2)) == []
    assert found(first, tx(2, s("n", "z"), w("c", 2), version=2)) == []
    assert found(first, tx(2, s("a", "b"), w("c", 2), version=2)) == []


def test_a_scan_sees_own_writes_and_nothing_outside_its_range() -> None:
    assert found(tx(1, w("b", 1), s(None, None, b=1), version=1)) == []
    assert found(tx(1, w("b", 1), s(None, None), version=1)) == ["internal"]
    assert found(tx(1, w("b", 1), version=1), tx(2, s("c", None, b=1))) == ["garbage"]


def test_a_scan_without_limits_goes_over_all_keys_and_one_of_lists_reads_each() -> None:
    assert found(
        tx(1, s(None, None), a("x", 1)), tx(2, s(None, None), a("y", 2)), tx(3, s(None, None, x=[1], y=[2]))
    ) == ["write-skew"]


def test_deletes_are_versions() -> None:
    gone = tx(1, w("x", None), version=2)
    assert found(SETUP, gone, tx(2, r("x", 0), w("y", 2), version=3)) == []
    result = report(SETUP, gone, tx(2, r("x", None)))
    assert result.names == []
    assert result.unresolved == 1
    assert found(SETUP, tx(1, v("y", 1), w("x", None), version=2), tx(2, v("x", 1), w("y", 2), version=3)) == [
        "write-skew"
    ]
    after = tx(3, r("x", None, version=2), r("y", 0), w("z", 1), version=4)
    assert found(SETUP, gone, after) == []


def test_a_write_that_merged_with_an_equal_one_overwrote_nothing() -> None:
    def merged(key: str, value: int) -> dict[str, Any]:
        return {**w(key, value), "merged": True}

    first = tx(1, r("x", 0), w("x", 1), version=2)
    assert found(SETUP, first, tx(2, r("x", 0), merged("x", 2), version=3)) == ["write-skew"]
    assert found(SETUP, first, tx(2, merged("x", 2), version=3)) == []
    both = first, tx(2, merged("x", 2), version=3)
    assert found(SETUP, *both, tx(3, v("x", 3), w("x", 3), version=4)) == []
    assert "lost-update" in found(SETUP, *both, tx(3, v("x", 1), w("x", 3), version=4))
    # Who saw the first of two equal writes has not missed the second one, nor does a scan that shows both mix instants.
    equal = tx(2, merged("x", 2), w("y", 2), version=3)
    assert found(SETUP, first, equal, tx(3, v("x", 2), v("y", 3))) == []
    # Who saw neither has missed both.
    assert {"observed-vanishes", "G-single"} <= set(found(SETUP, first, equal, tx(3, v("y", 3), v("x", 1))))


def test_sessions_and_time_order_transactions() -> None:
    """A later transaction of a session must not see less."""
    wrote = tx(1, w("x", 1), version=2)
    first, second = tx(2, r("x", 1), session="s", turn=1), tx(3, r("x", 0), session="s", turn=2)
    assert found(SETUP, wrote, first, second) == ["stale-read"]
    assert found(SETUP, wrote, first, tx(3, r("x", 0), session="t", turn=2)) == []
    future = tx(2, r("x", 1), begun=0, ended=1), tx(1, w("x", 1), version=2, begun=2, ended=3)
    assert found(SETUP, *future) == ["G1c"]
    backwards = tx(1, w("x", 1), version=3, begun=0, ended=1), tx(2, w("x", 2), version=2, begun=2, ended=3)
    assert found(SETUP, *backwards) == ["G0"]


def test_a_stale_read_is_told_from_read_skew_below_snapshot() -> None:
    """Time does not make the read skew that READ_COMMITTED allows a violation."""
    skew = [
        tx(1, w("x", 1), version=2, begun=1, ended=2),
        tx(2, r("x", 0), r("y", 0), r("x", 1), begun=0, ended=5),
    ]
    assert report(SETUP, *skew, level="read_committed").ok
    assert report(SETUP, *skew, level="snapshot").violations == ["G-single"]
    stale = tx(3, r("x", 0), begun=3, ended=4)
    assert report(SETUP, *skew, stale, level="read_committed").violations == ["stale-read"]


def test_a_transaction_of_unknown_outcome_counts_if_someone_saw_it() -> None:
    killed = tx(1, r("y", None), a("x", 1), end="")
    assert found(killed, tx(2, r("x", []))) == []
    assert report(killed, tx(2, r("x", []))).committed == 1
    seen = tx(2, r("x", [1]), r("y", [2])), tx(3, r("x", []), a("y", 2))
    assert found(killed, *seen) == ["write-skew"]
    assert report(killed, *seen).committed == 3


def test_one_of_unknown_outcome_may_vouch_for_another() -> None:
    chain = tx(1, a("x", 1), end=""), tx(2, r("x", [1]), a("y", 2), end=""), tx(3, r("y", [2]))
    assert report(*chain).committed == 3


def test_reads_of_aborted_transactions_prove_nothing() -> None:
    assert found(SETUP, tx(1, w("x", 1), w("y", 1), version=2), tx(2, r("x", 0), r("y", 1), end="abort")) == []


def test_an_aborted_element_in_the_middle_of_a_list_is_found() -> None:
    aborted, later = tx(1, a("x", 1), end="abort"), tx(2, r("x", [1]), a("x", 2), end="abort")
    assert found(aborted, tx(3, a("x", 3)), tx(4, r("x", [1, 3]))) == ["G1a"]
    assert found(aborted, later, tx(4, r("x", [1, 2]))) == ["G1a"]


def test_own_appends_are_seen_at_the_end_of_the_list() -> None:
    others = tx(1, a("x", 1))
    assert found(others, tx(2, a("x", 2), a("x", 3), r("x", [1, 2, 3]))) == []
    assert found(others, tx(2, a("x", 2), r("x", [2, 1])), tx(3, r("x", [1, 2]))) == ["internal", "incompatible-order"]


def test_a_transaction_cannot_see_what_it_writes_later() -> None:
    assert found(tx(1, r("x", 7), w("x", 7), version=1)) == ["future-read"]
    assert found(tx(1, v("x", 1), w("x", 7), version=1)) == ["future-read"]
    assert found(tx(1, s("a", None, x=7), w("x", 7), version=1)) == ["future-read"]
    assert found(tx(1, w("x", 7, version=1), v("x", 2), w("x", 8, version=2))) == [
        "future-read",
        "internal",
    ]
    others = tx(2, a("x", 1)), tx(3, r("x", [1, 2, 3]))
    assert found(*others, tx(1, r("x", [1, 2]), a("x", 2), a("x", 3))) == ["future-read"]
    assert found(*others, tx(1, a("x", 2), r("x", [1, 2, 3]), a("x", 3))) == ["future-read", "internal"]
    result = report(*others, tx(1, r("x", [1, 2]), a("x", 2), a("x", 3)), level="none")
    assert result.violations == ["future-read"]
    assert "T1 read x = [1, 2], and appended 2 only afterwards" in str(result)


def test_a_value_that_was_written_before_and_after_a_read_was_seen_in_time() -> None:
    again = [w("x", 7), w("x", 8), r("x", 7), w("x", 7)]
    assert found(tx(1, *again, version=1)) == ["internal"]
    assert found(tx(1, w("x", 7), r("x", 7), w("x", 7), version=1)) == []


def test_appends_that_no_read_shows_come_after_what_was_read() -> None:
    """Neither times nor versions are needed for it."""
    skew = tx(1, r("x", []), a("y", 1)), tx(2, r("y", []), a("x", 2))
    result = report(*skew)
    assert result.names == ["write-skew"]
    assert result.unplaced == 2
    assert "T1 found no x, which T2 overwrote by appending 2" in str(result)
    missed = tx(1, a("x", 1), a("y", 1)), tx(2, r("x", [1]), r("y", []))
    assert found(*missed) == ["G-single"]
    first = tx(1, a("x", 1), r("y", [2]))
    assert found(first, tx(2, r("x", [1]), a("y", 2))) == ["G1c"]
    overwritten = tx(1, a("x", 1)), tx(2, a("x", 2), a("y", 2)), tx(3, r("x", [1]), r("y", [2]))
    assert found(*overwritten) == ["G-single"]


def test_appends_that_no_read_shows_have_no_order_among_themselves() -> None:
    unread = tx(1, a("x", 1), a("y", 1)), tx(2, a("x", 2), a("y", 2))
    assert found(*unread) == []
    assert found(*unread, tx(3, r("x", []), r("y", []))) == []
    assert found(*unread, tx(3, r("x", [1]), r("y", [1]))) == []
    assert found(tx(1, a("x", 1), end="abort"), tx(2, a("x", 2), end=""), tx(3, r("x", []), a("y", 1))) == []


def test_what_a_transaction_saw_of_its_own_append_does_not_order_it_before_others() -> None:
    """T1 saw 2 before it committed, and T3 may have committed 3 in between: read skew, but no circle of writes."""
    own = tx(0, a("x", 1)), tx(1, a("x", 2), r("x", [1, 2]), r("y", [3]))
    assert found(*own, tx(3, a("x", 3), a("y", 3))) == ["G-single"]
    assert found(*own, tx(3, a("x", 3), a("y", 3)), tx(4, r("x", [1, 2]))) == ["G1c", "G-single"]


def test_an_append_that_was_lost_is_not_taken_for_a_later_one() -> None:
    """T1 appended first, and T2, which had read the list before, wrote it back without what T1 appended."""
    lost = [tx(1, r("x", []), a("x", 1), a("y", 1)), tx(2, r("x", []), r("y", [1]), a("x", 2)), tx(3, r("x", [2]))]
    assert found(*lost) == ["lost-update"]
    assert report(*lost, level="read_committed").ok


def test_values_that_do_not_tell_who_wrote_them_are_refused() -> None:
    twice = tx(1, w("x", 7), version=1), tx(2, w("x", 7), version=2)
    assert found(*twice) == []
    with pytest.raises(UsageError, match="several transactions wrote 7 to 'x'"):
        found(*twice, tx(3, r("x", 7)))
    with pytest.raises(UsageError, match="7 is appended to 'x' twice"):
        found(tx(1, a("x", 7)), tx(2, a("x", 7)))
    with pytest.raises(UsageError, match="'x' is both written and appended to"):
        found(tx(1, a("x", 7)), tx(2, w("x", 7)))
    with pytest.raises(UsageError, match="says which elements"):
        found(tx(1, a("x", 7)), tx(2, v("x", 1)))


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown isolation level"):
        audit(History.of([]), "repeatable")


def test_the_report_says_what_it_is_about() -> None:
    result = report(*SMALLEST["write-skew"], level="snapshot")
    text = str(result)
    assert text.startswith("3 transactions, 3 of them committed, 8 operations\nSNAPSHOT: holds\n")
    assert "allowed:\nwrite-skew (two transactions each missed what the other one wrote): T1, T2\n" in text
    assert "  T1 read y = 0 (version 1), which T2 overwrote with 2 (version 3)\n" in text
    assert "  which puts T1 before T2, T2 before T1" in text
    assert text.endswith("what was found is allowed at: NONE, READ_COMMITTED, SNAPSHOT_READ, SNAPSHOT")
    data = report(*SMALLEST["write-skew"]).as_data()
    assert data["ok"] is False
    assert data["violations"] == ["write-skew"]
    assert data["anomalies"][0]["transactions"] == [1, 2]
    assert [edge["kind"] for edge in data["anomalies"][0]["edges"]] == ["rw", "rw"]
    assert report().ok
