"""A generated graph of people, what they like, and products with reviews, and the queries over it.

Of 16 triples, about 11 describe a person, four a review and one a product. The same number of triples gives the same
graph in every run. The data of a person does not depend on the number of people, so a query about one of them has an
answer of the same size in a graph of any size.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

BASE: Final = "http://example.org/"
TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
INTEGER: Final = "http://www.w3.org/2001/XMLSchema#integer"
CITIES, CATEGORIES, TREE = 40, 64, 4
_TRIPLES_OF_PERSON = 15.7
_NAMES = ("Ada", "Barbara", "Edsger", "Grace", "Jim", "Leslie", "Michael", "Pat", "Phil", "Tony")


@dataclass(frozen=True)
class Text:
    """A literal, or an integer if its text is one."""

    text: str
    integer: bool = False


Triple = tuple[str, str, str | Text]
"""Subject and predicate are IRIs; so is an object that is a str."""


def iri(kind: str, number: int) -> str:
    return f"{BASE}{kind}/{number}"


def person_name(number: int) -> str:
    return f"{_NAMES[number % len(_NAMES)]} of house {number}"


def people_in(triples: int) -> int:
    """How many people there are in a graph with this many triples."""
    return max(20, int(triples / _TRIPLES_OF_PERSON))


def products_in(triples: int) -> int:
    return people_in(triples) // 5


def make_triples(count: int) -> Iterator[Triple]:
    """All triples of the graph with ``count`` triples."""
    return islice(_all_triples(count), count)


def _all_triples(count: int) -> Iterator[Triple]:
    choose = random.Random(count)
    people, products = people_in(count), products_in(count)
    for number in range(1, CATEGORIES):
        yield iri("category", number), f"{BASE}broader", iri("category", number // TREE)
    for number in range(people + people // 5):  # a few more than fit
        yield from _person(number, people, products, choose)
        if number % 5 == 0 and number // 5 < products:
            yield from _product(number // 5, choose)
        review = iri("review", number)
        yield review, f"{BASE}reviewer", iri("person", number)
        yield review, f"{BASE}about", iri("product", choose.randrange(products))
        yield review, f"{BASE}rating", Text(str(choose.randrange(1, 6)), integer=True)
        yield review, f"{BASE}text", Text(f"Review number {number}: {'well made, ' * choose.randrange(4)}as described.")


def _person(number: int, people: int, products: int, choose: random.Random) -> Iterator[Triple]:
    person = iri("person", number)
    yield person, TYPE, f"{BASE}Person"
    yield person, f"{BASE}name", Text(person_name(number))
    yield person, f"{BASE}age", Text(str(choose.randrange(18, 98)), integer=True)
    yield person, f"{BASE}livesIn", iri("city", choose.randrange(CITIES))
    if number:
        yield person, f"{BASE}reportsTo", iri("person", number // 8)
    if number % 3:
        yield person, f"{BASE}email", Text(f"{number}@people.example.org")
    for step in (1, 2, 3):  # three others
        yield person, f"{BASE}knows", iri("person", (number + step * (1 + choose.randrange(people // 4))) % people)
    for half in (0, 1):  # two products; many people like the same few
        at = int(choose.random() ** 2 * (products // 2))
        yield person, f"{BASE}likes", iri("product", 2 * at + half)


def _product(number: int, choose: random.Random) -> Iterator[Triple]:
    product = iri("product", number)
    yield product, TYPE, f"{BASE}Product"
    yield product, f"{BASE}label", Text(f"Product {number}")
    yield product, f"{BASE}price", Text(str(choose.randrange(1, 1000)), integer=True)
    yield product, f"{BASE}inCategory", iri("category", choose.randrange(CATEGORIES))
    yield product, f"{BASE}madeBy", iri("maker", number // 20)


def write_ntriples(file: Path, triples: int) -> None:
    with file.open("w") as lines:
        for s, p, o in make_triples(triples):
            lines.write(f"<{s}> <{p}> {_ntriples(o)} .\n")


def _ntriples(term: str | Text) -> str:
    if isinstance(term, str):
        return f"<{term}>"
    return f'"{term.text}"^^<{INTEGER}>' if term.integer else f'"{term.text}"'


# -- queries ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    name: str
    title: str
    text: str
    """With PERSON, NAME and PRODUCT in the place of a chosen one."""
    selective: bool = False
    """The answer has the same size in a graph of any size, but for the logarithm of it."""

    def about(self, triples: int, variant: int = 0) -> str:
        """The query about a person and a product of a graph with this many triples; there is a variant for each."""
        people = people_in(triples)
        person = (people * 2 // 3 + variant * 7919) % people
        product = products_in(triples) - 2 - variant % 50
        text = self.text.replace("PERSON", f"<{iri('person', person)}>").replace("NAME", f'"{person_name(person)}"')
        return f"PREFIX : <{BASE}> " + text.replace("PRODUCT", f"<{iri('product', product)}>")


QUERIES: Final = (
    Query(
        "star",
        "star, one person",
        "SELECT ?p ?age ?city ?liked { ?p :name NAME ; :age ?age ; :livesIn ?city ; :likes ?liked }",
        selective=True,
    ),
    Query(
        "stars",
        "star, all products",
        "SELECT ?x ?label ?price ?c ?m { ?x a :Product ; :label ?label ; :price ?price ; :inCategory ?c ; :madeBy ?m }",
    ),
    Query(
        "chain",
        "chain of four from one person",
        "SELECT ?a ?b ?label { PERSON :knows ?a . ?a :knows ?b . ?b :likes ?x . ?x :label ?label }",
        selective=True,
    ),
    Query(
        "chains",
        "chain of three, a sixteenth of all reviews",
        "SELECT ?r ?x { ?r :about ?x . ?x :inCategory ?c . ?c :broader <http://example.org/category/1> }",
    ),
    Query(
        "optional",
        "OPTIONAL, one city",
        "SELECT ?p ?name ?email { ?p :livesIn <http://example.org/city/7> ; :name ?name "
        "OPTIONAL { ?p :email ?email } }",
    ),
    Query(
        "filter",
        "FILTER on numbers and text",
        'SELECT ?p ?age { ?p :age ?age ; :name ?name FILTER (?age > 80 && CONTAINS(?name, "Grace")) }',
    ),
    Query(
        "aggregate",
        "GROUP BY over a join",
        "SELECT ?c (COUNT(?r) AS ?n) (SUM(?rating) AS ?sum) (MAX(?rating) AS ?most) "
        "{ ?r :about ?x ; :rating ?rating . ?x :inCategory ?c } GROUP BY ?c",
    ),
    Query(
        "top",
        "GROUP BY, ORDER BY, LIMIT",
        "SELECT ?x (COUNT(?p) AS ?n) { ?p :likes ?x } GROUP BY ?x ORDER BY DESC(?n) ?x LIMIT 10",
    ),
    Query(
        "path-up",
        "property path, one person upwards",
        "SELECT ?boss ?name { PERSON :reportsTo+ ?boss . ?boss :name ?name }",
        selective=True,
    ),
    Query(
        "path-down",
        "property path, products below a category",
        "SELECT ?x ?price { ?x :inCategory/:broader* <http://example.org/category/2> ; :price ?price }",
    ),
    Query(
        "join",
        "selective join",
        "SELECT ?p ?r ?y { ?p :likes PRODUCT . ?r :reviewer ?p ; :rating ?rating ; :about ?y . ?y :price ?price "
        "FILTER (?rating >= 3) }",
        selective=True,
    ),
    Query(
        "joins",
        "unselective join",
        "SELECT (COUNT(*) AS ?n) { ?a :knows ?b . ?a :livesIn ?c . ?b :livesIn ?c }",
    ),
)


def update_of_data(number: int) -> str:
    """A request that adds a review."""
    return (
        f"PREFIX : <{BASE}> INSERT DATA {{ <{BASE}review/new-{number}> :reviewer <{iri('person', number)}> ; "
        f":about <{iri('product', number)}> ; :rating {number % 5 + 1} }}"
    )


def update_of_pattern(number: int, triples: int) -> str:
    """A request that changes the price of a product, which all who like it see."""
    product = iri("product", number % products_in(triples))
    return (
        f"PREFIX : <{BASE}> DELETE {{ ?x :price ?old }} INSERT {{ ?x :price {number + 2000} }} "
        f"WHERE {{ ?x :price ?old FILTER (?x = <{product}>) }}"
        if number % 2
        else f"PREFIX : <{BASE}> DELETE {{ <{product}> :price ?old }} INSERT {{ <{product}> :price {number + 2000} }} "
        f"WHERE {{ <{product}> :price ?old }}"
    )
