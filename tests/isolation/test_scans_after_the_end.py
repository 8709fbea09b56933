"""A scan never continues after its transaction or snapshot has ended: what it sees is no longer kept (I3, I12)."""

from __future__ import annotations

import pytest

import lowtide
from lowtide import Isolation
from tests.isolation.world import LEVELS, World, roll_back, scan
from tests.support.schedule import Schedule

pytestmark = pytest.mark.usefixtures("tiny_chunks")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_refuses_to_go_on(plain: World, level: Isolation, reverse: bool) -> None:
    plain.fill(a=1, b=2, c=3)
    tx = plain.begin(level)
    entries = scan(tx, reverse=reverse)
    next(entries)
    tx.commit()
    with pytest.raises(lowtide.UsageError, match="committed"):
        next(entries)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_whose_rest_is_gone_does_not_pass_for_a_complete_one(
    world: World, level: Isolation, reverse: bool
) -> None:
    """The remaining rows are deleted when no snapshot holds them any more. The end of the data must not be taken for
    the end of the scan."""
    world.fill(a=1, b=2, c=3)
    tx = world.begin(level)
    entries = scan(tx, reverse=reverse)
    next(entries)
    roll_back(tx)
    for key in "abc":
        world.delete(key)
    world.meanwhile()
    with pytest.raises(lowtide.UsageError, match="rolled back"):
        next(entries)


@pytest.mark.parametrize("level", LEVELS)
def test_a_scan_that_was_complete_before_the_end_stays_so(plain: World, level: Isolation) -> None:
    plain.fill(a=1)
    tx = plain.begin(level)
    entries = scan(tx)
    assert list(entries) == [("a", 1)]
    tx.commit()
    assert list(entries) == []


def test_a_scan_of_a_closed_snapshot_refuses_to_go_on(plain: World) -> None:
    plain.fill(a=1, b=2, c=3)
    snapshot = plain.store.snapshot()
    entries = scan(snapshot)
    next(entries)
    snapshot.close()
    for key in "abc":
        plain.delete(key)
    with pytest.raises(lowtide.UsageError, match="closed"):
        next(entries)


@pytest.mark.parametrize("level", LEVELS)
def test_a_scan_cannot_be_begun_after_the_end(plain: World, level: Isolation) -> None:
    tx = plain.begin(level)
    keyspace = tx.keyspace("k")
    tx.commit()
    with pytest.raises(lowtide.UsageError):
        next(keyspace.scan())


@pytest.mark.parametrize("level", LEVELS)
def test_a_scan_of_a_closed_store_refuses_to_go_on(plain: World, level: Isolation) -> None:
    plain.fill(a=1, b=2)
    entries = scan(plain.begin(level))
    next(entries)
    plain.store.close()
    with pytest.raises(lowtide.UsageError, match="closed"):
        next(entries)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("where", ["checkpoint.apply", "checkpoint.applied"])
def test_a_scan_beside_a_close_is_refused_and_never_shows_the_base_alone(
    store: lowtide.Store, reverse: bool, where: str
) -> None:
    store.keyspace("k").put(b"a", b"old")
    store.checkpoint()
    store.keyspace("k").put(b"a", b"new")
    tx, snapshot = store.begin(), store.snapshot()
    with Schedule() as schedule:
        closing = schedule.start(store.close, where).arrive()  # in the last checkpoint
        for source in (tx, snapshot):
            with pytest.raises(lowtide.UsageError):
                list(source.keyspace("k").scan(reverse=reverse))
            with pytest.raises(lowtide.UsageError):
                source.keyspace("k").get(b"a")
        closing.finish()
