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
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from operator import ne
from typing import Any, Final, TypedDict
from uuid import UUID

import msgspec

from lowtide.errors import InvalidDocument, shown
from lowtide.values.values import Document

MAX_DOCUMENT: Final = 16 << 20
"""Maximum size of an encoded document in bytes."""
MAX_DEPTH: Final = 100
"""Maximum nesting depth of objects and arrays."""

_BIG, _DECIMAL, _UUID, _NAIVE, _OFFSET = 1, 2, 3, 4, 5
UUID_CODE: Final = _UUID
"""The extension of a UUID."""
_SIMPLE: Final = frozenset((str, bool, type(None), bytes))
_WHOLE: Final = _SIMPLE | {int}
_FLAT: Final = _WHOLE | {float}
"""Types that MessagePack encodes as they are, unless a float is NaN or an int has more than 64 bits."""
_PLAIN: Final = _FLAT | {dict, list}
_PLAIN_DEPTH: Final = 8
_MOST_PLAIN: Final = 1 << 20
"""Up to these, documents are checked together: one that contains itself must not be followed for ever."""
_NAMES: Final = frozenset((str,))
_MARKED: Final = re.compile(rb"(?:[\xa1-\xbf]|\xd9.|\xda..)\$", re.DOTALL)
"""Matches where a string may begin with $: a MessagePack string header followed by $."""
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_eight: Final = struct.Struct(">q")
_sixteen: Final = struct.Struct(">qq")
_Ext = msgspec.msgpack.Ext
_encode: Final = msgspec.msgpack.Encoder().encode
_typed_dict: Final[Any] = TypedDict
"""Under another name, so that type checkers and mypyc take a call for what it is: a type that is made at run time."""


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
        raise InvalidDocument("", f"a document is a dict, not {_described(document)}")
    if _is_flat(plain.values()) and _NAMES.issuperset(map(type, plain)):
        try:
            encoded = _encode(plain)
        except (UnicodeEncodeError, OverflowError):
            pass
        else:
            if b"$" not in encoded and len(encoded) <= MAX_DOCUMENT:
                return encoded
    return _encode_checked(plain)


def encode_changed(document: dict[str, Any]) -> bytes:
    """The same for a document that was stored and then got other values in top-level fields with valid names: only its
    values are checked."""
    values = document.values()
    if _WHOLE.issuperset(map(type, values)) or _is_flat(values):  # the usual case without a call
        try:
            encoded = _encode(document)
        except (UnicodeEncodeError, OverflowError):
            pass
        else:
            if len(encoded) <= MAX_DOCUMENT:
                return encoded
    return _encode_checked(document)


def encode_plain(documents: Sequence[dict[str, Any]], *, checked: bool = False) -> list[bytes] | None:
    """Encode many documents, checked all at once unless they are ``checked`` already. None if one of them has other
    values than text, numbers, booleans, bytes, None, and objects and arrays of these, or cannot be stored: then encode
    them one by one."""
    if not checked and not _are_plain(documents):
        return None
    try:
        encoded = list(map(_encode, documents))
    except (UnicodeEncodeError, OverflowError, TypeError):  # the last one: a name that equals a string, but is none
        return None
    return encoded if max(map(len, encoded), default=0) <= MAX_DOCUMENT else None


def _are_plain(documents: Sequence[dict[str, Any]]) -> bool:
    """Whether documents have plain values and valid names only."""
    kinds = set(map(type, chain.from_iterable(map(dict.values, documents))))
    levels = [documents] if kinds <= _WHOLE else _levels(documents)
    if levels is None:
        return False
    names = set(chain.from_iterable(chain.from_iterable(levels)))
    # A name of a subclass of str is encoded as its text, whether it is found here or equals a name that is.
    return _NAMES.issuperset(map(type, names)) and not any(name.startswith("$") for name in names)


def _levels(documents: Sequence[dict[str, Any]]) -> list[Sequence[dict[str, Any]]] | None:
    """Return documents, the objects in them, the objects in these, and so on. None if one of them has other values than
    plain ones, objects and arrays."""
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
        if float in kinds and any(map(ne, values, values)):  # NaN; or equal arrays with it, which are not looked into
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


