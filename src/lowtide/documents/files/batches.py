"""Batches of documents read from a file, with their line or row numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lowtide.values.values import Document

CHUNK: Final = 512 << 10
"""Bytes to read at once: a few thousand documents of typical size."""
LONGEST: Final = 96 << 20
"""Maximum bytes of one document in a file: the largest document that can be stored, in its longest form."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents, with the line or row number at which each begins, and their table if the file has several."""

    documents: list[Document]
    places: Sequence[int]
    unit: str = "line"
    table: str | None = None
    plain: bool = False
    """Whether they are ``PlainDocuments``."""

    def place(self, index: int) -> str:
        """Return the place in the file of the document with this index in the batch."""
        return f"{self.unit} {self.places[index]}"
