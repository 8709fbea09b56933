"""``load``: loads files, tables and DataFrames into a collection, checked row by row, all or nothing.

There are four steps. Tasks check every row, and their verdicts are kept. The driver counts them, and fails if there are
too many bad rows. The bad rows go to the quarantine. Tasks stage the good ones, which are committed in one transaction,
by the owner of the store or in this process, like every Spark write. A load with a name is done once: the commit
records it, and later repetitions are skipped. A load that is killed before its commit can be repeated: its staged files
are removed, and its rows in the quarantine are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lowtide.documents.catalog import check_collection_name
from lowtide.documents.schema import compile_schema
from lowtide.errors import Error, UsageError
from lowtide.pipeline.load.judging import JUDGED_DDL, Judge
from lowtide.pipeline.load.mapping import ID, FieldMapping, parse_mapping
from lowtide.pipeline.load.quarantine import add_rows, remove_rows
from lowtide.pipeline.load.rules import DUPLICATE_ID, REASONS
from lowtide.pipeline.load.sources import LoadSource, open_source
from lowtide.sharing.loading.job import How, Job, Receipt, StagedFile, new_job_name
from lowtide.sharing.loading.receipts import SERIES, last_version, series_name
from lowtide.sharing.loading.staged import announce, driver_process, make_staging, remove_staging, stage, staging_of
from lowtide.spark.kept_types import types_of
from lowtide.spark.location import StoreLocation
from lowtide.spark.schemas import arrow_schema
from lowtide.store.handover import TIMEOUT, ensure_store
from lowtide.store.handover import load as hand_over
from lowtide.store.opening import open_store
from lowtide.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MODES: Final[dict[str, How]] = {"upsert": "upsert", "insert": "append", "overwrite": "overwrite"}
_STAGED: Final = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
_EXAMPLES: Final = 3


class LoadRefused(Error):
    """More rows were bad than the load may have; nothing was written. ``by_reason`` counts them."""

    def __init__(self, message: str, by_reason: Mapping[str, int]) -> None:
        super().__init__(message)
        self.by_reason = dict(by_reason)


@dataclass(frozen=True)
class LoadReport:
    """What a load did. ``read`` is ``written`` and ``quarantined`` together; ``commit`` is its commit. If it was
    ``skipped``, since a load of its name was done before, nothing was read, and ``commit`` is that of the earlier one.
    ``inserted``, ``replaced`` and ``deleted`` say what the commit did to documents."""

    collection: str
    mode: str
    read: int
    written: int
    quarantined: int
    by_reason: dict[str, int] = field(default_factory=dict)
    commit: int = 0
    inserted: int = 0
    replaced: int = 0
    deleted: int = 0
    seconds: float = 0.0
    skipped: bool = False
    name: str | None = None
    version: int = 0
    quarantine: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)


def load(
    spark: SparkSession,
    source: DataFrame | str | Path,
    store_path: str | Path,
    collection: str,
    *,
    format: str | None = None,
    mapping: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    mode: str = "upsert",
    quarantine: str | Path | None = None,
    max_bad: int | float | None = None,
    name: str | None = None,
    version: int = 0,
    options: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    progress: Callable[[str], None] | None = None,
) -> LoadReport:
    """Load a source into a collection of the store in ``store_path``, in one transaction.

    ``source`` is a path of Parquet, CSV, JSON Lines or Delta, the name of a table, or a DataFrame; ``format`` names one
    that its suffix does not. ``mapping`` says which column becomes which field, see ``lowtide.pipeline.mapping``. Each
    document must satisfy the collection's JSON Schema and ``schema``. ``mode`` is upsert, insert (an ``_id`` that
    exists fails the load) or overwrite (all other documents go).

    Bad rows go to the Delta table ``quarantine``. Without one, a bad row fails the load. So does more than ``max_bad``
    of them, a number, or a share if it is a float; LoadRefused is raised then, and nothing was written. A load with a
    ``name`` is done once for each ``version``, in ascending order. ``options`` are those of Spark's reader. The owner
    of the store is waited for up to ``timeout`` seconds.
    """
    started = SYSTEM_CLOCK.monotonic()
    tell = progress or _silent
    path = Path(store_path).absolute()
    how, limit = _checked(mode, max_bad, name, version, has_quarantine=quarantine is not None)
    fields = parse_mapping(mapping)
    if schema is not None:
        compile_schema(schema)
    check_collection_name(collection)
    found = open_source(spark, source, format=format, options=options or {}, with_columns=bool(fields.expressions))
    frame = found.prepared(fields)
    ensure_store(path)
    own, last = _state(path, collection, name)
    work = _Load(
        path=path,
        collection=collection,
        how=how,
        app=None if name is None else _app(name),
        version=version,
        timeout=timeout,
        types=_kept_types(found, fields),
    )
    aside = None if quarantine is None else str(quarantine)
    basis = {"collection": collection, "mode": mode, "name": name, "version": version, "quarantine": aside}
    if last is not None and version <= last:
        receipt = work.commit([])  # is skipped, and says which commit the load was
        return _report(basis, {}, good=0, receipt=receipt, started=started)

    tell("judging rows")
    schemas = tuple(each for each in (own, schema) if each is not None)
    judge = Judge(fields, schemas, arrow_schema(frame.schema))
    judged = frame.mapInArrow(judge, JUDGED_DDL).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        try:
            verdicts = _Verdicts(judged)
        except PySparkException as error:
            raise Error(
                f"{found.described} cannot be read to its end, or an SQL expression of the mapping fails on a row; "
                f"nothing was written. An expression that may fail says so, as try_cast and try_divide do. {error}"
            ) from error
        limit.check(verdicts)
        if quarantine is not None:
            tell(f"{verdicts.bad_count:,} of {verdicts.read:,} rows to the quarantine")
            _put_aside(verdicts, quarantine, collection, name=name, version=version)
        tell(f"writing {verdicts.good_count:,} documents")
        receipt = work.run(verdicts.good, verdicts.good_count)
    finally:
        judged.unpersist()
    return _report(basis, verdicts.by_reason, good=verdicts.good_count, receipt=receipt, started=started)


def _silent(step: str) -> None:
    pass


def _app(name: str) -> str:
    return f"load {name}"


def _report(
    basis: Mapping[str, Any],
    by_reason: Mapping[str, int],
    good: int,
    receipt: Receipt,
    started: float,
) -> LoadReport:
    if receipt.skipped:  # also if another process did the load of this name meanwhile
        good, by_reason = 0, {}
    bad = sum(by_reason.values())
    counts = receipt.counts
    return LoadReport(
        **basis,
        read=good + bad,
        written=good,
        quarantined=bad,
        by_reason=dict(by_reason),
        commit=receipt.ts,
        inserted=counts.inserted,
        replaced=counts.replaced,
        deleted=counts.deleted,
        seconds=SYSTEM_CLOCK.monotonic() - started,
        skipped=receipt.skipped,
    )


def _state(path: Path, collection: str, name: str | None) -> tuple[Mapping[str, Any] | None, int | None]:
    """The collection's JSON Schema, and the last version of a load that was done."""
    with open_store(path, read_only=True) as store, store.snapshot() as snapshot:
        last = None
        if name is not None:
            last = last_version(snapshot.keyspace(SERIES).get(series_name(collection, _app(name))))
        return snapshot.collection(collection).schema(), last


