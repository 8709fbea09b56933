"""Generates the functions that change fields of a stored document from its encoded form to its new encoded form.

A small document is decoded, changed in place and encoded, without checking its other values: the decoder leaves
extensions as they are, so every value is encoded as it was stored. In a large document the fields are *spliced*,
without decoding the rest of it: a decoder reads only the old values of the fields. The bytes to replace are those of a
field's name followed by its old value, which are known to be in the document. If they occur only once, that occurrence
is the field. If they occur again, for example inside a string, the document is decoded. The functions of ``{"$set":
{"a": ...}, "$inc": {"n": ...}}``, with an int for ``n``, are:

    def rewrite(stored, values):
        if len(stored) >= 100:
            spliced = splice(stored, values)
            if spliced is not None: return spliced
        new = document = decode(stored)
        ...  # the lines of ``updates``
        try: encoded = encode(new)
        except refused: return None
        return encoded if len(encoded) <= most else None

    def splice(stored, values):
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

Both give the bytes of the changed document: the fields keep their order. ``rewrite`` returns None if the update must be
compiled for this document, because a number has another type or the result cannot be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from lowtide.documents.prepared.source import function, literal
from lowtide.documents.updates.tree import MISSING
from lowtide.values.codec import MAX_DOCUMENT

_PLAIN: Final = frozenset((str, int, float, bool, bytes, type(None)))
"""Types whose values MessagePack encodes as the store does."""
_MOST_FIELDS: Final = 8
_LEAST: Final = 50
"""The minimum number of bytes of a document per spliced field: a smaller document is decoded and encoded faster."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode
"""Leaves extensions as they are. ``_encode`` gives the same bytes again."""
_REFUSED: Final = (UnicodeEncodeError, OverflowError)

Rewrite = Callable[[bytes, Sequence[Any]], bytes | None]
"""Changes an encoded document. Returns None if it cannot."""


class FieldChange(NamedTuple):
    """What an update does to a top-level field, with a value of a given type."""

    operator: str
    name: str
    kind: type


def rewrite_of(lines: Sequence[str], changes: Sequence[FieldChange]) -> Rewrite | None:
    """Return the function that makes these changes, given their values in the same order; None if a value is not
    encoded as it is stored. ``lines`` change the dict ``new``, which is the same as ``document``."""
    if any(each.kind not in _PLAIN and each.operator != "$unset" for each in changes):
        return None
    body = ["new = document = decode(stored)"]
    if len(changes) > 1:  # the order in which fields are added is that of the update, not of its shape
        added = [f"{literal(each.name)} not in document" for each in changes if each.operator != "$unset"]
        body += [f"if {' or '.join(added)}: return None"] if added else []
    body += lines
    body += [
        "try: encoded = encode(new)",
        "except refused: return None",
        "return encoded if len(encoded) <= most else None",
    ]
    splice = splice_of(changes)
    if splice is not None:
        body = [
            f"if len(stored) >= {_LEAST * len(changes)}:",
            "    spliced = splice(stored, values)",
            "    if spliced is not None: return spliced",
            *body,
        ]
    names = {"decode": _decode, "encode": _encode, "missing": MISSING, "refused": _REFUSED, "most": MAX_DOCUMENT}
    rewrite: Rewrite = function("rewrite(stored, values)", body, splice=splice, **names)
    return rewrite


def splice_of(changes: Sequence[FieldChange]) -> Rewrite | None:
    """Return the function that splices these changes into a document, given their values in the same order. None if
    there is none, because they are other than ``$set`` and ``$inc`` of plain values.

    >>> splice = splice_of([FieldChange("$inc", "n", int)])
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
    lines = ["old = decode(stored)"]
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
    names |= {"decode": decode, "encode": _encode, "missing": MISSING, "refused": _REFUSED, "most": MAX_DOCUMENT}
    splice: Rewrite = function("splice(stored, values)", lines, **names)
    return splice


def _may_splice(change: FieldChange) -> bool:
    return change.kind in _PLAIN and change.operator in ("$set", "$inc")


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
