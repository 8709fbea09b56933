"""Between what rdflib calls a context and what a quad store calls a graph.

A context of rdflib is a Graph that knows its store. A quad store has names of graphs: IRIs and blank nodes, the default
graph, which has no name, and the names of formulas, which are not asserted. Formulas are also terms of statements:
rdflib has a ``QuotedGraph`` there, which belongs to a store, and a quad store has a ``FormulaName``.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from rdflib.graph import Graph, QuotedGraph
from rdflib.store import Store
from rdflib.term import BNode, IdentifiedNode, Identifier, Literal, Node, URIRef

from lowtide.errors import UsageError
from lowtide.quads.ids import DEFAULT, DefaultGraph, FormulaName

_BLANK: Final = "_:"
PLAIN: Final = frozenset((URIRef, BNode, Literal))
"""The nodes that are stored as they are, and nearly all of them."""


def formula_name(identifier: Identifier) -> FormulaName:
    """The name under which a quad store keeps the formula ``identifier``."""
    return FormulaName(_BLANK + identifier if isinstance(identifier, BNode) else str(identifier))


def formula_identifier(name: FormulaName) -> IdentifiedNode:
    """The identifier of a formula, back from its name."""
    text = str(name)
    return BNode(text[len(_BLANK) :]) if text.startswith(_BLANK) else URIRef(text)


def graph_name(context: object, defaults: Set[Node]) -> Identifier | DefaultGraph:
    """The graph that a context means: DEFAULT for one of ``defaults``, the identifiers of the default graph."""
    identifier = context.identifier if isinstance(context, Graph) else context
    if isinstance(context, QuotedGraph):
        return formula_name(context.identifier)
    if identifier in defaults:
        return DEFAULT
    if isinstance(identifier, Identifier):
        return identifier
    raise UsageError(f"a context is a graph or its identifier, not {type(context).__name__}: {context!r}")


def context_of(store: Store, name: Identifier | None, default: IdentifiedNode) -> Graph:
    """The graph of ``store`` that has this name; ``default`` is the identifier of the default graph."""
    if name is None:
        return Graph(store, default)
    if isinstance(name, FormulaName):
        return QuotedGraph(store, formula_identifier(name))
    return Graph(store, name)


def term_of(node: Node) -> Identifier:
    """The term that is stored for a node: for a graph, the name of a formula; otherwise the node itself."""
    if isinstance(node, Graph):
        return formula_name(node.identifier)
    return node  # type: ignore[return-value]  # other nodes are refused when they are stored


def node_of(store: Store, term: Identifier) -> Node:
    """The node that users see for a stored term."""
    return QuotedGraph(store, formula_identifier(term)) if isinstance(term, FormulaName) else term
