"""Requests to the owner of a store, and its answers, as MessagePack."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from lowtide.errors import ConflictError, Error

logger = logging.getLogger("lowtide")

COMMIT: Final = "commit"
"""The operation that commits a transaction of a joined process."""


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """A request of another process: an operation, and its arguments by name. Those of a commit are a
    ``CommitMessage``."""

    operation: str
    arguments: msgspec.Raw = msgspec.Raw(b"\x80")


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a request: ``error`` is the type and the message of an error. For a conflict, ``value`` has what
    the error is made of."""

    value: Any = None
    error: tuple[str, str] | None = None


encode_ask = msgspec.msgpack.Encoder().encode
decode_ask = msgspec.msgpack.Decoder(Ask).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
encode_answer = msgspec.msgpack.Encoder(enc_hook=str).encode


_COMMIT_ASK: Final = encode_ask(Ask(COMMIT))[: -len(msgspec.msgpack.encode({}))]


def commit_ask(message: bytes) -> bytes:
    """The request to commit an encoded message. The same as the encoded ``Ask``, at half of its cost."""
    return _COMMIT_ASK + message


def refusal(error: Exception) -> Answer:
    """The answer to a request that failed."""
    if isinstance(error, ConflictError):
        conflict = (error.keyspace, error.key, error.snapshot_ts, error.committed_ts, error.read)
        return Answer(conflict, ("ConflictError", str(error)))
    if isinstance(error, Error | TypeError | OSError):
        return Answer(error=(type(error).__name__, str(error)))
    logger.error("a request from another process failed", exc_info=error)
    return Answer(error=("Error", f"the request failed in the owner of the store: {error!r}"))
