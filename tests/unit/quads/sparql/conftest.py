"""A quad store that each test fills, and its answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.quads import Quads
from tests.unit.quads.sparql.generating import PREFIX
from tests.unit.quads.sparql.reading import ask_rows, statements

Ask = Callable[..., list[tuple[str | None, ...]]]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lowtide.Store]:
    path: Path = tmp_path_factory.mktemp("sparql") / "store"
    with lowtide.open(path, durability="relaxed") as store:
        yield store


_NUMBERS = itertools.count()


@pytest.fixture
def quads(opened: lowtide.Store) -> Quads:
    """An empty quad store."""
    return opened.quads(f"quads{next(_NUMBERS)}")


@pytest.fixture
def ask(quads: Quads) -> Ask:
    """Fill the quad store with TriG and return the rows of a query, in order, as short texts."""

    def answer(data: str, text: str, **options: Any) -> list[tuple[str | None, ...]]:
        quads.add_many(statements(data))
        with quads.reader() as reader:
            result = ask_rows(reader, PREFIX + text, **options)
            return [tuple(None if term is None else short(term) for term in row) for row in result]

    def short(term: Any) -> str:
        return str(term).removeprefix("http://example.org/")

    return answer
