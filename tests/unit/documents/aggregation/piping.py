"""Runs pipelines and expressions over plain lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from lowtide.documents.aggregation import compile_pipeline
from lowtide.documents.filters import compile_filter
from lowtide.values.values import Document

NOW = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
NOTHING = "(nothing)"
"""In place of the value of an expression that has none."""


def run(
    stages: list[dict[str, Any]], documents: Iterable[Document], others: Mapping[str, list[Document]] | None = None
) -> list[Document]:
    """The results of a pipeline; ``others`` are the other collections."""

    def foreign(name: str, filter: Mapping[str, Any]) -> Iterable[Document]:
        return filter_of((others or {})[name], filter)

    return list(compile_pipeline(stages).run(documents, foreign, now=NOW))


def filter_of(documents: list[Document], filter: Mapping[str, Any]) -> list[Document]:
    return [document for document in documents if compile_filter(filter).matches(document)]


def value_of(expression: Any, document: Document | None = None) -> Any:
    """What an expression is worth."""
    (made,) = run([{"$replaceWith": {"is": expression}}], [document or {}])
    return made.get("is", NOTHING)


def same(first: Any, second: Any) -> bool:
    """Whether two values are equal and of the same types throughout, fields in the same order."""
    return repr(first) == repr(second)
