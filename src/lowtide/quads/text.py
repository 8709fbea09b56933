"""The text of terms and statements: N-Triples and N-Quads, one statement to a line.

Every rdflib term comes back from its text as the same term, with its lexical form unchanged. A blank node whose label
N-Triples does not allow gets one that it does: ``lowtide-`` and the label's UTF-8 in hexadecimal. The variables and
formulas of N3 have a text of their own, ``?name`` and ``{name}``, which no format of RDF reads.
"""

from __future__ import annotations

import re
from typing import Final

from rdflib.term import BNode, Identifier, Literal, URIRef, Variable

from lowtide.errors import UsageError, shown
from lowtide.quads.ids import FormulaName, Term, utf8

_LABEL: Final = re.compile(r"(?!lowtide-)[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?\Z", re.ASCII).match
_ODD: Final = "lowtide-"
_IN_IRI: Final = re.compile(r'[\x00-\x20\x7f-\xa0<>"{}|^`\\\s]')
"""What an IRI must not have, and other spaces, which some parsers do not accept."""
_IN_TEXT: Final = re.compile(r'[\x00-\x1f"\\\x7f-\x9f\u2028\u2029\ud800-\udfff]')
"""What a literal must not have, and what some parsers take for the end of a line."""
_SHORT: Final = {"\t": "\\t", "\b": "\\b", "\n": "\\n", "\r": "\\r", "\f": "\\f", '"': '\\"', "\\": "\\\\"}
_LONG: Final = {short: char for char, short in _SHORT.items()} | {"\\'": "'"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|.)")
_LITERAL: Final = re.compile(
    r'"(?P<text>(?:[^"\\]|\\.)*)"(?:@(?P<language>[A-Za-z][A-Za-z0-9-]*)|\^\^<(?P<datatype>[^<>"{}|^`\x00-\x20]*)>)?\Z',
    re.DOTALL,
).match
_IRI: Final = re.compile(r'<(?P<iri>[^<>"{}|^`\x00-\x20]*)>\Z').match
_BLANK: Final = re.compile(r"_:(?P<label>\S+)\Z").match


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    return _SHORT.get(char) or f"\\u{ord(char):04X}"


def _escaped_in_iri(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04X}"


def iri_text(iri: str) -> str:
    """An IRI in angle brackets.

    >>> iri_text("urn:a b")
    '<urn:a\\\\u0020b>'
    """
    return f"<{_IN_IRI.sub(_escaped_in_iri, iri)}>"


def blank_text(label: str) -> str:
    """A blank node by its label.

    >>> blank_text("b1"), blank_text("b 1")
    ('_:b1', '_:lowtide-622031')
    """
    return f"_:{label}" if _LABEL(label) else f"_:{_ODD}{utf8(label).hex()}"


def literal_text(text: str, datatype: str | None, language: str | None) -> str:
    """A literal, with its datatype or language.

    >>> literal_text('say "hi"', None, "en")
    '"say \\\\"hi\\\\""@en'
    """
    quoted = f'"{_IN_TEXT.sub(_escaped, text)}"'
    if language is not None:
        return f"{quoted}@{language}"
    return quoted if datatype is None else f"{quoted}^^{iri_text(datatype)}"


def term_text(term: Identifier) -> str:
    """Return the text of a term.

    >>> term_text(Literal("01", datatype=URIRef("urn:number")))
    '"01"^^<urn:number>'
    """
    if isinstance(term, Literal):
        return literal_text(str(term), term.datatype, term.language)
    if isinstance(term, URIRef):
        return iri_text(str(term))
    if isinstance(term, BNode):
        return blank_text(str(term))
    return f"?{term}" if isinstance(term, Variable) else f"{{{term}}}"


def quad_line(s: Identifier, p: Identifier, o: Identifier, g: Identifier | None = None) -> str:
    """Return the line of a statement, without its end; of N-Triples if it has no graph."""
    graph = "" if g is None else f" {term_text(g)}"
    return f"{term_text(s)} {term_text(p)} {term_text(o)}{graph} ."


def term_of_text(text: str) -> Term:
    """Return the term of a text that ``term_text`` or another writer of N-Triples made.

    >>> term_of_text("<urn:ann>"), term_of_text('"Ann"@en')
    (rdflib.term.URIRef('urn:ann'), rdflib.term.Literal('Ann', lang='en'))
    """
    if (found := _IRI(text)) is not None:
        return URIRef(_unescaped(found["iri"]))
    if (found := _BLANK(text)) is not None:
        return BNode(_label_of(found["label"]))
    if (found := _LITERAL(text)) is not None:
        content, language, datatype = _unescaped(found["text"]), found["language"], found["datatype"]
        if language is not None:
            return Literal(content, lang=language)
        if datatype is None:
            return Literal(content)
        return Literal(content, datatype=URIRef(_unescaped(datatype)), normalize=False)
    if text.startswith("?") and len(text) > 1:
        return Variable(text[1:])
    if text.startswith("{") and text.endswith("}"):
        return FormulaName(text[1:-1])
    raise UsageError(
        f'{shown(text)} is not a term of N-Triples, such as <http://example.org/ann>, _:b1, "Ann"@en or '
        '"42"^^<http://www.w3.org/2001/XMLSchema#integer>'
    )


def _label_of(written: str) -> str:
    if written.startswith(_ODD):
        try:
            return bytes.fromhex(written.removeprefix(_ODD)).decode(errors="surrogatepass")
        except ValueError:
            pass  # a label that was not made here
    return written


def _unescaped(text: str) -> str:
    return text if "\\" not in text else _ESCAPE.sub(_char_of, text)


def _char_of(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    if code is not None:
        try:
            return chr(int(code, 16))
        except (ValueError, OverflowError) as error:
            raise UsageError(f"there is no character {found[0]}") from error
    if found[0] not in _LONG:
        raise UsageError(f"N-Triples has no escape {found[0]}")
    return _LONG[found[0]]
