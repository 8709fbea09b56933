"""TinyDB files: one object of tables, each an object of documents by number.

For example ``{"_default": {"1": {...}, "2": {...}}, "users": {...}}``. A JSON file with one document of
exactly this form is read as a TinyDB database.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lowtide.documents.files.batches import Batch
from lowtide.values.values import Document

DEFAULT: Final = "_default"
"""TinyDB's default table."""


def is_tinydb(document: Document) -> bool:
    """Whether a document is a TinyDB database: tables of documents by number, not empty or with the default table.

    >>> is_tinydb({"_default": {"1": {"name": "Ada"}}}), is_tinydb({"scores": {"first": {"points": 3}}})
    (True, False)
    """
    tables = list(document.values())
    if not tables or not all(type(each) is dict and all(map(_is_entry, each.items())) for each in tables):
        return False
    return DEFAULT in document or any(tables)


def _is_entry(entry: tuple[str, Any]) -> bool:
    return entry[0].isdecimal() and type(entry[1]) is dict


def tables_in(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the tables of a TinyDB database, or the batches unchanged if the file is not one.

    A batch has its table's name, unless it is the default or the only table. The number of a document becomes
    its ``_id``, unless it has one.
    """
    first = next(batches, None)
    if first is None:
        return
    second = next(batches, None)
    if second is not None or len(first.documents) != 1 or not is_tinydb(first.documents[0]):
        yield first
        if second is not None:
            yield second
            yield from batches
        return
    tables = first.documents[0]
    for name, table in tables.items():
        numbers = [int(number) for number in table]
        documents = [{"_id": number, **found} for number, found in zip(numbers, table.values(), strict=True)]
        if documents:
            yield Batch(
                documents, numbers, f"table {name}, document", None if name == DEFAULT or len(tables) == 1 else name
            )
