"""One evaluation of a query: what it reads from, what it knows, and how its parts find each other."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
from rdflib.plugins.sparql import CUSTOM_EVALS
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.sparql import Prologue, QueryContext
from rdflib.term import Identifier

from lowtide.quads.reading import IdReader
from lowtide.quads.sparql.conditions import Conditions
from lowtide.quads.sparql.deadline import Deadline
from lowtide.quads.sparql.demand import PLAIN, Demand
from lowtide.quads.sparql.expressions import Expressions
from lowtide.quads.sparql.fallback import by_custom
from lowtide.quads.sparql.graphs import ActiveGraph, QueryDataset
from lowtide.quads.sparql.matching import Matcher
from lowtide.quads.sparql.operators import blocks_of
from lowtide.quads.sparql.scopes import Names, Scopes
from lowtide.quads.sparql.tables import Column, Solutions, concatenated, empty, unit
from lowtide.quads.sparql.terms import TermSpace
from lowtide.quads.sparql.trace import Trace


class Evaluation:
    """Evaluates the parts of one query over one reader. Belongs to one thread at a time.

    ``initial`` is a single row: the bindings that the caller gave, which every solution has. ``tracked`` says that what
    is read enters the read set of a serializable transaction.
    """

    def __init__(
        self,
        reader: IdReader,
        *,
        scopes: Scopes,
        prologue: Prologue | None,
        deadline: Deadline,
        trace: Trace | None = None,
    ) -> None:
        self.reader = reader
        self.scopes = scopes
        self.deadline = deadline
        self.trace = trace
        self.tracked = reader.tracked
        self.terms = TermSpace(reader, deadline)
        self.matcher = Matcher(reader, deadline, self.terms)
        self.dataset = QueryDataset(ActiveGraph(None))
        self.initial = unit()
        self._prologue = prologue
        self._bindings: dict[str, Identifier] = {}
        self._remembered: dict[tuple[int, ActiveGraph], Solutions] = {}
        self._join_helpers()

    def _join_helpers(self) -> None:
        self.expressions = Expressions(self)
        self.conditions = Conditions(self)

    @cached_property
    def context(self) -> QueryContext:
        """What rdflib's own evaluation of expressions needs to know."""
        context = QueryContext(initBindings={})
        context.prologue = self._prologue
        context.initBindings = self._bindings
        return context

    def bound_to(self, row: Solutions) -> Evaluation:
        """This evaluation with the bindings of a row besides its own initial ones."""
        _ = self.context  # which both share
        other = copy.copy(self)
        other.initial = Solutions({**self.initial.columns, **row.columns}, 1)
        other._remembered = {}
        other._join_helpers()
        return other

    def completed(self, table: Solutions, names: Names) -> Solutions:
        """The table with the initial bindings of these variables, where it does not have them."""
        if not self.initial.columns:
            return table
        missing = {
            name: np.full(table.size, column[0], np.uint64)
            for name, column in self.initial.columns.items()
            if name in names and name not in table.columns
        }
        return Solutions({**table.columns, **missing}, table.size) if missing else table

    def blocks(self, part: CompValue, active: ActiveGraph, demand: Demand = PLAIN) -> Iterator[Solutions]:
        """The solutions of a part, in blocks."""
        self.deadline.check()
        if CUSTOM_EVALS and (custom := by_custom(self, part, active)) is not None:
            for each in demand.filters:
                custom = self.conditions.holding(each, custom, active)
            return iter((custom,))
        if self.trace is None:
            return blocks_of(self, part, active, demand)
        return self.trace.watched(part, blocks_of(self, part, active, demand))

    def whole(self, part: CompValue, active: ActiveGraph, demand: Demand = PLAIN) -> Solutions:
        """All solutions of a part."""
        found = list(self.blocks(part, active, demand))
        return concatenated(found) if found else empty()

    def once(self, part: CompValue, active: ActiveGraph, demand: Demand) -> Solutions:
        """All solutions of a part that may be asked for again, for another block: kept if no hint restricts them."""
        if demand.hint is not None or demand.filters:
            return self.whole(part, active, demand)
        key = (id(part), active)
        found = self._remembered.get(key)
        if found is None:
            found = self._remembered[key] = self.whole(part, active)
        return found

    def any_solution(self, part: CompValue, active: ActiveGraph) -> bool:
        """Whether a part has a solution."""
        return any(table.size for table in self.blocks(part, active, Demand(block=1)))

    def bind(self, bindings: Mapping[Identifier, Identifier]) -> None:
        """Give the initial bindings."""
        columns: dict[Identifier, Column] = {
            name: np.array([self.terms.id_of(term)], np.uint64) for name, term in bindings.items()
        }
        self.initial = Solutions(columns, 1)
        self._bindings = {name: term for name, term in bindings.items()}  # noqa: C416
