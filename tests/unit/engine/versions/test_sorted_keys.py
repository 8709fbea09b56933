"""A sorted set of keys equals a sorted list of them, whatever was added together (I3)."""

from __future__ import annotations

import random
from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.engine.versions import sorted_keys
from lowtide.engine.versions.sorted_keys import SortedKeys

keys = st.binary(max_size=2)


@pytest.fixture(autouse=True, scope="module")
def short_lists() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(sorted_keys, "_MOST", 4)
    yield
    patch.undo()


@given(st.lists(st.lists(keys, max_size=9), max_size=9), keys, st.none() | keys, st.integers(0, 8), st.booleans())
def test_it_answers_as_a_sorted_list(
    batches: list[list[bytes]], low: bytes, high: bytes | None, limit: int, reverse: bool
) -> None:
    found, added = SortedKeys(), set[bytes]()
    for batch in batches:
        found.update(batch)
        added.update(batch)
        inside = sorted((key for key in added if low <= key and (high is None or key < high)), reverse=reverse)
        assert found.between(low, high, limit, reverse) == inside[:limit]
        assert found.count(low, high) == len(inside)
        assert len(found) == len(added)
        assert found.has_prefix(low) == any(key.startswith(low) for key in added)
        if high is not None:
            assert found.first(low, high, reverse) == (inside[0] if inside else None)


def test_many_keys_in_runs_stay_in_order() -> None:
    draw, found, added = random.Random(1), SortedKeys(), set[bytes]()
    for _ in range(300):
        start = draw.randrange(10_000)
        run = [b"%05d" % (start + step) for step in range(draw.randrange(1, 12))]
        found.update(run)
        added.update(run)
    assert found.between(b"", None, 1 << 30, False) == sorted(added)
    assert found.between(b"", None, 1 << 30, True) == sorted(added, reverse=True)
    assert all(0 < len(each) <= 4 for each in found._lists)
