"""Parsed queries and updates, kept for the next time. Parsing costs milliseconds, most queries less.

A text that differs from an earlier one in constants alone is not parsed either, see ``shapes``.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from rdflib.plugins.sparql.algebra import translateGroupGraphPattern, translatePath, translateUpdate, traverse
from rdflib.plugins.sparql.parser import parseUpdate
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.processor import prepareQuery
from rdflib.plugins.sparql.sparql import Prologue, Query, Update

from lowtide.quads.sparql.operands import EXISTS, field
from lowtide.quads.sparql.scopes import Scopes
from lowtide.quads.sparql.shapes import Fill, TextShape, shape_of, template_of

KEPT: Final = 512
"""Queries, and updates, that are kept; and shapes of each."""

LONGEST: Final = 50_000
"""Characters of a text that is kept: longer ones are data, which does not come again."""

_PARSING: Final = threading.Lock()
"""Held while a text is parsed: rdflib's grammar keeps notes in itself, so two threads would mix theirs up."""

ParsedT = TypeVar("ParsedT", Query, Update)


class Parsed(Generic[ParsedT]):
    """A parsed query or update, and what is known of its parts. Evaluations share it and do not change it."""

    def __init__(self, tree: ParsedT) -> None:
        self.tree: ParsedT = tree
        self.scopes = Scopes()
        algebra = tree.algebra
        self.clauses: Any = field(algebra, "datasetClause") if isinstance(algebra, CompValue) else None
        """FROM and FROM NAMED of a query."""


class ParsedShape(Generic[ParsedT]):
    """A parsed shape. ``fill`` is None if its algebra has no places."""

    def __init__(self, tree: ParsedT) -> None:
        self._tree: ParsedT = tree
        self._fill: Fill | None = template_of(tree.algebra)

    def filled(self, shape: TextShape) -> ParsedT:
        """The tree of a text of this shape."""
        if self._fill is None:
            return self._tree
        tree: ParsedT = type(self._tree)(self._tree.prologue, self._fill(shape.constants))
        return tree


_Key = tuple[str, Hashable, str | None]
_Entry = TypeVar("_Entry")


class _LastUsed(Generic[_Entry]):
    """The entries that were used last. Used under the lock of its cache."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def get(self, key: Hashable) -> _Entry | None:
        found = self.entries.get(key)
        if found is not None:
            self.entries.move_to_end(key)
        return found

    def put(self, key: Hashable, entry: _Entry) -> None:
        self.entries[key] = entry
        while len(self.entries) > self._size:
            self.entries.popitem(last=False)


class ParseCache(Generic[ParsedT]):
    """The last used parsed texts, by text, base, and what the prefixes stand for that the text uses. Written under its
    lock; a lookup does not wait for a text that is being parsed."""

    def __init__(self, parse: Callable[[str, Mapping[str, Any], str | None], ParsedT], size: int = KEPT) -> None:
        self._parse: Callable[[str, Mapping[str, Any], str | None], ParsedT] = parse
        self._lock = threading.Lock()
        self._kept: _LastUsed[Parsed[ParsedT]] = _LastUsed(size)
        self._templates: _LastUsed[ParsedShape[ParsedT]] = _LastUsed(size)
        self._shapes: _LastUsed[tuple[TextShape | None]] = _LastUsed(size)

    def __len__(self) -> int:
        return len(self._kept.entries)

    def get(self, text: str, namespaces: Mapping[str, Any], base: str | None) -> Parsed[ParsedT]:
        """The parsed text."""
        if len(text) > LONGEST:
            return Parsed(self._parsed(text, dict(namespaces), base))
        with self._lock:
            known = self._shapes.get(text)
        shape = shape_of(text) if known is None else known[0]
        names = dict(namespaces) if shape is None else _some(namespaces, shape.prefixes)
        bound = tuple(sorted((str(name), str(value)) for name, value in names.items()))
        with self._lock:
            if known is None:
                self._shapes.put(text, (shape,))
            found = self._kept.get((text, bound, base))
        if found is None:
            tree = None if shape is None else self._of_shape(shape, names, (shape.text, bound, base))
            found = Parsed(self._parsed(text, names, base) if tree is None else tree)
            with self._lock:
                self._kept.put((text, bound, base), found)
        return found

    def _of_shape(self, shape: TextShape, namespaces: Mapping[str, Any], key: _Key) -> ParsedT | None:
        """The tree of a text by its shape; None if it has to be parsed as it is, to show what is wrong with it."""
        with self._lock:
            template = self._templates.get(key)
        if template is None:
            try:
                template = ParsedShape(self._parsed(shape.text, namespaces, key[2]))
            except Exception:
                return None
            with self._lock:
                self._templates.put(key, template)
        return template.filled(shape)

    def _parsed(self, text: str, namespaces: Mapping[str, Any], base: str | None) -> ParsedT:
        with _PARSING:
            return self._parse(text, namespaces, base)


def _some(namespaces: Mapping[str, Any], prefixes: Iterable[str]) -> dict[str, Any]:
    """What some prefixes stand for, as far as that is given."""
    found = ((prefix, namespaces.get(prefix)) for prefix in prefixes)
    return {prefix: namespace for prefix, namespace in found if namespace is not None}


def _update(text: str, namespaces: Mapping[str, Any], base: str | None) -> Update:
    # rdflib gives a list, and not an Update, for a request without operations.
    tree = parseUpdate(text)
    return translateUpdate(tree, base, namespaces) if tree.request else Update(Prologue(), [])


def _query(text: str, namespaces: Mapping[str, Any], base: str | None) -> Query:
    # rdflib translates EXISTS in FILTER and BIND, and not in SELECT, HAVING and ORDER BY.
    query = prepareQuery(text, namespaces, base)
    traverse(query.algebra, visitPost=_translate_exists)
    return query


def _translate_exists(node: Any) -> None:
    if isinstance(node, CompValue) and node.name in EXISTS and node.graph.part is not None:
        node["graph"] = translateGroupGraphPattern(traverse(node.graph, visitPost=translatePath))


QUERIES: Final = ParseCache[Query](_query)
UPDATES: Final = ParseCache[Update](_update)
_PREPARED: Final[WeakKeyDictionary[Query, Parsed[Query]]] = WeakKeyDictionary()
"""What is known of the queries that callers have parsed, as long as they keep them. A value does not refer to its key.
Filled without a lock of its own: two threads at most find out the same twice."""


def parsed_query(query: str | Query, namespaces: Mapping[str, Any], base: str | None) -> Parsed[Query]:
    """A query, parsed now, before, or by the caller (``rdflib.plugins.sparql.prepareQuery``)."""
    if isinstance(query, str):
        return QUERIES.get(query, namespaces, base)
    found = _PREPARED.get(query)
    if found is None or found.tree.algebra is not query.algebra:
        with _PARSING:  # two threads must not translate at once; what is translated is left as it is
            traverse(query.algebra, visitPost=_translate_exists)
        found = _PREPARED[query] = Parsed(Query(query.prologue, query.algebra))
    return found


def parsed_update(update: str | Update, namespaces: Mapping[str, Any], base: str | None) -> Parsed[Update]:
    """An update, parsed now, before, or by the caller."""
    return UPDATES.get(update, namespaces, base) if isinstance(update, str) else Parsed(update)
