"""LOAD: statements of a document, by rdflib's parsers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rdflib.graph import Graph
from rdflib.term import Identifier

FORMATS = ("turtle", "xml", "nt")
"""What is tried, in this order, if the document does not say what it is."""


def loaded(source: Identifier) -> Iterable[Any]:
    """The triples of a document. Its blank nodes are new."""
    try:
        return Graph().parse(str(source))
    except Exception as error:
        for form in FORMATS:
            try:
                return Graph().parse(str(source), format=form)
            except Exception:
                continue
        raise error
