"""Everything public is documented: each name has a docstring, and each method that users call has an example."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

import lowtide
from lowtide.documents.cursor import Results
from lowtide.documents.watch import CollectionWatch, DocumentChange
from tests.docs.documents import ROOT, code_blocks, documents
from tests.docs.test_docstrings import examples

CLASSES = (
    lowtide.Store,
    lowtide.Transaction,
    lowtide.Snapshot,
    lowtide.Keyspace,
    lowtide.ReadKeyspace,
    lowtide.Savepoint,
    lowtide.Collection,
    lowtide.ReadCollection,
    lowtide.Cursor,
    Results,
    CollectionWatch,
    DocumentChange,
)

SEAM = frozenset(
    ["read", "read_many", "write", "write_many", "scan", "values", "apply", "rely_on", "note_replaced", "give_way"]
)
"""What a keyspace asks of the transaction or snapshot behind it, by full key: not for users."""


def public_members(kind: type) -> Iterator[tuple[str, object]]:
    """Methods and properties that are defined in the class itself or in a base class of ours."""
    for name, member in inspect.getmembers(kind):
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


def methods_for_users() -> list[tuple[type, str]]:
    seamed = (lowtide.Transaction, lowtide.Snapshot)
    return [
        (kind, name)
        for kind in CLASSES
        for name, member in public_members(kind)
        if inspect.isfunction(member) and not (kind in seamed and name in SEAM)
    ]


def code_that_runs() -> str:
    """All code that the tests run as an example: docstrings, documents and the examples folder."""
    docstrings = [each.source for example in examples() for each in example.examples]
    blocks = [block.code for document in documents() for block in code_blocks(document, "python")]
    files = [path.read_text() for path in sorted((ROOT / "examples").glob("*.py"))]
    return "\n".join([*docstrings, *blocks, *files])


@pytest.mark.parametrize("name", lowtide.__all__)
def test_each_public_name_has_a_docstring(name: str) -> None:
    public = getattr(lowtide, name)
    inherited = {base.__doc__ for base in public.__mro__[1:]} if inspect.isclass(public) else set()
    assert public.__doc__
    assert public.__doc__ not in inherited
    assert len(public.__doc__.split()) >= 4


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_each_public_member_has_a_docstring(kind: type) -> None:
    missing = [name for name, member in public_members(kind) if not inspect.getdoc(member)]
    assert missing == []


def test_each_method_for_users_is_shown_in_an_example_that_runs() -> None:
    code = code_that_runs()
    missing = [f"{kind.__name__}.{name}" for kind, name in methods_for_users() if not re.search(rf"\.{name}\(", code)]
    assert missing == []


def test_the_public_names_are_complete() -> None:
    public = {name: getattr(lowtide, name) for name in dir(lowtide) if not name.startswith("_")}
    imported = {name for name, value in public.items() if not inspect.ismodule(value)}
    assert imported == set(lowtide.__all__)


def test_the_errors_say_what_to_do_next() -> None:
    """Each is documented in the table of the operations page, under its own name."""
    text = (ROOT / "docs" / "operations.md").read_text()
    errors = [name for name in lowtide.__all__ if issubclass_of_error(getattr(lowtide, name))]
    assert [name for name in errors if f"`{name}`" not in text and f"`lowtide.{name}`" not in text] == []


def issubclass_of_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, lowtide.Error)
