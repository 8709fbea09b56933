"""The updates that most are: $inc or $set of top-level fields by plain values, without a tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from lowtide.documents.updates.tree import MISSING
from lowtide.documents.updates.update import Update
from lowtide.values.values import Document

_PLAIN: Final = frozenset((str, int, bool, bytes, type(None)))
"""Types that need no cleaning and whose ``==`` tells whether they are stored alike."""


def compile_flat(update: Mapping[str, Any], general: Callable[[Mapping[str, Any]], Update]) -> Update | None:
    """The update if it is such a one, else None. ``general`` serves the documents that it does not fit."""
    if type(update) is not dict or len(update) != 1:
        return None
    [(operator, operands)] = update.items()
    if operator not in ("$inc", "$set") or type(operands) is not dict:
        return None
    for name, value in operands.items():
        if type(name) is not str or not name or name == "_id" or "." in name or "$" in name:
            return None
        if operator == "$inc":
            if type(value) is not int or value == 0:
                return None
        elif type(value) not in _PLAIN and (type(value) is not float or not value or value != value):
            return None
    operands = operands.copy()
    if operator == "$set":
        return _setting(operands)
    return _incrementing(operands, general)


def _setting(values: dict[str, Any]) -> Update:
    items = tuple(values.items())

    def apply(document: Document, *, now: datetime, inserting: bool = False, position: int | None = None) -> Document:
        new = document
        for name, value in items:
            old = document.get(name, MISSING)
            if old == value and type(old) is type(value):
                continue
            if new is document:
                new = document.copy()
            new[name] = value
        return new

    return Update(apply, frozenset(values))


def _incrementing(amounts: dict[str, int], general: Callable[[Mapping[str, Any]], Update]) -> Update:
    items = tuple(amounts.items())

    def apply(document: Document, *, now: datetime, inserting: bool = False, position: int | None = None) -> Document:
        new = document.copy()
        for name, amount in items:
            old = new.get(name, 0)
            if type(old) is not int:
                return general({"$inc": amounts}).apply(document, now=now, inserting=inserting, position=position)
            new[name] = old + amount
        return new if items else document

    return Update(apply, frozenset(amounts))
