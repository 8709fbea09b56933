"""The collections of one snapshot in the form that SQL needs: loaded as a table, or read while the query runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from lowtide.documents.filters import compile_filter
from lowtide.documents.management import collection_names
from lowtide.documents.read_collection import ReadCollection
from lowtide.documents.reader import CollectionReader
from lowtide.engine import Statements

if TYPE_CHECKING:
    from lowtide.columnar.streaming import DocumentStream

_BATCH: Final = 8192
"""Number of documents that are converted to Arrow at once."""
_MOST_FETCHED: Final = 50_000
"""Maximum number of documents that are fetched by an index. If it finds more, all are scanned."""


class CollectionTables:
    """The collections that ``statements`` reads."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def collections(self) -> list[str]:
        return collection_names(self._statements)

    def table(self, name: str, columns: list[str] | None) -> Any:
        return ReadCollection(self._statements, name).to_arrow(columns)

    def stream(self, name: str) -> DocumentStream:
        from lowtide.columnar.streaming import DocumentStream

        return DocumentStream(lambda filter: self.stored(name, filter))

    def stored(self, name: str, filter: Mapping[str, Any]) -> Iterator[list[bytes]]:
        """Yield encoded documents in ``_id`` order, a batch at a time: at least those that match the filter and, if an
        index applies, only those that it finds."""
        compiled = compile_filter(filter)
        held = self._statements.hold()
        try:
            reader = CollectionReader(held.reading, held.prefix_of, name)
            yield from reader.batches_narrowed(reader.plan(compiled, None), _BATCH, _MOST_FETCHED)
        finally:
            held.close()
