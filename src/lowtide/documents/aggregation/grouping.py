"""The grouping stages: $group, $sortByCount, $count, $bucket and $bucketAuto.

Each group takes one row of accumulator states in memory, regardless of its number of documents. Only
$bucketAuto holds all documents.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

from lowtide.documents.aggregation.accumulators import Accumulator, Row, compile_accumulator
from lowtide.documents.aggregation.context import (
    Context,
    Evaluate,
    Variables,
    described,
    hashable,
    place_of,
)
from lowtide.documents.aggregation.expressions import flat_field, is_constant
from lowtide.documents.aggregation.stage import CHUNK, BuildStage, Run, Stage, chunks
from lowtide.values.paths import MISSING
from lowtide.values.values import Document

Groups = dict[Any, Row]
"""The row of each group, by the hashable form of its key. A row is the key and the accumulator states."""
FindRows = Callable[[Groups, Sequence[Document], Variables], list[Row]]


class Grouping:
    """The accumulators of a stage, by output field."""

    def __init__(self, fields: dict[str, Any], context: Context) -> None:
        self.accumulators: dict[str, Accumulator] = {}
        for name, each in fields.items():
            if not name or name[:1] == "$" or "." in name:
                context.fail(f"{name!r} is not a valid field name: it must not be empty, begin with $ or contain a dot")
            self.accumulators[name] = compile_accumulator(each, context.at(f"field {name!r}"))
        self.begins = [each.begin for each in self.accumulators.values()]
        self.folds = [(at, each.fold) for at, each in enumerate(self.accumulators.values(), 1)]
        self.finishes = [(at, name, each.finish) for at, (name, each) in enumerate(self.accumulators.items(), 1)]

    def new(self, key: Any) -> Row:
        return [key, *[begin() for begin in self.begins]]

    def fold(self, rows: list[Row], documents: list[Document], variables: Variables) -> None:
        for at, fold in self.folds:
            fold(rows, at, documents, variables)

    def finished(self, row: Row) -> Document:
        made = {"_id": row[0]}
        for at, name, finish in self.finishes:
            made[name] = row[at] if finish is None else finish(row[at])
        return made

    def of(self, documents: Iterator[Document], find: FindRows, variables: Variables) -> Groups:
        groups: Groups = {}
        for chunk in chunks(documents):
            self.fold(find(groups, chunk, variables), chunk, variables)
        return groups

    def by(self, operand: Any, context: Context) -> FindRows:
        """Return a function that finds the row of each document by an expression, creating new rows."""
        evaluate = context.compile(operand)
        if is_constant(operand):
            return self._by_constant(operand)
        if isinstance(operand, dict) and next(iter(operand), "$")[:1] != "$":
            return self._by_object({name: context.compile(each) for name, each in operand.items()})
        name = flat_field(operand)
        new = self.new

        def find(groups: Groups, documents: Sequence[Document], variables: Variables) -> list[Row]:
            if name is not None:
                keys = [document.get(name) for document in documents]
            else:
                keys = [evaluate(document, variables) for document in documents]
            rows = []
            for key in keys:
                held = key if type(key) is str else hashable(None if key is MISSING else key)
                row = groups.get(held)
                if row is None:
                    row = groups[held] = new(None if key is MISSING else key)
                rows.append(row)
            return rows

        return find

    def _by_object(self, fields: dict[str, Evaluate]) -> FindRows:
        """The same as ``by``, for a key that is an object. The object is built only for new rows."""
        names, inner, new = list(fields), list(fields.values()), self.new

        def find(groups: Groups, documents: Sequence[Document], variables: Variables) -> list[Row]:
            rows = []
            for document in documents:
                values = [each(document, variables) for each in inner]
                held = tuple([each if type(each) is str else hashable(each) for each in values])
                row = groups.get(held)
                if row is None:
                    pairs = zip(names, values, strict=True)
                    row = groups[held] = new({name: each for name, each in pairs if each is not MISSING})
                rows.append(row)
            return rows

        return find

    def _by_constant(self, key: Any) -> FindRows:
        def find(groups: Groups, documents: Sequence[Document], variables: Variables) -> list[Row]:
            row = groups.get(None)
            if row is None:
                row = groups[None] = self.new(key)
            return [row] * len(documents)

        return find


def _group(operand: Any, context: Context) -> Stage:
    if not isinstance(operand, dict) or "_id" not in operand:
        context.fail(f"expected an object with _id, the expression to group by, got {described(operand)}")
    grouping = Grouping({name: each for name, each in operand.items() if name != "_id"}, context)
    find = grouping.by(operand["_id"], context.at("field '_id'"))

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        yield from map(grouping.finished, grouping.of(documents, find, run.variables).values())

    return Stage("$group", operand, step, context.reads, replaces=True)


def _sort_by_count(operand: Any, context: Context) -> Stage:
    if is_constant(operand):
        context.fail(f"expected an expression, such as '$field', got {described(operand)}")
    group = _group({"_id": operand, "count": {"$sum": 1}}, context)

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        yield from sorted(group.step(documents, run), key=itemgetter("count"), reverse=True)

    return Stage("$sortByCount", operand, step, context.reads, replaces=True)


def _count(operand: Any, context: Context) -> Stage:
    if not isinstance(operand, str) or not operand or operand[:1] == "$" or "." in operand:
        context.fail(f"expected a field name for the count, without $ or dots, got {described(operand)}")

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        count = sum(1 for _ in documents)
        if count:
            yield {operand: count}

    return Stage("$count", operand, step, replaces=True, shares=False)


_COUNT_ONLY: Final = {"count": {"$sum": 1}}


def _output(given: dict[str, Any], context: Context) -> dict[str, Any]:
    output = given.get("output", _COUNT_ONLY)
    if not isinstance(output, dict):
        context.fail(f"output must be an object of names and accumulators, got {described(output)}")
    return output


def _bucket(operand: Any, context: Context) -> Stage:
    given = context.named(operand, ("groupBy", "boundaries"), ("default", "output"))
    if not isinstance(given["boundaries"], list) or len(given["boundaries"]) < 2:
        context.fail(f"boundaries must be an array of at least two values, got {described(given['boundaries'])}")
    boundaries = [context.at("boundaries").constant(each) for each in given["boundaries"]]
    places = [place_of(each) for each in boundaries]
    if any(first >= second for first, second in pairwise(places)):
        context.fail(f"boundaries must be in ascending order without duplicates: {boundaries!r}")
    if any(kind != places[0][0] for kind, _ in places):
        context.fail(f"boundaries must all have the same type: {boundaries!r}")
    has_default = "default" in given
    default = context.at("default").constant(given["default"]) if has_default else None
    if has_default and places[0] <= place_of(default) < places[-1]:
        context.fail(f"the default must be outside the boundaries, or of another type: {described(default)}")
    evaluate = context.at("groupBy").compile(given["groupBy"])
    grouping = Grouping(_output(given, context), context.at("output"))

    def find(groups: Groups, documents: Sequence[Document], variables: Variables) -> list[Row]:
        rows = []
        for document in documents:
            value = evaluate(document, variables)
            at = bisect_right(places, place_of(value)) - 1
            if not 0 <= at < len(places) - 1:
                if not has_default:
                    context.fail(f"{described(value)} is outside the boundaries, and there is no default")
                at = -1
            row = groups.get(at)
            if row is None:
                row = groups[at] = grouping.new(default if at < 0 else boundaries[at])
            rows.append(row)
        return rows

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        groups = grouping.of(documents, find, run.variables)
        yield from map(grouping.finished, sorted(groups.values(), key=lambda row: place_of(row[0])))

    return Stage("$bucket", operand, step, context.reads, replaces=True)


def _bucket_auto(operand: Any, context: Context) -> Stage:
    given = context.named(operand, ("groupBy", "buckets"), ("output",))
    wanted = given["buckets"]
    if type(wanted) is not int or wanted < 1:
        context.fail(f"buckets must be a positive integer, got {described(wanted)}")
    evaluate = context.at("groupBy").compile(given["groupBy"])
    grouping = Grouping(_output(given, context), context.at("output"))

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        variables = run.variables
        found = [(evaluate(document, variables), document) for document in documents]
        pairs = [(None if value is MISSING else value, document) for value, document in found]
        pairs.sort(key=lambda pair: place_of(pair[0]))
        bounds = _even_parts([pair[0] for pair in pairs], wanted)
        for start, end in bounds:
            upper = pairs[end][0] if end < len(pairs) else pairs[-1][0]
            row = grouping.new({"min": pairs[start][0], "max": upper})
            for first in range(start, end, CHUNK):
                part = [document for _, document in pairs[first : min(first + CHUNK, end)]]
                grouping.fold([row] * len(part), part, variables)
            yield grouping.finished(row)

    return Stage("$bucketAuto", operand, step, context.reads, replaces=True)


def _even_parts(values: list[Any], wanted: int) -> list[tuple[int, int]]:
    """Split sorted values into at most ``wanted`` ranges of similar size. Equal values are never separated."""
    parts: list[tuple[int, int]] = []
    start, count = 0, len(values)
    while start < count:
        left = wanted - len(parts)
        end = count if left == 1 else min(count, start + max(1, round((count - start) / left)))
        while end < count and place_of(values[end]) == place_of(values[end - 1]):
            end += 1
        parts.append((start, end))
        start = end
    return parts


STAGES: Final[dict[str, BuildStage]] = {
    "$bucket": _bucket,
    "$bucketAuto": _bucket_auto,
    "$count": _count,
    "$group": _group,
    "$sortByCount": _sort_by_count,
}
