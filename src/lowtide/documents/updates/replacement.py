"""Replacements: updates that replace a whole document."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lowtide.documents.updates.sameness import copied, same
from lowtide.documents.updates.tree import described
from lowtide.documents.updates.update import Update, keep_id
from lowtide.errors import OperationFailure
from lowtide.values.codec import clean
from lowtide.values.values import Document


def compile_replacement(replacement: Mapping[str, Any]) -> Update:
    """Compile an update that replaces a document and keeps its ``_id``.

    Raises OperationFailure if ``replacement`` has operators. ``apply`` raises WriteError if it has another ``_id``.

    >>> compile_replacement({"n": 1}).apply({"_id": 7, "a": 1}, now=datetime(2030, 1, 1))
    {'_id': 7, 'n': 1}
    """
    if not isinstance(replacement, Mapping):
        raise OperationFailure(f"a replacement must be a document, a dict, got {described(replacement)}")
    for name in replacement:
        if isinstance(name, str) and name.startswith("$"):
            raise OperationFailure(
                f"replacement can not include $ operators, got {name!r}; use update_one for operators"
            )
    whole: Document = clean(replacement)

    def apply(document: Document, *, now: datetime, inserting: bool = False, position: int | None = None) -> Document:
        new: Document = copied(whole)
        if "_id" in document:
            new = {"_id": document["_id"], **keep_id(document, {"_id": document["_id"], **new})}
        elif "_id" in new:
            new = {"_id": new["_id"], **new}
        return document if same(document, new) else new

    return Update(apply)
