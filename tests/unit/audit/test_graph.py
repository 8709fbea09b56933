"""The reduced edges of sessions and time imply the same order as all of them."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.audit.graph import in_order
from lowtide.audit.history import RecordedTransaction

SPANS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.booleans()), max_size=9)


def reached(edges: set[tuple[int, int]], count: int) -> set[tuple[int, int]]:
    """All pairs that follow from the edges."""
    pairs = set(edges)
    for middle, first, last in product(range(count), repeat=3):
        if (first, middle) in pairs and (middle, last) in pairs:
            pairs.add((first, last))
    return pairs


@settings(max_examples=60)
@given(SPANS)
def test_the_edges_of_time_imply_each_pair_that_did_not_overlap_and_no_other(
    spans: list[tuple[int, int, bool]],
) -> None:
    transactions = [
        RecordedTransaction(n, begun=begun, ended=begun + length) for n, (begun, length, _) in enumerate(spans)
    ]
    counted = [each for _, _, each in spans]
    edges = {(earlier, later) for kind, earlier, later in in_order(transactions, counted) if kind == "time"}
    apart = {
        (first, second)
        for first, second in product(range(len(spans)), repeat=2)
        if counted[first] and counted[second] and spans[first][0] + spans[first][1] < spans[second][0]
    }
    assert reached(edges, len(spans)) == apart


def test_one_after_the_other_needs_one_edge_each() -> None:
    transactions = [RecordedTransaction(n, begun=2 * n, ended=2 * n + 1) for n in range(100)]
    assert list(in_order(transactions, [True] * 100)) == [("time", n, n + 1) for n in range(99)]


def test_a_session_goes_by_its_turns() -> None:
    turns = [("a", 3), ("b", 1), ("a", 1), (None, 2), ("a", 2)]
    transactions = [RecordedTransaction(n, session=session, turn=turn) for n, (session, turn) in enumerate(turns)]
    assert list(in_order(transactions, [True] * 5)) == [("session", 2, 4), ("session", 4, 0)]
