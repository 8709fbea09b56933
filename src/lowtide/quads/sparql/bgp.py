"""Basic graph patterns: triple patterns joined one by one, the most selective first.

The order is found while the patterns are evaluated. The solutions so far are known, so the next pattern is the one with
the fewest estimated solutions, using a few of those so far as samples. A pattern is joined in one of two ways: by
*lookups*, one for each distinct solution so far, or by its *extent*, all statements that match its constants.

In a serializable transaction, reads cause conflicts. There, patterns with more constants come first, and up to
``TRACKED_LOOKUPS`` lookups are used, whatever they cost. The ranges of the read set are then those that the query asked
about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

import numpy as np
from rdflib.paths import Path
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import BNode, Identifier

from lowtide.quads.sparql.costs import FEW, TRACKED_LOOKUPS, by_lookups
from lowtide.quads.sparql.extents import Place, StatementColumns
from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.operands import named_by
from lowtide.quads.sparql.paths import PathFinder
from lowtide.quads.sparql.patterns import End, ResolvedPart, TriplePattern, resolved
from lowtide.quads.sparql.rows import PatternLookup, Row, Rows, lookup_of
from lowtide.quads.sparql.tables import (
    Column,
    Solutions,
    check_rows,
    concatenated,
    distinct,
    empty,
    groups,
    joined,
    merged,
)

if TYPE_CHECKING:
    from lowtide.quads.sparql.demand import Demand
    from lowtide.quads.sparql.evaluation import Evaluation

SAMPLES: Final = 3
"""Solutions that the next pattern is chosen by."""
FEW_ROWS: Final = 64
"""A table with so few rows is joined row by row: arrays would cost more than they save."""
CROSSED: Final = 1 << 20
"""Solutions of tables without a common variable that are made between two checks of the clock."""
SELECTIVE: Final = 32
"""A pattern with so few solutions is begun with, whatever the others have."""


@dataclass(slots=True)
class Solver:
    """Solves one basic graph pattern; see the module."""

    run: Evaluation
    active: ActiveGraph
    demand: Demand
    filters: list[Any]
    """What must hold, and was not applied yet."""

    def solve(
        self, part: CompValue, triples: Sequence[tuple[Identifier, Identifier | Path, Identifier]]
    ) -> Iterator[Solutions]:
        """The solutions of a part that is these triple patterns."""
        patterns = self._resolved(part, triples)
        start = self._start(patterns)
        first = None
        if not start.columns or (self.demand.hint is not None and not self._starts_with_hint(start, patterns)):
            start = self.run.initial
            if not start.columns:
                first = self._smallest(patterns)
        if first is None:
            yield self._finish(self._apply(start), patterns)
            return
        rest = [each for each in patterns if each is not first]
        if self._is_few(first):
            yield self._finish(self._join_rows(Rows((), [()]), first, "scan"), rest)
            return
        for table in self._scanned(first):
            yield self._finish(self._apply(table), rest)

    def _resolved(
        self, part: CompValue, triples: Sequence[tuple[Identifier, Identifier | Path, Identifier]]
    ) -> list[TriplePattern]:
        """The patterns with ids. They are kept with the parsed query if the store has all of the terms: a term keeps
        its id as long as what the dictionary remembers, see ``dictionary``."""
        reader, kept = self.run.reader, self.run.scopes.resolved
        found = kept.get(id(part))
        if found is not None and found.known() is reader.known and found.ts <= reader.ts:
            return found.patterns
        patterns = resolved(triples, self.run.terms)
        if reader.committed and not any(each.is_local for each in patterns):
            kept[id(part)] = ResolvedPart(part, ref(reader.known), reader.ts, patterns)
        return patterns

    def _start(self, patterns: list[TriplePattern]) -> Solutions:
        """The solutions before any pattern is read: initial bindings, and the hint's distinct rows."""
        hint = self.demand.hint
        start = self.run.initial
        for each in self.filters:
            # A filter says that a variable is an IRI: that is where to begin.
            if (equal := named_by(each)) is not None and any(equal[0] in pattern.variables for pattern in patterns):
                column = np.array([self.run.terms.id_of(equal[1])], np.uint64)
                start = joined(start, Solutions({equal[0]: column}, 1))
        if hint is None:
            return start
        names = {name for pattern in patterns for name in pattern.variables} | {self.active.variable}
        useful = hint.only(name for name in hint.columns if name in names and name not in hint.partial)
        return joined(start, distinct(useful)) if useful.columns else start

    def _starts_with_hint(self, start: Solutions, patterns: list[TriplePattern]) -> bool:
        """Whether to begin with the hint, rather than with a pattern that has fewer statements."""
        if start.size <= 1 or (self.run.tracked and start.size <= TRACKED_LOOKUPS):
            return True
        return start.size <= min((self._extent(each) for each in patterns), default=0)

    def _extent(self, pattern: TriplePattern) -> int:
        return self.estimate(pattern, {})

    def estimate(self, pattern: TriplePattern, bound: dict[Identifier, int]) -> int:
        """About how many solutions a pattern has, with some variables bound."""

        def place(end: End) -> Place:
            return end if isinstance(end, int) else bound.get(end)

        active = self.active
        if active.variable is not None and active.variable in bound:
            active = ActiveGraph((bound[active.variable],))
        s, o = place(pattern.s), place(pattern.o)
        if pattern.path is not None:
            return PathFinder(self.run, active).estimate(pattern.path, s, o)
        return self.run.matcher.estimate(s, place(pattern.p), o, active)

    def _smallest(self, patterns: list[TriplePattern]) -> TriplePattern | None:
        if len(patterns) < 2:
            return patterns[0] if patterns else None
        enough = TRACKED_LOOKUPS if self.run.tracked else SELECTIVE
        ordered = sorted(patterns, key=lambda each: -each.constants)
        best, fewest = ordered[0], self._extent(ordered[0])
        for pattern in ordered[1:]:
            if fewest <= enough and pattern.constants < best.constants:
                break
            extent = self._extent(pattern)
            if extent < fewest:
                best, fewest = pattern, extent
        return best

    def _next(self, table: Solutions, patterns: list[TriplePattern]) -> TriplePattern:
        if len(patterns) == 1:
            return patterns[0]
        near = [
            each for each in patterns if not each.variables or any(name in table.columns for name in each.variables)
        ]
        if not near:
            smallest = self._smallest(patterns)
            assert smallest is not None
            return smallest
        if len(near) == 1:
            return near[0]
        rows = range(table.size) if table.size <= SAMPLES else (0, table.size // 2, table.size - 1)
        samples = [{name: int(column[row]) for name, column in table.columns.items()} for row in rows]
        growth = [sum(self.estimate(pattern, sample) for sample in samples) for pattern in near]
        return near[min(range(len(near)), key=lambda i: (growth[i], -near[i].constants))]

    def _finish(self, begun: Solutions | Rows, patterns: list[TriplePattern]) -> Solutions:
        """Join the other patterns, one by one."""
        rest = list(patterns)
        table = self._finish_rows(begun, rest) if isinstance(begun, Rows) else begun
        while rest:
            self.run.deadline.check()
            if not table.size:
                return empty(table.columns)
            if table.size <= FEW_ROWS and table.columns and self.active.single is not None:
                left = len(rest)
                table = self._finish_rows(Rows.of(table), rest)
                if len(rest) < left:
                    continue
            pattern = self._next(table, rest)
            rest.remove(pattern)
            table = self._apply(self._join(table, pattern))
        steps = [name for name in table.columns if isinstance(name, BNode)]
        if steps:
            table = table.only(name for name in table.columns if name not in steps)
        return table

    # A few rows

    def _is_few(self, pattern: TriplePattern) -> bool:
        """Whether a pattern that is begun with has few solutions."""
        if pattern.path is not None or not pattern.constants or self.active.single is None:
            return False
        return self._extent(pattern) <= FEW_ROWS

    def _finish_rows(self, rows: Rows, rest: list[TriplePattern]) -> Solutions:
        """Join patterns with a few rows, and remove them from ``rest``, for as long as that is the best way."""
        while rest and 0 < rows.size <= FEW_ROWS:
            self.run.deadline.check()
            pattern = self._next_of_rows(rows, rest)
            if pattern is None:
                break
            rest.remove(pattern)
            rows = self._join_rows(rows, pattern, "lookups")
        return rows.table()

    def _next_of_rows(self, rows: Rows, patterns: list[TriplePattern]) -> TriplePattern | None:
        """The pattern to look up next; None if it is better joined as a table."""
        near = [each for each in patterns if not each.variables or any(name in rows.names for name in each.variables)]
        if not near or any(each.path is not None for each in near):
            return None
        chosen = near[0]
        if len(near) > 1:
            samples = rows.rows if rows.size <= SAMPLES else [rows.rows[at] for at in (0, rows.size // 2, -1)]
            growth = [self._growth(each, rows.names, samples) for each in near]
            chosen = near[min(range(len(near)), key=lambda i: (growth[i], -near[i].constants))]
        return chosen if self._by_lookups(rows.size, chosen) else None

    def _growth(self, pattern: TriplePattern, names: tuple[Identifier, ...], samples: Sequence[Row]) -> int:
        """About how many solutions the samples have with a pattern. What is found is kept for the join."""
        if self.run.tracked:
            counts: list[int | None] = [None] * len(samples)
        else:
            counts = self._lookup(pattern, names).counts(samples, self.run.matcher)
        return sum(
            self.estimate(pattern, {name: int.from_bytes(id, "big") for name, id in zip(names, row, strict=True)})
            if count is None
            else count
            for row, count in zip(samples, counts, strict=True)
        )

    def _lookup(self, pattern: TriplePattern, names: tuple[Identifier, ...]) -> PatternLookup:
        graph = self.active.single
        assert graph is not None
        return lookup_of(pattern, names, graph, self.run.matcher)

    def _join_rows(self, rows: Rows, pattern: TriplePattern, how: str) -> Rows:
        found = self._lookup(pattern, rows.names).joined(rows.rows, self.run.matcher)
        if self.run.trace is not None:
            self._trace(pattern, found.size, how)
        names = found.names
        if any(self.run.scopes.mentioned(each).issubset(names) for each in self.filters):
            return Rows.of(self._apply(found.table()))
        return found

    def _apply(self, table: Solutions) -> Solutions:
        """Apply the filters whose variables are all there."""
        for each in list(self.filters):
            if all(name in table.columns for name in self.run.scopes.mentioned(each)):
                self.filters = [other for other in self.filters if other is not each]
                table = self.run.conditions.holding(each, table, self.active)
        return table

    # One pattern

    def _scanned(self, pattern: TriplePattern) -> Iterator[Solutions]:
        """The solutions of the first pattern, in blocks if not all may be needed."""
        if pattern.path is not None:
            yield self._traced(pattern, PathFinder(self.run, self.active).table(pattern.s, pattern.path, pattern.o))
            return
        s, p, o = (place if isinstance(place, int) else None for place in (pattern.s, pattern.p, pattern.o))
        if self.demand.block is None:
            found = self.run.matcher.extent(s, p, o, self.active)
            yield self._traced(pattern, self._table(pattern, found))
            return
        filters = self.filters
        for found in self.run.matcher.blocks(s, p, o, self.active, self.demand.block):
            self.filters = filters
            yield self._traced(pattern, self._table(pattern, found))

    def _table(self, pattern: TriplePattern, found: StatementColumns) -> Solutions:
        """The variables of a pattern from the statements that match it."""
        columns: dict[Identifier, Column] = {}
        same = None
        ends = [(pattern.s, found.s), (pattern.p, found.p), (pattern.o, found.o)]
        if self.active.variable is not None:
            ends.append((self.active.variable, found.g))
        for end, column in ends:
            if not isinstance(end, Identifier):
                continue
            if end in columns:
                equal = columns[end] == column
                same = equal if same is None else same & equal
            else:
                columns[end] = column
        table = Solutions(columns, len(found.s))
        return table if same is None else table.where(same)

    def _join(self, table: Solutions, pattern: TriplePattern) -> Solutions:
        if pattern.path is not None:
            return self._traced(pattern, self._join_path(table, pattern, pattern.path))
        bound = [name for name in pattern.variables if name in table.columns]
        if self.active.variable is not None and self.active.variable in table.columns:
            bound.append(self.active.variable)
        if bound:
            first, _ = groups([table.columns[name] for name in bound], table.size)
            if self._by_lookups(len(first), pattern):
                return self._traced(pattern, self._looked_up(table, pattern, bound, first), "lookups")
        s, p, o = (place if isinstance(place, int) else None for place in (pattern.s, pattern.p, pattern.o))
        found = self._table(pattern, self.run.matcher.extent(s, p, o, self.active))
        return self._traced(pattern, self._joined(table, found), "extent")

    def _by_lookups(self, count: int, pattern: TriplePattern) -> bool:
        """Whether to look a pattern up so often, rather than to read its extent."""
        if count <= FEW:
            return True
        s, p, o = (place if isinstance(place, int) else None for place in (pattern.s, pattern.p, pattern.o))
        kept = self.run.matcher.keeps(s, p, o, self.active)
        return by_lookups(count, self._extent(pattern), tracked=self.run.tracked, kept=kept)

    def _joined(self, table: Solutions, found: Solutions) -> Solutions:
        """The join of two tables; if they share no variable and are large, in parts, with checks of the clock."""
        if table.size * found.size <= CROSSED or any(name in found.columns for name in table.columns):
            return joined(table, found)
        check_rows(table.size * found.size)
        step = max(1, CROSSED // found.size)
        parts = []
        for start in range(0, table.size, step):
            self.run.deadline.check()
            parts.append(joined(table.part(start, start + step), found))
        return concatenated(parts)

    def _looked_up(self, table: Solutions, pattern: TriplePattern, bound: list[Identifier], first: Any) -> Solutions:
        keys = table.only(bound).take(first)

        def place(end: End) -> Column | Place:
            return end if isinstance(end, int) else keys.columns.get(end)

        places = [place(pattern.s), place(pattern.p), place(pattern.o)]
        graphs = None if self.active.variable is None else keys.columns.get(self.active.variable)
        numbers, found = self.run.matcher.lookups(places, self.active, graphs, keys.size)
        answers = self._table(pattern, found)
        if answers.size == len(numbers) and keys.size == table.size:
            # Each row was its own key: the numbers of the lookups are the rows.
            return merged(table, answers, numbers, np.arange(len(numbers)))
        return joined(table, answers)

    def _join_path(self, table: Solutions, pattern: TriplePattern, path: Path) -> Solutions:
        def ends(end: End) -> Column | None:
            if isinstance(end, int):
                return np.array([end], np.uint64)
            return np.unique(table.columns[end]) if end in table.columns else None

        finder = PathFinder(self.run, self.active)
        found = finder.table(pattern.s, path, pattern.o, ends(pattern.s), ends(pattern.o))
        return joined(table, found)

    def _traced(self, pattern: TriplePattern, after: Solutions, how: str = "scan") -> Solutions:
        if self.run.trace is not None:
            self._trace(pattern, after.size, "path" if pattern.path is not None else how)
        return after

    def _trace(self, pattern: TriplePattern, rows: int, how: str) -> None:
        assert self.run.trace is not None
        self.run.trace.step(pattern.show(self.run.terms), how, self._extent(pattern), rows)
