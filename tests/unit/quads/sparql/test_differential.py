"""Random queries over random graphs, compared with rdflib's evaluation over its own store in memory.

Where rdflib 7.6 departs from the standard, the queries here avoid it or the comparison allows for it:

* ``:p*`` and ``:p?`` return a node twice if it is also reached by steps. Queries with paths are compared as sets.
* A path of length zero ends at a constant that no statement has, even if two patterns share the variable at its other
  end and one of them finds only nodes. In graphs for queries with paths every node has a statement.
* MIN and MAX of IRIs are literals. Their values are compared as text.
* AVG leaves out what is not a number instead of failing, and SUM fails the whole query. Only numbers are summed.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from rdflib import Graph

import lowtide
from lowtide.quads.sparql import query
from tests.unit.quads.sparql.generating import NODES, E, Triple, graphs, grouped, path_selects, selects
from tests.unit.quads.sparql.reading import Multiset, solutions

some = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def both(store: lowtide.Store, data: list[Triple], text: str, *, plain: bool = False) -> tuple[Multiset, Multiset]:
    """The solutions that Lowtide finds, and rdflib's. Lowtide finds the same among own writes, and once the statements
    are committed, the second time too, when lookups are kept."""
    memory = Graph()
    for triple in data:
        memory.add(triple)
    with store.transaction() as tx:
        quads = tx.quads("random")
        quads.add_many(data)
        with quads.reader() as reader:
            found = solutions(query(reader, text), plain=plain)
        tx.rollback()
    with store.transaction() as tx:
        tx.quads("committed").clear()
        tx.quads("committed").add_many(data)
    for _ in range(2):
        with store.quads("committed").reader() as reader:
            assert solutions(query(reader, text), plain=plain) == found
    return found, solutions(memory.query(text), plain=plain)


@some
@given(graphs, selects)
def test_queries(opened: lowtide.Store, data: list[Triple], text: str) -> None:
    found, wanted = both(opened, data, text)
    assert found == wanted


@some
@given(graphs, path_selects)
def test_queries_with_paths(opened: lowtide.Store, data: list[Triple], text: str) -> None:
    found, wanted = both(opened, [*data, *((E[name], E.exists, E[name]) for name in NODES)], text)
    assert found.keys() == wanted.keys()


@some
@given(graphs, grouped)
def test_aggregates(opened: lowtide.Store, data: list[Triple], text: str) -> None:
    found, wanted = both(opened, data, text, plain=True)
    assert found == wanted
