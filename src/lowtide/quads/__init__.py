"""RDF statements as a kind of data: quads of rdflib's terms, with an id for each term and four indexes of ids.

``tx.quads(name)``, ``store.quads(name)`` and ``snapshot.quads(name)`` open a quad store. Its public face is here. It is
imported when it is first used, and rdflib and numpy with it (extra ``rdf``).
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from lowtide.quads.ids import DEFAULT, FormulaName
    from lowtide.quads.quads import Quads
    from lowtide.quads.read_quads import ReadQuads
    from lowtide.quads.reading import IdReader

__all__ = ["DEFAULT", "FormulaName", "IdReader", "Quads", "ReadQuads"]

_HOME_OF = {
    "DEFAULT": "ids",
    "FormulaName": "ids",
    "IdReader": "reading",
    "Quads": "quads",
    "ReadQuads": "read_quads",
}


def __getattr__(name: str) -> typing.Any:
    """Import a public name when it is first used."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"lowtide.quads.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
