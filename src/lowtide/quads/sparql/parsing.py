"""Parsed queries and updates, kept for the next time. Parsing costs milliseconds, most queries less."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Generic, TypeVar

from rdflib.plugins.sparql.algebra import translateGroupGraphPattern, translatePath, translateUpdate, traverse
from rdflib.plugins.sparql.parser import parseUpdate
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.processor import prepareQuery
from rdflib.plugins.sparql.sparql import Prologue, Query, Update

from lowtide.quads.sparql.operands import EXISTS
from lowtide.quads.sparql.scopes import Scopes

KEPT: Final = 512
"""Queries, and updates, that are kept."""

_PARSING: Final = threading.Lock()
"""Held while a text is parsed: rdflib's grammar keeps notes in itself, so two threads would mix theirs up."""

ParsedT = TypeVar("ParsedT", Query, Update)


class Parsed(Generic[ParsedT]):
    """A parsed query or update, and what is known of its parts. Evaluations share it and do not change it."""

    def __init__(self, tree: ParsedT) -> None:
        self.tree: ParsedT = tree
        self.scopes = Scopes()


class ParseCache(Generic[ParsedT]):
    """The last used parsed texts, by text, namespaces and base. Written under its lock; a lookup does not wait for
    a text that is being parsed."""

    def __init__(self, parse: Callable[[str, Mapping[str, Any], str | None], ParsedT], size: int = KEPT) -> None:
        self._parse: Callable[[str, Mapping[str, Any], str | None], ParsedT] = parse
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Parsed[ParsedT]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, text: str, namespaces: Mapping[str, Any], base: str | None) -> Parsed[ParsedT]:
        """The parsed text."""
        key = (text, tuple(sorted((str(name), str(value)) for name, value in namespaces.items())), base)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        with _PARSING:
            found = Parsed(self._parse(text, namespaces, base))
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return found


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


def parsed_query(query: str | Query, namespaces: Mapping[str, Any], base: str | None) -> Parsed[Query]:
    """A query, parsed now, before, or by the caller (``rdflib.plugins.sparql.prepareQuery``)."""
    return QUERIES.get(query, namespaces, base) if isinstance(query, str) else Parsed(query)


def parsed_update(update: str | Update, namespaces: Mapping[str, Any], base: str | None) -> Parsed[Update]:
    """An update, parsed now, before, or by the caller."""
    return UPDATES.get(update, namespaces, base) if isinstance(update, str) else Parsed(update)
