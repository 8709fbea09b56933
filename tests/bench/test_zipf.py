"""The keys of YCSB: how often each is drawn."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bench.ycsb import DRAWS, LONGEST_SCAN, MIXES, Mix, operations
from bench.zipf import Zipfian, scrambled

ITEMS = 1000


def test_ranks_are_drawn_as_often_as_the_distribution_says() -> None:
    zipfian, source, draws = Zipfian(ITEMS), random.Random(1), 50_000
    seen = Counter(zipfian.draw(source) for _ in range(draws))
    assert set(seen) <= set(range(ITEMS))
    for rank in (0, 1):
        assert seen[rank] / draws == pytest.approx(zipfian.share(rank), rel=0.05)
    # Beyond the first two the generator is an approximation: decades of ranks are what it has to get right.
    for low, high in ((2, 10), (10, 100), (100, ITEMS)):
        wanted = sum(zipfian.share(rank) for rank in range(low, high))
        assert sum(seen[rank] for rank in range(low, high)) / draws == pytest.approx(wanted, rel=0.15)


def test_the_shares_add_up_to_one() -> None:
    assert sum(Zipfian(ITEMS).share(rank) for rank in range(ITEMS)) == pytest.approx(1)


def test_scrambling_spreads_the_popular_ones_over_all_keys() -> None:
    places = [scrambled(rank, ITEMS) for rank in range(20)]
    assert len(set(places)) >= 18
    assert min(places) < ITEMS // 4 < ITEMS * 3 // 4 < max(places)


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: str(mix.name))
def test_a_mix_has_its_shares_and_the_same_seed_gives_the_same_operations(mix: Mix) -> None:
    drawn = operations(mix, Zipfian(ITEMS), ITEMS, seed=3)
    assert drawn == operations(mix, Zipfian(ITEMS), ITEMS, seed=3)
    every = [each for portion in drawn for each in portion]
    kinds = Counter(kind for kind, _, _ in every)
    assert sum(kinds.values()) == DRAWS
    for kind, share in mix.shares:
        assert kinds[kind] / DRAWS == pytest.approx(share, abs=0.03)
    assert all(0 <= number < ITEMS and 1 <= length <= LONGEST_SCAN for _, number, length in every)
    assert sum(share for _, share in mix.shares) == pytest.approx(1)
