"""Writes a DataFrame: tasks stage documents, and the commit writes all of them to the collection, or none.

Spark creates the writer in a short-lived process and pickles it: to the tasks, each of which stages a file in the
store's directory, and to one more process that commits or aborts. For a stream, that process creates its own writer.
They share only the job's directory, which is created when the writer is first pickled, and the messages in which tasks
name their files. A task that fails or is repeated leaves a file that no message names. It is removed with the
directory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lowtide.documents.catalog import check_collection_name
from lowtide.errors import Error, UsageError
from lowtide.sharing.loading.job import BULK_BYTES, How, Job, Receipt, StagedFile, new_job_name
from lowtide.sharing.loading.staged import announce, driver_process, make_staging, remove_staging, stage, staging_of
from lowtide.spark.change_writes import check_change_columns, documents_of, encode_changes, without_change_columns
from lowtide.spark.encoding import RowEncoder
from lowtide.spark.kept_types import types_of
from lowtide.spark.location import StoreLocation
from lowtide.spark.options import SparkOptions
from lowtide.spark.schemas import arrow_schema, check_types
from lowtide.store.handover import TIMEOUT, ensure_store, load

logger = logging.getLogger("lowtide")

_MODES: Final[dict[str, How]] = {"insert": "append", "upsert": "upsert", "delete": "delete", "changes": "changes"}
_READING: Final = (
    "keyspace",
    "asOf",
    "versionAsOf",
    "timestampAsOf",
    "columns",
    "filter",
    "keyStart",
    "keyEnd",
    "keyPrefix",
    "readChangeFeed",
    "startingVersion",
    "endingVersion",
    "startingTimestamp",
    "endingTimestamp",
)


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The files that a task has staged, and their job."""

    job: str
    name: str
    rows: int
    bytes: int


