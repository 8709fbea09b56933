"""The stages that reshape each document: $project, $addFields, $set, $unset, $replaceRoot and $replaceWith.

A specification is compiled to a tree of field names. If a path passes through an array, the
specification applies to each object in the array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from lowtide.documents.aggregation.context import Context, Evaluate, Variables, described
from lowtide.documents.aggregation.numerics import NUMBERS
from lowtide.documents.aggregation.stage import BuildStage, Run, Stage, Step, copied
from lowtide.values.paths import MISSING
from lowtide.values.values import Document


class ShapeMode(Enum):
    INCLUDE = auto()
    EXCLUDE = auto()
    ADD = auto()


@dataclass
class ShapeNode:
    """The part of a specification for one object.

    ``names`` are the fields to keep, or to drop in ``ShapeMode.EXCLUDE``. ``computed`` are the fields to
    compute. ``inner`` are the nodes of nested objects.
    """

    names: set[str] = field(default_factory=set)
    computed: dict[str, Evaluate] = field(default_factory=dict)
    inner: dict[str, ShapeNode] = field(default_factory=dict)

    def computes(self) -> bool:
        return bool(self.computed) or any(each.computes() for each in self.inner.values())

    def at(self, path: str, context: Context) -> tuple[ShapeNode, str]:
        """Return the node for the last part of a path, and that part. Fails if the path conflicts with another."""
        node, parts = self, path.split(".")
        for name in parts:
            if not name or name[:1] == "$":
                context.fail(f"{path!r} is not a valid field path: its parts must not be empty or begin with $")
        *way, last = parts
        for name in way:
            if name in node.names or name in node.computed:
                context.fail(f"{path!r} conflicts with {name!r}")
            node = node.inner.setdefault(name, ShapeNode())
        if last in node.names or last in node.computed or last in node.inner:
            context.fail(f"{path!r} conflicts with another path: each field can be given only once")
        return node, last


def _flattened(specification: dict[str, Any], context: Context, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each path with its specification. An object that is not an operator specifies nested fields."""
    for name, said in specification.items():
        path = prefix + name
        if isinstance(said, dict) and not next(iter(said), "").startswith("$"):
            if not said:
                context.fail(f"the object at {path!r} is empty; write {{'$literal': {{}}}} for an empty object")
            yield from _flattened(said, context, f"{path}.")
        else:
            yield path, said


def _shape(node: ShapeNode, mode: ShapeMode) -> Callable[[Any, Document, Variables], Any]:
    """Compile a node to a function of the value at its path, the whole document and the variables."""
    computed = list(node.computed.items())
    inner = {name: _shape(each, mode) for name, each in node.inner.items()}
    computing = [name for name, each in node.inner.items() if each.computes()]
    names = node.names
    creates = node.computes()

    def of_object(value: Document, document: Document, variables: Variables) -> Document:
        if mode is ShapeMode.ADD:
            made = dict(value)
        elif mode is ShapeMode.INCLUDE:
            made = {name: each for name, each in value.items() if name in names or name in inner}
        else:
            made = {name: each for name, each in value.items() if name not in names}
        for name, shape in inner.items():
            if name in value:
                new = shape(value[name], document, variables)
                if new is MISSING:
                    del made[name]
                else:
                    made[name] = new
        for name in computing:
            if name not in value:
                made[name] = inner[name](MISSING, document, variables)
        for name, evaluate in computed:
            new = evaluate(document, variables)
            if new is not MISSING:
                made[name] = copied(new)
            else:
                made.pop(name, None)
        return made

    def of_any(value: Any, document: Document, variables: Variables) -> Any:
        if type(value) is dict:
            return of_object(value, document, variables)
        if type(value) is list:
            shaped = [of_any(each, document, variables) for each in value]
            return [each for each in shaped if each is not MISSING]
        if creates:
            return of_object({}, document, variables)
        return value if mode is ShapeMode.EXCLUDE else MISSING

    return of_any


def _step(node: ShapeNode, mode: ShapeMode) -> Step:
    if mode is ShapeMode.INCLUDE and not node.inner:
        return _flat_inclusion(node)
    shape = _shape(node, mode)

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        variables = run.variables
        return (shape(document, document, variables) for document in documents)

    return step


