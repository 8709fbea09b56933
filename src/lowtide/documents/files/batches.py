"""Documents on their way out of a file, a few thousand at a time, with the places where they stand in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lowtide.values.values import Document

CHUNK: Final = 512 << 10
"""Bytes that are read at once: a few thousand documents of common size."""
LONGEST: Final = 96 << 20
"""Bytes that one document may take in a file: the largest that can be stored, in its longest form."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some documents, and the number of the line or row at which each begins; and the table that they are of, if the
    file has several."""

    documents: list[Document]
    places: Sequence[int]
    unit: str = "line"
    table: str | None = None

    def place(self, index: int) -> str:
        """Where the document with this index in the batch stands."""
        return f"{self.unit} {self.places[index]}"
