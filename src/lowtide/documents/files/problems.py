"""``BadFile``: the error for a file that cannot be read."""

from __future__ import annotations

from lowtide.errors import Error


class BadFile(Error):
    """A file has invalid content. ``place`` and ``field`` say where. Fix the file there and read it again."""

    def __init__(self, file: str, place: str, field: str, reason: str) -> None:
        self.file = file
        self.place = place
        self.field = field
        self.reason = reason
        where = [file, *([place] if place else []), *([f"field {field!r}"] if field else [])]
        super().__init__(f"{', '.join(where)}: {reason}")
