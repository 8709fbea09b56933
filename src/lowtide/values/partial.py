"""Decoders of some fields of a stored document. Skipping the others takes a fraction of the time of decoding them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypedDict

import msgspec

from lowtide.values.codec import EXTENSIONS, decode_document
from lowtide.values.values import Document

Decode = Callable[[bytes], Document]

_MOST_FIELDS: Final = 20
"""With more fields, skipping the others no longer pays."""
_typed_dict: Final[Any] = TypedDict
"""An alias, so that type checkers and mypyc treat a call as the creation of a type at run time."""


@lru_cache(maxsize=256)
def decoder_for(fields: frozenset[str] | None) -> Decode:
    """Return a decoder of at least these top-level fields, in the order of the document; None for all fields.

    >>> from lowtide.values.codec import encode_document
    >>> decoder_for(frozenset(("_id", "city")))(encode_document({"_id": 1, "name": "Ann", "city": "Oslo"}))
    {'_id': 1, 'city': 'Oslo'}
    """
    if fields is None or len(fields) > _MOST_FIELDS:
        return decode_document
    shape = _typed_dict("shape", dict.fromkeys(sorted(fields), Any), total=False)
    decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(shape, ext_hook=EXTENSIONS)
    return decoder.decode
