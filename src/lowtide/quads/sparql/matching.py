"""Triple patterns over the store: whole extents, extents in blocks, and lookups with bound places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from lowtide.quads.hashing import ID_BYTES, IdKind
from lowtide.quads.ids import FormulaName, kind_of, kinds
from lowtide.quads.indexes import accesses
from lowtide.quads.reading import IdReader
from lowtide.quads.sparql.deadline import Deadline
from lowtide.quads.sparql.extents import NO_STATEMENTS, Place, StatementColumns, extents_of
from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.tables import Column, Index, Mask, groups
from lowtide.quads.sparql.terms import TermSpace, local

DEFAULT_NUMBER: Final = 0
"""The default graph's id as a number."""
FEW_KEYS: Final = 100
"""So many keys are found at the cost of an estimate."""
BETWEEN_CHECKS: Final = 256
"""Lookups between two checks of the clock."""


def _bytes(place: Place) -> bytes | None:
    return None if place is None else place.to_bytes(8, "big")


def _stacked(found: Sequence[StatementColumns]) -> StatementColumns:
    if len(found) == 1:
        return found[0]
    return (
        StatementColumns(*(np.concatenate(columns) for columns in zip(*found, strict=True))) if found else NO_STATEMENTS
    )


def _merged(found: StatementColumns) -> StatementColumns:
    """Each triple once, whatever the number of its graphs."""
    g = found.g
    if len(g) < 2 or (g == g[0]).all():
        return found
    first, _ = groups([found.s, found.p, found.o], len(g))
    return found if len(first) == len(g) else found.take(first)


def _ids(place: Column | Place, numbers: Index) -> list[bytes | None]:
    """A place of many patterns, as bytes."""
    if isinstance(place, np.ndarray):
        raw = place[numbers].astype(">u8").tobytes()
        return [raw[start : start + 8] for start in range(0, len(raw), 8)]
    return [_bytes(place)] * len(numbers)


def _ordered(order: str, raw: bytes) -> StatementColumns:
    """Keys of an index as columns."""
    rows = np.frombuffer(raw, dtype=">u8").reshape(-1, 4)
    return StatementColumns(*(rows[:, order.index(place)].astype(np.uint64) for place in "spoc"))


def _where(rows: Index, found: StatementColumns, mask: Mask) -> tuple[Index, StatementColumns]:
    kept = np.flatnonzero(mask)
    return rows[kept], found.take(kept)


def _shown(graphs: Column, active: ActiveGraph) -> Mask:
    """Which graphs an active graph that is all graphs shows: the formulas of N3 are not asserted, and a variable stands
    for named graphs alone."""
    shown: Mask = kinds(graphs) != IdKind.FORMULA
    if active.variable is not None:
        shown &= graphs != DEFAULT_NUMBER
    return shown


