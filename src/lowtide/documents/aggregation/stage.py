"""One stage of a pipeline, compiled: from an iterator of documents to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from lowtide.documents.aggregation.context import Context, Reads, Variables
from lowtide.values.values import Document

Foreign = Callable[[str, Mapping[str, Any]], Iterable[Document]]
"""The documents of another collection that match a filter."""

CHUNK: Final = 512
"""Documents that a stage which reads all of its input takes at once."""


@dataclass(frozen=True)
class Run:
    """What one run of a pipeline has besides its documents."""

    foreign: Foreign
    variables: Variables


Step = Callable[[Iterator[Document], Run], Iterator[Document]]


@dataclass(frozen=True)
class Stage:
    """``operand`` is what the user gave, cleaned. ``reads`` are the fields of its input that the stage itself looks at;
    if it ``replaces`` the document, no others reach what follows. If it ``shares``, values of its input may be in
    several of its outputs, or in one twice."""

    name: str
    operand: Any
    step: Step
    reads: Reads = field(default_factory=Reads)
    replaces: bool = False
    shares: bool = True


BuildStage = Callable[[Any, Context], Stage]


def own(document: Document) -> Document:
    """With its own copy of every object and array inside; itself if it has none."""
    for value in document.values():
        if type(value) is dict or type(value) is list:
            return {name: copied(each) for name, each in document.items()}
    return document


def copied(value: Any) -> Any:
    """A copy of a value that shares nothing with the original."""
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
