"""Reading a range of commits from the log's files, in any process: all of them in order, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lowtide.engine.log.cursor import LogCursor, LogPosition, Released
from lowtide.engine.log.frame import Commit
from lowtide.errors import CorruptionError


def read_commits(
    directory: Path, store_id: bytes, after: int, upto: int, place: LogPosition | None = None
) -> Iterator[Commit]:
    """The commits with ``after < ts <= upto``: all of them, or a CorruptionError. ``place`` is where ``after`` ends, if
    known; nothing before it is read then.

    Other threads and processes may append and recycle meanwhile, as long as the requested commits are retained.
    """
    cursor = LogCursor(directory, store_id, after, place)
    try:
        yield from cursor.read(upto)
    except Released as error:
        raise CorruptionError(directory, f"commit {error.wanted} is missing from the log") from error
    finally:
        cursor.close()
