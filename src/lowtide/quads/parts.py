"""Terms in parts, for columns: the text, the kind, and of a literal its datatype or language.

Spark and the archive read millions of terms. They are taken apart here from their ids and rows, without making terms of
rdflib, and put together again when they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rdflib.term import BNode, Identifier, Literal, URIRef, Variable

from lowtide.errors import UsageError, shown
from lowtide.quads.ids import FormulaName, IdKind, Term, inline_term
from lowtide.quads.text import blank_text, iri_text, literal_text, term_of_text

IRI: Final = "iri"
BLANK: Final = "blank"
LITERAL: Final = "literal"
VARIABLE: Final = "variable"
FORMULA: Final = "formula"
KINDS: Final = (IRI, BLANK, LITERAL, VARIABLE, FORMULA)
"""The kinds of terms. The last two are in formulas of N3 alone."""


class TermParts(NamedTuple):
    """A term in parts. A plain literal has neither a datatype nor a language."""

    text: str
    kind: str
    datatype: str | None = None
    language: str | None = None


def parts_of_row(id: bytes, row: bytes | None) -> TermParts:
    """Take a term apart by its id, and its row in the dictionary if it needs one."""
    kind = id[0] >> 4
    if row is None:
        return parts_of(inline_term(id))
    if kind == IdKind.LITERAL:
        end = 4 + int.from_bytes(row[:4], "big")
        return TermParts(_text(row[end:]), LITERAL, _text(row[4:end]))
    text = _text(row)
    if kind == IdKind.IRI:
        return TermParts(text, IRI)
    if kind == IdKind.BNODE:
        return TermParts(text, BLANK)
    if kind == IdKind.TEXT:
        return TermParts(text, LITERAL)
    if kind == IdKind.LANGUAGE_TEXT:
        language, _, content = text.partition("\x00")
        return TermParts(content, LITERAL, None, language)
    return TermParts(text, VARIABLE if kind == IdKind.VARIABLE else FORMULA)


def _text(row: bytes) -> str:
    """The text of a row, for columns, which are UTF-8: half of a surrogate pair is replaced there."""
    return row.decode(errors="replace")


def parts_of(term: Identifier) -> TermParts:
    """Take a term of rdflib apart."""
    if isinstance(term, Literal):
        datatype = None if term.datatype is None else str(term.datatype)
        return TermParts(str(term), LITERAL, datatype, term.language)
    if isinstance(term, URIRef):
        return TermParts(str(term), IRI)
    if isinstance(term, BNode):
        return TermParts(str(term), BLANK)
    return TermParts(str(term), VARIABLE if isinstance(term, Variable) else FORMULA)


def term_of_parts(parts: Sequence[str | None]) -> Term:
    """Put a term together. Raises UsageError if there is none of these parts."""
    text, kind, datatype, language = parts
    if text is None:
        raise UsageError("a term has no text")
    if kind == LITERAL:
        if language is not None:
            return Literal(text, lang=language)
        if datatype is None:
            return Literal(text)
        return Literal(text, datatype=URIRef(datatype), normalize=False)
    if datatype is not None or language is not None:
        raise UsageError(f"only a literal has a datatype or a language, and {shown(text)} is of kind {kind}")
    if kind == IRI:
        return URIRef(text)
    if kind == BLANK:
        return BNode(text)
    if kind == VARIABLE:
        return Variable(text)
    if kind == FORMULA:
        return FormulaName(text)
    raise UsageError(f"the kind of the term {shown(text)} is {', '.join(KINDS)}, not {kind!r}")


def parts_text(parts: TermParts) -> str:
    """The text of a term in parts, as ``text.term_text`` has it."""
    text, kind, datatype, language = parts
    if kind == LITERAL:
        return literal_text(text, datatype, language)
    if kind == IRI:
        return iri_text(text)
    if kind == BLANK:
        return blank_text(text)
    return f"?{text}" if kind == VARIABLE else f"{{{text}}}"


def flat(parts: TermParts) -> TermParts:
    """A term where a column has no room for a datatype and a language: of a literal, the text of N-Triples."""
    return TermParts(parts_text(parts), LITERAL) if parts.kind == LITERAL else parts


def term_of_flat(text: str, kind: str) -> Term:
    """Put a term together that ``flat`` has made."""
    return term_of_text(text) if kind == LITERAL else term_of_parts((text, kind, None, None))
