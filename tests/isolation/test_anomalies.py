"""Each level prevents the anomalies that it promises to prevent, and allows the others (I8, C7)."""

from __future__ import annotations

import pytest

from lowtide import Isolation
from tests.isolation.anomalies import TABLE, Outcome, Story, outcome_of
from tests.isolation.world import LEVELS, World

CASES = [
    pytest.param(story, level, outcome, id=f"{story.__name__}-{level.value}")
    for story, outcomes in TABLE.items()
    for level, outcome in zip(LEVELS, outcomes, strict=True)
]


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize(("story", "level", "expected"), CASES)
def test_the_anomaly_is_stopped_or_happens_as_the_table_says(
    world: World, story: Story, level: Isolation, expected: Outcome
) -> None:
    assert outcome_of(story, world, level) is expected


def test_a_stronger_level_allows_nothing_that_a_weaker_one_stops() -> None:
    for story, outcomes in TABLE.items():
        allowed = [outcome is Outcome.HAPPENS for outcome in outcomes]
        assert allowed == sorted(allowed, reverse=True), story.__name__
