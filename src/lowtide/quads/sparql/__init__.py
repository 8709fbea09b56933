"""SPARQL 1.1 over quads: queries and updates are parsed by rdflib and evaluated over ids.

Solutions are tables of ids (``tables``), patterns are joined in the order of their selectivity (``bgp``), and terms are
decoded last. Expressions are rdflib's own (``expressions``).
"""

from __future__ import annotations

from lowtide.quads.sparql.parsing import parsed_query
from lowtide.quads.sparql.querying import Explanation, explain, query
from lowtide.quads.sparql.updating import UpdateReport, update

__all__ = ["Explanation", "UpdateReport", "explain", "parsed_query", "query", "update"]
