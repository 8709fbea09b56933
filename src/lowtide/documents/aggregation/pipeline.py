"""Compiles a pipeline, runs it, and tells what of it a collection can do by itself.

>>> cities = compile_pipeline([{"$match": {"age": {"$gte": 18}}}, {"$group": {"_id": "$city", "n": {"$sum": 1}}}])
>>> list(cities.run([{"age": 20, "city": "Graz"}, {"age": 9, "city": "Graz"}]))
[{'_id': 'Graz', 'n': 1}]
>>> cities.leading.filter, sorted(needed_fields(cities) or ())
({'age': {'$gte': 18}}, ['age', 'city'])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from lowtide.documents.aggregation import grouping, joins, matching, shaping, stages
from lowtide.documents.aggregation.context import Context, Reads, described
from lowtide.documents.aggregation.expressions import compile_expression
from lowtide.documents.aggregation.matching import has_expression
from lowtide.documents.aggregation.stage import BuildStage, Foreign, Run, Stage, own
from lowtide.documents.sorting import compile_sort
from lowtide.errors import OperationFailure
from lowtide.values.codec import clean
from lowtide.values.values import Document

DEEPEST: Final = 200
"""Levels of objects and arrays in a pipeline, as in MongoDB: what is compiled and run goes down them by calls."""


@dataclass(frozen=True)
class Leading:
    """What a pipeline begins with, in this order, and ``find`` can do: ``limit`` None means all."""

    filter: Mapping[str, Any] | None = None
    sort: tuple[tuple[str, int], ...] | None = None
    skip: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class Pipeline:
    """Compiled stages; made by ``compile_pipeline``. It has no state: each run stands alone."""

    stages: tuple[Stage, ...]

    def run(
        self, documents: Iterable[Document], foreign: Foreign | None = None, *, now: datetime | None = None
    ) -> Iterator[Document]:
        """The results for ``documents``, which stay as they are, though results without computed fields may be those
        very objects. ``foreign`` finds the documents of other collections; ``$$NOW`` is ``now``."""
        moment = datetime.now(UTC) if now is None else now
        results = self.within(documents, Run(foreign or _no_foreign, {"NOW": moment}))
        return map(own, results) if any(stage.shares for stage in self.stages) else results

    def within(self, documents: Iterable[Document], run: Run) -> Iterator[Document]:
        """As ``run``, inside another run; the results may share values."""
        results = iter(documents)
        for stage in self._steps:
            results = stage.step(results, run)
        return results

    def counted(
        self, documents: Iterable[Document], foreign: Foreign | None = None
    ) -> tuple[int, list[tuple[Stage, int]]]:
        """Run it, and tell how many documents came to it, and how many each of its stages gave."""
        counts = [0] * (len(self.stages) + 1)

        def counting(at: int, given: Iterable[Document]) -> Iterator[Document]:
            for each in given:
                counts[at] += 1
                yield each

        run = Run(foreign or _no_foreign, {"NOW": datetime.now(UTC)})
        results = counting(0, documents)
        for at, stage in enumerate(self._steps, 1):
            results = counting(at, stage.step(results, run))
        for _ in results:
            pass
        return counts[0], list(zip(self.stages, counts[1:], strict=True))

    @cached_property
    def _steps(self) -> tuple[Stage, ...]:
        """The stages; a $sort that a $limit follows is one that keeps no more than it needs."""
        steps = list(self.stages)
        for at, stage in enumerate(steps):
            if stage.name == "$sort" and (count := _wanted(steps[at + 1 :])) is not None:
                steps[at] = stages.sort_first(stage, count)
        return tuple(steps)

    @cached_property
    def _split(self) -> tuple[Leading, int]:
        """What the pipeline leads with, and how many stages that takes."""
        filters: list[Mapping[str, Any]] = []
        sort: tuple[tuple[str, int], ...] | None = None
        skip, limit, sliced = 0, None, False
        taken = 0
        for stage in self.stages:
            if stage.name == "$match" and not sliced and not has_expression(stage.operand):
                filters += [stage.operand] if stage.operand else []
            elif stage.name == "$sort" and not sliced and sort is None:
                sort = tuple(compile_sort(stage.operand).keys)
            elif stage.name == "$skip" and (limit is None or limit > stage.operand):
                skip += stage.operand
                limit = None if limit is None else limit - stage.operand
                sliced = True
            elif stage.name == "$limit":
                limit = stage.operand if limit is None else min(limit, stage.operand)
                sliced = True
            else:
                break
            taken += 1
        together = filters[0] if len(filters) == 1 else {"$and": filters} if filters else None
        return Leading(together, sort, skip, limit), taken

    @property
    def leading(self) -> Leading:
        return self._split[0]

    @property
    def rest(self) -> Pipeline:
        """The pipeline for documents on which ``leading`` was done."""
        return Pipeline(self.stages[self._split[1] :])

    @property
    def filter(self) -> Mapping[str, Any] | None:
        return self.leading.filter

    def names(self) -> list[str]:
        return [stage.name for stage in self.stages]

    def needed(self) -> frozenset[str] | None:
        reads = Reads()
        for stage in self.stages:
            reads.join(stage.reads)
            if reads.whole:
                return None
            if stage.replaces:
                return frozenset(reads.fields)
        return None


def needed_fields(pipeline: Pipeline) -> frozenset[str] | None:
    """The top-level fields that a pipeline reads, if what it gives depends on no others; None if it may need all."""
    return pipeline.needed()


def compile_pipeline(pipeline: Sequence[Mapping[str, Any]]) -> Pipeline:
    """Raises OperationFailure, which names the stage and its number, for what is unknown or cannot be."""
    return _compile(_plain(pipeline, ""), Context("", compile_expression))


def _compile(pipeline: Any, context: Context) -> Pipeline:
    if not isinstance(pipeline, list):
        raise OperationFailure(_at(context, f"a pipeline is a list of stages, not {described(pipeline)}"))
    return Pipeline(tuple(_stage(number, each, context) for number, each in enumerate(pipeline, 1)))


def _stage(number: int, stage: Any, context: Context) -> Stage:
    if not isinstance(stage, dict) or len(stage) != 1:
        raise OperationFailure(
            _at(context, f"stage {number} is an object with the name of one stage, not {described(stage)}")
        )
    ((name, operand),) = stage.items()
    if name not in STAGES:
        raise OperationFailure(_at(context, f"stage {number}: the stage {name} is unknown"))
    inside = Context(context.where, compile_expression, context.variables).at(f"stage {number} ({name})")
    return STAGES[name](operand, inside)


def _at(context: Context, reason: str) -> str:
    return f"{context.where}: {reason}" if context.where else reason


def _plain(value: Any, path: str, depth: int = 0) -> Any:
    """A copy of what the user gave: dicts, lists and values as the store knows them, and regular expressions."""
    if depth > DEEPEST:
        raise OperationFailure(
            f"pipeline, {path[:60]}...: it nests deeper than {DEEPEST} levels; does it contain itself?"
        )
    if isinstance(value, re.Pattern):
        return value
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise OperationFailure(f"pipeline, {path or 'outside'}: names are strings, not {described(name)}")
        return {str(name): _plain(each, f"{path}.{name}" if path else name, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, f"{path}.{at}" if path else f"stage {at + 1}", depth + 1) for at, each in enumerate(value)]
    return clean(value, path)


def _wanted(following: Sequence[Stage]) -> int | None:
    """How many documents the stages after a $sort can want of it; None if it may be all."""
    skipped = 0
    for stage in following:
        if stage.name == "$skip":
            skipped += stage.operand
        elif stage.name == "$limit":
            return int(skipped + stage.operand)
        else:
            return None
    return None


def _no_foreign(name: str, filter: Mapping[str, Any]) -> Iterable[Document]:
    raise OperationFailure(f"$lookup from {name!r}: there are no other collections here")


STAGES: Final[dict[str, BuildStage]] = {
    **grouping.STAGES,
    **joins.stages(_compile),
    **matching.STAGES,
    **shaping.STAGES,
    **stages.STAGES,
}
"""Every stage, by name."""
