"""The rule that decides where a history is cut, by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lowtide.pipeline.audit.pieces import Places, Stretches

POSITIONS = st.integers(0, 20).map(float)
EDGES = st.lists(st.tuples(POSITIONS, POSITIONS).map(lambda pair: (max(pair), min(pair))), max_size=12)
"""Edges that lead back, from a source to a target at or before it."""


@given(EDGES, st.sets(POSITIONS))
def test_no_edge_that_leads_back_leaves_its_piece(edges: list[tuple[float, float]], bounds: set[float]) -> None:
    places = Places(bounds)
    places.note([target for _, target in edges], [source for source, _ in edges])
    pieces = places.pieces()
    for source, target in edges:
        assert pieces.of([source]) == pieces.of([target]) >= 0


@given(EDGES)
def test_the_finest_pieces_are_those_of_all_places(edges: list[tuple[float, float]]) -> None:
    """A place is one of a stretch if and only if some edge leads back over it."""
    stretches = Stretches([target for _, target in edges], [source for source, _ in edges])
    for place in range(20):
        here, there = stretches.of([float(place), float(place + 1)]).tolist()
        crossed = any(target <= place and source >= place + 1 for source, target in edges)
        assert (here == there and here >= 0) == crossed
    for source, target in edges:
        assert stretches.of([source]) == stretches.of([target]) >= 0


def test_a_history_without_edges_that_lead_back_has_no_piece_to_look_at() -> None:
    assert Places([1.0, 2.0]).pieces().of([0.0, 1.0, 2.0, 3.0]).tolist() == [-1] * 4
    assert Stretches([], []).of([1.0]).tolist() == [-1]
