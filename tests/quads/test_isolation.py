"""Isolation over statements: Hermitage's anomalies at each level, and what RDF4J's levels promise (I8-I11, C7, C8, P4).

A *register* is a subject with one value. A write removes the value that was read and adds another.
"""

from __future__ import annotations

import pytest
from rdflib import RDF, Literal, URIRef

import lowtide
from lowtide import ConflictError, Transaction
from lowtide.quads import DEFAULT
from tests.unit.quads.terms import AGE, ANN, BOB, CYD, KNOWS, LIKES, LONG

LEVELS = ["none", "read_committed", "snapshot_read", "snapshot", "serializable"]
BUFFERED = LEVELS[1:]
FIXED = LEVELS[3:]


def value(tx: Transaction | lowtide.Store | lowtide.Snapshot, of: URIRef) -> list[int]:
    return sorted(int(each[2]) for each in tx.quads("x").match((of, AGE, None)))


def put(tx: Transaction | lowtide.Store, of: URIRef, number: int) -> None:
    quads = tx.quads("x")
    quads.remove((of, AGE, None))
    quads.add((of, AGE, Literal(number)))


def ends(tx: Transaction) -> bool:
    """Whether a transaction commits."""
    try:
        tx.commit()
    except ConflictError:
        return False
    return True


@pytest.fixture
def registers(store: lowtide.Store) -> lowtide.Store:
    put(store, ANN, 10)
    put(store, BOB, 20)
    return store


@pytest.mark.parametrize("level", BUFFERED)
def test_nothing_uncommitted_or_rolled_back_or_intermediate_is_read(registers: lowtide.Store, level: str) -> None:
    """G1a and G1b."""
    writing, reading = registers.begin(level), registers.begin(level)
    put(writing, ANN, 101)
    assert value(reading, ANN) == [10]
    put(writing, ANN, 102)
    assert value(reading, ANN) == [10]
    writing.rollback()
    assert value(reading, ANN) == [10]
    assert ends(reading)


@pytest.mark.parametrize("level", BUFFERED)
def test_writes_are_not_interleaved(registers: lowtide.Store, level: str) -> None:
    """G0: of two transactions that write both registers, one wins as a whole, or both leave all that they added."""
    one, two = registers.begin(level), registers.begin(level)
    put(one, ANN, 11)
    put(two, ANN, 12)
    put(one, BOB, 21)
    assert ends(one)
    put(two, BOB, 22)
    committed = ends(two)
    if level in FIXED:
        assert not committed
        assert (value(registers, ANN), value(registers, BOB)) == ([11], [21])
    assert registers.verify().ok


@pytest.mark.parametrize("level", BUFFERED)
def test_information_does_not_flow_in_a_circle(registers: lowtide.Store, level: str) -> None:
    """G1c."""
    one, two = registers.begin(level), registers.begin(level)
    put(one, ANN, 11)
    put(two, BOB, 22)
    assert (value(one, BOB), value(two, ANN)) == ([20], [10])
    outcomes = [ends(one), ends(two)]
    assert outcomes == ([True, False] if level == "serializable" else [True, True])


@pytest.mark.parametrize("level", LEVELS)
def test_a_lost_update_is_stopped_from_snapshot_on(registers: lowtide.Store, level: str) -> None:
    """P4 of Hermitage."""
    one, two = registers.begin(level), registers.begin(level)
    read = [value(tx, ANN)[0] for tx in (one, two)]
    assert read == [10, 10]
    put(one, ANN, 11)
    put(two, ANN, 12)
    outcomes = [ends(one), ends(two)]
    assert outcomes == ([True, False] if level in FIXED else [True, True])
    if level in FIXED:
        assert value(registers, ANN) == [11]


@pytest.mark.parametrize("level", BUFFERED)
def test_reads_are_skewed_below_snapshot_only(registers: lowtide.Store, level: str) -> None:
    """G-single, and PMP: a pattern that was read again."""
    reading = registers.begin(level)
    assert value(reading, ANN) == [10]
    assert reading.quads("x").count((None, AGE, None)) == 2
    with registers.transaction() as tx:
        put(tx, ANN, 12)
        put(tx, BOB, 18)
        put(tx, CYD, 30)
    fixed = level in FIXED
    assert value(reading, BOB) == ([20] if fixed else [18])
    assert reading.quads("x").count((None, AGE, None)) == (2 if fixed else 3)
    assert ends(reading)


@pytest.mark.parametrize("level", FIXED)
def test_write_skew_is_allowed_at_snapshot_and_stopped_at_serializable(registers: lowtide.Store, level: str) -> None:
    """G2-item; C7."""
    one, two = registers.begin(level), registers.begin(level)
    for tx in (one, two):
        assert value(tx, ANN)[0] + value(tx, BOB)[0] == 30
    put(one, ANN, 0)
    put(two, BOB, 0)
    assert [ends(one), ends(two)] == [True, level == "snapshot"]


@pytest.mark.parametrize("level", FIXED)
def test_phantoms_are_allowed_at_snapshot_and_stopped_at_serializable(registers: lowtide.Store, level: str) -> None:
    """G2: each adds what the other one's pattern would have matched."""
    one, two = registers.begin(level), registers.begin(level)
    for tx, who in ((one, URIRef("urn:new")), (two, CYD)):
        assert not tx.quads("x").contains((None, AGE, Literal(30)))
        tx.quads("x").add((who, AGE, Literal(30)))
    assert [ends(one), ends(two)] == [True, level == "snapshot"]


