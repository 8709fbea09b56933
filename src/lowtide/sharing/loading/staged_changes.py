"""Staged changes: documents on their way into a store, as a commit of another store left or deleted them.

The staged form is the number of that commit, 8 bytes, big endian, followed by the stored document, or nothing if it was
deleted. Files have no order, so the number decides which change of a document is the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from lowtide.errors import OperationFailure, shown
from lowtide.values.ids import id_of

_VERSION: Final = 8


class StagedChange(NamedTuple):
    """A document as commit ``version`` left it; None if it was deleted."""

    version: int
    document: bytes | None


def encode_change(change: StagedChange) -> bytes:
    """
    >>> encode_change(StagedChange(258, None))
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x02'
    """
    return change.version.to_bytes(_VERSION, "big") + (change.document or b"")


def decode_change(staged: bytes) -> StagedChange:
    """
    >>> decode_change(bytes(7) + b"\\x05")
    StagedChange(version=5, document=None)
    """
    return StagedChange(int.from_bytes(staged[:_VERSION], "big"), staged[_VERSION:] or None)


def take_latest(
    found: dict[bytes, StagedChange], collection: str, changes: Iterable[tuple[bytes, StagedChange]]
) -> None:
    """Keep only the last change of each document."""
    for key, change in changes:
        known = found.get(key)
        if known is not None and known.version == change.version:
            raise OperationFailure(
                f"several rows of the changes for collection {collection!r} have the same commit, "
                f"{change.version}, and the same _id, {shown(id_of(key))}; a commit changes a document only once: "
                "check the source of the rows"
            )
        if known is None or known.version < change.version:
            found[key] = change
