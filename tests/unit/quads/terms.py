"""Terms and statements for tests."""

from __future__ import annotations

from rdflib import Literal, URIRef

ANN, BOB, CYD, KNOWS, AGE, LIKES, G, H = (
    URIRef(f"urn:{name}") for name in ("ann", "bob", "cyd", "knows", "age", "likes", "g", "h")
)
LONG = Literal("a text that is too long for an id")