def _kept_types(source: LoadSource, mapping: FieldMapping) -> dict[str, Any] | None:
    """The types of columns that documents do not preserve, such as date, by field; see ``spark/kept_types``."""
    if source.columns is None:
        return None
    types = {each.name: each.dataType for each in source.frame.schema if each.name in source.columns}
    found = {name: kind for name, kind in types.items() if mapping.rest and name not in mapping.taken}
    for each in mapping.targets:
        if len(each.path) == 1 and each.cast is None and each.column in types:
            found[each.path[0]] = types[each.column]
    return types_of(StructType([StructField(name, kind) for name, kind in found.items()]), (), ID)


# The limit


@dataclass(frozen=True)
class _Limit:
    """How many bad rows a load may have."""

    most: int | float | None
    has_quarantine: bool

    def check(self, verdicts: _Verdicts) -> None:
        bad, read = verdicts.bad_count, verdicts.read
        if not bad:
            return
        share = isinstance(self.most, float)
        if self.has_quarantine and (self.most is None or bad <= (self.most * read if share else self.most)):
            return
        reasons = ", ".join(f"{count:,} {reason} ({REASONS[reason]})" for reason, count in verdicts.by_reason.items())
        if not self.has_quarantine:
            why = "give a quarantine for them, or fix them"
        else:
            why = f"max_bad allows {f'a share of {self.most:g}' if share else self.most}; fix them, or allow more"
        raise LoadRefused(
            f"{bad:,} of {read:,} rows cannot be loaded: {reasons}. Nothing was written: {why}. "
            f"For example {'; '.join(verdicts.examples())}",
            verdicts.by_reason,
        )


def _checked(
    mode: str, max_bad: int | float | None, name: str | None, version: int, *, has_quarantine: bool
) -> tuple[How, _Limit]:
    if mode not in _MODES:
        raise UsageError(f"{mode!r} is no mode of a load; there are {', '.join(_MODES)}")
    if max_bad is not None and (
        isinstance(max_bad, bool)
        or not isinstance(max_bad, int | float)
        or max_bad < 0
        or (isinstance(max_bad, float) and not max_bad <= 1)
    ):
        raise UsageError(f"max_bad is a number of rows, or a share as a float from 0.0 to 1.0, not {max_bad!r}")
    if name is not None and (not isinstance(name, str) or not name):
        raise UsageError(f"the name of a load is a text that is not empty, not {name!r}")
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise UsageError(f"the version of a load is a number from 0 on, not {version!r}")
    if version and name is None:
        raise UsageError("the version of a load distinguishes loads of one name; give a name too")
    return _MODES[mode], _Limit(max_bad, has_quarantine)


