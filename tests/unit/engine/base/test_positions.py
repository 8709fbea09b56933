"""The consumers' positions: each call is one transaction, and returns whether the consumer existed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowtide.engine.base.consumers import ConsumerRow
from lowtide.engine.base.positions import ConsumerPositions
from tests.unit.engine.base.bases import new_base


@pytest.fixture
def positions() -> Iterator[ConsumerPositions]:
    with new_base() as base:
        yield ConsumerPositions(base)


def test_a_consumer_is_created_once(positions: ConsumerPositions) -> None:
    assert positions.create("c", ConsumerRow(3, 1.0))
    assert not positions.create("c", ConsumerRow(5, 2.0))
    assert positions.all() == [("c", ConsumerRow(3, 1.0))]


def test_it_moves_back_only_if_that_is_asked_for(positions: ConsumerPositions) -> None:
    positions.create("c", ConsumerRow(3, 1.0))
    assert positions.move("c", ConsumerRow(2, 2.0))
    assert positions.get("c") == ConsumerRow(3, 1.0)
    assert positions.move("c", ConsumerRow(2, 3.0), back=True)
    assert positions.get("c") == ConsumerRow(2, 3.0)
    assert positions.move("c", ConsumerRow(7, 4.0))
    assert positions.get("c") == ConsumerRow(7, 4.0)


def test_one_that_is_gone_is_not_made_by_a_move(positions: ConsumerPositions) -> None:
    positions.create("c", ConsumerRow(3, 1.0))
    assert positions.delete("c")
    assert not positions.delete("c")
    assert not positions.move("c", ConsumerRow(4, 2.0))
    assert positions.get("c") is None
