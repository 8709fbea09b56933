"""``lowtide import`` and ``export``: copy collections from and to files, completely or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

import lowtide
from lowtide.cli.arguments import CollectionName, Fields, FileFormat, FilterOption, Json, Order, StorePath
from lowtide.cli.collections import counted, looking_at
from lowtide.cli.expressions import columns_of_fields, fields_of, filter_of, order_of
from lowtide.cli.output import Advance, Output, measured
from lowtide.cli.reach import find_store, writing
from lowtide.documents.files.batches import Batch
from lowtide.documents.files.cells import kinds_of
from lowtide.documents.files.documents import read_documents, write_documents
from lowtide.documents.files.problems import BadFile
from lowtide.documents.files.streams import STANDARD, FileSource, format_of, reading_from, writing_to
from lowtide.documents.operations import PlainDocuments, prepare
from lowtide.errors import BulkWriteError, Error, UsageError
from lowtide.options import OpenOptions
from lowtide.store.staged_import import import_staged
from lowtide.system.cycles import without_collector
from lowtide.values.values import Document

_NOTED = 1000
"""The number of documents between two updates of the progress bar."""


def import_(
    path: StorePath,
    collection: CollectionName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file, or - for standard input.", show_default=False)],
    format: FileFormat = None,
    types: Annotated[
        str,
        typer.Option(
            "--types",
            metavar="KINDS",
            help="The types of CSV columns: age=int,code=str,*=auto; auto, str, int, float, decimal, bool, datetime, "
            "uuid, bytes or json.",
            show_default=False,
        ),
    ] = "",
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter",
            metavar="CHARACTER",
            help="The separator of CSV cells: one character, or tab; by default detected from the header.",
            show_default=False,
        ),
    ] = None,
    id_field: Annotated[
        str | None,
        typer.Option("--id-field", metavar="NAME", help="The field that becomes the _id.", show_default=False),
    ] = None,
    upsert: Annotated[
        bool, typer.Option("--upsert", help="Replace documents that have the same _id, instead of failing.")
    ] = False,
    drop: Annotated[
        bool,
        typer.Option("--drop", help="First drop the collection, with its indexes and schema, in the same transaction."),
    ] = False,
    batches: Annotated[
        int | None,
        typer.Option(
            "--batches",
            metavar="NUMBER",
            min=1,
            help="Commit after this many documents, for files that are larger than memory; by default all of them "
            "are one transaction.",
            show_default=False,
        ),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the store if there is none.")] = False,
    json: Json = False,
) -> None:
    """Import the documents of a file: all of them, or none if one is invalid.

    The one transaction is held in memory until it is committed; with --batches NUMBER it becomes several smaller ones.
    A large file of JSON Lines for an empty collection is decoded by several processes, and written at once.
    A TinyDB file is imported by table: the default table, or the only one, into COLLECTION, others into collections of
    their names. With --format json it is one document.
    """
    store, output = _store_for(path, create), Output(json)
    kinds, name, between = kinds_of(types), format_of(file, format), delimiter_given(delimiter)
    wish = _Wish(collection, id_field, upsert, drop, batches)
    done = _Import(wish)
    try:
        with (
            reading_from(file) as source,
            _opened(store, create, whole=batches is None) as opened,
            measured(f"importing {source.name}", source.size) as advance,
            contextlib.closing(read_documents(source, name, kinds, delimiter=between, tables=format is None)) as found,
            without_collector(),
        ):
            by_processes = name == "jsonl" and not file.endswith(".gz") and source.size is not None
            if not (by_processes and done.at_once(opened, Path(file), advance)):
                done.run(opened, source, found, advance)
    except KeyboardInterrupt:
        if done.commits:
            typer.echo(f"lowtide: interrupted\n{done.so_far()}", err=True)
        raise
    several = f", in {counted(done.commits, 'transaction')}" if batches is not None else ""
    others = {"collections": done.counts} if done.counts.keys() - {collection} else {}
    output.answer(
        {"path": store, "collection": collection, "file": file, "imported": done.count, "commits": done.commits}
        | others,
        f"imported {', '.join(f'{counted(count)} into {name}' for name, count in done.counts.items())}{several}",
    )


def delimiter_given(text: str | None) -> str | None:
    """The character given by ``--delimiter``."""
    found = {"tab": "\t", "\\t": "\t"}.get(text or "", text)
    if found is not None and (len(found) != 1 or found in '"\r\n'):
        raise UsageError(f"the delimiter {text!r} is not one character; write one such as ; or the word tab")
    return found


def _store_for(path: Path, create: bool) -> Path:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        if create:
            return path.absolute()
        raise UsageError(f"there is no store in {path.absolute()}; use --create to create it")
    return find_store(path)


@contextlib.contextmanager
def _opened(store: Path, create: bool, *, whole: bool) -> Iterator[lowtide.Store]:
    """The store. An import in one transaction has a single checkpoint, at the end, when this process has nothing else
    to do. A helper process would be no faster, and would first have to start and read the log."""
    options: OpenOptions = {"checkpointer": "thread"} if whole else {}
    if create and not store.exists():
        with lowtide.open(store, **options) as opened:
            yield opened
    else:
        with writing(store, **options) as opened:
            yield opened


@dataclass(frozen=True, slots=True)
class _Wish:
    """The options of an import."""

    collection: str
    id_field: str | None
    upsert: bool
    drop: bool
    each: int | None


class _Import:
    """The documents of a file on their way into a collection."""

    def __init__(self, wish: _Wish) -> None:
        self._wish = wish
        self._name = ""
        self._met = {wish.collection}
        self.counts: dict[str, int] = {wish.collection: 0}
        """The number of committed documents by collection."""
        self.commits = 0

    @property
    def count(self) -> int:
        """The number of committed documents."""
        return sum(self.counts.values())

    def at_once(self, store: lowtide.Store, file: Path, advance: Advance) -> bool:
        """Import a large file of JSON Lines into an empty collection, if nothing about it is unusual."""
        wish = self._wish
        if wish.id_field is not None or wish.upsert or wish.drop or wish.each is not None:
            return False
        count = import_staged(
            store, wish.collection, file, lambda done, documents: advance(done, f"{documents:,} documents")
        )
        if count is None:
            return False
        self.counts, self.commits = {wish.collection: count}, 1
        return True

    def run(self, store: lowtide.Store, source: FileSource, batches: Iterable[Batch], advance: Advance) -> None:
        """Import everything. ``count`` and ``commits`` say how far it came, even after an error."""
        self._name = source.name

        def note(count: int, more: str = "") -> None:
            advance(source.done(), f"{count:,} documents{more}")

        if self._wish.each is None:
            self._whole(store, batches, note)
        else:
            self._in_parts(store, cut(batches, self._wish.each), note)

    def _whole(self, store: lowtide.Store, batches: Iterable[Batch], note: Callable[..., None]) -> None:
        """Everything in one transaction."""
        counts: dict[str, int] = {}
        tx = store.begin()
        try:
            if self._wish.drop:
                tx.collection(self._wish.collection).drop()
            for batch in batches:
                target = self._target(batch, tx)
                self._write(tx, batch, target)
                counts[target] = counts.get(target, 0) + len(batch.documents)
                note(sum(counts.values()))
            note(sum(counts.values()), ", committing")
        except BaseException:
            tx.rollback()
            raise
        try:
            tx.commit()
        except UsageError as error:  # the transaction is too large
            raise Error(f"{error}, with --batches NUMBER") from error
        self.counts, self.commits = counts or self.counts, 1

    def _in_parts(self, store: lowtide.Store, batches: Iterable[Batch], note: Callable[..., None]) -> None:
        """Each batch in a transaction of its own."""
        drop = self._wish.drop
        try:
            for batch in batches:
                with store.transaction() as tx:
                    if drop:
                        tx.collection(self._wish.collection).drop()
                    target = self._target(batch, tx)
                    self._write(tx, batch, target)
                drop = False
                self.counts[target] = self.counts.get(target, 0) + len(batch.documents)
                self.commits += 1
                note(self.count)
            if drop:  # there was no document
                store.collection(self._wish.collection).drop()
        except Error as error:
            raise Error(f"{error}\n{self.so_far()}") from error

    def _target(self, batch: Batch, tx: Any) -> str:
        """The collection of a batch: the named one or, for a table, the one with its name. That one is dropped first,
        if requested."""
        target = self._wish.collection if batch.table is None else batch.table
        if target not in self._met:
            self._met.add(target)
            if self._wish.drop:
                tx.collection(target).drop()
        return target

    def so_far(self) -> str:
        """Describe what was committed so far."""
        return (
            f"{counted(self.count)} before that are in {', '.join(self.counts)}, committed in "
            f"{counted(self.commits, 'transaction')}; the rest is not. To continue, import again with --upsert, if "
            "the documents have an _id of their own"
        )

    def _write(self, tx: Any, batch: Batch, collection: str) -> None:
        """Write the documents in a transaction. An error names the place in the file."""
        documents = batch.documents
        if self._wish.id_field is not None:
            documents = [self._with_id(document, batch, index) for index, document in enumerate(documents)]
        target = tx.collection(collection)
        try:
            if self._wish.upsert:
                for index, document in enumerate(documents):
                    self._replace(target, document, batch, index)
            else:
                target.insert_many(PlainDocuments(documents) if batch.plain else documents)
        except BulkWriteError as error:
            first = error.details["writeErrors"][0]
            raise self._refused(batch, first["index"], first["errmsg"]) from error
        except UsageError as error:
            place = first_invalid(documents)
            if place is None:
                raise
            raise self._refused(batch, place, str(error)) from error

    def _replace(self, target: Any, document: Document, batch: Batch, index: int) -> None:
        try:
            if "_id" in document:
                target.replace_one({"_id": document["_id"]}, document, upsert=True)
            else:
                target.insert_one(document)
        except UsageError as error:
            raise self._refused(batch, index, str(error)) from error

    def _refused(self, batch: Batch, index: int, reason: str) -> BadFile:
        return BadFile(self._name, batch.place(index), "", reason)

    def _with_id(self, document: Document, batch: Batch, index: int) -> Document:
        name = self._wish.id_field
        assert name is not None
        if name not in document:
            raise BadFile(self._name, batch.place(index), name, "--id-field names this field, but it is missing")
        return {"_id": document[name], **{each: value for each, value in document.items() if each not in (name, "_id")}}


def cut(batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """The same documents in batches of ``size``; the last of each table may be smaller."""
    documents: list[Document] = []
    places: list[int] = []
    kinds = groupby(batches, key=lambda batch: (batch.unit, batch.table, batch.plain))
    for (unit, table, plain), together in kinds:
        for batch in together:
            documents += batch.documents
            places += batch.places
            while len(documents) >= size:
                yield Batch(documents[:size], places[:size], unit, table, plain)
                documents, places = documents[size:], places[size:]
        if documents:
            yield Batch(documents, places, unit, table, plain)
            documents, places = [], []


def first_invalid(documents: list[Document]) -> int | None:
    """The index of the first document that cannot be stored."""
    for index, document in enumerate(documents):
        try:
            prepare(document)
        except UsageError:
            return index
    return None


def export(
    path: StorePath,
    collection: CollectionName,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file, or - for standard output.", show_default=False)
    ] = STANDARD,
    filter: FilterOption = None,
    fields: Fields = None,
    sort: Order = None,
    format: FileFormat = None,
    json: Json = False,
) -> None:
    """Export the documents of one snapshot to a file, which is replaced when the new one is complete."""
    store, output = find_store(path), Output(json)
    name, wanted, projection, order = format_of(file, format), filter_of(filter), fields_of(fields), order_of(sort)
    with looking_at(path, collection) as found, measured(f"exporting {collection}", None) as advance:

        def documents() -> Iterator[Document]:
            for number, document in enumerate(found.find(wanted, projection, sort=order), 1):
                if number % _NOTED == 0:
                    advance(number, f"{number:,} documents")
                yield document

        with writing_to(file) as stream:
            count = write_documents(stream, name, documents, columns_of_fields(projection))
    if file == STANDARD:
        return
    output.answer(
        {"path": store, "collection": collection, "file": file, "exported": count},
        f"exported {counted(count)} of {collection} to {file}",
    )