class Matcher:
    """Asks a reader for the statements of patterns. Belongs to one evaluation."""

    def __init__(self, reader: IdReader, deadline: Deadline, terms: TermSpace) -> None:
        self._reader = reader
        self._terms = terms
        self._deadline = deadline
        self._kept = extents_of(reader)

    def estimate(self, s: Place, p: Place, o: Place, active: ActiveGraph) -> int:
        """About how many statements match."""
        key = (s, p, o, active)
        found = self._kept.size_of(key)
        if found is None:
            found = self._estimate(s, p, o, active)
            self._kept.note_size(key, found)
        return found

    def _estimate(self, s: Place, p: Place, o: Place, active: ActiveGraph) -> int:
        if self._impossible(s, p, o):
            return 0
        terms = (_bytes(s), _bytes(p), _bytes(o))
        if (s is not None or o is not None) and (graph := active.single) is not None and not self._reader.tracked:
            # If they are few, they are the estimate, and are kept for the join.
            access = accesses((s is not None, p is not None, o is not None, True))[0]
            pattern = (*terms, _bytes(graph))
            keys = self.few_under([self.prefix_of(access.order) + access.key(pattern)])[0]
            if keys is not None:
                filters = access.filter(pattern)
                starts = range(0, len(keys), 4 * ID_BYTES)
                return sum(all(keys[at + low : at + high] == id for low, high, id in filters) for at in starts)
        if active.graphs is None:
            return self._reader.estimate(*terms)
        return sum(self._reader.estimate(*terms, _bytes(g)) for g in active.graphs if not TermSpace.is_local(g))

    @staticmethod
    def _impossible(*places: Place) -> bool:
        return any(place is not None and TermSpace.is_local(place) for place in places)

    def keeps(self, s: Place, p: Place, o: Place, active: ActiveGraph) -> bool:
        """Whether the statements that match are kept from another query."""
        return self._kept.get((s, p, o, active)) is not None

    def extent(self, s: Place, p: Place, o: Place, active: ActiveGraph) -> StatementColumns:
        """All statements that match."""
        key = (s, p, o, active)
        found = self._kept.get(key)
        if found is None:
            found = self._fetch(s, p, o, active)
            self._kept.keep(key, found)
        return found

    def _fetch(self, s: Place, p: Place, o: Place, active: ActiveGraph) -> StatementColumns:
        if self._impossible(s, p, o):
            return NO_STATEMENTS
        terms = (_bytes(s), _bytes(p), _bytes(o))
        if active.graphs is None:
            found = self._seen(self._columns(*terms, None), active)
        else:
            graphs = [g for g in active.graphs if not TermSpace.is_local(g)]
            found = _stacked([self._columns(*terms, _bytes(g)) for g in graphs])
        return _merged(found) if active.merges else found

    def _columns(self, s: bytes | None, p: bytes | None, o: bytes | None, g: bytes | None) -> StatementColumns:
        order, chunks = self._reader.scan_ids(s, p, o, g)
        parts = []
        for chunk in chunks:
            self._deadline.check()
            parts.append(b"".join(chunk))
        return _ordered(order, b"".join(parts))

    def blocks(self, s: Place, p: Place, o: Place, active: ActiveGraph, size: int) -> Iterator[StatementColumns]:
        """All statements that match, in blocks of about ``size`` and growing, each read when it is asked for."""
        if self._kept.get((s, p, o, active)) is not None or active.merges or self._impossible(s, p, o):
            yield self.extent(s, p, o, active)
            return
        graphs: Sequence[Place] = (None,) if active.graphs is None else active.graphs
        for g in graphs:
            if g is not None and TermSpace.is_local(g):
                continue
            order, chunks = self._reader.scan_ids(_bytes(s), _bytes(p), _bytes(o), _bytes(g))
            waiting: list[bytes] = []
            for chunk in chunks:
                waiting.extend(chunk)
                if len(waiting) >= size:
                    self._deadline.check()
                    yield self._seen(_ordered(order, b"".join(waiting)), active)
                    waiting = []
                    size *= 4
            if waiting:
                yield self._seen(_ordered(order, b"".join(waiting)), active)

    @staticmethod
    def _seen(found: StatementColumns, active: ActiveGraph) -> StatementColumns:
        """What an active graph shows of the statements of all graphs, see ``_shown``."""
        if active.graphs is not None:
            return found
        shown = _shown(found.g, active)
        return found if shown.all() else found.take(np.flatnonzero(shown))

    def lookups(
        self, places: Sequence[Column | Place], active: ActiveGraph, graphs: Column | None, count: int
    ) -> tuple[Index, StatementColumns]:
        """The statements that match each of ``count`` patterns: the number of the pattern, and the statement.

        ``places`` are subject, predicate and object: a column with one id for each pattern, or what all have.
        ``graphs`` are the graphs of the patterns, if the active graph has a variable that is bound.
        """
        if count <= BETWEEN_CHECKS and graphs is None and (graph := active.single) is not None:
            # No statement has an id that only the evaluation knows, so nothing is found for it.
            all_rows = np.arange(count)
            columns = [_ids(place, all_rows) for place in (*places, graph)]
            return self._look_up(list(zip(*columns, strict=True)), all_rows) if count else (all_rows, NO_STATEMENTS)
        wanted = np.ones(count, np.bool_)
        for place in (*places, graphs):
            if isinstance(place, np.ndarray):
                wanted &= ~local(place)
        if graphs is not None:
            wanted &= graphs != DEFAULT_NUMBER
            if active.graphs is not None:
                wanted &= np.isin(graphs, np.array(active.graphs, np.uint64))
        numbers = np.flatnonzero(wanted)
        if not len(numbers) or self._impossible(*(each for each in places if isinstance(each, int))):
            return numbers[:0], NO_STATEMENTS
        columns = [_ids(place, numbers) for place in places]
        if graphs is not None:
            insides = [_ids(graphs, numbers)]
        elif active.graphs is None:
            insides = [[None] * len(numbers)]
        else:
            insides = [_ids(g, numbers) for g in active.graphs if not TermSpace.is_local(g)]
        found = [self._look_up(list(zip(*columns, inside, strict=True)), numbers) for inside in insides]
        if not found:
            return numbers[:0], NO_STATEMENTS
        rows = np.concatenate([rows for rows, _ in found])
        statements = _stacked([each for _, each in found])
        if graphs is None and active.graphs is None:
            shown = _shown(statements.g, active)
            if not shown.all():
                rows, statements = _where(rows, statements, shown)
        if active.merges and len(rows) > 1 and (statements.g != statements.g[0]).any():
            first, _ = groups([rows.astype(np.uint64), statements.s, statements.p, statements.o], len(rows))
            rows, statements = rows[first], statements.take(first)
        return rows, statements

    def _look_up(self, patterns: list[Any], numbers: Index) -> tuple[Index, StatementColumns]:
        """The statements of patterns of bytes, with the numbers of the patterns."""
        if len(patterns) <= BETWEEN_CHECKS:
            self._deadline.check()
            order, sizes, raw = self._reader.look_up(patterns)
            return np.repeat(numbers, sizes), _ordered(order, raw)
        rows, found = [], []
        for start in range(0, len(patterns), BETWEEN_CHECKS):
            self._deadline.check()
            order, sizes, raw = self._reader.look_up(patterns[start : start + BETWEEN_CHECKS])
            rows.append(np.repeat(numbers[start : start + BETWEEN_CHECKS], sizes))
            found.append(_ordered(order, raw))
        return np.concatenate(rows), _stacked(found)

    def prefix_of(self, order: str) -> bytes:
        """What the full keys of an index begin with."""
        prefix: bytes = getattr(self._reader.prefixes, order)
        return prefix

    def under(self, prefixes: list[bytes]) -> list[bytes]:
        """The keys of indexes that begin with each of a few prefixes, one behind the other."""
        return [each or b"" for each in self._under(prefixes, None)]

    def few_under(self, prefixes: list[bytes]) -> list[bytes | None]:
        """As ``under``; None if they are more than a few. It is no read of a serializable transaction: it may only be
        asked where there is none."""
        return self._under(prefixes, FEW_KEYS)

    def _under(self, prefixes: list[bytes], most: int | None) -> list[bytes | None]:
        kept = self._kept.lookups
        found = [kept.get(prefix) for prefix in prefixes]
        if None not in found:
            return found
        self._deadline.check()
        missing = list(dict.fromkeys(prefix for prefix, raw in zip(prefixes, found, strict=True) if raw is None))
        keys = self._reader.keys_under(missing, most)
        new = {prefix: b"".join(each) for prefix, each in zip(missing, keys, strict=True) if each is not None}
        self._kept.keep_lookups(
            {prefix: raw for prefix, raw in new.items() if len(raw) <= FEW_KEYS * 4 * ID_BYTES} if most is None else new
        )
        return [new.get(prefix) if raw is None else raw for prefix, raw in zip(prefixes, found, strict=True)]

    def graph_numbers(self, active: ActiveGraph) -> list[int]:
        """The named graphs of an active graph that have statements, or were created."""
        created = [self._terms.id_of(name) for name in self._reader.created_graphs() if type(name) is not FormulaName]
        if active.graphs is not None:
            return [g for g in active.graphs if g in created or self.has(None, None, None, ActiveGraph((g,)))]
        named = (int.from_bytes(g, "big") for g in self._reader.graphs() if any(g) and kind_of(g) != IdKind.FORMULA)
        return list(dict.fromkeys((*named, *created)))

    def has(self, s: Place, p: Place, o: Place, active: ActiveGraph) -> bool:
        """Whether a statement matches."""
        if self._impossible(s, p, o):
            return False
        terms = (_bytes(s), _bytes(p), _bytes(o))
        if active.graphs is None:
            keys = self._reader.match(*terms, None)
            return any(kind_of(key[-ID_BYTES:]) != IdKind.FORMULA for key in keys)
        return any(self._reader.has((*terms, _bytes(g))) for g in active.graphs if not TermSpace.is_local(g))