# The verdicts


class _Verdicts:
    """The judged rows, counted. Rows that share an ``_id`` are bad, too: rows have no order, so none is the last."""

    def __init__(self, judged: DataFrame) -> None:
        self._judged = judged
        by_key = judged.groupBy("reason", "key").count()  # rows that were refused have no key
        repeated = F.sum(F.when(F.col("count") > 1, F.col("count")))
        found = {row[0]: (row[1], row[2]) for row in by_key.groupBy("reason").agg(F.sum("count"), repeated).collect()}
        passed = judged.where("reason IS NULL")
        good, twice = found.pop(None, (0, 0))
        twice = twice or 0
        counts = {reason: count for reason, (count, _) in found.items()}
        self._keys = passed.groupBy("key").count().where("count > 1").select("key") if twice else None
        self.good = passed if self._keys is None else passed.join(self._keys, "key", "left_anti")
        self.good_count: int = good - twice
        if twice:
            counts[DUPLICATE_ID] = twice
        self.by_reason: dict[str, int] = dict(sorted(counts.items()))
        self.bad_count = sum(counts.values())
        self.read = self.good_count + self.bad_count

    @property
    def bad(self) -> DataFrame:
        """The rows that are not loaded."""
        bad = self._judged.where("reason IS NOT NULL")
        if self._keys is None:
            return bad
        twice = self._judged.where("reason IS NULL").join(self._keys, "key", "left_semi").select(self._judged.columns)
        twice = twice.withColumns(
            {"reason": F.lit(DUPLICATE_ID), "field": F.lit(ID), "detail": F.lit(REASONS[DUPLICATE_ID])}
        )
        return bad.unionByName(twice)

    def examples(self) -> list[str]:
        """A few of the bad rows, in words."""
        rows = self.bad.select("reason", "field", "detail", "source").limit(_EXAMPLES).collect()
        return [f"{row[0]}: {row[1] or 'the row'}: {row[2]}, in {row[3][:200]}" for row in rows]


def _put_aside(verdicts: _Verdicts, quarantine: str | Path, collection: str, *, name: str | None, version: int) -> None:
    place = str(quarantine) if ":/" in str(quarantine) else str(Path(quarantine).absolute())
    if verdicts.bad_count:
        add_rows(
            place,
            verdicts.bad,
            load=name or f"unnamed {uuid4().hex}",
            version=version,
            collection=collection,
            is_repeatable=name is not None,
        )
    elif name is not None:
        remove_rows(place, load=name, version=version)


# The write


@dataclass(frozen=True)
class _Stage:
    """Stages the documents of a partition in the store's directory; called in each task."""

    location: StoreLocation
    job: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        path = self.location.check()
        found = ((batch.column(0).to_pylist(), batch.column(1).to_pylist()) for batch in batches)
        file = stage(staging_of(path, self.job), found)
        yield pa.record_batch([[file.name], [file.rows], [file.bytes]], schema=_STAGED)


@dataclass(frozen=True, kw_only=True)
class _Load:
    """The write of one load: staged by tasks, and committed as one job."""

    path: Path
    collection: str
    how: How
    app: str | None
    version: int
    timeout: float
    types: dict[str, Any] | None
    job: str = field(default_factory=new_job_name)

    def run(self, good: DataFrame, count: int) -> Receipt:
        """Stage the documents, of which there must be ``count``, and commit them."""
        make_staging(self.path, self.job, driver_process())
        try:
            stage = _Stage(StoreLocation.here(self.path), self.job)
            rows = good.select("key", "document").mapInArrow(stage, "name string, rows long, bytes long").collect()
            files = [StagedFile(*row) for row in rows if row[1]]
            if (staged := sum(each.rows for each in files)) != count:
                raise Error(
                    f"{count:,} rows were good when they were judged, and {staged:,} were read again for the write: "
                    "the source changed meanwhile. Nothing was written; repeat the load"
                )
            return self._announced(files)
        finally:
            remove_staging(self.path, self.job)

    def commit(self, files: list[StagedFile]) -> Receipt:
        """Commit files that were staged."""
        make_staging(self.path, self.job, driver_process())
        try:
            return self._announced(files)
        finally:
            remove_staging(self.path, self.job)

    def _announced(self, files: list[StagedFile]) -> Receipt:
        job = Job(
            collection=self.collection,
            how=self.how,
            files=tuple(files),
            app=self.app,
            version=None if self.app is None else self.version,
            types=self.types,
        )
        announce(staging_of(self.path, self.job), job)
        return hand_over(self.path, self.job, self.timeout)
