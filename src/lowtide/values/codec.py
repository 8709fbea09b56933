"""Encodes documents as MessagePack, with extensions for the types that it lacks.

=========  ====================================================================
extension  what it holds
=========  ====================================================================
-1         a datetime in UTC, MessagePack's own timestamp
1          an integer beyond 64 bits: big endian, signed
2          a Decimal, as text
3          a UUID: its sixteen bytes
4          a datetime without a time zone: microseconds since 1970, eight bytes
5          a datetime with an offset other than UTC: microseconds since 1970 in
           local time, and the offset in microseconds, eight bytes each
=========  ====================================================================

A decoded value equals the encoded one and has the same type, with three exceptions: a time zone is decoded as its
offset, a tuple as a list, and an instance of a subclass as the base type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta, timezone
from decimal import Decimal
from itertools import chain
from operator import ne
from typing import Any, Final
from uuid import UUID

import msgspec

from lowtide.errors import InvalidDocument
from lowtide.values.cleaning import (
    EPOCH,
    SIMPLE,
    check_names,
    clean_object,
    clean_value,
    described,
    eight,
    find_surrogate,
    sixteen,
)
from lowtide.values.values import Document

MAX_DOCUMENT: Final = 16 << 20
"""Maximum size of an encoded document in bytes."""

_WHOLE: Final = SIMPLE | {int}
_FLAT: Final = _WHOLE | {float}
"""Types that MessagePack encodes as they are, unless a float is NaN or an int has more than 64 bits."""
_PLAIN: Final = _FLAT | {dict, list}
_JSON: Final = _PLAIN - {bytes}
_PLAIN_DEPTH: Final = 8
_MOST_PLAIN: Final = 1 << 20
"""Maximum number of values that are checked together: a document that contains itself must not be followed forever."""
_NAMES: Final = frozenset((str,))
_MARKED: Final = re.compile(rb"(?:[\xa1-\xbf]|\xd9.|\xda..)\$", re.DOTALL)
"""Matches where a string may begin with $: a MessagePack string header followed by $."""
_encode: Final = msgspec.msgpack.Encoder().encode


def _json_type(depth: int) -> Any:
    """The type of JSON values with at most this nesting depth. msgspec has no recursive types."""
    scalar = None | bool | int | float | str
    return scalar | list[_json_type(depth - 1)] | dict[str, _json_type(depth - 1)] if depth else scalar  # type: ignore[misc]


_decode_json: Final = msgspec.msgpack.Decoder(dict[str, _json_type(6)]).decode  # type: ignore[misc]
"""Decodes a document that consists of JSON values; raises for others."""


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Encode a document. Raises InvalidDocument, with the path, if a value cannot be stored.

    >>> decode_document(encode_document({"_id": 1, "price": Decimal("9.90")}))
    {'_id': 1, 'price': Decimal('9.90')}
    """
    if type(document) is dict:
        plain = document
    elif isinstance(document, Mapping):
        plain = dict(document)
    else:
        raise InvalidDocument("", f"a document is a dict, not {described(document)}")
    if _is_flat(plain.values()) and _NAMES.issuperset(map(type, plain)):
        try:
            encoded = _encode(plain)
        except (UnicodeEncodeError, OverflowError):
            pass
        else:
            if b"$" not in encoded and len(encoded) <= MAX_DOCUMENT:
                return encoded
    return encode_nested(plain)


def encode_changed(document: dict[str, Any]) -> bytes:
    """The same as ``encode_document``, for a stored document that got other values in top-level fields with valid
    names. Only its values are checked."""
    return encode_flat(document) or encode_nested(document)


def encode_flat(document: dict[str, Any]) -> bytes | None:
    """The same as ``encode_changed`` if all values are plain, neither objects nor arrays; else None."""
    values = document.values()
    if _WHOLE.issuperset(map(type, values)) or (
        _FLAT.issuperset(map(type, values)) and not any(map(ne, values, values))
    ):  # as in ``_is_flat``, without a call
        try:
            encoded = _encode(document)
        except (UnicodeEncodeError, OverflowError):
            return None
        if len(encoded) <= MAX_DOCUMENT:
            return encoded
    return None


def encode_plain(documents: Sequence[dict[str, Any]], *, checked: bool = False) -> list[bytes] | None:
    """Encode many documents, which are checked together unless they are ``checked`` already. None if one of them cannot
    be stored, or has other values than strings, numbers, booleans, bytes, None, and objects and arrays of these. The
    caller must then encode them one by one."""
    if not checked and not _are_plain(documents):
        return None
    try:
        encoded = list(map(_encode, documents))
    except (UnicodeEncodeError, OverflowError, TypeError):  # TypeError: a name that equals a string, but is none
        return None
    return encoded if max(map(len, encoded), default=0) <= MAX_DOCUMENT else None


def _are_plain(documents: Sequence[dict[str, Any]]) -> bool:
    """Whether documents have only plain values and valid names."""
    kinds = set(map(type, chain.from_iterable(map(dict.values, documents))))
    levels = [documents] if kinds <= _WHOLE else _levels(documents)
    if levels is None:
        return False
    names = set(chain.from_iterable(chain.from_iterable(levels)))
    # A name of a subclass of str is encoded as its text. So it does not matter if it is missed here because it equals
    # another name.
    return _NAMES.issuperset(map(type, names)) and not any(name.startswith("$") for name in names)


