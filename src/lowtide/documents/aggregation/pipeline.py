"""Compiles and runs pipelines, and finds the leading stages that a query can answer.

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
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from lowtide.documents.aggregation import grouping, joins, matching, shaping, stages
from lowtide.documents.aggregation.context import Context, Reads, described
from lowtide.documents.aggregation.expressions import compile_expression
from lowtide.documents.aggregation.matching import has_expression
from lowtide.documents.aggregation.stage import BuildStage, Foreign, Run, Stage, own
from lowtide.documents.sorting import compile_sort
from lowtide.errors import OperationFailure
from lowtide.system.clock import SYSTEM_CLOCK, moment
from lowtide.values.codec import clean
from lowtide.values.values import Document

DEEPEST: Final = 200
"""Maximum nesting of objects and arrays in a pipeline, as in MongoDB. Compiling and running recurse."""


@dataclass(frozen=True)
class Leading:
    """The start of a pipeline that ``find`` can answer, in the order of the fields. A ``limit`` of None is no limit."""

    filter: Mapping[str, Any] | None = None
    sort: tuple[tuple[str, int], ...] | None = None
    skip: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class Pipeline:
    """A compiled pipeline, from ``compile_pipeline``. It has no state, so runs are independent."""

    stages: tuple[Stage, ...]

    def run(
        self, documents: Iterable[Document], foreign: Foreign | None = None, *, now: datetime | None = None
    ) -> Iterator[Document]:
        """Run the pipeline over ``documents`` and yield the results.

        The documents are not modified, but a result may be the same object as an input document.
        ``foreign`` finds documents of other collections. ``now`` is the value of ``$$NOW``.
        """
        results = self.within(documents, _run_of(foreign, now))
        return map(own, results) if any(stage.shares for stage in self.stages) else results

    def within(self, documents: Iterable[Document], run: Run) -> Iterator[Document]:
        """The same as ``run``, inside another run. The results may share values."""
        results = iter(documents)
        for stage in self._steps:
            results = stage.step(results, run)
        return results

    def counted(
        self, documents: Iterable[Document], foreign: Foreign | None = None, *, now: datetime | None = None
    ) -> tuple[int, list[tuple[Stage, int]]]:
        """Run the pipeline and return the number of input documents and the number each stage returned."""
        counts = [0] * (len(self.stages) + 1)

        def counting(at: int, given: Iterable[Document]) -> Iterator[Document]:
            for each in given:
                counts[at] += 1
                yield each

        run = _run_of(foreign, now)
        results = counting(0, documents)
        for at, stage in enumerate(self._steps, 1):
            results = counting(at, stage.step(results, run))
        for _ in results:
            pass
        return counts[0], list(zip(self.stages, counts[1:], strict=True))

    @cached_property
    def _steps(self) -> tuple[Stage, ...]:
        """The stages. A $sort that is followed by a $limit keeps only as many documents as needed."""
        steps = list(self.stages)
        for at, stage in enumerate(steps):
            if stage.name == "$sort" and (count := _wanted(steps[at + 1 :])) is not None:
                steps[at] = stages.sort_first(stage, count)
        return tuple(steps)

    @cached_property
    def _split(self) -> tuple[Leading, int]:
        """The leading part of the pipeline, and its number of stages."""
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
        """The pipeline without its leading part."""
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
    """Return the top-level fields that the results of a pipeline depend on; None if it may need all."""
    return pipeline.needed()


def compile_pipeline(pipeline: Sequence[Mapping[str, Any]]) -> Pipeline:
    """Compile a pipeline. Raises OperationFailure, with the number and name of the stage, if it is invalid."""
    return _compile(_plain(pipeline, ""), Context("", compile_expression))


def _compile(pipeline: Any, context: Context) -> Pipeline:
    if not isinstance(pipeline, list):
        raise OperationFailure(_at(context, f"a pipeline must be a list of stages, got {described(pipeline)}"))
    return Pipeline(tuple(_stage(number, each, context) for number, each in enumerate(pipeline, 1)))


def _stage(number: int, stage: Any, context: Context) -> Stage:
    if not isinstance(stage, dict) or len(stage) != 1:
        raise OperationFailure(
            _at(context, f"stage {number} must be an object with one stage name, got {described(stage)}")
        )
    ((name, operand),) = stage.items()
    if name not in STAGES:
        raise OperationFailure(_at(context, f"stage {number}: unknown stage {name}"))
    inside = Context(context.where, compile_expression, context.variables).at(f"stage {number} ({name})")
    return STAGES[name](operand, inside)


def _at(context: Context, reason: str) -> str:
    return f"{context.where}: {reason}" if context.where else reason


def _plain(value: Any, path: str, depth: int = 0) -> Any:
    """Copy a pipeline as given by the user: dicts, lists, storable values and regular expressions."""
    if depth > DEEPEST:
        raise OperationFailure(
            f"pipeline, {path[:60]}...: it nests deeper than {DEEPEST} levels; does it contain itself?"
        )
    if isinstance(value, re.Pattern):
        return value
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise OperationFailure(
                    f"pipeline, {path or 'outside'}: field names must be strings, got {described(name)}"
                )
        return {str(name): _plain(each, f"{path}.{name}" if path else name, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, f"{path}.{at}" if path else f"stage {at + 1}", depth + 1) for at, each in enumerate(value)]
    return clean(value, path)


def _wanted(following: Sequence[Stage]) -> int | None:
    """Return how many documents the stages after a $sort need at most; None if they may need all."""
    skipped = 0
    for stage in following:
        if stage.name == "$skip":
            skipped += stage.operand
        elif stage.name == "$limit":
            return int(skipped + stage.operand)
        else:
            return None
    return None


def _run_of(foreign: Foreign | None, now: datetime | None) -> Run:
    """The inputs of a run. Without a store, the time is the machine's."""
    return Run(foreign or _no_foreign, {"NOW": moment(SYSTEM_CLOCK.time()) if now is None else now})


def _no_foreign(name: str, filter: Mapping[str, Any]) -> Iterable[Document]:
    raise OperationFailure(f"$lookup from {name!r}: no other collections are available here")


STAGES: Final[dict[str, BuildStage]] = {
    **grouping.STAGES,
    **joins.stages(_compile),
    **matching.STAGES,
    **shaping.STAGES,
    **stages.STAGES,
}
"""All stages, by name."""
