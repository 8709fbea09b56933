"""Encodes the payload of a commit again, because the values before it have changed since it was encoded."""

from __future__ import annotations

from lowtide.engine.log.frame import Before, encode_payload, identified
from lowtide.engine.transaction.request import Request


def tell(request: Request, before: Before, keep_before: bool) -> None:
    """Encode the payload of a request again. ``before`` are the current values, in the order of the request's writes.
    The caller holds the commit lock."""
    names, replaced = request.names, request.replaced
    payload = encode_payload(request.time, request.writes, names, before, keep_before, replaced=replaced)
    request.payload = payload if request.identity is None else identified(payload, request.identity)
