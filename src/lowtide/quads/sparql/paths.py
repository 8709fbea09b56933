"""Property paths over ids.

Alternatives and sequences keep duplicates; ``*``, ``+`` and ``?`` give each pair of ends once, as the standard says.
Those are followed by frontiers: all nodes that one more step reaches, from every origin at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rdflib.paths import AlternativePath, InvPath, MulPath, NegatedPath, Path, SequencePath
from rdflib.term import Identifier, URIRef, Variable

from lowtide.errors import UsageError
from lowtide.quads.hashing import ID_BYTES
from lowtide.quads.sparql.costs import FEW, by_lookups
from lowtide.quads.sparql.extents import Place
from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.patterns import TriplePattern
from lowtide.quads.sparql.rows import PatternLookup, Row
from lowtide.quads.sparql.tables import Column, Index, Solutions, pairs

if TYPE_CHECKING:
    from lowtide.quads.sparql.evaluation import Evaluation

Pairs = tuple[Column, Column]
"""Where paths begin and where they end."""

NONE: Final = np.zeros(0, np.uint64)


def _distinct(found: Pairs) -> Pairs:
    order = np.lexsort((found[1], found[0]))
    a, b = found[0][order], found[1][order]
    new = np.ones(len(a), np.bool_)
    new[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    return a[new], b[new]


class PathFinder:
    """Follows the paths of one active graph, which has no variable."""

    def __init__(self, run: Evaluation, active: ActiveGraph) -> None:
        self._run = run
        self._active = active

    def table(
        self,
        s: int | Identifier,
        path: Path,
        o: int | Identifier,
        sources: Column | None = None,
        targets: Column | None = None,
    ) -> Solutions:
        """The solutions of a pattern with a path. ``sources`` and ``targets`` are where its variables may end."""
        if isinstance(s, int):
            sources = np.array([s], np.uint64)
        if isinstance(o, int):
            targets = np.array([o], np.uint64)
        fixed = tuple(end for end in (s, o) if isinstance(end, int))
        a, b = self.pairs(path, sources, targets, fixed)
        if isinstance(s, int):
            return Solutions({} if isinstance(o, int) else {o: b}, len(a))
        if isinstance(o, int):
            return Solutions({s: a}, len(a))
        if s == o:
            a = a[a == b]
            return Solutions({s: a}, len(a))
        return Solutions({s: a, o: b}, len(a))

    def estimate(self, path: Path | URIRef, s: Place, o: Place) -> int:
        """About how many pairs a path has."""
        if isinstance(path, AlternativePath):
            return sum(self.estimate(each, s, o) for each in path.args)
        if isinstance(path, SequencePath):
            if s is None and o is not None:
                return self.estimate(path.args[-1], None, o)
            return self.estimate(path.args[0], s, None)
        if isinstance(path, InvPath):
            return self.estimate(path.arg, o, s)
        if isinstance(path, MulPath):
            reached = 4 * self.estimate(path.path, s, None if s is not None else o)
            if path.zero and s is None and o is None:
                reached += self._run.matcher.estimate(None, None, None, self._active)
            return reached + 1
        p = None if isinstance(path, Path) else self._run.terms.id_of(path)
        return self._run.matcher.estimate(s, p, o, self._active)

    def pairs(
        self, path: Path | URIRef, sources: Column | None, targets: Column | None, fixed: tuple[int, ...] = ()
    ) -> Pairs:
        """The ends of paths, with those given as ``sources`` and ``targets`` alone (each id once). ``fixed`` are
        constants of the query, which have a path of length zero though no statement may have them."""
        if isinstance(path, InvPath):
            b, a = self.pairs(path.arg, targets, sources, fixed)
            return a, b
        if isinstance(path, AlternativePath):
            found = [self.pairs(each, sources, targets, fixed) for each in path.args]
            return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])
        if isinstance(path, SequencePath):
            return self._sequence(path.args, sources, targets, fixed)
        if isinstance(path, NegatedPath):
            return self._negated(path, sources, targets)
        if isinstance(path, MulPath):
            return self._repeated(path, sources, targets, fixed)
        assert not isinstance(path, Path)
        return self._edges(self._run.terms.id_of(path), sources, targets)

    def _sequence(
        self, steps: Sequence[Path | URIRef], sources: Column | None, targets: Column | None, fixed: tuple[int, ...]
    ) -> Pairs:
        if sources is None and targets is not None:
            inverse = [step.arg if isinstance(step, InvPath) else InvPath(step) for step in reversed(steps)]
            b, a = self._sequence(inverse, targets, None, fixed)
            return a, b
        a, b = self.pairs(steps[0], sources, None, fixed)
        for number, step in enumerate(steps[1:], 2):
            c, d = self.pairs(step, np.unique(b), targets if number == len(steps) else None, fixed)
            i, j = pairs([b], [c])
            a, b = a[i], d[j]
        return a, b

    def _edges(self, p: Place, sources: Column | None, targets: Column | None) -> Pairs:
        """The ends of single statements; those of any predicate if ``p`` is None."""
        matcher = self._run.matcher
        backward = targets is not None and (sources is None or len(targets) < len(sources))
        near = targets if backward else sources
        if near is not None and self._by_lookups(len(near), p):
            places = [None, p, near] if backward else [near, p, None]
            _, found = matcher.lookups(places, self._active, None, len(near))
            if backward:
                targets = None
            else:
                sources = None
        else:
            found = matcher.extent(None, p, None, self._active)
        return self._ending(found.s, found.o, sources, targets)

    def _by_lookups(self, count: int, path: Path | URIRef | Place) -> bool:
        """Whether to ask for each of ``count`` nodes, rather than to read all steps of a path, or of a predicate."""
        if count <= FEW:
            return True
        if isinstance(path, Path | URIRef):
            extent = self.estimate(path, None, None)
        else:
            extent = self._run.matcher.estimate(None, path, None, self._active)
        return by_lookups(count, extent, tracked=self._run.tracked)

    @staticmethod
    def _ending(a: Column, b: Column, sources: Column | None, targets: Column | None) -> Pairs:
        for ends, wanted in ((0, sources), (1, targets)):
            if wanted is not None and len(a):
                mask = np.isin((a, b)[ends], wanted)
                if not mask.all():
                    a, b = a[mask], b[mask]
        return a, b

    def _negated(self, path: NegatedPath, sources: Column | None, targets: Column | None) -> Pairs:
        if not all(isinstance(each, Identifier | InvPath) for each in path.args):
            raise UsageError(
                "rdflib's parser does not keep the predicate of ^ inside of !(...); write the inverse outside of it, "
                "as in ^(!:p)"
            )
        backward: list[Any] = [each.arg for each in path.args if isinstance(each, InvPath)]
        forward: list[Any] = [each for each in path.args if not isinstance(each, InvPath)]
        found = []
        if forward or not backward:
            found.append(self._except(forward, sources, targets))
        if backward:
            b, a = self._except(backward, targets, sources)
            found.append((a, b))
        return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])

    def _except(self, predicates: list[Any], sources: Column | None, targets: Column | None) -> Pairs:
        """The ends of statements with another predicate than these."""
        numbers = np.array([self._run.terms.id_of(each) for each in predicates], np.uint64)
        matcher = self._run.matcher
        if sources is not None and self._by_lookups(len(sources), None):
            found = matcher.lookups([sources, None, None], self._active, None, len(sources))[1]
        elif targets is not None and self._by_lookups(len(targets), None):
            found = matcher.lookups([None, None, targets], self._active, None, len(targets))[1]
        else:
            found = matcher.extent(None, None, None, self._active)
        mask = ~np.isin(found.p, numbers)
        return self._ending(found.s[mask], found.o[mask], sources, targets)

    # Repeated steps

    def _repeated(self, path: MulPath, sources: Column | None, targets: Column | None, fixed: tuple[int, ...]) -> Pairs:
        if sources is None and targets is not None:
            b, a = self._repeated(MulPath(InvPath(path.path), path.mod), targets, sources, fixed)
            return a, b
        if sources is not None and targets is not None and len(targets) < len(sources):
            b, a = self._repeated(MulPath(InvPath(path.path), path.mod), targets, sources, fixed)
            return a, b
        found = []
        if path.zero:
            nodes = self._nodes(sources, targets, fixed)
            found.append((nodes, nodes))
        if path.more:
            found.append(self._closure(path.path, sources))
        else:
            found.append(self.pairs(path.path, sources, targets, fixed))
        a, b = _distinct((np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])))
        return self._ending(a, b, None, targets)

    def _nodes(self, sources: Column | None, targets: Column | None, fixed: tuple[int, ...]) -> Column:
        """The nodes of the graph that paths of length zero may join."""
        ends = sources if targets is None else targets if sources is None else np.intersect1d(sources, targets)
        if ends is None:
            found = self._run.matcher.extent(None, None, None, self._active)
            return np.unique(np.concatenate([found.s, found.o]))
        matcher, active = self._run.matcher, self._active
        mask = [
            number in fixed or matcher.has(number, None, None, active) or matcher.has(None, None, number, active)
            for number in ends.tolist()
        ]
        return ends[np.array(mask, np.bool_)] if len(ends) else ends

    def _closure(self, path: Path | URIRef, sources: Column | None) -> Pairs:
        """The pairs that one step or more joins."""
        if sources is not None and len(sources) == 1:
            near = self._reached_by_lookups(path, sources)
            if near is not None:
                return np.repeat(sources, len(near)), near
        step = self._stepper(path, sources)
        origins = np.unique(step(None)[0]) if sources is None else sources
        if len(origins) == 1:
            reached = self._reached(step, origins)
            return np.repeat(origins, len(reached)), reached
        numbers: dict[int, int] = {}
        seen = np.zeros(0, np.int64)
        found: list[tuple[Column, Column]] = []
        origin: Index = np.arange(len(origins))
        node = origins
        while len(node):
            self._run.deadline.check()
            a, b = step(np.unique(node))
            i, j = pairs([node], [a])
            origin, node = origin[i], b[j]
            distinct, inverse = np.unique(node, return_inverse=True)
            numbered = [numbers.setdefault(each, len(numbers)) for each in distinct.tolist()]
            # Both numbers are below 2 ** 32: more nodes than that do not fit into memory.
            codes = origin.astype(np.int64) << 32 | np.array(numbered, np.int64)[inverse]
            codes, first = np.unique(codes, return_index=True)
            place = np.asarray(np.searchsorted(seen, codes), np.intp)
            known = np.zeros(len(codes), np.bool_)
            inside = place < len(seen)
            known[inside] = seen[place[inside]] == codes[inside]
            fresh = first[~known]
            seen = np.insert(seen, place[~known], codes[~known])
            origin, node = origin[fresh], node[fresh]
            found.append((origins[origin], node))
        if not found:
            return NONE, NONE
        return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])

    def _reached_by_lookups(self, path: Path | URIRef, origin: Column) -> Column | None:
        """The nodes that one step or more leads to from a single origin, where a step is a statement of one graph. None
        if it is another step, or if so many nodes are reached that all statements are better read at once."""
        backward = isinstance(path, InvPath)
        predicate = path.arg if isinstance(path, InvPath) else path
        graph = self._active.single
        if graph is None or isinstance(predicate, Path):
            return None
        p = self._run.terms.id_of(predicate)
        node, other = Variable("node"), Variable("other")
        pattern = TriplePattern(other, p, node) if backward else TriplePattern(node, p, other)
        matcher = self._run.matcher
        lookup = PatternLookup(pattern, (node,), graph, matcher)
        rows: list[Row] = [(int(origin[0]).to_bytes(ID_BYTES, "big"),)]
        seen: dict[Row, None] = {}
        while rows:
            if len(seen) > FEW and not self._by_lookups(len(seen), p):
                return None
            self._run.deadline.check()
            found = dict.fromkeys(new for raw in matcher.under(lookup.prefixes(rows)) for new in lookup.matches(raw))
            rows = [new for new in found if new not in seen]
            seen.update(dict.fromkeys(rows))
        return np.frombuffer(b"".join([row[0] for row in seen]), ">u8").astype(np.uint64)

    def _reached(self, step: Callable[[Column | None], Pairs], origin: Column) -> Column:
        """The nodes that one step or more leads to from a single origin."""
        seen: dict[int, None] = {}
        node = origin
        while len(node):
            self._run.deadline.check()
            fresh = {number: None for number in step(node)[1].tolist() if number not in seen}
            seen.update(fresh)
            node = np.fromiter(fresh, np.uint64, len(fresh))
        return np.fromiter(seen, np.uint64, len(seen))

    def _stepper(self, path: Path | URIRef, sources: Column | None) -> Callable[[Column | None], Pairs]:
        """A function from nodes to what one step reaches: by lookups as long as few were asked for, then from all
        steps, read once."""
        asked = 0
        whole: Pairs | None = None

        def step(nodes: Column | None) -> Pairs:
            nonlocal asked, whole
            if nodes is not None and whole is None:
                asked += len(nodes)
                if self._by_lookups(asked, path):
                    return self.pairs(path, nodes, None)
            if whole is None:
                whole = _distinct(self.pairs(path, None, None))
            if nodes is None:
                return whole
            low = np.searchsorted(whole[0], nodes, "left")
            counts = np.searchsorted(whole[0], nodes, "right") - low
            before = np.cumsum(counts) - counts
            rows = np.arange(counts.sum()) + np.repeat(low - before, counts)
            return np.repeat(nodes, counts), whole[1][rows]

        return step
