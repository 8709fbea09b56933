"""A compiled stage of a pipeline: a function from one iterator of documents to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from lowtide.documents.aggregation.context import Context, Reads, Variables
from lowtide.values.values import Document

Foreign = Callable[[str, Mapping[str, Any]], Iterable[Document]]
"""Finds the documents of another collection that match a filter."""

CHUNK: Final = 512
"""Number of documents that a stage processes at once if it reads all of its input."""


@dataclass(frozen=True)
class Run:
    """The inputs of one run of a pipeline, other than its documents."""

    foreign: Foreign
    variables: Variables


Step = Callable[[Iterator[Document], Run], Iterator[Document]]


@dataclass(frozen=True)
class Stage:
    """A compiled stage.

    ``operand`` is the user's operand, cleaned. ``reads`` are the input fields that the stage itself reads.
    If it ``replaces`` the document, later stages see no other input fields. If it ``shares``, an input
    value may occur in several outputs, or several times in one.
    """

    name: str
    operand: Any
    step: Step
    reads: Reads = field(default_factory=Reads)
    replaces: bool = False
    shares: bool = True


BuildStage = Callable[[Any, Context], Stage]


def own(document: Document) -> Document:
    """Return a copy of a document with copies of all nested objects and arrays; the document itself if it has none."""
    for value in document.values():
        if type(value) is dict or type(value) is list:
            return {name: copied(each) for name, each in document.items()}
    return document


def copied(value: Any) -> Any:
    """Return a deep copy of a value."""
    kind = type(value)
    if kind is dict:
        return {name: copied(each) if type(each) in _HOLDING else each for name, each in value.items()}
    if kind is list:
        return [copied(each) if type(each) in _HOLDING else each for each in value]
    return value


_HOLDING: Final = frozenset((dict, list))


def chunks(documents: Iterator[Document], size: int = CHUNK) -> Iterator[list[Document]]:
    while chunk := list(islice(documents, size)):
        yield chunk
