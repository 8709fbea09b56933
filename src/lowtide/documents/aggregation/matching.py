"""The $match stage: filters, including ``$expr``, which uses an expression as a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from lowtide.documents.aggregation.context import Context, Evaluate, Reads, Variables, described, truth
from lowtide.documents.aggregation.stage import BuildStage, Run, Stage
from lowtide.documents.filters import compile_filter
from lowtide.errors import OperationFailure
from lowtide.values.values import Document

Matches = Callable[[Document, Variables], bool]

_LOGICAL: Final = ("$and", "$or", "$nor")


def has_expression(given: Any) -> bool:
    """Whether a filter contains ``$expr`` at any depth."""
    return isinstance(given, dict) and (
        "$expr" in given
        or any(has_expression(each) for name in _LOGICAL if isinstance(given.get(name), list) for each in given[name])
    )


def note_reads(given: Any, reads: Reads) -> None:
    """Record the fields that a filter reads, except those in its expressions."""
    if not isinstance(given, dict):
        return
    for name, each in given.items():
        if name in _LOGICAL and isinstance(each, list):
            for inner in each:
                note_reads(inner, reads)
        elif name[:1] != "$":
            reads.path(name)
        elif name not in ("$expr", "$comment"):
            reads.whole = True


def _conditions(given: dict[str, Any], context: Context) -> Matches:
    """Compile a filter that contains ``$expr``."""
    parts: list[Matches] = []
    plain: dict[str, Any] = {}
    for name, each in given.items():
        if name == "$expr":
            parts.append(_truth_of(context.at("$expr").compile(each)))
        elif name in _LOGICAL and has_expression({name: each}):
            parts.append(_combined(name, [_conditions(inner, context) for inner in each]))
        else:
            plain[name] = each
    if plain:
        parts.insert(0, _plain(plain, context))
    return _combined("$and", parts)


def _truth_of(evaluate: Evaluate) -> Matches:
    return lambda document, variables: truth(evaluate(document, variables))


def _plain(given: dict[str, Any], context: Context) -> Matches:
    matches = _filter(given, context)
    return lambda document, variables: matches(document)


def _filter(given: dict[str, Any], context: Context) -> Callable[[Document], bool]:
    try:
        return compile_filter(given).matches
    except OperationFailure as error:
        raise OperationFailure(f"{context.where}: {error}") from error


def _combined(name: str, parts: list[Matches]) -> Matches:
    if name == "$and":
        return lambda document, variables: all(each(document, variables) for each in parts)
    wanted = name == "$or"
    return lambda document, variables: any(each(document, variables) for each in parts) is wanted


def _match(operand: Any, context: Context) -> Stage:
    if not isinstance(operand, dict):
        context.fail(f"expected a filter, got {described(operand)}")
    note_reads(operand, context.reads)
    if has_expression(operand):
        conditions = _conditions(operand, context)

        def step_with_variables(documents: Iterator[Document], run: Run) -> Iterator[Document]:
            variables = run.variables
            return (document for document in documents if conditions(document, variables))

        return Stage("$match", operand, step_with_variables, context.reads, shares=False)
    matches = _filter(operand, context)

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        return filter(matches, documents)

    return Stage("$match", operand, step, context.reads, shares=False)


STAGES: Final[dict[str, BuildStage]] = {"$match": _match}
