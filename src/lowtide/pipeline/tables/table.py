"""A table of versions: a Delta table whose files Spark's tasks write and delta-rs commits.

**Who writes.** Any number of processes may try. Each commit carries application transactions: an archive run that of
the commit it has reached (``ARCHIVED``), and what replaces files (compaction, vacuum, erasure, wider types) the next
number of ``REWRITTEN``. Delta refuses the second of two commits that carry the same, so a run that is repeated, or two
that overlap, never publish a version twice. A run and a concurrent rewrite do not conflict: one only adds files, the
other only replaces files that it has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from lowtide.columnar.inference import Fields
from lowtide.pipeline.errors import ConflictingRun
from lowtide.pipeline.tables.columns import KEY, KEYSPACE, VALID_TO, VERSION, plain
from lowtide.pipeline.tables.files import VersionFile
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.names import QUAD_STORES
from lowtide.pipeline.tables.shapes import decode_fields, encode_fields
from lowtide.pipeline.tables.writer import typed_schema
from lowtide.spark.schemas import spark_schema
from lowtide.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARCHIVED: Final = "lowtide-archive"
"""The application transaction of a run: the commit up to which the table has all versions."""
COMPACTED: Final = "lowtide-compacted"
"""The commit up to which versions are in open and closed files."""
REWRITTEN: Final = "lowtide-rewrite"
_FIELDS: Final = "lowtide.fields"
"""The table property with the shapes of the documents."""
_END: Final = "\U0010ffff"
_THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_AT_ONCE: Final = 10_000
"""Local files that the driver looks up in about the time that a job takes to start."""


class VersionTable:
    """The table of one collection, keyspace or quad store, as it is when this is made; ``reload`` looks again."""

    def __init__(self, location: Location, name: str, *, is_keyspace: bool) -> None:
        self.location = location
        self.name = name
        self.is_keyspace = is_keyspace

    @property
    def quads(self) -> str | None:
        """The quad store whose statements the table has; None if it is of another kind."""
        folder = f"{QUAD_STORES}/"
        return self.name.removeprefix(folder) if self.name.startswith(folder) else None

    @cached_property
    def _delta(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.location.uri)
        except TableNotFoundError:
            return None

    def __str__(self) -> str:
        return self.name

    def reload(self) -> None:
        """Look at the table's newest version."""
        for each in ("_delta", "files", "fields", "schema"):
            self.__dict__.pop(each, None)

    @property
    def exists(self) -> bool:
        return self._delta is not None

    @property
    def delta(self) -> DeltaTable:
        """The Delta table, which must exist."""
        assert self._delta is not None, f"there is no table {self.location.uri}"
        return self._delta

    @property
    def version(self) -> int:
        """Delta's own version of the table, which is no commit of the store."""
        return self.delta.version()

    @property
    def archived(self) -> int:
        """The commit of the last run that added versions; 0 if none has."""
        return self._number(ARCHIVED)

    @property
    def compacted(self) -> int:
        """The commit up to which versions are compacted; 0 if the table never was."""
        return self._number(COMPACTED)

    def _number(self, application: str) -> int:
        return (self._delta.transaction_version(application) or 0) if self._delta is not None else 0

    @cached_property
    def fields(self) -> Fields | None:
        """What was seen of the documents; None for a keyspace."""
        if self.is_keyspace:
            return None
        text = self._delta.metadata().configuration.get(_FIELDS) if self._delta is not None else None
        return Fields() if text is None else decode_fields(text)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, as Delta has them."""
        if self.fields is None:
            return KEYSPACE
        return plain(typed_schema(self.fields)) if self._delta is None else _arrow_schema(self._delta)

    def covers(self, fields: Fields) -> bool:
        """Whether the files can be read with the columns of documents with these shapes."""
        assert self.fields is not None
        wanted = typed_schema(fields)
        return agrees(self.schema, plain(wanted)) and agrees(typed_schema(self.fields), wanted)

    @cached_property
    def files(self) -> list[VersionFile]:
        """The files, with what they can be skipped by."""
        return [] if self._delta is None else _files(self._delta)

    # Publishing

    def create(self, fields: Fields | None) -> None:
        """Make the table, if it does not exist, for documents with these shapes."""
        self.location.create()
        configuration = {} if fields is None else {_FIELDS: encode_fields(fields)}
        schema = KEYSPACE if fields is None else typed_schema(fields)
        DeltaTable.create(
            self.location.uri,
            _delta_schema(plain(schema)),
            mode="ignore",
            configuration=configuration,
            raise_if_key_not_exists=False,
        )
        self.reload()

    def append(self, files: Iterable[VersionFile], commit: int) -> bool:
        """Publish the files of a run that has reached ``commit``; false if another run has done so before."""
        self.reload()
        if self.archived >= commit:
            return False
        self._commit([_added(each, new=True) for each in files], {ARCHIVED: commit})
        return True

    def replace(
        self,
        removed: Iterable[VersionFile],
        added: Iterable[VersionFile],
        *,
        new: bool,
        compacted: int | None = None,
        archived: int | None = None,
    ) -> None:
        """Replace files that were read from this version of the table. ``new`` says that the rows are not the same."""
        now = int(SYSTEM_CLOCK.time() * 1000)
        actions: list[Any] = [_added(each, new=new) for each in added]
        actions += [RemoveAction(each.name, new, now, each.size) for each in removed]
        numbers = {REWRITTEN: self._number(REWRITTEN) + 1}
        numbers |= {COMPACTED: compacted} if compacted is not None else {}
        numbers |= {ARCHIVED: archived} if archived is not None else {}
        self._commit(actions, numbers)

    def widen(self, fields: Fields) -> None:
        """Add the columns that the shapes ``fields`` bring, and keep the shapes. The types of columns that exist must
        not change by that; see ``retype``. Harmless when repeated."""
        known = self.schema
        wanted = plain(typed_schema(fields))
        changed = [each for each in wanted if each.name not in known.names or known.field(each.name).type != each.type]
        if changed:
            self.delta.alter.add_columns(list(_delta_schema(pa.schema(changed)).fields))
        self._keep(fields)

    def _keep(self, fields: Fields) -> None:
        """Keep the shapes. They may lag behind the columns, if a run is killed: its repeat adds the same to them."""
        self.reload()
        assert self.fields is not None
        if encode_fields(fields) != encode_fields(self.fields):
            self.delta.alter.set_table_properties({_FIELDS: encode_fields(fields)}, raise_if_not_exists=False)
            self.reload()

    def retype(self, fields: Fields, files: Iterable[VersionFile]) -> None:
        """Replace all files by others, whose columns follow from ``fields``."""
        numbers = {REWRITTEN: self._number(REWRITTEN) + 1}
        self._commit(
            [_added(each, new=False) for each in files], numbers, plain(typed_schema(fields)), mode="overwrite"
        )
        self._keep(fields)

    def _commit(
        self, actions: list[Any], numbers: dict[str, int], schema: pa.Schema | None = None, mode: str = "append"
    ) -> None:
        transactions = [Transaction(name, number) for name, number in numbers.items()]
        try:
            self.delta.create_write_transaction(
                actions,
                mode,
                _delta_schema(schema if schema is not None else self.schema),
                commit_properties=CommitProperties(app_transactions=transactions),
            )
        except CommitFailedError as error:
            raise ConflictingRun(
                f"another run changed the table {self.location.uri} at the same time: {error}. Nothing of this run was "
                "published there; run it again"
            ) from error
        self.reload()

    # Reading

    def read(self, spark: SparkSession, files: Sequence[VersionFile] | None = None) -> DataFrame:
        """Return the rows of all files, or of these, as a DataFrame."""
        schema = spark_schema(self.schema)
        chosen = self.files if files is None else files
        if not chosen:
            return spark.createDataFrame([], schema)
        paths = [self.location.spark_path(each.name) for each in chosen]
        with _listing(spark, at_once=_AT_ONCE if self.location.is_local else 0):
            return spark.read.schema(schema).parquet(*paths)


@contextmanager
def _listing(spark: SparkSession, at_once: int) -> Iterator[None]:
    """Have the driver look up as many files itself. Spark starts a job for more than 32, which is quicker only where
    files are far away."""
    before = spark.conf.get(_THRESHOLD)
    if int(before or 0) >= at_once:
        yield
        return
    spark.conf.set(_THRESHOLD, str(at_once))
    try:
        yield
    finally:
        spark.conf.set(_THRESHOLD, str(before))


def agrees(file: pa.Schema, table: pa.Schema) -> bool:
    """Whether a file with one schema can be read with another: each of its columns has the same type there. Columns,
    and fields of objects, that the file lacks are null."""
    names = set(table.names)
    return all(each.name not in names or _agrees(each, table.field(each.name)) for each in file)


def _agrees(first: pa.Field, second: pa.Field) -> bool:
    if pa.types.is_struct(first.type) and pa.types.is_struct(second.type):
        fields = {each.name: each for each in second.type}
        return all(each.name in fields and _agrees(each, fields[each.name]) for each in first.type)
    if pa.types.is_list(first.type) and pa.types.is_list(second.type):
        return _agrees(first.type.value_field, second.type.value_field)
    return bool(first.type == second.type) and first.metadata == second.metadata


def _delta_schema(schema: pa.Schema) -> Schema:
    return Schema.from_arrow(schema)


def _arrow_schema(delta: DeltaTable) -> pa.Schema:
    return plain(pa.schema(delta.schema().to_arrow()))


def _added(file: VersionFile, *, new: bool) -> AddAction:
    moment = int(SYSTEM_CLOCK.time() * 1000)
    return AddAction(
        path=file.name,
        size=file.size,
        partition_values={},
        modification_time=moment,
        data_change=new,
        stats=file.statistics(),
    )


def _files(delta: DeltaTable) -> list[VersionFile]:
    found = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    return [
        VersionFile(
            name=each["path"],
            size=each["size_bytes"],
            rows=each["num_records"],
            first_version=each[f"min.{VERSION}"],
            last_version=each[f"max.{VERSION}"],
            last_end=each.get(f"max.{VALID_TO}") if each.get(f"null_count.{VALID_TO}") == 0 else None,
            first_key=each[f"min.{KEY}"],
            last_key=each[f"max.{KEY}"].removesuffix(_END),
        )
        for each in sorted(found, key=lambda row: row["path"])
    ]
