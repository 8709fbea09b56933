"""Generates the function that changes fields of a stored document in its encoded form, without decoding the rest of it.

A decoder reads only the old values of the fields. The bytes to replace are those of a field's name followed by its old
value, which are known to be in the document. If they occur only once, that occurrence is the field. If they occur
again, for example inside a string, the function returns None, and the document is decoded. The function of ``{"$set":
{"a": ...}, "$inc": {"n": ...}}``, with an int for ``n``, is:

    def splice(stored, values):
        if len(stored) < 64: return None
        old = decode(stored)
        a0, a1 = old.a0, old.a1
        if a0 is missing or type(a1) is not int: return None
        try:
            new0, part0, new1, part1 = n0 + encode(values[0]), n0 + a0, n1 + encode(a1 + values[1]), n1 + encode(a1)
        except refused: return None
        at = stored.find(part0)
        if at < 0 or at != stored.rfind(part0): return None
        stored = stored.replace(part0, new0, 1)
        at = stored.find(part1)
        if at < 0 or at != stored.rfind(part1): return None
        return stored.replace(part1, new1, 1)

The result is the same as that of encoding the changed document: the fields keep their order and their number. If the
document does not have a field, or has a number of another type, the function of ``updates`` is used instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from lowtide.documents.prepared.source import function
from lowtide.documents.updates.tree import MISSING
from lowtide.values.codec import MAX_DOCUMENT

_PLAIN: Final = frozenset((str, int, float, bool, bytes, type(None)))
"""Types whose values MessagePack encodes as the store does."""
_MOST_FIELDS: Final = 8
_LEAST: Final = 32
"""The minimum number of bytes of a document per changed field: a smaller document is decoded and encoded faster."""
_encode: Final = msgspec.msgpack.Encoder().encode

Splice = Callable[[bytes, Sequence[Any]], bytes | None]
"""Changes an encoded document. Returns None if it must be decoded."""


class FieldChange(NamedTuple):
    """What an update does to a top-level field, with a value of a given type: either ``$set`` or ``$inc``."""

    operator: str
    name: str
    kind: type


def splice_of(changes: Sequence[FieldChange], least: int = _LEAST) -> Splice | None:
    """Return the function that makes these changes, given their values in the same order; None if there is none. It
    changes documents that have at least ``least`` bytes per change.

    >>> splice = splice_of([FieldChange("$inc", "n", int)], least=0)
    >>> splice(msgspec.msgpack.encode({"_id": 1, "n": 6}), [1]) == msgspec.msgpack.encode({"_id": 1, "n": 7})
    True
    """
    if not 0 < len(changes) <= _MOST_FIELDS or any(not _may_splice(each) for each in changes):
        return None
    places = range(len(changes))
    decode = _decoder([(each.name, msgspec.Raw if each.operator == "$set" else Any) for each in changes])
    if decode is None:
        return None
    names: dict[str, Any] = {f"n{place}": _encode(changes[place].name) for place in places}
    refusals, made = [], []
    for place, (operator, _, kind) in enumerate(changes):
        if operator == "$set":
            refusals.append(f"a{place} is missing")
            made.append((f"n{place} + encode(values[{place}])", f"n{place} + a{place}"))
        else:
            refusals.append(f"type(a{place}) is not {kind.__name__}")
            made.append((f"n{place} + encode(a{place} + values[{place}])", f"n{place} + encode(a{place})"))
    lines = [f"if len(stored) < {least * len(changes)}: return None", "old = decode(stored)"]
    lines += [f"a{place} = old.a{place}" for place in places]
    lines.append(f"if {' or '.join(refusals)}: return None")
    for place, change in enumerate(changes):
        if change.kind is float and change.operator == "$inc":
            lines.append(f"if a{place} + values[{place}] != a{place} + values[{place}]: return None")
    lines.append("try:")
    lines += [f"    new{place}, part{place} = {new}, {part}" for place, (new, part) in enumerate(made)]
    lines.append("except refused: return None")
    for place in places:
        lines.append(f"at = stored.find(part{place})")
        lines.append(f"if at < 0 or at != stored.rfind(part{place}): return None")
        lines.append(f"stored = stored.replace(part{place}, new{place}, 1)")
    lines.append("return stored if len(stored) <= most else None")
    refused = (UnicodeEncodeError, OverflowError)
    names |= {"decode": decode, "encode": _encode, "missing": MISSING, "refused": refused, "most": MAX_DOCUMENT}
    splice: Splice = function("splice(stored, values)", lines, **names)
    return splice


def _may_splice(change: FieldChange) -> bool:
    return change.kind in _PLAIN if change.operator == "$set" else change.operator == "$inc"


def _decoder(fields: Sequence[tuple[str, Any]]) -> Callable[[bytes], Any] | None:
    """Return a decoder of the fields with these names, each of a given type, into attributes ``a0``, ``a1`` and so on.
    None if msgspec refuses one of the names."""
    attributes = [(f"a{place}", kind, MISSING) for place, (_, kind) in enumerate(fields)]
    renamed = {f"a{place}": name for place, (name, _) in enumerate(fields)}
    try:
        shape = msgspec.defstruct("Fields", attributes, rename=renamed, gc=False)
    except ValueError:
        return None
    decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(shape)
    return decoder.decode
