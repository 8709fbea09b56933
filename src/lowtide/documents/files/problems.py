"""``BadFile``: what is wrong with a file, and where."""

from __future__ import annotations

from lowtide.errors import Error


class BadFile(Error):
    """A file does not hold what it should. ``place`` says where in it, ``field`` in which field; fix it there."""

    def __init__(self, file: str, place: str, field: str, reason: str) -> None:
        self.file = file
        self.place = place
        self.field = field
        self.reason = reason
        where = [file, *([place] if place else []), *([f"field {field!r}"] if field else [])]
        super().__init__(f"{', '.join(where)}: {reason}")
