"""Ids of RDF terms: 8 bytes, big endian, that are a function of the term.

The first four bits are the kind of the term, the other 60 either its value or a hash of it:

* An *inlined* id holds the whole term, so the term has no row in the dictionary: small integers, booleans, dates and
  times in canonical form, and plain strings of at most 7 bytes of UTF-8. Within a kind, ids sort as the values do.
* A *hashed* id is a hash of the kind and the term's row. The dictionary keeps the row. Two terms may have the same
  hash: then the second one to be added has its next ``candidate``, see ``dictionary``.

So two transactions that add the same new term write the same row under the same id, and no counter is shared. As bytes,
ids are parts of keys; as numbers, they are columns of numpy. Both sort alike.

A plain literal and one with the datatype ``xsd:string`` are two terms here, as they are in rdflib. Language tags are
compared in lower case, as rdflib compares them, and kept so.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rdflib import XSD, BNode, Literal, URIRef
from rdflib.term import Identifier, Variable

from lowtide.errors import UsageError
from lowtide.quads.hashing import DEFAULT_GRAPH as DEFAULT_GRAPH
from lowtide.quads.hashing import HASHED, ID_BYTES, candidate
from lowtide.quads.hashing import IdKind as IdKind

Term: TypeAlias = Identifier
"""A term of rdflib: URIRef, BNode, Literal, and in formulas Variable and FormulaName."""

Ids: TypeAlias = NDArray[np.uint64]
Mask: TypeAlias = NDArray[np.bool_]


class DefaultGraph(enum.Enum):
    """The default graph, in patterns: there, None is any graph."""

    DEFAULT = "default graph"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = DefaultGraph.DEFAULT


class FormulaName(Identifier):
    """The name of a formula of N3, in the place of rdflib's ``QuotedGraph``, which belongs to a store: ``_:`` and a
    blank node's label, or an IRI."""

    __slots__ = ()

    def n3(self, namespace_manager: object = None) -> str:
        """The name, in braces: what the formula says is not known here."""
        return f"{{{self}}}"


class EncodedTerm(NamedTuple):
    """A term's id, and its row in the dictionary; None if the id holds the term. With a row, the id is the first of the
    term's candidates."""

    id: bytes
    row: bytes | None


_PAYLOAD: Final = 60
_MASK: Final = (1 << _PAYLOAD) - 1
_OFFSET: Final = 1 << 59
_SHORTEST_HASHED: Final = 8
_INTEGER: Final = re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z", re.ASCII).match
_XSD_INTEGER, _XSD_BOOLEAN, _XSD_DATE, _XSD_DATETIME = (
    str(each) for each in (XSD.integer, XSD.boolean, XSD.date, XSD.dateTime)
)
_ZERO: Final = datetime(1, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)


def _hashed(kind: int, row: bytes) -> EncodedTerm:
    return EncodedTerm(candidate(kind, row, 0), row)


def _inlined(kind: int, payload: int) -> EncodedTerm:
    return EncodedTerm((kind << _PAYLOAD | payload).to_bytes(ID_BYTES, "big"), None)