def _flat_inclusion(node: ShapeNode) -> Step:
    """Compile an inclusion of field names without dots, the most common projection."""
    names, computed = frozenset(node.names), list(node.computed.items())

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        variables = run.variables
        for document in documents:
            made = {name: each for name, each in document.items() if name in names}
            for name, evaluate in computed:
                new = evaluate(document, variables)
                if new is not MISSING:
                    made[name] = copied(new)
            yield made

    return step


def _object(operand: Any, context: Context) -> dict[str, Any]:
    if not isinstance(operand, dict) or not operand:
        context.fail(f"expected an object with at least one field, got {described(operand)}")
    return operand


def _project(operand: Any, context: Context) -> Stage:
    said = list(_flattened(_object(operand, context), context))
    flags = {path: bool(each) for path, each in said if isinstance(each, bool) or type(each) in NUMBERS}
    others = [path for path, _ in said if path != "_id"]
    excluding = flags.get(others[0] if others else "_id") is False
    for path in others:
        if (flags.get(path) is False) != excluding:
            context.fail(f"{path!r}: a projection cannot mix inclusion and exclusion, except for _id")
    if excluding:
        if "_id" in operand and "_id" not in flags:
            context.fail("'_id' cannot be computed in an exclusion")
        return _exclusion("$project", operand, [path for path, _ in said if flags.get(path) is False], context)
    node = ShapeNode()
    if "_id" not in flags and not any(path.partition(".")[0] == "_id" for path, _ in said):
        node.names.add("_id")
    for path, each in sorted(said, key=lambda pair: pair[0] != "_id"):
        holder, name = node.at(path, context)
        if path not in flags:
            holder.computed[name] = context.at(f"field {path!r}").compile(each)
        elif flags[path]:
            holder.names.add(name)
    for name in (*node.names, *node.inner):
        context.reads.fields.add(name)
    step = _step(node, ShapeMode.INCLUDE)
    if "_id" in node.computed:
        step = _id_first(step)
    return Stage("$project", operand, step, context.reads, replaces=True, shares=False)


def _id_first(step: Step) -> Step:
    def ordered(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        for document in step(documents, run):
            yield {"_id": document["_id"], **document} if "_id" in document else document

    return ordered


def _exclusion(name: str, operand: Any, paths: list[str], context: Context) -> Stage:
    node = ShapeNode()
    for path in paths:
        holder, last = node.at(path, context)
        holder.names.add(last)
    return Stage(name, operand, _step(node, ShapeMode.EXCLUDE), shares=False)


def _add_fields(operand: Any, context: Context) -> Stage:
    node = ShapeNode()
    for path, each in _flattened(_object(operand, context), context):
        holder, name = node.at(path, context)
        holder.computed[name] = context.at(f"field {path!r}").compile(each)
    context.reads.fields.update(node.inner)
    return Stage("$addFields", operand, _step(node, ShapeMode.ADD), context.reads, shares=False)


def _unset(operand: Any, context: Context) -> Stage:
    paths = operand if isinstance(operand, list) else [operand]
    if not paths or not all(isinstance(path, str) for path in paths):
        context.fail(f"expected a field path or an array of paths, got {described(operand)}")
    return _exclusion("$unset", operand, paths, context)


def _replace_root(operand: Any, context: Context) -> Stage:
    return _replace_with(context.named(operand, ("newRoot",))["newRoot"], context)


def _replace_with(operand: Any, context: Context) -> Stage:
    evaluate = context.compile(operand)

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        variables = run.variables
        for document in documents:
            new = evaluate(document, variables)
            if type(new) is not dict:
                context.fail(
                    f"the new root must be an object, got {described(new)} for the document {described(document)}"
                )
            yield new

    return Stage("$replaceWith", operand, step, context.reads, replaces=True)


STAGES: Final[dict[str, BuildStage]] = {
    "$addFields": _add_fields,
    "$project": _project,
    "$replaceRoot": _replace_root,
    "$replaceWith": _replace_with,
    "$set": _add_fields,
    "$unset": _unset,
}
