"""Notes in a store's directory that say which archives contain its history: ``archives.json``.

Every run of the archiver writes one. If a read requests an instant that no pin holds any more, its error names the
archive that has it. The file is a hint: it is not part of a backup, may be removed at any time, and is written again by
the next run.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

import msgspec

from lowtide.engine import ARCHIVES
from lowtide.system.messages import UNDECODABLE


class ArchiveNote(msgspec.Struct, frozen=True):
    """The location of an archive, and the last commit in it. ``tables`` are the tables that it follows; None for
    all."""

    uri: str
    commit: int
    tables: list[str] | None = None


def note_archive(store: Path, note: ArchiveNote) -> None:
    """Write a note, which replaces the previous one of the same archive. Does nothing if it cannot be written."""
    known = archive_notes(store)
    if note in known:
        return
    others = [each for each in known if each.uri != note.uri]
    path = store / ARCHIVES
    temporary = path.with_name(f"{ARCHIVES}.{secrets.token_hex(4)}.tmp")
    with contextlib.suppress(OSError):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(msgspec.json.encode([*others, note]))
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def archive_notes(store: Path) -> list[ArchiveNote]:
    """Return the notes; an empty list if there are none that can be read."""
    try:
        return msgspec.json.decode((store / ARCHIVES).read_bytes(), type=list[ArchiveNote])
    except (OSError, *UNDECODABLE):
        return []


def archive_hint(store: Path, table: str, at: int | str, argument: str) -> str | None:
    """Return a sentence that names an archive that has a table at an instant; None if none is known. ``argument`` is
    how the call names the table."""
    for each in archive_notes(store):
        follows = each.tables is None or table in each.tables
        is_there = "://" in each.uri or os.path.isdir(each.uri)
        if follows and is_there and (not isinstance(at, int) or at <= each.commit):
            call = f"lowtide.pipeline.as_of(spark, {each.uri!r}, {at!r}, {argument})"
            return f"The archive {each.uri} has commits up to {each.commit}: {call}"
    return None