class StagedWrite:
    """The common part of batch and stream writers: a job, staged by tasks, and its commit."""

    def __init__(self, options: SparkOptions, schema: StructType, overwrite: bool, app: str | None) -> None:
        options.refuse(_READING, "for a write, which goes to a collection or a quad store")
        self._options = options
        self._how = _how(options, overwrite)
        self._timeout = options.seconds("commitTimeout", TIMEOUT)
        self._bulk_bytes = options.number("bulkBytes", BULK_BYTES, least=0) or 0
        self._app = app
        self._job: str | None = None
        if options.quads is None:
            self._check_documents(schema)
        else:
            from lowtide.spark.quad_writes import check_statements  # needs rdflib

            check_statements(options, schema, self._how)
            self._arrow = arrow_schema(schema)
        ensure_store(options.path)
        self._location = StoreLocation.here(options.path)

    def _check_documents(self, schema: StructType) -> None:
        """Refuse what cannot be written to a collection, before any task begins."""
        options = self._options
        self._collection = check_collection_name(options.collection)
        if self._how != "delete":
            check_types(schema)
        if self._how == "changes":
            check_change_columns(schema)
        texts = options.names("jsonColumns") or ()
        self._arrow = arrow_schema(schema, texts)
        self._id_field = _id_field(options, schema, self._how)
        self._types = (
            None if self._how == "delete" else types_of(documents_of(schema, self._how), texts, self._id_field)
        )
        self._encoder()  # refuses a schema that cannot be stored

    def __getstate__(self) -> dict[str, Any]:
        self._begun()
        return self.__dict__

    def _begun(self) -> str:
        """Return the job, with its directory created."""
        if self._job is None:
            name = new_job_name()
            make_staging(self._path, name, driver_process(), self._series)
            self._job = name
        return self._job

    @property
    def _series(self) -> str | None:
        """The series that the jobs of one writer to one collection or quad store belong to."""
        target = self._options.quads
        name = self._options.collection if target is None else f"/{target}"
        return None if self._app is None else f"{name}/{self._app}"

    def _encoder(self) -> RowEncoder:
        schema = self._arrow
        if self._how == "delete":
            schema = pa.schema([schema.field(self._id_field)])
        if self._how == "changes":
            schema = without_change_columns(schema)
        return RowEncoder(schema, self._collection, self._id_field, self._options.flag("ignoreNullFields", True))

    @property
    def _path(self) -> Path:
        return Path(self._location.path)

    def _stage(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one attempt of a task."""
        path, job = self._location.check(), self._begun()
        try:
            staged = stage(staging_of(path, job), self._encoded(batches))
        except Error as error:
            raise _named(error, path, self._options.what) from error
        return Staged(job, staged.name, staged.rows, staged.bytes)

    def _encoded(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[list[bytes], list[bytes] | None]]:
        if self._options.quads is not None:
            from lowtide.spark.quad_writes import StatementEncoder

            statements = StatementEncoder(self._how)
            yield from map(statements.encode, batches)
            return
        encoder = self._encoder()
        at = self._arrow.get_field_index(self._id_field)
        for batch in batches:
            if self._how == "delete":
                yield encoder.encode_ids(pa.record_batch([batch.column(at)], names=[self._id_field])), None
            elif self._how == "changes":
                yield encode_changes(encoder, batch)
            else:
                yield encoder.encode(batch)

    def _commit(self, messages: list[WriterCommitMessage | None], version: int | None) -> Receipt:
        """Have the store's owner, or this process, commit the files that the messages name."""
        path = self._path
        staged = [each for each in messages if isinstance(each, Staged)]
        if len(staged) != len(messages):
            raise UsageError(f"{len(messages) - len(staged)} of {len(messages)} tasks did not report what they staged")
        name = staged[0].job if staged else self._begun()
        files = tuple(StagedFile(each.name, each.rows, each.bytes) for each in staged if each.rows)
        job = Job(
            collection=self._options.collection or "",
            quads=self._options.quads,
            how=self._how,
            files=files,
            app=self._app,
            version=version,
            bulk_bytes=self._bulk_bytes,
            types=None if self._options.quads is not None else self._types,
        )
        try:
            announce(staging_of(path, name), job)
            return load(path, name, self._timeout)
        except Error as error:
            raise _named(error, path, self._options.what) from error
        finally:
            remove_staging(path, name)


class BatchWriter(DataSourceArrowWriter, StagedWrite):
    """``df.write.format("lowtide")``."""

    def __init__(self, options: SparkOptions, schema: StructType, overwrite: bool) -> None:
        app = options.text("txnAppId")
        self._version = options.number("txnVersion", least=0)
        if (app is None) != (self._version is None):
            raise UsageError("options 'txnAppId' and 'txnVersion' must be given together")
        StagedWrite.__init__(self, options, schema, overwrite, app)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows, in a task."""
        return self._stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks staged."""
        self._commit(messages, self._version)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged, after a failure of a task or of the commit."""
        if self._job is not None:
            remove_staging(self._path, self._job)


def _how(options: SparkOptions, overwrite: bool) -> How:
    how = _MODES[options.one_of("writeMode", _MODES, "insert")]
    if not overwrite:
        return how
    if how != "append":
        raise UsageError(
            f"mode 'overwrite' replaces all documents, so writeMode is insert, not "
            f"{options.text('writeMode')!r}; use mode 'append' to upsert or delete"
        )
    return "overwrite"


def _id_field(options: SparkOptions, schema: StructType, how: How) -> str:
    """Return the column that holds the ``_id``."""
    name = options.text("idField")
    if how == "delete":
        name = options.text("deleteBy") or name
    else:
        options.refuse(("deleteBy",), f"unless writeMode is delete, and it is {options.text('writeMode', 'insert')!r}")
    wanted = name or "_id"
    if wanted in schema.names:
        return wanted
    known = ", ".join(map(repr, schema.names))
    if name is not None:
        raise UsageError(f"there is no column {name!r} to take the _id from; there are {known}")
    if how in ("upsert", "delete", "changes"):
        what = "apply changes to" if how == "changes" else how
        raise UsageError(f"to {what} documents, give a column '_id' or option 'idField'; there are {known}")
    return wanted


def _named(error: Error, path: Path, what: str) -> Error:
    """Return an error that names the store and what is written to."""
    kind = UsageError if isinstance(error, UsageError) else Error
    return kind(f"write to {what} of the store {path}: {error}")
