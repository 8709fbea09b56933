"""RDF in a minute: an rdflib graph in a directory, with transactions and SPARQL."""

from __future__ import annotations

import tempfile

from rdflib import FOAF, RDF, Literal, Namespace

import lowtide.rdf

EX = Namespace("http://example.org/")

PEOPLE = """
@prefix : <http://example.org/> .
@prefix foaf: <http://xmlns.com/foaf/0.1/> .
:ann a foaf:Person ; foaf:name "Ann" ; foaf:knows :bob, :cleo .
:bob a foaf:Person ; foaf:name "Bob" ; foaf:knows :cleo .
:cleo a foaf:Person ; foaf:name "Cleo" .
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        graph = lowtide.rdf.Graph("lowtide")  # rdflib's Graph, on the store of the plugin
        graph.open(directory, create=True)
        graph.parse(data=PEOPLE, format="turtle")  # one transaction, whatever the file's size
        graph.add((EX.cleo, FOAF.age, Literal(41)))  # each call is a transaction of its own

        # The whole block is committed, or none of it.
        try:
            with graph.transaction():
                graph.add((EX.dan, RDF.type, FOAF.Person))
                graph.add((EX.dan, FOAF.knows, EX.nobody))
                raise LookupError("nobody is not known")
        except LookupError as error:
            print("rolled back:", error)
        assert (EX.dan, None, None) not in graph

        popular = """
            select ?name (count(?friend) as ?friends) {
                ?person foaf:name ?name . ?friend foaf:knows ?person
            } group by ?name order by desc(?friends)
        """
        for name, friends in graph.query(popular):  # type: ignore[misc]
            print(f"{name} is known by {friends}")

        # An iteration reads one snapshot, so the graph can be changed meanwhile.
        for person in graph.subjects(RDF.type, FOAF.Person):
            graph.add((person, RDF.type, EX.Human))
        graph.close()

        again = lowtide.rdf.Graph("lowtide")
        again.open(directory)
        humans = sorted(map(str, again.subjects(RDF.type, EX.Human)))
        print("found again:", len(again), "statements,", len(humans), "humans")
        assert len(humans) == 3
        again.close()


if __name__ == "__main__":
    main()
