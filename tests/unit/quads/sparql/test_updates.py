"""Updates, as the standard defines them."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdflib import Literal

import lowtide
from lowtide.errors import QueryTimeout, UsageError
from lowtide.quads import Quads
from lowtide.quads.sparql import UpdateReport, query, update
from tests.unit.quads.sparql.generating import PREFIX, E
from tests.unit.quads.sparql.reading import contents, statements
from tests.unit.quads.sparql.test_results import SteppingClock

DATA = ":a :p :b . :b :p :a . :g { :a :q :x . } :h { :b :q :x . }"

XSD_INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"
CASES = {
    "insert data": (
        ":a :p :b .",
        "INSERT DATA { :c :p :d . GRAPH :g { :e :p :f } }",
        {"<a> <p> <b>", "<c> <p> <d>", "<e> <p> <f> <g>"},
    ),
    "delete data": (DATA, "DELETE DATA { :a :p :b . GRAPH :g { :a :q :x } }", {"<b> <p> <a>", "<b> <q> <x> <h>"}),
    "delete where": (DATA, "DELETE WHERE { ?x :p ?y . GRAPH ?g { ?x :q ?z } }", set()),
    "delete where in one graph": (
        ":g { :a :p :b , :c . } :h { :a :p :b . }",
        "DELETE WHERE { GRAPH :g { ?x :p ?y } }",
        {"<a> <p> <b> <h>"},
    ),
    "a swap": (
        ":a :v 1 . :b :v 2 .",
        "DELETE { ?x :v ?m . ?y :v ?n } INSERT { ?x :v ?n . ?y :v ?m } WHERE { ?x :v ?m . ?y :v ?n FILTER(?m < ?n) }",
        {f'<a> <v> "2"{XSD_INTEGER}', f'<b> <v> "1"{XSD_INTEGER}'},
    ),
    "an increment": (
        ":a :v 1 . :b :v 2 .",
        "DELETE { ?x :v ?n } INSERT { ?x :v ?m } WHERE { ?x :v ?n BIND(?n + 1 AS ?m) }",
        {f'<a> <v> "2"{XSD_INTEGER}', f'<b> <v> "3"{XSD_INTEGER}'},
    ),
    "insert wins over delete": (
        ":a :p :b .",
        "DELETE { ?x :p ?y } INSERT { ?x :p ?y } WHERE { ?x :p ?y }",
        {"<a> <p> <b>"},
    ),
    "with": (
        DATA,
        "WITH :g DELETE { ?x :q ?y } INSERT { ?x :r ?y } WHERE { ?x :q ?y }",
        {"<a> <p> <b>", "<b> <p> <a>", "<a> <r> <x> <g>", "<b> <q> <x> <h>"},
    ),
    "using": (
        DATA,
        "INSERT { ?x :r ?y } USING :g USING :h WHERE { ?x :q ?y }",
        {"<a> <p> <b>", "<b> <p> <a>", "<a> <q> <x> <g>", "<b> <q> <x> <h>", "<a> <r> <x>", "<b> <r> <x>"},
    ),
    "using named": (
        DATA,
        "DELETE { GRAPH ?g { ?x :q ?y } } USING NAMED :g WHERE { GRAPH ?g { ?x :q ?y } }",
        {"<a> <p> <b>", "<b> <p> <a>", "<b> <q> <x> <h>"},
    ),
    "using counts for where alone": (
        DATA,
        "WITH :h DELETE { ?x :q ?y } USING :h WHERE { ?x :q ?y }",
        {"<a> <p> <b>", "<b> <p> <a>", "<a> <q> <x> <g>"},
    ),
    "a template that makes no statement": (
        ":a :p 1 .",
        "INSERT { ?y :r ?x . ?x :r ?none } WHERE { ?x :p ?y }",
        {f'<a> <p> "1"{XSD_INTEGER}'},
    ),
    "each operation sees the former ones": (
        "",
        "INSERT DATA { :a :p 1 } ; INSERT { ?x :q ?y } WHERE { ?x :p ?y } ; DELETE WHERE { ?x :p ?y }",
        {f'<a> <q> "1"{XSD_INTEGER}'},
    ),
    "clear a graph": (DATA, "CLEAR GRAPH :g", {"<a> <p> <b>", "<b> <p> <a>", "<b> <q> <x> <h>"}),
    "clear the default graph": (DATA, "CLEAR DEFAULT", {"<a> <q> <x> <g>", "<b> <q> <x> <h>"}),
    "clear the named graphs": (DATA, "CLEAR NAMED", {"<a> <p> <b>", "<b> <p> <a>"}),
    "drop all": (DATA, "DROP ALL", set()),
    "drop a graph that does not exist": (DATA, "DROP GRAPH :none; CLEAR ALL", set()),
    "add": (":a :p :b . :g { :c :p :d . }", "ADD DEFAULT TO :g", {"<a> <p> <b>", "<a> <p> <b> <g>", "<c> <p> <d> <g>"}),
    "copy": (":a :p :b . :g { :c :p :d . }", "COPY DEFAULT TO :g", {"<a> <p> <b>", "<a> <p> <b> <g>"}),
    "move": (":a :p :b . :g { :c :p :d . }", "MOVE :g TO DEFAULT", {"<c> <p> <d>"}),
    "move to itself": (":g { :c :p :d . }", "MOVE :g TO :g", {"<c> <p> <d> <g>"}),
    "create": ("", "CREATE GRAPH :g ; INSERT DATA { :a :p :b }", {"<a> <p> <b>"}),
    "create silent": (":g { :a :p :b . }", "CREATE SILENT GRAPH :g", {"<a> <p> <b> <g>"}),
    "load silent": ("", "LOAD SILENT <file:///none/such.ttl> ; INSERT DATA { :a :p :b }", {"<a> <p> <b>"}),
    "nothing": (":a :p :b .", "", {"<a> <p> <b>"}),
}


@pytest.mark.parametrize("name", CASES)
def test_update(name: str, quads: Quads) -> None:
    data, text, wanted = CASES[name]
    quads.add_many(statements(data))
    update(quads, PREFIX + text if text else "")
    assert contents(quads) == wanted


def test_the_report_counts_what_has_changed(quads: Quads) -> None:
    assert update(quads, f"{PREFIX}INSERT DATA {{ :a :p 1, 2 }}") == UpdateReport(inserted=2, deleted=0)
    assert update(quads, f"{PREFIX}INSERT DATA {{ :a :p 2, 3 }}") == UpdateReport(inserted=1, deleted=0)
    assert update(quads, f"{PREFIX}DELETE DATA {{ :a :p 1, 9 }}") == UpdateReport(inserted=0, deleted=1)
    text = "DELETE { ?x :p ?y } INSERT { ?x :q ?y } WHERE { ?x :p ?y }"
    assert update(quads, PREFIX + text) == UpdateReport(inserted=2, deleted=2)


def test_blank_nodes_of_data_are_new_and_of_templates_new_for_each_solution(quads: Quads) -> None:
    for _ in range(2):
        update(quads, f"{PREFIX}INSERT DATA {{ :a :p _:x . GRAPH :g {{ :b :p _:x }} }}")
    found = {(s, o) for s, _, o, _ in quads.match(None, E.p, None)}
    assert len({o for _, o in found}) == 2
    assert {o for s, o in found if s == E.a} == {o for s, o in found if s == E.b}
    update(quads, f"{PREFIX}INSERT {{ ?x :made [ :of ?y ] }} WHERE {{ ?x :p ?y }}")
    assert len({o for _, _, o, _ in quads.match(None, E.made, None)}) == 2


def test_a_request_is_one_transaction(quads: Quads) -> None:
    with pytest.raises(UsageError, match="exists already"):
        update(quads, f"{PREFIX}INSERT DATA {{ GRAPH :g {{ :a :p :b }} }} ; CREATE GRAPH :g")
    assert contents(quads) == set()


def test_an_update_in_a_transaction_is_seen_there_and_undone_with_it(opened: lowtide.Store, quads: Quads) -> None:
    with opened.transaction() as tx:
        update(tx.quads(quads.name), f"{PREFIX}INSERT DATA {{ :a :p :b }}")
        assert contents(tx.quads(quads.name)) == {"<a> <p> <b>"}
        assert contents(quads) == set()
        tx.rollback()
    assert contents(quads) == set()


def test_load_reads_a_document(quads: Quads, tmp_path: Path) -> None:
    (tmp_path / "data.ttl").write_text(f"{PREFIX}:a :p _:x .".replace("PREFIX", "@prefix").replace(">\n", "> .\n"))
    place = (tmp_path / "data.ttl").as_uri()
    update(quads, f"{PREFIX}LOAD <{place}> INTO GRAPH :g ; LOAD <{place}>")
    assert quads.count((E.a, E.p, None, E.g)) == 1
    assert quads.count() == 2


def test_load_of_nothing_fails(quads: Quads) -> None:
    with pytest.raises(FileNotFoundError):
        update(quads, "LOAD <file:///none/such.ttl>")


def test_with_the_union_as_default_graph_a_triple_is_deleted_from_every_graph(quads: Quads) -> None:
    quads.add_many(statements(":a :p :b . :g { :a :p :b . :c :p :d . }"))
    update(quads, f"{PREFIX}DELETE WHERE {{ :a :p ?x }}", default_union=True)
    assert contents(quads) == {"<c> <p> <d> <g>"}


def test_a_graph_can_be_the_default_graph(quads: Quads) -> None:
    update(quads, f"{PREFIX}INSERT DATA {{ :a :p 1 }}", context=E.g)
    update(quads, f"{PREFIX}DELETE {{ ?x :p ?y }} INSERT {{ ?x :q ?y }} WHERE {{ ?x :p ?y }}", context=E.g)
    assert contents(quads) == {f'<a> <q> "1"{XSD_INTEGER} <g>'}


def test_initial_bindings(quads: Quads) -> None:
    quads.add_many(statements(":a :p 1 . :b :p 2 ."))
    update(quads, f"{PREFIX}DELETE {{ ?x :p ?y }} WHERE {{ ?x :p ?y }}", init_bindings={"x": E.a})
    assert [o for _, _, o, _ in quads.match(None, None, None)] == [Literal(2)]


def test_an_update_that_takes_too_long_changes_nothing(quads: Quads) -> None:
    quads.add_many(statements(":a :p 1 ."))
    with pytest.raises(QueryTimeout):
        update(quads, f"{PREFIX}DELETE WHERE {{ ?x :p ?y }}", timeout=1, clock=SteppingClock())
    assert quads.count() == 1


def test_an_update_does_not_see_its_own_writes_while_it_selects(quads: Quads) -> None:
    quads.add_many(statements(":n0 :next :n1 . :n1 :next :n2 . :n2 :next :n3 ."))
    update(quads, f"{PREFIX}INSERT {{ ?x :next ?z }} WHERE {{ ?x :next ?y . ?y :next ?z }}")
    assert quads.count((None, E.next, None)) == 5
    with quads.reader() as reader:
        assert len(query(reader, f"{PREFIX}SELECT ?x {{ ?x :next ?y }}")) == 5