def test_the_anomaly_of_a_read_only_transaction_is_stopped(registers: lowtide.Store) -> None:
    withdraw, deposit = registers.begin("serializable"), registers.begin("serializable")
    assert (value(withdraw, ANN), value(withdraw, BOB)) == ([10], [20])
    put(deposit, BOB, 40)
    assert ends(deposit)
    report = registers.begin("serializable", read_only=True)
    assert (value(report, ANN), value(report, BOB)) == ([10], [40])
    assert ends(report)
    put(withdraw, ANN, -1)
    assert not ends(withdraw)


def test_a_read_set_is_as_narrow_as_the_query(store: lowtide.Store) -> None:
    """C8: what painters paint. A painting by someone who is not a painter is no conflict, another painter is."""
    painter, paints = URIRef("urn:Painter"), URIRef("urn:paints")
    quads = store.quads("x")
    quads.add_many([(ANN, RDF.type, painter), (ANN, paints, LONG), (BOB, paints, LONG)])

    def paintings(tx: Transaction) -> int:
        who = [each[0] for each in tx.quads("x").match((None, RDF.type, painter))]
        return sum(tx.quads("x").count((each, paints, None)) for each in who)

    for change, conflicts in (
        ((BOB, paints, CYD), False),
        ((BOB, RDF.type, KNOWS), False),
        ((ANN, paints, CYD), True),
        ((CYD, RDF.type, painter), True),
    ):
        tx = store.begin("serializable")
        assert paintings(tx) >= 1
        tx.quads("x").add((BOB, LIKES, Literal(str(change))))
        quads.add(change)
        assert ends(tx) == (not conflicts), change


@pytest.mark.parametrize("read", ["count", "graphs"])
def test_counts_and_graphs_read_everything(store: lowtide.Store, read: str) -> None:
    store.quads("x").add((ANN, KNOWS, BOB, CYD))
    tx = store.begin("serializable")
    quads = tx.quads("x")
    assert quads.count() == 1 if read == "count" else list(quads.graphs()) == [CYD]
    tx.quads("x").add((ANN, LIKES, BOB))
    store.quads("x").add((BOB, LIKES, ANN, BOB))
    assert not ends(tx)


@pytest.mark.parametrize("level", FIXED)
def test_statements_that_are_fully_given_are_read(store: lowtide.Store, level: str) -> None:
    """G2-item, of statements that are not there."""
    store.quads("x").add_many([(CYD, KNOWS, ANN), (CYD, KNOWS, BOB)])  # so that the terms are there
    one, two = store.begin(level), store.begin(level)
    mine, other = (ANN, KNOWS, BOB, DEFAULT), (BOB, KNOWS, ANN, DEFAULT)
    for tx, absent, added in ((one, other, mine), (two, mine, other)):
        assert not tx.quads("x").contains(absent)
        tx.quads("x").add(added)
    assert [ends(one), ends(two)] == [True, level == "snapshot"]


@pytest.mark.parametrize("level", FIXED)
def test_a_removal_of_what_is_not_there_conflicts_with_its_add(store: lowtide.Store, level: str) -> None:
    store.quads("x").add_many([(BOB, KNOWS, ANN), (ANN, KNOWS, CYD)])
    removing = store.begin(level)
    assert removing.quads("x").remove((ANN, KNOWS, BOB, DEFAULT)) == 0
    store.quads("x").add((ANN, KNOWS, BOB))
    assert not ends(removing)


def test_blind_writes_never_conflict(store: lowtide.Store) -> None:
    store.quads("x").add_many([(ANN, KNOWS, BOB), (BOB, KNOWS, CYD)])
    one, two = store.begin("serializable"), store.begin("serializable")
    one.quads("x").remove((ANN, KNOWS, BOB, DEFAULT))
    two.quads("x").remove((BOB, KNOWS, CYD, DEFAULT))
    for tx in (one, two):
        tx.quads("x").add((CYD, KNOWS, ANN))
    assert [ends(one), ends(two)] == [True, True]
    assert store.quads("x").count() == 1


def test_none_shows_changes_at_once_and_does_not_undo_them(store: lowtide.Store) -> None:
    """I10."""
    tx = store.begin("none")
    tx.quads("x").add((ANN, KNOWS, BOB))
    assert tx.quads("x").count() == store.quads("x").count() == 1
    with pytest.warns(UserWarning, match="this rollback undid nothing"):
        tx.rollback()
    assert store.quads("x").count() == 1


@pytest.mark.parametrize("level", LEVELS)
def test_two_writing_transactions_of_one_thread_both_finish(store: lowtide.Store, level: str) -> None:
    """I11: no level holds a lock."""
    one, two = store.begin(level), store.begin(level)
    for number in range(5):
        one.quads("x").add((ANN, AGE, Literal(number)))
        two.quads("x").add((BOB, AGE, Literal(number)))
    assert [ends(two), ends(one)] == [True, True]
    assert store.quads("x").count() == 10


@pytest.mark.parametrize("level", LEVELS)
def test_a_removal_by_pattern_selects_before_it_changes(store: lowtide.Store, level: str) -> None:
    """P4: a statement does not see its own writes; the next one does."""
    store.quads("x").add_many([(ANN, AGE, Literal(n)) for n in range(300)])
    with store.transaction(level) as tx:
        quads = tx.quads("x")
        with quads.reader() as reader:
            removes = [key for chunk in reader.scan_ids()[1] for key in chunk]
        adds = [(each[0], AGE, Literal(int(each[2]) + 1)) for each in quads.match((ANN, AGE, None))]
        quads.change(removes=removes, adds=adds)
        assert value(tx, ANN) == list(range(1, 301))
        assert quads.remove((ANN, AGE, None)) == 300
        assert quads.count() == 0
