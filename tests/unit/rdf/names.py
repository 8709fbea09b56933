"""A few terms that the tests share."""

from __future__ import annotations

from rdflib import Literal, Namespace

EX = Namespace("http://example.org/")
A, B, C, D = EX.a, EX.b, EX.c, EX.d
KNOWS, AGE = EX.knows, EX.age
ONE, TWO = Literal(1), Literal(2)
