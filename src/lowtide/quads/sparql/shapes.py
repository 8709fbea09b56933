"""The shape of a text: the text with places for its constants, so that texts of one shape are parsed once.

Programs run the same query repeatedly with different IRIs, strings or numbers. rdflib's parser takes milliseconds for
each. Here those constants are taken out of the text, the rest is parsed once, and the constants are put into the parsed
tree. Equal constants share one place, so two texts have the same shape only if the same constants are equal in both.

Everything that affects parsing stays in the shape: prefixes and their expansions, relative IRIs, literals with a
datatype, and numbers that have a sign or follow LIMIT or OFFSET. A text with SERVICE, which is sent unchanged, with
escaped characters, or with triple-quoted strings has no shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Final, NamedTuple

from pyparsing import ParseResults
from rdflib.namespace import XSD
from rdflib.paths import Path
from rdflib.plugins.sparql.parser import PERCENT_re, PN_CHARS_BASE_re, PN_CHARS_re, PN_CHARS_U_re
from rdflib.plugins.sparql.parserutils import CompValue, Expr
from rdflib.term import Literal, URIRef

_IRI: Final = "x-lowtide-place:"
_TEXT: Final = "x-lowtide-place\x1f"
"""Before the number of a place: of an IRI, and of a literal."""
_FIXED: Final = frozenset(("LIMIT", "OFFSET"))
_DECLARING: Final = frozenset(("PREFIX", "BASE"))
_SHAPELESS: Final = ("\\", '"""', "'''", _IRI, "\x1f")
"""A text that has one of these is parsed as it is."""

_TOKEN: Final = re.compile(
    rf"""
    (?P<comment> \#[^\n\r]* )
  | (?P<iri> <[^<>"{{}}|^`\\\x00-\x20]*> )
  | (?P<string> "[^"\n\r]*" | '[^'\n\r]*' )
  | (?P<variable> [?$] [{PN_CHARS_U_re}0-9]+ )
  | (?P<name> (?P<prefix> (?:[{PN_CHARS_BASE_re}](?:[{PN_CHARS_re}.]*[{PN_CHARS_re}])?)? ) :
              (?:(?:[{PN_CHARS_U_re}:0-9]|{PERCENT_re})
                 (?:(?:[{PN_CHARS_re}.:]|{PERCENT_re})*(?:[{PN_CHARS_re}:]|{PERCENT_re}))?)? )
  | (?P<blank> _:[{PN_CHARS_re}.]* )
  | (?P<word> @?[A-Za-z_][A-Za-z0-9_-]* )
  | (?P<number> [+-]? [0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)? )
  | (?P<other> \s+ | \^\^ | . )
    """,
    re.VERBOSE | re.DOTALL,
)

Fill = Callable[[Mapping[str, Any]], Any]
"""Makes a part of a tree, from the constants by the text of their places."""


class TextShape(NamedTuple):
    """A text without its constants. Two texts with equal ``text`` parse alike."""

    text: str
    constants: dict[str, URIRef | Literal]
    """By the text of their places in a tree."""
    prefixes: frozenset[str]
    """The prefixes that the text uses and does not declare before."""


def shape_of(text: str) -> TextShape | None:
    """The shape of a query or an update; None if it has to be parsed as it is."""
    if any(each in text for each in _SHAPELESS):
        return None
    places: dict[str, str] = {}
    constants: dict[str, URIRef | Literal] = {}
    declared: set[str] = set()
    used: set[str] = set()
    parts: list[str] = []
    last = word = ""
    for token in _TOKEN.finditer(text):
        kind, part = token.lastgroup, token.group()
        if kind == "comment":
            part = " "  # a comment may be anything, and means nothing
        elif kind == "iri":
            if word not in _DECLARING and last != "^^" and ":" in part:
                part = _place(part, places, constants)
            word = ""
        elif kind == "string":
            if not text.startswith("^^", token.end()):
                part = _place(part, places, constants)
        elif kind == "number":
            if word not in _FIXED and part.isdigit():
                part = _place(part, places, constants)
            word = ""
        elif kind == "name":
            prefix = token["prefix"]
            if word == "PREFIX":
                declared.add(prefix)
            elif prefix not in declared:
                used.add(prefix)
        elif kind == "word":
            word = part.upper()
            if word == "SERVICE":
                return None
        if not part.isspace():
            last = part
        parts.append(part)
    return TextShape("".join(parts), constants, frozenset(used))


