"""What is derived from figures: paired ratios, targets, and where a peer is ahead."""

from __future__ import annotations

from bench.figures import BASE, Figure, Figures, Summary, paired
from bench.peers import PEERS
from bench.targets import FLOORS, OWN_THREADS, PROMISES, REASONS, TRANSACTIONAL, findings
from bench.workloads import WORKLOADS

NAMES = {workload.name for workload in WORKLOADS}


def figures(**rates: float) -> Figures:
    """One round of one workload: ``rmw__sqlite3=2.0``; dashes of names as single underscores."""
    found = Figures()
    for key, rate in rates.items():
        workload, peer = key.split("__")
        found.add(Figure(workload.replace("_", "-"), peer.replace("_", "-"), 0, rate))
    return found


def test_a_ratio_is_the_median_of_those_within_a_round() -> None:
    ours = {number: Figure("rmw", BASE, number, rate) for number, rate in enumerate((10.0, 100.0, 30.0, 1.0))}
    theirs = {number: Figure("rmw", "sqlite3", number, rate) for number, rate in enumerate((5.0, 100.0, 10.0))}
    assert paired(ours, theirs) == Summary(2.0, 1.0, 3.0)
    assert paired(ours, {7: theirs[0]}) is None


def test_figures_come_back_from_their_data() -> None:
    before = Figures([Figure("rmw", BASE, 0, 12.5, 3.0, 0.25), Figure("rmw", "sqlite3", 0, 1.5)])
    after = Figures.from_data(before.as_data())
    assert after.as_data() == before.as_data()
    assert after.of("rmw", BASE) == before.of("rmw", BASE)
    assert after.peers() == [BASE, "sqlite3"]


def test_every_target_and_reason_is_of_a_workload_and_a_peer_that_exist() -> None:
    assert NAMES >= TRANSACTIONAL
    assert set(OWN_THREADS) <= NAMES
    for workload, peer in [*FLOORS, *REASONS]:
        assert workload in NAMES
        assert peer in {*PEERS, ""}


def test_there_is_a_reason_wherever_a_peer_can_be_ahead() -> None:
    for workload in NAMES:
        for peer in PEERS:
            assert PROMISES.reason(workload, peer)


def test_transactional_lines_are_to_be_ahead_of_every_peer() -> None:
    assert PROMISES.floor("rmw", "rocksdict") == 1.0
    assert PROMISES.floor("rmw", "sqlite3") == 1.2
    assert PROMISES.floor("point-read", "py-lmdb") == 0.8
    assert PROMISES.floor("fast-read", "py-lmdb") == 1.0
    assert PROMISES.floor("scan", "ZODB") is None
    assert all((PROMISES.floor(workload, peer) or 0) >= 0.8 for workload in TRANSACTIONAL for peer in PEERS)


def test_a_target_is_met_or_missed_by_the_ratio() -> None:
    found = findings(figures(rmw__lowtide=1.2, rmw__sqlite3=1.0, rmw__py_lmdb=2.0, rmw__rocksdict=1.0))
    assert [(each.met, each.measured) for each in found] == [(True, "1.20x"), (False, "0.60x py-lmdb, the closest")]
    assert found[0].why == ""
    assert found[1].why == f"py-lmdb: {PROMISES.reason('rmw', 'py-lmdb')}"
    assert not findings(figures(rmw__lowtide=1.19, rmw__sqlite3=1.0))[0].met


def test_a_peer_that_is_ahead_within_its_target_is_named_all_the_same() -> None:
    (found,) = findings(figures(point_read__lowtide=0.9, point_read__py_lmdb=1.0))
    assert found.met
    assert found.why == PROMISES.reason("point-read", "py-lmdb")


def test_four_threads_are_compared_with_one_of_lowtide_itself() -> None:
    (found,) = findings(figures(rmw_unsynced__lowtide=10.0, rmw_unsynced_4__lowtide=9.0))
    assert (found.met, found.measured) == (False, "0.90x")
    assert findings(figures(rmw_unsynced__lowtide=10.0, rmw_unsynced_4__lowtide=10.0))[0].met


def test_peers_are_named_as_ahead_only_where_they_are() -> None:
    found = PROMISES.peers_ahead(figures(scan__lowtide=1.0, scan__ZODB=2.0, rmw__lowtide=2.0, rmw__ZODB=1.0))
    assert [(each.workload.name, each.peer, each.ratio.middle) for each in found] == [("scan", "ZODB", 0.5)]