def utf8(text: str) -> bytes:
    """The text as bytes, whatever it holds: a string of Python may have half a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")


def _text(encoded: bytes) -> str:
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        return encoded.decode(errors="surrogatepass")


def encode(term: object) -> EncodedTerm:
    """Return the id of a term, and its row if it needs one. An id with a row is the term's unless another term has
    taken it; see ``candidate``."""
    kind = type(term)
    if kind is URIRef:
        return _hashed(IdKind.IRI, utf8(str(term)))
    if kind is Literal or isinstance(term, Literal):
        return _encode_literal(term)  # type: ignore[arg-type]
    if isinstance(term, URIRef):
        return _hashed(IdKind.IRI, utf8(str(term)))
    if isinstance(term, BNode):
        return _hashed(IdKind.BNODE, utf8(str(term)))
    if isinstance(term, Variable):
        return _hashed(IdKind.VARIABLE, utf8(str(term)))
    if isinstance(term, FormulaName):
        return _hashed(IdKind.FORMULA, utf8(str(term)))
    raise UsageError(f"a term is a URIRef, BNode or Literal of rdflib, not {type(term).__name__}: {term!r}")


def _encode_literal(term: Literal) -> EncodedTerm:
    text, language, datatype = str(term), term.language, term.datatype
    if language is not None:
        return _hashed(IdKind.LANGUAGE_TEXT, utf8(f"{language.lower()}\x00{text}"))
    if datatype is None:
        return encode_text(text)
    name = str(datatype)
    if (inline := _INLINING.get(name)) is not None and (found := inline(text)) is not None:
        return found
    prefix = utf8(name)
    return _hashed(IdKind.LITERAL, len(prefix).to_bytes(4, "big") + prefix + utf8(text))


def encode_text(text: str) -> EncodedTerm:
    """As ``encode``, of a plain literal."""
    encoded = utf8(text)
    if len(encoded) < _SHORTEST_HASHED and b"\x00" not in encoded:
        return EncodedTerm(b"\xb0" + encoded.ljust(7, b"\x00"), None)
    return _hashed(IdKind.TEXT, encoded)


def inline_integer(text: str) -> EncodedTerm | None:
    """As ``encode``, of an integer in canonical form; None if it is in another one, or too large for an id."""
    if _INTEGER(text) is None or not -_OFFSET <= (value := int(text)) < _OFFSET:
        return None
    return _inlined(IdKind.INTEGER, value + _OFFSET)


def _inline_boolean(text: str) -> EncodedTerm | None:
    return _inlined(IdKind.BOOLEAN, int(text == "true")) if text in ("true", "false") else None


def _inline_date(text: str) -> EncodedTerm | None:
    try:
        value = date.fromisoformat(text)
    except ValueError:
        return None
    return _inlined(IdKind.DATE, value.toordinal()) if value.isoformat() == text else None


def _inline_datetime(text: str) -> EncodedTerm | None:
    plain, spelled = text, 0
    if text.endswith("Z"):
        plain, spelled = text[:-1], 1
    elif text.endswith("+00:00"):
        plain, spelled = text[:-6], 2
    try:
        value = datetime.fromisoformat(plain)
    except ValueError:
        return None
    if value.tzinfo is not None or value.isoformat() != plain:
        return None
    ticks = (value - _ZERO) // _MICROSECOND
    if not spelled:
        return _inlined(IdKind.DATETIME, ticks)
    return _inlined(IdKind.DATETIME_UTC, ticks << 1 | spelled - 1)


_INLINING: Final[dict[str, Callable[[str], EncodedTerm | None]]] = {
    _XSD_INTEGER: inline_integer,
    _XSD_BOOLEAN: _inline_boolean,
    _XSD_DATE: _inline_date,
    _XSD_DATETIME: _inline_datetime,
}


def kind_of(id: bytes) -> IdKind:
    """Return what an id stands for."""
    return IdKind(id[0] >> 4)


def needs_row(id: bytes) -> bool:
    """Whether the dictionary has the term of an id."""
    return id[0] >> 4 in HASHED


def inline_value(id: bytes) -> int | bool | str | date | datetime:
    """Return the value that an inlined id holds, as a value of Python. Times of ``DATETIME_UTC`` come without their
    time zone."""
    payload = int.from_bytes(id, "big") & _MASK
    match id[0] >> 4:
        case IdKind.INTEGER:
            return payload - _OFFSET
        case IdKind.BOOLEAN:
            return bool(payload)
        case IdKind.DATE:
            return date.fromordinal(payload)
        case IdKind.DATETIME:
            return _ZERO + timedelta(microseconds=payload)
        case IdKind.DATETIME_UTC:
            return _ZERO + timedelta(microseconds=payload >> 1)
        case IdKind.SHORT_TEXT:
            return _text(id[1:].rstrip(b"\x00"))
    raise ValueError(f"the id {id.hex()} holds no value")


def inline_term(id: bytes) -> Literal:
    """Return the term that an inlined id holds."""
    kind = id[0] >> 4
    value = inline_value(id)
    if kind == IdKind.SHORT_TEXT:
        return Literal(str(value))
    if kind == IdKind.INTEGER:
        return Literal(str(value), datatype=XSD.integer, normalize=False)
    if kind == IdKind.BOOLEAN:
        return Literal("true" if value else "false", datatype=XSD.boolean, normalize=False)
    if kind == IdKind.DATE:
        return Literal(_iso(value), datatype=XSD.date, normalize=False)
    ending = "" if kind == IdKind.DATETIME else "+00:00" if id[-1] & 1 else "Z"
    return Literal(_iso(value) + ending, datatype=XSD.dateTime, normalize=False)


def _iso(value: Any) -> str:
    return str(value.isoformat())


def decode_row(kind: int, row: bytes) -> Term:
    """Return the term that a row of the dictionary holds."""
    if kind == IdKind.IRI:
        return str.__new__(URIRef, _text(row))
    if kind == IdKind.TEXT:
        return Literal(_text(row))
    if kind == IdKind.BNODE:
        return str.__new__(BNode, _text(row))
    if kind == IdKind.LANGUAGE_TEXT:
        language, _, text = _text(row).partition("\x00")
        return Literal(text, lang=language)
    if kind == IdKind.LITERAL:
        end = 4 + int.from_bytes(row[:4], "big")
        return Literal(_text(row[end:]), datatype=URIRef(_text(row[4:end])), normalize=False)
    if kind == IdKind.VARIABLE:
        return Variable(_text(row))
    if kind == IdKind.FORMULA:
        return FormulaName(_text(row))
    raise ValueError(f"the dictionary has no rows of kind {kind}")


# Columns of ids


def column(ids: list[bytes]) -> Ids:
    """Return ids as numbers."""
    return np.frombuffer(b"".join(ids), dtype=">u8").astype(np.uint64)


def id_bytes(number: int | np.uint64) -> bytes:
    """Return the id of a number."""
    return int(number).to_bytes(ID_BYTES, "big")


def kinds(ids: Ids) -> Ids:
    """Return the kinds of ids, as numbers of ``IdKind``."""
    return ids >> np.uint64(_PAYLOAD)


def is_iri(ids: Ids) -> Mask:
    """Which ids are IRIs."""
    found: Mask = kinds(ids) == IdKind.IRI
    return found


def is_bnode(ids: Ids) -> Mask:
    """Which ids are blank nodes."""
    found: Mask = kinds(ids) == IdKind.BNODE
    return found


def is_literal(ids: Ids) -> Mask:
    """Which ids are literals."""
    found = kinds(ids)
    return (found >= IdKind.LITERAL) & (found <= IdKind.SHORT_TEXT)


def is_integer(ids: Ids) -> Mask:
    """Which ids are inlined integers. Others may be integers, too, as ``LITERAL``: large ones, or "01"."""
    found: Mask = kinds(ids) == IdKind.INTEGER
    return found


def integers(ids: Ids) -> NDArray[np.int64]:
    """Return the values of inlined integers."""
    return (ids & np.uint64(_MASK)).astype(np.int64) - np.int64(_OFFSET)


def integer_ids(values: NDArray[np.int64]) -> Ids | None:
    """Return the inlined ids of integers; None if one is too large for that."""
    if len(values) and (values.min() < -_OFFSET or values.max() >= _OFFSET):
        return None
    return (values + np.int64(_OFFSET)).astype(np.uint64) | np.uint64(IdKind.INTEGER << _PAYLOAD)
