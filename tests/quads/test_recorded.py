"""Statements on a store that records itself: equal adds merge and are no lost updates. Updates of what was read are.

Each history is audited whole and in pieces, with the same verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rdflib import Literal

import lowtide
from lowtide import Isolation
from lowtide.audit import History, audit
from tests.conftest import OpenStore
from tests.isolation.test_convicted import no_first_committer_wins, no_validation_of_reads
from tests.support.groups import commit_in_one_group
from tests.unit.pipeline.audit.locally import Local
from tests.unit.quads.terms import AGE, ANN, BOB, KNOWS, LONG

SNAPSHOT, SERIALIZABLE = Isolation.SNAPSHOT, Isolation.SERIALIZABLE
QUAD = (ANN, KNOWS, BOB)
Named = Callable[[], set[str]]


@pytest.fixture
def store(open_store: OpenStore, tmp_path: Path) -> lowtide.Store:
    return open_store(record=tmp_path / "history", checkpointer="thread")


@pytest.fixture
def named(store: lowtide.Store, tmp_path: Path) -> Named:
    """Closes the store, and returns the names of the anomalies in what it has recorded."""

    def names() -> set[str]:
        store.close()
        rows = [msgspec.json.decode(line) for file in (tmp_path / "history").iterdir() for line in file.open("rb")]
        found = {each.name for each in audit(History.of(rows), SERIALIZABLE).findings}
        assert Local(rows).names == found
        return found

    return names


def add_if_missing(tx: lowtide.Transaction, quad: tuple[object, ...] = QUAD, inferred: bool = False) -> None:
    quads = tx.quads("x")
    if not quads.contains(quad):
        quads.add(quad, inferred=inferred)


def replace_value(tx: lowtide.Transaction, value: int) -> None:
    quads = tx.quads("x")
    for found in list(quads.match((ANN, AGE, None))):
        quads.remove(found)
    quads.add((ANN, AGE, Literal(value)))


def test_equal_adds_of_what_both_found_missing_are_no_lost_update(store: lowtide.Store, named: Named) -> None:
    one, two = store.begin(), store.begin()
    for tx in (one, two):
        add_if_missing(tx)
        add_if_missing(tx, (ANN, AGE, LONG))
        tx.commit()
    with store.transaction() as reader:
        assert reader.quads("x").contains(QUAD)
    assert named() == {"write-skew"}


def test_equal_adds_in_one_group_are_no_lost_update(store: lowtide.Store, named: Named) -> None:
    transactions = [store.begin() for _ in range(3)]
    for tx in transactions:
        add_if_missing(tx)
    assert commit_in_one_group(store, [tx.commit for tx in transactions]) == [None] * 3
    assert named() == {"write-skew", "G2-item"}


def test_equal_adds_beside_scans_are_no_lost_update(store: lowtide.Store, named: Named) -> None:
    one, two = store.begin(), store.begin()
    for tx in (one, two):
        assert list(tx.quads("x").match((ANN, None, None))) == []
        assert list(tx.quads("x").match((None, None, None))) == []
        tx.quads("x").add(QUAD)
        tx.commit()
    with store.transaction() as reader:
        assert len(list(reader.quads("x").match((ANN, None, None)))) == 1
    assert named() <= {"write-skew", "G2"}


def test_an_add_that_merges_with_a_repeated_one_is_no_lost_update(store: lowtide.Store, named: Named) -> None:
    store.quads("x").add(QUAD)
    one, two = store.begin(), store.begin()
    for tx in (one, two):
        assert tx.quads("x").contains(QUAD)
        tx.quads("x").add(QUAD)
        tx.commit()
    store.quads("x").remove(QUAD)
    assert named() == {"write-skew"}


def test_an_add_that_merges_after_other_changes_is_no_lost_update(store: lowtide.Store, named: Named) -> None:
    late = store.begin()
    add_if_missing(late)
    store.quads("x").add(QUAD, inferred=True)
    store.quads("x").add(QUAD)
    late.commit()
    assert "lost-update" not in named()


def test_equal_adds_that_only_one_has_looked_for_are_serializable(store: lowtide.Store, named: Named) -> None:
    one, two = store.begin(SERIALIZABLE), store.begin(SERIALIZABLE)
    add_if_missing(one)
    two.quads("x").add(QUAD)
    for tx in (one, two):
        tx.commit()
    assert named() == set()


def test_equal_adds_are_convicted_where_reads_are_not_validated(
    store: lowtide.Store, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has found nothing and added: one after the other, the second one would have found something."""
    no_validation_of_reads(monkeypatch)
    one, two = store.begin(SERIALIZABLE), store.begin(SERIALIZABLE)
    for tx in (one, two):
        add_if_missing(tx)
        tx.commit()
    assert "write-skew" in named()


@pytest.mark.parametrize("values", [(1, 2), (1, 1)])
def test_lost_updates_of_statements_are_convicted(
    store: lowtide.Store, named: Named, monkeypatch: pytest.MonkeyPatch, values: tuple[int, int]
) -> None:
    """Also if both put the same value in the place of what they read: removals merge with nothing."""
    store.quads("x").add((ANN, AGE, Literal(0)))
    no_first_committer_wins(monkeypatch)
    transactions = [store.begin(), store.begin()]
    for tx, value in zip(transactions, values, strict=True):
        replace_value(tx, value)
    for tx in transactions:
        tx.commit()
    assert "lost-update" in named()