def _encode_checked(plain: dict[Any, Any]) -> bytes:
    """Encode any document, value by value."""
    cleaned = _clean_object(plain, "", 1)
    try:
        encoded = _encode(cleaned)
    except (UnicodeEncodeError, OverflowError) as error:  # a lone surrogate, in a name or in a string
        _find_surrogate(cleaned, "")
        raise InvalidDocument("", str(error)) from error
    if b"$" in encoded and _MARKED.search(encoded):
        _check_names(cleaned, "")
    if len(encoded) > MAX_DOCUMENT:
        largest = max(plain, key=lambda name: len(_encode(cleaned[name])), default="")
        raise InvalidDocument(
            str(largest),
            f"the document takes {len(encoded):,} bytes; the limit is {MAX_DOCUMENT:,}; this field is the largest",
        )
    return encoded


def encodable(value: Any) -> Any:
    """Return what MessagePack can encode in place of ``value``, for callers with their own encoder.

    Raises InvalidDocument as ``encode_document`` does, except for field names that begin with ``$``: those are found by
    ``check_encoded``.
    """
    cleaned = _clean(value, "", 2)
    if type(value) is str or type(value) in (dict, list):
        _find_surrogate(cleaned, "")
    return cleaned


def check_encoded(encoded: bytes) -> None:
    """Refuse an encoded document that is too large or has field names that begin with ``$``."""
    if b"$" in encoded and _MARKED.search(encoded):
        _check_names(_decode_any(encoded), "")
    if len(encoded) > MAX_DOCUMENT:
        raise InvalidDocument("", f"the document takes {len(encoded):,} bytes; the limit is {MAX_DOCUMENT:,}")


def clean(value: Any, path: str = "") -> Any:
    """Return a deep copy of ``value`` as the store would return it: tuples as lists, subclasses as their base types.

    Raises InvalidDocument as ``encode_document`` does.
    """
    cleaned = _clean(value, path, 1)
    try:
        return _decode_any(_encode(cleaned))
    except UnicodeEncodeError:
        _find_surrogate(cleaned, path)
        raise


