"""``Quads``: a quad store that can be read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

from lowtide.engine import AutocommitStatements, PrefixOf, WriteView
from lowtide.errors import UsageError
from lowtide.quads.changing import EncodedStatements, QuadChange, check_quads
from lowtide.quads.indexes import EXPLICIT, INFERRED, QuadIds, quad_of
from lowtide.quads.read_quads import Pattern, ReadQuads, ids_of_pattern, pattern_of
from lowtide.system.cycles import adding

_Result = TypeVar("_Result")


class Quads(ReadQuads):
    """The statements of a quad store, as returned by ``tx.quads(name)`` and ``store.quads(name)``. See
    :class:`ReadQuads` for statements, patterns and reads.

    Each call is one atomic statement of the transaction. On the store, it is its own transaction, which is retried on
    conflict. Adds of the same statement never conflict; an add and a concurrent removal do.

    >>> from rdflib import RDF, URIRef
    >>> with store.transaction() as tx:
    ...     quads = tx.quads("people")
    ...     quads.add((URIRef("urn:ann"), RDF.type, URIRef("urn:Person")))
    ...     quads.count((None, RDF.type, None))
    1
    """

    __slots__ = ()

    def _change(self, work: Callable[[QuadChange], _Result]) -> _Result:
        name, caches = self.name, self._statements.caches

        def run(writing: WriteView, prefix_of: PrefixOf) -> _Result:
            change = QuadChange(writing, prefix_of, name, caches)
            result = work(change)
            change.apply()
            return result

        return self._statements.write(run)

    def add(self, quad: Pattern, *, inferred: bool = False) -> None:
        """Add a statement: (subject, predicate, object), or with a graph behind it; None is the default graph.

        An explicit add makes an inferred statement explicit. An inferred add of an explicit statement changes nothing.

        >>> from rdflib import Literal, URIRef
        >>> store.quads("people").add((URIRef("urn:ann"), URIRef("urn:age"), Literal(42)))
        """
        checked = check_quads((quad,))
        self._change(lambda change: change.add(checked, inferred))

    def add_many(self, quads: Iterable[Pattern], *, inferred: bool = False, batch: int | None = None) -> None:
        """Add statements, in one transaction. On the store, ``batch`` splits them into transactions of so many each, so
        that memory does not grow with their number; if one fails, the ones before it stay.

        >>> from rdflib import Literal, URIRef
        >>> age = URIRef("urn:age")
        >>> store.quads("people").add_many((URIRef(f"urn:{n}"), age, Literal(n)) for n in range(3))
        >>> store.quads("people").count((None, age, None))
        3
        """
        if batch is None:
            checked = check_quads(quads)
            if checked:
                with adding(len(checked)):
                    self._change(lambda change: change.add(checked, inferred))
            return
        if not isinstance(self._statements, AutocommitStatements):
            raise UsageError("batch= splits an add into several transactions; use it on the store only")
        if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
            raise UsageError(f"batch is a number of statements, 1 or more, not {batch!r}")
        rest = iter(quads)
        while part := list(islice(rest, batch)):
            self.add_many(part, inferred=inferred)

    def add_encoded(self, batch: EncodedStatements) -> None:
        """Add a batch of a load, see ``lowtide.quads.loading``: in one transaction, as ``add_many`` does."""
        with adding(len(batch.quads)):
            self._change(lambda change: change.add_encoded(batch))

    def give_way(self) -> None:
        """On the store, wait for the checkpoint that runs, if too much was committed meanwhile: for loads, which would
        fill the memory where they are faster than the disk."""
        if isinstance(self._statements, AutocommitStatements):
            self._statements.give_way()

    def remove(self, pattern: Pattern, *, inferred: bool | None = False) -> int:
        """Remove the explicit statements that match a pattern. Returns their number. ``inferred=True`` removes the
        inferred ones, ``inferred=None`` both.

        All are found before the first is removed. Removing a fully specified statement reads nothing else.

        >>> store.quads("people").remove((None, None, None))
        0
        """
        wanted = pattern_of(pattern)
        return self._change(lambda change: _remove(change, wanted, inferred))

    def clear(self, g: Any = None) -> int:
        """Remove all statements of a graph, explicit and inferred: a term, or DEFAULT for the default graph; None for
        all graphs. Returns how many there were.

        >>> from lowtide.quads import DEFAULT
        >>> store.quads("people").clear(DEFAULT)
        0
        """
        return self.remove((None, None, None, g), inferred=None)

    def change(
        self,
        removes: Sequence[bytes] = (),
        adds: Iterable[Pattern] = (),
        *,
        inferred: bool = False,
    ) -> tuple[int, int]:
        """Remove statements, each given as its 32 bytes of ids (subject, predicate, object, graph), and then add
        statements of terms, all at once: for updates whose WHERE part was evaluated by ids. Returns how many of the
        first were there, and how many of the others were not.

        >>> store.quads("people").change(removes=[], adds=[])
        (0, 0)
        """
        checked = check_quads(adds)
        removed: list[QuadIds] = [quad_of("spoc", each) for each in removes]

        def work(change: QuadChange) -> tuple[int, int]:
            return change.remove(removed) if removed else 0, change.add(checked, inferred)

        return self._change(work) if removed or checked else (0, 0)

    def together(self, work: Callable[[Quads], _Result]) -> _Result:
        """Call ``work`` with this quad store on one transaction: this one, or on the store one that is retried.

        >>> store.quads("people").together(lambda quads: quads.count())
        0
        """
        name = self.name
        return self._statements.run(lambda statements: work(Quads(statements, name)))

    def drop(self) -> None:
        """Remove all statements, prefixes and created graphs. Terms go when garbage is collected.

        >>> store.quads("people").drop()
        """

        def work(quads: Quads) -> None:
            quads.clear()
            quads.prefixes.clear()
            quads.created.clear()

        self.together(work)


def _remove(change: QuadChange, pattern: tuple[Any, Any, Any, Any], inferred: bool | None) -> int:
    reader = change.reader()
    ids = ids_of_pattern(reader, pattern)
    if ids is None:
        return 0
    s, p, o, g = ids
    if s is not None and p is not None and o is not None and g is not None:
        return _remove_one(change, (s, p, o, g), inferred)
    order, chunks = reader.scan_ids(s, p, o, g, inferred=inferred)
    found = [quad_of(order, key) for chunk in chunks for key in chunk]
    return change.remove(found) if found else 0


def _remove_one(change: QuadChange, quad: QuadIds, inferred: bool | None) -> int:
    """Remove a statement that is fully given. That it is not there is no reason to write nothing: a concurrent add of
    it must conflict. Only if it was added in the other way, the removal depends on it, and so reads it."""
    value = change.value_of(quad)
    if value is not None and inferred is not None and value != (INFERRED if inferred else EXPLICIT):
        change.read_value(quad)
        return 0
    return change.remove([quad], [value])