def _place(part: str, places: dict[str, str], constants: dict[str, URIRef | Literal]) -> str:
    """The place of a constant in a text. Strings that differ in their quotes alone are the same constant."""
    if part[0] == "<":
        found = places.get(part)
        if found is None:
            place = f"{_IRI}{len(places)}"
            constants[place] = URIRef(part[1:-1])
            found = places[part] = f"<{place}>"
        return found
    key = part if part.isdigit() else f'"{part[1:-1]}'
    found = places.get(key)
    if found is None:
        place = f"{_TEXT}{len(places)}"
        constants[place] = Literal(part, datatype=XSD.integer) if part.isdigit() else Literal(part[1:-1])
        found = places[key] = f'"{place}"'
    return found


def template_of(tree: Any) -> Fill | None:
    """What makes trees of the same shape from ``tree``, which has places; None if it has none. What is above no place
    is shared by all trees, so it must not be changed."""
    return _Templates().of(tree)


class _Templates:
    """Builds the template of one tree. Parts that are in it twice are made once for each tree."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Fill | None]] = {}

    def of(self, node: Any) -> Fill | None:
        kind = type(node)
        if kind is URIRef:
            return _constant(node) if node.startswith(_IRI) else None
        if kind is Literal:
            return _literal(node) if node.startswith(_TEXT) else None
        if not isinstance(node, dict | list | tuple | ParseResults | Path):
            return None
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = (node, self._of_node(node))
        return known[1]

    def _of_node(self, node: Any) -> Fill | None:
        if isinstance(node, CompValue):
            return self._of_value(node)
        if isinstance(node, dict):
            return self._of_mapping(node)
        if isinstance(node, Path):
            return self._of_object(node)
        fills = [self.of(each) for each in node]
        if not any(fills):
            return None
        parts = list(zip(fills, node, strict=True))
        if isinstance(node, tuple):
            return lambda constants: tuple([each if fill is None else fill(constants) for fill, each in parts])
        return lambda constants: [each if fill is None else fill(constants) for fill, each in parts]

    def _of_mapping(self, node: dict[Any, Any]) -> Fill | None:
        fills = [(self.of(key), key, self.of(value), value) for key, value in node.items()]
        if not any(of_key or of_value for of_key, _, of_value, _ in fills):
            return None

        def fill(constants: Mapping[str, Any]) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for of_key, key, of_value, value in fills:
                key = key if of_key is None else of_key(constants)
                value = value if of_value is None else of_value(constants)
                made[key] = made[key] + value if key in made else value  # a graph that is also named by a prefix
            return made

        return fill

    def _of_attributes(self, node: Any) -> list[tuple[str, Fill]]:
        return [(name, fill) for name, each in vars(node).items() if (fill := self.of(each)) is not None]

    def _of_object(self, node: Any) -> Fill | None:
        attributes = self._of_attributes(node)
        if not attributes:
            return None

        def fill(constants: Mapping[str, Any]) -> Any:
            made = copy(node)
            for name, of_value in attributes:
                setattr(made, name, of_value(constants))
            return made

        return fill

    def _of_value(self, node: CompValue) -> Fill | None:
        """rdflib keeps parts of a node in its items and, besides, in its attributes."""
        fields = [(key, made) for key, each in dict.items(node) if (made := self.of(each)) is not None]
        attributes = self._of_attributes(node)
        if not fields and not attributes:
            return None
        items = dict(dict.items(node))
        others = dict(vars(node))
        method = others.pop("_evalfn", None)  # of the node that it evaluates
        evaluates, is_expression, name = getattr(method, "__func__", None), isinstance(node, Expr), node.name

        def fill(constants: Mapping[str, Any]) -> CompValue:
            made: CompValue = Expr(name, evaluates) if is_expression else CompValue(name)
            made.update(items)
            for key, of_value in fields:
                made[key] = of_value(constants)
            vars(made).update(others)
            for key, of_value in attributes:
                setattr(made, key, of_value(constants))
            return made

        return fill


def _constant(place: str) -> Fill:
    key = str(place)
    return lambda constants: constants[key]


def _literal(node: Literal) -> Fill:
    key, language = str(node), node.language
    if language is None:
        return lambda constants: constants[key]
    return lambda constants: Literal(str(constants[key]), lang=language)
