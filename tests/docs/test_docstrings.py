"""Each example in a docstring runs on its own store, and prints what it shows."""

from __future__ import annotations

import doctest
import importlib
import io
import pkgutil
from types import ModuleType

import pytest

import lowtide
from tests.conftest import OpenStore

FRUIT = {b"apple": b"red", b"banana": b"yellow", b"blueberry": b"blue"}

USERS = [
    {"_id": 1, "name": "Ann", "age": 33, "city": "Oslo"},
    {"_id": 2, "name": "Bob", "age": 30, "city": "Oslo"},
    {"_id": 3, "name": "Cid", "age": 25, "city": "Bergen"},
]


def modules() -> list[ModuleType]:
    names = (each.name for each in pkgutil.walk_packages(lowtide.__path__, "lowtide."))
    return [lowtide, *(importlib.import_module(name) for name in names)]


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for module in modules() for test in finder.find(module, module.__name__)]
    return [test for test in found if test.examples]


@pytest.fixture
def fruit(open_store: OpenStore) -> lowtide.Store:
    """What the docstrings call ``store``."""
    store = open_store("fruit")
    with store.transaction() as tx:
        for key, value in FRUIT.items():
            tx.keyspace("fruit").put(key, value)
    return store


@pytest.fixture
def users(open_store: OpenStore) -> lowtide.Store:
    """What the docstrings of documents call ``store``."""
    store = open_store("users")
    store.collection("users").insert_many(USERS)
    return store


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_the_example_shows_what_it_says(example: doctest.DocTest, request: pytest.FixtureRequest) -> None:
    fixture = "users" if example.name.startswith("lowtide.documents.") else "fruit"
    example.globs = {**example.globs, "store": request.getfixturevalue(fixture)}
    report = io.StringIO()
    results = doctest.DocTestRunner(verbose=False).run(example, out=report.write)
    assert results.failed == 0, report.getvalue()


def test_a_wrong_example_is_found(fruit: lowtide.Store) -> None:
    """The test above would notice."""
    text = ">>> store.keyspace('fruit').get(b'apple')\nb'green'\n"
    wrong = doctest.DocTestParser().get_doctest(text, {"store": fruit}, "wrong", None, None)
    assert doctest.DocTestRunner(verbose=False).run(wrong, out=lambda _: None).failed == 1


def test_examples_are_found_in_every_public_part() -> None:
    """Lest the finder finds nothing one day, and all of nothing passes."""
    parts = {example.name.rsplit(".", 2)[-2] for example in examples()}
    assert {"Store", "Transaction", "ReadKeyspace", "Keyspace"} <= parts
    assert any(example.name.endswith("open_store") for example in examples())