def _clean_object(document: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
    """Return what MessagePack can encode in place of ``document``, which is not changed."""
    if depth > MAX_DEPTH:
        raise InvalidDocument(path, f"it nests deeper than {MAX_DEPTH} levels; does it contain itself?")
    cleaned = document
    for name, value in document.items():
        if type(name) is not str:
            return _clean_names(document, path, depth)
        kind = type(value)
        if (
            kind in _SIMPLE
            or (kind is int and -0x8000000000000000 <= value < 0x10000000000000000)
            or (kind is float and value == value)
        ):
            continue
        new = _clean(value, f"{path}.{name}" if path else name, depth)
        if new is not value:
            if cleaned is document:
                cleaned = dict(document)
            cleaned[name] = new
    return cleaned


def _clean_names(document: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
    """Convert field names that are instances of a subclass of ``str``. Other types are refused."""
    named = {}
    for name, value in document.items():
        if not isinstance(name, str):
            raise InvalidDocument(path, f"names of fields are strings, not {_described(name)}")
        named[str.__str__(name)] = value
    return _clean_object(named, path, depth)


def _clean(value: Any, path: str, depth: int) -> Any:
    """Return what MessagePack can encode in place of ``value``: the value itself or an extension."""
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if kind is dict:
        return _clean_object(value, path, depth + 1)
    if kind is list or kind is tuple:
        return _clean_array(value, path, depth + 1)
    if kind is int:
        if -0x8000000000000000 <= value < 0x10000000000000000:
            return value
        return _Ext(_BIG, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if kind is float:
        if value == value:
            return value
        raise InvalidDocument(path, "NaN cannot be stored, since it equals nothing; store None, or leave it out")
    if kind is Decimal:
        if value.is_nan():
            raise InvalidDocument(path, "NaN cannot be stored, since it equals nothing; store None, or leave it out")
        return _Ext(_DECIMAL, str(value).encode())
    if kind is UUID:
        return _Ext(_UUID, value.bytes)
    if kind is datetime:
        return _clean_datetime(value)
    return _clean_subclass(value, path, depth)


def _clean_array(value: list[Any] | tuple[Any, ...], path: str, depth: int) -> list[Any] | tuple[Any, ...]:
    if depth > MAX_DEPTH:
        raise InvalidDocument(path, f"it nests deeper than {MAX_DEPTH} levels; does it contain itself?")
    if _SIMPLE.issuperset(map(type, value)):
        return value
    cleaned = [_clean(each, f"{path}.{index}", depth) for index, each in enumerate(value)]
    return cleaned if any(map(_differs, cleaned, value)) else value


def _differs(first: object, second: object) -> bool:
    return first is not second


def _clean_datetime(value: datetime) -> Any:
    offset = value.utcoffset()
    if offset is None:
        return _Ext(_NAIVE, _eight.pack((value - _EPOCH) // _MICROSECOND))
    if not offset:
        return value
    local = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    return _Ext(_OFFSET, _sixteen.pack(local, offset // _MICROSECOND))


def _clean_subclass(value: Any, path: str, depth: int) -> Any:
    """Convert an instance of a subclass to its base type. Other types cannot be stored."""
    if isinstance(value, Mapping):
        return _clean(dict(value), path, depth)
    if isinstance(value, list | tuple):
        return _clean(list(value), path, depth)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _clean(int(value), path, depth)
    if isinstance(value, float):
        return _clean(float(value), path, depth)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Decimal):
        return _clean(Decimal(value), path, depth)
    if isinstance(value, UUID):
        return _clean(UUID(int=value.int), path, depth)
    if isinstance(value, datetime):
        moment = datetime.combine(value.date(), value.timetz())
        return _clean(moment, path, depth)
    raise InvalidDocument(
        path,
        f"{_described(value)} cannot be stored; "
        "use dict, list, str, int, float, bool, None, bytes, datetime, Decimal or UUID",
    )


def _described(value: object) -> str:
    return f"{type(value).__name__} {shown(value)}"


def _find_surrogate(value: Any, path: str) -> None:
    """Raise for the string that cannot be encoded as UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidDocument(
                path.encode(errors="backslashreplace").decode(), f"no Unicode text: {error}"
            ) from error
    elif isinstance(value, dict):
        for name, each in value.items():
            _find_surrogate(name, path)
            _find_surrogate(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            _find_surrogate(each, f"{path}.{index}")


def _check_names(value: Any, path: str) -> None:
    """Refuse field names that begin with ``$``."""
    if isinstance(value, dict):
        for name, each in value.items():
            inner = f"{path}.{name}" if path else name
            if name.startswith("$"):
                raise InvalidDocument(inner, "the name of a field may not begin with $, which marks operators")
            _check_names(each, inner)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            _check_names(each, f"{path}.{index}")


def _decode_extension(code: int, data: memoryview) -> Any:
    match code:
        case 1:
            return int.from_bytes(data, "big", signed=True)
        case 2:
            return Decimal(bytes(data).decode())
        case 3:
            return UUID(bytes=bytes(data))
        case 4:
            return _EPOCH + timedelta(microseconds=_eight.unpack(data)[0])
        case 5:
            local, offset = _sixteen.unpack(data)
            zone = timezone(timedelta(microseconds=offset))
            return (_EPOCH + timedelta(microseconds=local)).replace(tzinfo=zone)
    raise ValueError(f"unknown extension {code}: written by a later version, or damaged")


EXTENSIONS: Final = _decode_extension
"""Decodes extensions, for callers with their own decoder."""
_decode_any: Final = msgspec.msgpack.Decoder(ext_hook=EXTENSIONS).decode


def encode_value(value: Any) -> bytes:
    """Encode a value that is not a document, such as a filter. Field names may begin with ``$``."""
    return _encode(_clean(value, "", 1))


def decode_value(encoded: bytes) -> Any:
    """Decode the result of ``encode_value``. Each call returns a new object."""
    return _decode_any(encoded)


@lru_cache(maxsize=256)
def decoder_of(fields: tuple[str, ...]) -> Callable[[bytes], Document]:
    """Return a decoder of only these top-level fields, which is much faster than decoding the whole document."""
    shape = _typed_dict("shape", dict.fromkeys(fields, Any), total=False)
    decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(shape, ext_hook=EXTENSIONS)
    return decoder.decode


decode_document: Final[Callable[[bytes], Document]] = _decode_any
"""Decodes a stored document. Each call returns a new dict."""
