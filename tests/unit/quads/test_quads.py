"""Quads on the store, on transactions and on snapshots."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rdflib import XSD, BNode, Literal, URIRef

import lowtide
from lowtide import ConflictError, UsageError
from lowtide.quads import DEFAULT, Quads, ReadQuads, ids
from lowtide.quads.hashing import DEFAULT_GRAPH
from lowtide.quads.indexes import ORDERS, accesses
from lowtide.system import cycles
from tests.unit.quads.terms import AGE, ANN, BOB, CYD, KNOWS, LIKES, LONG, G, H

DATA = [
    (ANN, KNOWS, BOB, None),
    (ANN, KNOWS, CYD, None),
    (ANN, KNOWS, BOB, G),
    (BOB, AGE, Literal(42), G),
    (BOB, LIKES, LONG, H),
    (BNode("x"), LIKES, Literal("tea", lang="en"), H),
]


def test_every_pattern_finds_what_matches(store: lowtide.Store) -> None:
    quads = store.quads("people")
    quads.add_many(DATA)
    for checkpointed in (False, True):
        if checkpointed:
            store.checkpoint()
        for quad in [*DATA, (CYD, LIKES, ANN, CYD)]:
            for bound in itertools.product((False, True), repeat=4):
                pattern = tuple(
                    None if not asked else DEFAULT if part is None else part
                    for asked, part in zip(bound, quad, strict=True)
                )
                expected = {
                    each
                    for each in DATA
                    if all(not asked or one == other for asked, one, other in zip(bound, each, quad, strict=True))
                }
                assert set(quads.match(pattern)) == expected
                assert set(quads.match(*pattern)) == expected
                assert quads.count(pattern) == len(expected)
                assert quads.contains(pattern) == bool(expected)
                with quads.reader() as reader:
                    given = reader.ids_of([each for each in pattern if each is not None and each is not DEFAULT])
                    if None not in given:
                        rest = iter(given)
                        found: list[Any] = [
                            None if each is None else DEFAULT_GRAPH if each is DEFAULT else next(rest)
                            for each in pattern
                        ]
                        assert len(reader.columns(*found)) == len(expected) == len(list(reader.match(*found)))
                        assert reader.estimate(*found) >= len(expected)


@pytest.mark.parametrize("bound", list(itertools.product((False, True), repeat=4)))
def test_the_index_with_the_longest_prefix_answers(bound: tuple[bool, bool, bool, bool]) -> None:
    found = accesses(bound)
    assert all(each.order in ORDERS for each in found)
    unfiltered = sum(bound) in (0, 1, 4) or bound in {
        (True, True, False, False),
        (False, True, True, False),
        (True, False, True, False),
        (True, True, True, False),
        (True, False, False, True),
        (True, True, False, True),
    }
    assert all((each.bound == sum(bound)) == unfiltered for each in found)


def test_what_is_added_is_counted_once(store: lowtide.Store) -> None:
    quads = store.quads("people")
    quads.add_many([*DATA, *DATA])
    quads.add(DATA[0])
    quads.add((ANN, KNOWS, BOB))
    assert len(quads) == quads.count() == len(DATA)
    assert list(quads.graphs()) == sorted([G, H], key=lambda term: ids.encode(term).id)
    assert (ANN, KNOWS, BOB) in quads
    assert store.list_quads() == ["people"]
    assert quads.remove((None, KNOWS, None, DEFAULT)) == 2
    assert quads.remove((None, KNOWS, None, DEFAULT)) == 0
    assert quads.clear(H) == 2
    assert list(quads.graphs()) == [G]
    quads.drop()
    assert store.list_quads() == []
    assert bool(quads)


def test_two_quad_stores_are_apart(store: lowtide.Store) -> None:
    store.quads("one").add(DATA[0])
    store.quads("two").add(DATA[1])
    assert list(store.quads("one").match()) == [DATA[0]]
    assert list(store.quads("two").match()) == [DATA[1]]
    assert store.list_quads() == ["one", "two"]


def test_a_snapshot_reads_and_does_not_write(store: lowtide.Store) -> None:
    store.quads("people").add(DATA[0])
    with store.snapshot() as snapshot:
        quads = snapshot.quads("people")
        store.quads("people").add(DATA[1])
        assert isinstance(quads, ReadQuads)
        assert not isinstance(quads, Quads)
        assert list(quads.match()) == [DATA[0]]
        assert snapshot.list_quads() == ["people"]


@pytest.mark.parametrize("isolation", ["none", "read_committed", "snapshot_read", "snapshot", "serializable"])
def test_a_transaction_sees_its_own_statements(store: lowtide.Store, isolation: str) -> None:
    with store.transaction(isolation) as tx:
        quads = tx.quads("people")
        quads.add_many(DATA)
        assert set(quads.match()) == set(DATA)
        assert quads.remove((ANN, None, None)) == 3
        quads.add((CYD, KNOWS, Literal("somebody who is new")))
        assert quads.count() == 4
        assert quads.contains((CYD, None, None))
    assert store.quads("people").count() == 4


def test_a_savepoint_undoes_statements_and_terms(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        quads = tx.quads("people")
        quads.add(DATA[0])
        with tx.savepoint() as savepoint:
            quads.add(DATA[4])
            quads.remove(DATA[0][:3])
            savepoint.rollback()
        assert list(quads.match()) == [DATA[0]]
        quads.add(DATA[4])
        assert set(quads.match()) == {DATA[0], DATA[4]}
    assert set(store.quads("people").match()) == {DATA[0], DATA[4]}


def test_the_results_of_a_match_stand_still(store: lowtide.Store) -> None:
    """Also while the transaction removes each and adds others (I9), at every level that reads one instant."""
    wanted = [(URIRef(f"urn:{n}"), AGE, Literal(n), None) for n in range(1000)]
    store.quads("people").add_many(wanted)
    for isolation in ("snapshot_read", "snapshot", "serializable"):
        tx = store.begin(isolation)
        quads = tx.quads("people")
        seen = []
        for quad in quads.match((None, AGE, None)):
            seen.append(quad)
            assert quads.remove(quad) == 1
            quads.add((quad[0], AGE, Literal(str(quad[2]) + " years")))
        assert sorted(seen) == sorted(wanted)
        assert quads.count() == 1000
        tx.rollback()


def test_explicit_statements_supersede_inferred_ones(store: lowtide.Store) -> None:
    quads = store.quads("people")
    quads.add(DATA[0], inferred=True)
    quads.add_many(DATA[1:3])
    assert (quads.count(), quads.count(inferred=True), quads.count(inferred=False)) == (3, 1, 2)
    assert list(quads.match(inferred=True)) == [DATA[0]]
    assert quads.contains(DATA[0][:3], inferred=True)
    assert not quads.contains((*DATA[0][:3], DEFAULT), inferred=False)
    assert quads.remove((*DATA[0][:3], DEFAULT)) == 0
    assert quads.remove((None, None, None)) == 2
    assert list(quads.match()) == [DATA[0]]
    quads.add(DATA[0])
    assert quads.count(inferred=True) == 0
    quads.add(DATA[0], inferred=True)
    assert quads.count(inferred=True) == 0
    assert quads.remove(DATA[0][:3], inferred=True) == 0
    assert quads.remove(DATA[0][:3], inferred=None) == 1


def test_a_change_removes_by_ids_then_adds(store: lowtide.Store) -> None:
    quads = store.quads("people")
    quads.add_many(DATA)
    with quads.reader() as reader:
        s, p, o = (reader.id_of(each) for each in DATA[0][:3])
        assert s is not None
        assert p is not None
        assert o is not None
        first = s + p + o + DEFAULT_GRAPH
        assert reader.contains_ids([first, first[8:] + s]) == [True, False]
        assert reader.term_of(s) == ANN
        assert reader.id_of(URIRef("urn:nobody")) is None
    quads.change(removes=[first], adds=[DATA[0], (CYD, AGE, Literal(1))])
    assert quads.count() == len(DATA) + 1
    quads.change(removes=[first])
    assert quads.count() == len(DATA)


def test_batches_split_a_load_into_transactions(store: lowtide.Store) -> None:
    before = store.stats().last_commit
    store.quads("people").add_many(iter(DATA), batch=2)
    assert store.stats().last_commit == before + 3
    assert store.quads("people").count() == len(DATA)
    with store.transaction() as tx, pytest.raises(UsageError, match="use it on the store only"):
        tx.quads("people").add_many(DATA, batch=2)
    with pytest.raises(UsageError, match="1 or more"):
        store.quads("people").add_many(DATA, batch=0)


@pytest.mark.parametrize("wrong", [None, "abc", (ANN, KNOWS), (ANN, KNOWS, "text"), 5, (ANN, KNOWS, None)])
def test_what_is_no_statement_is_refused(store: lowtide.Store, wrong: Any) -> None:
    with pytest.raises(UsageError):
        store.quads("people").add(wrong)
    assert store.stats().last_commit == 0


@pytest.mark.parametrize("name", ["", "a/b", "x" * 101, 5, None, "\x00"])
def test_a_name_is_checked(store: lowtide.Store, name: Any) -> None:
    with pytest.raises(UsageError, match="a quad store's name"):
        store.quads(name)


def test_the_default_graph_is_no_subject(store: lowtide.Store) -> None:
    with pytest.raises(UsageError, match="fourth place"):
        store.quads("people").count((DEFAULT, None, None))
    with pytest.raises(UsageError, match="a pattern is a tuple"):
        store.quads("people").count((None, None))


def test_importing_lowtide_does_not_import_rdflib(tmp_path: Path) -> None:
    program = (
        "import sys, lowtide\n"
        "with lowtide.open(sys.argv[1]) as store: store.keyspace('a').put(b'a', b'b')\n"
        "assert 'rdflib' not in sys.modules and 'numpy' not in sys.modules\n"
        "assert store.list_collection_names is not None\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "store")], check=True)


def test_lost_updates_of_statements_are_stopped(store: lowtide.Store) -> None:
    quads = store.quads("people")
    quads.add((ANN, AGE, Literal(1)))
    one, other = store.begin(), store.begin()
    for tx, age in ((one, 2), (other, 3)):
        tx.quads("people").remove((ANN, AGE, None))
        tx.quads("people").add((ANN, AGE, Literal(age)))
    one.commit()
    with pytest.raises(ConflictError):
        other.commit()
    assert [each[2] for each in quads.match((ANN, AGE, None))] == [Literal(2)]


def test_texts_with_other_spellings_are_other_terms(store: lowtide.Store) -> None:
    quads = store.quads("people")
    for text in ("1", "01", "+1"):
        quads.add((ANN, AGE, Literal(text, datatype=XSD.integer, normalize=False)))
    quads.add((ANN, AGE, Literal("1")))
    quads.add((ANN, AGE, Literal("1", datatype=XSD.string)))
    assert quads.count() == 5
    assert {each[2].n3() for each in quads.match()} >= {'"1"', f'"1"^^<{XSD.string}>'}


def test_the_cyclic_collector_is_paused_only_while_many_statements_are_added(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycles, "MANY", 3)
    seen: list[bool] = []

    class Watched(list[Any]):
        def __iter__(self) -> Any:
            seen.append(gc.isenabled())
            return super().__iter__()

    quads = store.quads("x")
    quads.add_many(Watched([(ANN, KNOWS, BOB, None)] * 2))
    quads.add_many(Watched([(ANN, KNOWS, BOB, None)] * 3))
    assert seen[0]
    assert not seen[-1]
    assert gc.isenabled()
    with pytest.raises(UsageError):
        quads.add_many([(ANN, KNOWS, object())] * 3)
    assert gc.isenabled()
    gc.disable()
    try:
        quads.add_many([(ANN, KNOWS, CYD)] * 3)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_many_statements_have_the_keys_of_single_ones(store: lowtide.Store) -> None:
    statements = [(URIRef(f"urn:{n}"), KNOWS, Literal(n), G if n % 2 else None) for n in range(300)]
    store.quads("many").add_many(statements)
    for each in statements:
        store.quads("single").add(each)
    assert set(store.quads("many").match()) == set(store.quads("single").match()) == set(statements)
    for order in ORDERS:
        many, single = (list(store.keyspace(f"quads/{name}/{order}").scan()) for name in ("many", "single"))
        assert many == single
    assert store.verify().problems == []
