"""The stages that contain pipelines or read other collections: $facet and $lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

from lowtide.documents.aggregation.context import Context, Variables, described, hashable
from lowtide.documents.aggregation.expressions import follow
from lowtide.documents.aggregation.stage import CHUNK, BuildStage, Run, Stage
from lowtide.documents.aggregation.stages import put
from lowtide.documents.filters import compile_filter
from lowtide.values.paths import MISSING, values_at
from lowtide.values.values import Document


class Branch(Protocol):
    """A pipeline inside a stage."""

    @property
    def filter(self) -> Mapping[str, Any] | None:
        """The filter that the pipeline starts with; None if there is none."""

    def within(self, documents: Iterable[Document], run: Run) -> Iterator[Document]:
        """Run the pipeline with the variables of ``run``."""

    def needed(self) -> frozenset[str] | None:
        """Return the fields that the pipeline reads; None if it may read all."""

    def names(self) -> list[str]:
        """Return the names of its stages."""


CompileBranch = Callable[[Any, Context], Branch]


def _facet(operand: Any, context: Context, compile_branch: CompileBranch) -> Stage:
    if not isinstance(operand, dict) or not operand:
        context.fail(f"expected an object of names and pipelines, got {described(operand)}")
    branches: dict[str, Branch] = {}
    for name, each in operand.items():
        if not name or name[:1] == "$" or "." in name:
            context.fail(f"{name!r} is not a valid field name: it must not be empty, begin with $ or contain a dot")
        branches[name] = compile_branch(each, context.at(f"pipeline {name!r}"))
        if "$facet" in branches[name].names():
            context.fail(f"pipeline {name!r}: $facet cannot be used inside $facet")
        needed = branches[name].needed()
        if needed is None:
            context.reads.whole = True
        else:
            context.reads.fields |= needed

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        held = list(documents)
        yield {name: list(branch.within(held, run)) for name, branch in branches.items()}

    return Stage("$facet", operand, step, context.reads, replaces=True)


def _text(given: dict[str, Any], name: str, context: Context) -> str:
    value = given[name]
    if not isinstance(value, str) or not all(value.split(".")) or value[:1] == "$":
        context.fail(f"{name} must be a name that does not begin with $, got {described(value)}")
    return value


def _lookup(operand: Any, context: Context, compile_branch: CompileBranch) -> Stage:
    given = context.named(operand, ("from", "as"), ("localField", "foreignField", "let", "pipeline"))
    if ("localField" in given) != ("foreignField" in given):
        context.fail("localField and foreignField must be given together")
    if "localField" not in given and "pipeline" not in given:
        context.fail("expected localField and foreignField, or a pipeline, or all three")
    if "let" in given and "pipeline" not in given:
        context.fail("let requires a pipeline")
    target = _text(given, "as", context).split(".")
    if len(target) > 1:
        context.reads.fields.add(target[0])
    join = _join_by_fields(given, context) if "localField" in given else None
    inner = _inner(given, context, compile_branch) if "pipeline" in given else None

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        through = inner(run) if inner is not None else None
        if join is not None:
            for document, found in join(documents, run):
                results = found if through is None else list(through(document, found))
                yield put(document, target, results)
        elif through is not None:
            for document in documents:
                yield put(document, target, list(through(document, None)))

    return Stage("$lookup", operand, step, context.reads)


Through = Callable[[Document, Iterable[Document] | None], Iterable[Document]]


def _inner(given: dict[str, Any], context: Context, compile_branch: CompileBranch) -> Callable[[Run], Through]:
    """Compile the inner pipeline of a $lookup.

    For each document it runs over the foreign documents joined by fields, or over the whole foreign
    collection. If its results do not depend on the document, they are cached for one run of the stage,
    in which the outer variables do not change.
    """
    let = given.get("let", {})
    if not isinstance(let, dict):
        context.fail(f"let must be an object of names and expressions, got {described(let)}")
    bound = [(name, context.at(f"let {name!r}").compile(each)) for name, each in let.items()]
    source = _text(given, "from", context)
    branch = compile_branch(given["pipeline"], context.at("pipeline").binding(*let))
    depends = bool(let) or "$sample" in branch.names()

    def begin(run: Run) -> Through:
        kept: list[Document] | None = None

        def through(document: Document, found: Iterable[Document] | None) -> Iterable[Document]:
            nonlocal kept
            variables: Variables = {**run.variables, **{name: each(document, run.variables) for name, each in bound}}
            if found is not None:
                return branch.within(found, replace(run, variables=variables))
            if kept is not None:
                return kept
            results = branch.within(run.foreign(source, branch.filter or {}), replace(run, variables=variables))
            if depends:
                return results
            kept = list(results)
            return kept

        return through

    return begin


Joined = Iterator[tuple[Document, list[Document]]]


def _join_by_fields(given: dict[str, Any], context: Context) -> Callable[[Iterator[Document], Run], Joined]:
    """Join each document with the foreign documents that have one of its values.

    One query looks up the values of a whole chunk, so a collection without an index is read once per
    chunk. The first chunks are small, in case only a few results are needed.
    """
    source, path = _text(given, "from", context), _text(given, "foreignField", context)
    local = _text(given, "localField", context).split(".")
    context.reads.fields.add(local[0])
    is_null = compile_filter({path: None}).matches

    def keys_of(document: Document) -> dict[Any, Any]:
        value = follow(document, local)
        values = value if type(value) is list else [None if value is MISSING else value]
        return {hashable(each): each for each in values}

    def foreign_keys(document: Document) -> set[Any]:
        keys = {hashable(value) for value in values_at(document, path) if value is not MISSING and value is not None}
        return keys | {None} if is_null(document) else keys

    def join(documents: Iterator[Document], run: Run) -> Joined:
        size = 1
        while chunk := list(islice(documents, size)):
            wanted = [keys_of(document) for document in chunk]
            values = {key: value for keys in wanted for key, value in keys.items()}
            found: dict[Any, list[tuple[int, Document]]] = {}
            if values:
                condition = {"$in": list(values.values())} if len(values) > 1 else {"$eq": next(iter(values.values()))}
                for order, document in enumerate(run.foreign(source, {path: condition})):
                    for key in foreign_keys(document) & values.keys():
                        found.setdefault(key, []).append((order, document))
            for document, keys in zip(chunk, wanted, strict=True):
                matches = dict(pair for key in keys for pair in found.get(key, ()))
                yield document, [matches[order] for order in sorted(matches)]
            size = min(size * 2, CHUNK)

    return join


def stages(compile_branch: CompileBranch) -> dict[str, BuildStage]:
    """Return the stages of this module. ``compile_branch`` compiles the pipelines inside them."""
    return {
        "$facet": lambda operand, context: _facet(operand, context, compile_branch),
        "$lookup": lambda operand, context: _lookup(operand, context, compile_branch),
    }
