"""Names chosen by users: of keyspaces, pins and consumers. Up to 200 bytes of UTF-8."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lowtide.engine.log.frame import is_prefix
from lowtide.errors import CorruptionError, UsageError

MAX_NAME = 200


def check_name(name: object, what: str = "pin") -> None:
    """Raise UsageError if ``name`` is not a valid name for a ``what``."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"the name of a {what} must be a non-empty string, not {name!r}")
    try:
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"the name of a {what} must be encodable as UTF-8: {error}") from error
    if length > MAX_NAME:
        raise UsageError(f"the name of a {what} may be at most {MAX_NAME} bytes long: {name[:40]!r}...")


def check_keyspaces(keyspaces: Iterable[str] | None, *, least: int = 1) -> tuple[str, ...] | None:
    """The keyspaces as a tuple of names; None for all."""
    if keyspaces is None:
        return None
    try:
        names = [keyspaces] if isinstance(keyspaces, str) else list(keyspaces)
        for each in names:
            check_name(each, "keyspace")
    except (TypeError, UsageError) as error:
        raise UsageError(
            f"keyspaces must be names of keyspaces, at least one, or None for all; not {keyspaces!r}"
        ) from error
    if len(names) < least:
        raise UsageError(f"keyspaces must be names of keyspaces, at least one, or None for all; not {keyspaces!r}")
    return tuple(dict.fromkeys(names))


def decode_keyspaces(directory: Path, rows: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, bytes]]:
    """The rows of the base's table of keyspaces, as names and prefixes."""
    found = []
    for name, prefix in rows:
        try:
            found.append((name.decode(), prefix))
        except UnicodeDecodeError as error:
            raise CorruptionError(directory, f"the name of a keyspace cannot be decoded: {error}") from error
        if not is_prefix(prefix):
            raise CorruptionError(directory, f"keyspace {name.decode()!r} has a number out of range: {prefix.hex()}")
    return found