def _levels(documents: Sequence[dict[str, Any]]) -> list[Sequence[dict[str, Any]]] | None:
    """Return the documents, the objects in them, the objects in these, and so on. None if one of them has values other
    than plain values, objects and arrays."""
    levels: list[Sequence[dict[str, Any]]] = []
    objects: Sequence[dict[str, Any]] = documents
    arrays: Sequence[list[Any]] = ()
    for _ in range(_PLAIN_DEPTH):
        if sum(map(len, objects)) + sum(map(len, arrays)) > _MOST_PLAIN:
            return None
        values = list(chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(arrays)))
        kinds = set(map(type, values))
        if not kinds <= _PLAIN:
            return None
        if float in kinds and any(map(ne, values, values)):  # NaN; arrays are searched on the next level
            return None
        levels.append(objects)
        objects = [each for each in values if type(each) is dict] if dict in kinds else ()
        arrays = [each for each in values if type(each) is list] if list in kinds else ()
        if not objects and not arrays:
            return levels
    return None


def _is_flat(values: Collection[Any]) -> bool:
    """Whether MessagePack encodes the values as they are, unless one is too large."""
    if _WHOLE.issuperset(map(type, values)):
        return True
    return _FLAT.issuperset(map(type, values)) and not any(map(ne, values, values))


def encode_nested(plain: dict[Any, Any]) -> bytes:
    """The same as ``encode_document``, for a dict that may contain objects or arrays. A document of JSON values is
    encoded as a whole, then decoded and compared. That is several times as fast as checking each value. msgspec encodes
    other types too, but not as they are stored here. The comparison finds them: they are not decoded as JSON values
    with strings as names, or not equal."""
    if _JSON.issuperset(map(type, plain.values())):
        try:
            encoded = _encode(plain)
            if (
                _decode_json(encoded) == plain
                and len(encoded) <= MAX_DOCUMENT
                and not (b"$" in encoded and _MARKED.search(encoded))
            ):
                return encoded
        except Exception:  # raised by msgspec, or by the comparison of a value; the next line reports what it is
            pass
    return _encode_checked(plain)


def _encode_checked(plain: dict[Any, Any]) -> bytes:
    """Encode any document, value by value."""
    cleaned = clean_object(plain, "", 1)
    try:
        encoded = _encode(cleaned)
    except (UnicodeEncodeError, OverflowError) as error:  # a lone surrogate, in a name or in a string
        find_surrogate(cleaned, "")
        raise InvalidDocument("", str(error)) from error
    if b"$" in encoded and _MARKED.search(encoded):
        check_names(cleaned, "")
    if len(encoded) > MAX_DOCUMENT:
        largest = max(plain, key=lambda name: len(_encode(cleaned[name])), default="")
        raise InvalidDocument(
            str(largest),
            f"the document takes {len(encoded):,} bytes; the limit is {MAX_DOCUMENT:,}; this field is the largest",
        )
    return encoded


def encodable(value: Any) -> Any:
    """Return the value that MessagePack encodes in place of ``value``, for callers with their own encoder.

    Raises InvalidDocument as ``encode_document`` does, except for field names that begin with ``$``: those are found by
    ``check_encoded``.
    """
    cleaned = clean_value(value, "", 2)
    if type(value) is str or type(value) in (dict, list):
        find_surrogate(cleaned, "")
    return cleaned


def check_encoded(encoded: bytes) -> None:
    """Refuse an encoded document that is too large or has field names that begin with ``$``."""
    if b"$" in encoded and _MARKED.search(encoded):
        check_names(_decode_any(encoded), "")
    if len(encoded) > MAX_DOCUMENT:
        raise InvalidDocument("", f"the document takes {len(encoded):,} bytes; the limit is {MAX_DOCUMENT:,}")


def clean(value: Any, path: str = "") -> Any:
    """Return a deep copy of ``value`` as the store would return it: tuples as lists, subclasses as their base types.

    Raises InvalidDocument as ``encode_document`` does.
    """
    cleaned = clean_value(value, path, 1)
    try:
        return _decode_any(_encode(cleaned))
    except UnicodeEncodeError:
        find_surrogate(cleaned, path)
        raise


def _decode_extension(code: int, data: memoryview) -> Any:
    match code:
        case 1:
            return int.from_bytes(data, "big", signed=True)
        case 2:
            return Decimal(bytes(data).decode())
        case 3:
            return UUID(bytes=bytes(data))
        case 4:
            return EPOCH + timedelta(microseconds=eight.unpack(data)[0])
        case 5:
            local, offset = sixteen.unpack(data)
            zone = timezone(timedelta(microseconds=offset))
            return (EPOCH + timedelta(microseconds=local)).replace(tzinfo=zone)
    raise ValueError(f"unknown extension {code}: written by a later version, or damaged")


EXTENSIONS: Final = _decode_extension
"""Decodes extensions, for callers with their own decoder."""
_decode_any: Final = msgspec.msgpack.Decoder(ext_hook=EXTENSIONS).decode


def encode_value(value: Any) -> bytes:
    """Encode a value that is not a document, such as a filter. Field names may begin with ``$``."""
    return _encode(clean_value(value, "", 1))


def decode_value(encoded: bytes) -> Any:
    """Decode the result of ``encode_value``. Each call returns a new object."""
    return _decode_any(encoded)


decode_document: Final[Callable[[bytes], Document]] = _decode_any
"""Decodes a stored document. Each call returns a new dict."""
