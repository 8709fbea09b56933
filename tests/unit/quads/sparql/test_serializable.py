"""What a query reads enters the read set of a serializable transaction, and nothing else does."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.errors import ConflictError
from lowtide.quads import Quads
from lowtide.quads.sparql import query, update
from tests.unit.quads.sparql.generating import PREFIX, E
from tests.unit.quads.sparql.reading import statements

DATA = """
:ann a :Painter ; :paints :one . :bob a :Painter ; :paints :two, :three .
:cid a :Sculptor ; :title "Mr" ; :carves :rock . :dan a :Baker ; :bakes :bread .
""" + " ".join(f":visitor{number} a :Visitor ; :knows :ann ." for number in range(40))

PAINTINGS = "SELECT ?x { ?who a :Painter ; :paints ?x }"
CASES = {
    "paintings of a non-painter": (PAINTINGS, "INSERT DATA { :cid :paints :four }", False),
    "a new painter": (PAINTINGS, "INSERT DATA { :cid a :Painter }", True),
    "a painting of a painter": (PAINTINGS, "INSERT DATA { :ann :paints :four }", True),
    "a painter who leaves": (PAINTINGS, "DELETE DATA { :bob a :Painter }", True),
    "something else of a painter": (PAINTINGS, "INSERT DATA { :ann :age 42 }", False),
    "optional, another subject": (
        "SELECT ?n { :ann :paints ?x OPTIONAL { ?x :title ?n } }",
        "INSERT DATA { :four :title 4 }",
        False,
    ),
    "optional, this subject": (
        "SELECT ?n { :ann :paints ?x OPTIONAL { ?x :title ?n } }",
        "INSERT DATA { :one :title 1 }",
        True,
    ),
    "minus, another subject": (
        "SELECT ?w { ?w a :Painter MINUS { ?w :bakes ?b } }",
        "INSERT DATA { :cid :bakes :bread }",
        False,
    ),
    "minus, this subject": (
        "SELECT ?w { ?w a :Painter MINUS { ?w :bakes ?b } }",
        "INSERT DATA { :ann :bakes :bread }",
        True,
    ),
    "exists, another subject": (
        "SELECT ?w { ?w a :Painter FILTER NOT EXISTS { ?w :bakes ?b } }",
        "INSERT DATA { :cid :bakes :bread }",
        False,
    ),
    "exists, this subject": (
        "SELECT ?w { ?w a :Painter FILTER NOT EXISTS { ?w :bakes ?b } }",
        "INSERT DATA { :ann :bakes :bread }",
        True,
    ),
    "a path, elsewhere": ("SELECT ?x { :ann :knows+ ?x }", "INSERT DATA { :cid :knows :dan }", False),
    "a path, here": ("SELECT ?x { :ann :knows+ ?x }", "INSERT DATA { :ann :knows :dan }", True),
    "values": ("SELECT ?x { VALUES ?w { :ann } ?w :paints ?x }", "INSERT DATA { :bob :paints :four }", False),
    "a whole extent": ("SELECT ?x { ?w :paints ?x }", "INSERT DATA { :cid :paints :four }", True),
}


@pytest.mark.parametrize("name", CASES)
def test_conflict(name: str, opened: lowtide.Store, quads: Quads) -> None:
    text, change, conflicts = CASES[name]
    quads.add_many(statements(DATA))
    tx = opened.begin("serializable")
    mine = tx.quads(quads.name)
    with mine.reader() as reader:
        list(query(reader, PREFIX + text))
    update(quads, PREFIX + change)
    mine.add((E.done, E.by, E.me))
    if conflicts:
        with pytest.raises(ConflictError):
            tx.commit()
    else:
        tx.commit()


def test_what_others_have_read_is_read_again(opened: lowtide.Store, quads: Quads) -> None:
    """Statements that are kept for the next query of the same commit are no way around the read set."""
    quads.add_many(statements(DATA))
    whole = PREFIX + "SELECT ?x { ?w :paints ?x }"
    for _ in range(2):
        with quads.reader() as reader:
            list(query(reader, whole))
    tx = opened.begin("serializable")
    with tx.quads(quads.name).reader() as reader:
        list(query(reader, whole))
    update(quads, PREFIX + "INSERT DATA { :cid :paints :four }")
    tx.quads(quads.name).add((E.done, E.by, E.me))
    with pytest.raises(ConflictError):
        tx.commit()


def test_inserting_data_reads_nothing(opened: lowtide.Store, quads: Quads) -> None:
    tx = opened.begin("serializable")
    update(tx.quads(quads.name), f"{PREFIX}INSERT DATA {{ :a :p :b }}")
    update(quads, f"{PREFIX}INSERT DATA {{ :a :p :b . :a :p :c }}")
    tx.commit()
    assert quads.count() == 2
