"""``lowtide pipeline as-of``, ``history`` and ``diff``: reading a collection from an archive."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from lowtide.cli.arguments import INSTANT, ArchivePath, CollectionName, FileFormat, IsKeyspace, Json
from lowtide.cli.collections import counted
from lowtide.cli.output import Output, busy
from lowtide.cli.spark_session import Master, pipeline_module, spark_session
from lowtide.cli.words import bytes_of, clean
from lowtide.documents.files.documents import write_documents
from lowtide.documents.files.streams import STANDARD, format_of, writing_to
from lowtide.values.extended import NotExtended, loads
from lowtide.values.values import Document

Target = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="The file, or - for standard output.", show_default=False)
]
Local = Annotated[bool, typer.Option("--local", help="Use DuckDB instead of Spark, for data that fits in memory.")]


def as_of(
    archive: ArchivePath,
    collection: CollectionName,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="INSTANT", help=f"{INSTANT}; by default the last commit.", show_default=False),
    ] = None,
    local: Local = False,
    master: Master = None,
    keyspace: IsKeyspace = False,
    file: Target = STANDARD,
    format: FileFormat = None,
    json: Json = False,
) -> None:
    """Write the documents of a collection as of an instant, from an archive."""
    to = _Destination(archive, collection, file, format_of(file, format), json)
    with _answering(f"reading {collection}", local, master) as ask:
        found = ask("as_of", archive, at, raw=True, **_what(collection, keyspace))
        to.write(found, lambda row: row if keyspace else loads(row["_raw"]))


def history(
    archive: ArchivePath,
    collection: CollectionName,
    id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="The _id of one document, as JSON or text.", show_default=False),
    ] = None,
    local: Local = False,
    master: Master = None,
    keyspace: IsKeyspace = False,
    file: Target = STANDARD,
    format: FileFormat = None,
    json: Json = False,
) -> None:
    """Write all versions of a collection, or of one document, from an archive: each with its commit, its time, and the
    commit that ended it."""
    to = _Destination(archive, collection, file, format_of(file, format), json)
    wanted = None if id is None else bytes_of(id) if keyspace else _id(id)
    kept = ("_version", "_time", "_kind", "valid_to")

    def version(row: Document) -> Document:
        value = row["_raw"] if keyspace or row["_raw"] is None else loads(row["_raw"])
        return {"_id": row["_id"], **{name: row[name] for name in kept}, "document": value}

    with _answering(f"reading the history of {collection}", local, master) as ask:
        to.write(ask("history", archive, id=wanted, **_what(collection, keyspace)), version)


def diff(
    archive: ArchivePath,
    collection: CollectionName,
    first: Annotated[str, typer.Argument(metavar="FROM", help=f"{INSTANT}.", show_default=False)],
    second: Annotated[str | None, typer.Argument(metavar="TO", help="By default the last commit.")] = None,
    local: Local = False,
    master: Master = None,
    keyspace: IsKeyspace = False,
    file: Target = STANDARD,
    format: FileFormat = None,
    json: Json = False,
) -> None:
    """Write the differences of a collection between two instants, from an archive: each document before and after."""
    to = _Destination(archive, collection, file, format_of(file, format), json)

    def difference(row: Document) -> Document:
        parts = {each: row[each] for each in ("before", "after")}
        if not keyspace:
            parts = {each: None if value is None else loads(value) for each, value in parts.items()}
        return {"_id": row["_id"], "_kind": row["_kind"], **parts}

    with _answering(f"comparing {collection}", local, master) as ask:
        to.write(ask("diff", archive, first, second, **_what(collection, keyspace)), difference)


class _Found:
    """The rows of an answer from Spark or DuckDB, which can be iterated repeatedly."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._is_frame = hasattr(answer, "toLocalIterator")
        if self._is_frame:
            self._is_json = answer.schema["_id"].metadata.get("lowtide") == "json"
        else:
            self._is_json = (answer.schema.field("_id").metadata or {}).get(b"lowtide") == b"json"

    def __iter__(self) -> Iterator[Document]:
        """Yield the rows. An ``_id`` that is JSON text, because ids have several types, is decoded."""
        for row in self._rows():
            yield {**row, "_id": loads(row["_id"])} if self._is_json else row

    def _rows(self) -> Iterator[Document]:
        if self._is_frame:
            for row in self._answer.toLocalIterator():
                yield {name: _of_spark(each) for name, each in row.asDict().items()}
        else:
            for batch in self._answer.to_batches():
                yield from batch.to_pylist()


def _of_spark(value: Any) -> Any:
    """Convert a value from Spark, which returns local times and mutable bytes."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray) else value


@contextmanager
def _answering(what: str, local: bool, master: str | None) -> Iterator[Callable[..., _Found]]:
    """Answer queries, with Spark or without. The archive's warnings go to standard error."""
    pipeline = pipeline_module()
    with contextlib.ExitStack() as stack:
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        tell = stack.enter_context(busy(what))

        def ask(question: str, *args: Any, **kwargs: Any) -> _Found:
            if local:
                return _Found(getattr(pipeline.local, question)(*args, **kwargs))
            tell("starting Spark")
            session = stack.enter_context(spark_session(master))
            tell("reading")
            return _Found(getattr(pipeline, question)(session, *args, **kwargs))

        yield ask
    for each in caught:
        if issubclass(each.category, pipeline.ArchiveGapWarning | pipeline.ArchiveBehindWarning):
            typer.echo(clean(f"lowtide: {each.message}"), err=True)


@dataclass(frozen=True)
class _Destination:
    """Where an answer is written, and in which format."""

    archive: str
    collection: str
    file: str
    format: str
    json: bool

    def write(self, found: _Found, document_of: Callable[[Document], Document]) -> None:
        with writing_to(self.file) as stream:
            count = write_documents(stream, self.format, lambda: map(document_of, found))
        if self.file != STANDARD:
            done = {"archive": self.archive, "collection": self.collection, "file": self.file, "written": count}
            Output(self.json).answer(done, f"wrote {counted(count, 'row')} of {self.collection} to {self.file}")


def _what(name: str, is_keyspace: bool) -> dict[str, str]:
    return {"keyspace": name} if is_keyspace else {"collection": name}


def _id(text: str) -> Any:
    """Parse an ``_id``: JSON, or else text."""
    try:
        return loads(text)
    except (NotExtended, ValueError, RecursionError):
        return text
