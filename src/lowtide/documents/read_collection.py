"""``ReadCollection``: a collection that can be read, with the queries of PyMongo's ``Collection``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from lowtide.documents.catalog import CatalogRow, check_collection_name
from lowtide.documents.cursor import Cursor, Hint, Results, check_count, explained, parse_hint
from lowtide.documents.filters import Filter, compile_filter
from lowtide.documents.indexes.spec import PRIMARY
from lowtide.documents.plans.planner import SortKeys
from lowtide.documents.plans.point import Point, point_of
from lowtide.documents.point_read import PointReader
from lowtide.documents.prepared.bound import PreparedFilter
from lowtide.documents.prepared.shapes import prepare_filter
from lowtide.documents.prepared.statements import Located, count_of, few_of, find_at, first_of, key_of, located
from lowtide.documents.projection import compile_projection
from lowtide.documents.reader import CollectionReader, ReadCounts, fields_of, fields_read
from lowtide.documents.sorting import Sort, SortSpec, compile_sort
from lowtide.documents.watch import CollectionWatch
from lowtide.engine import AutocommitStatements, EngineTransaction, PrefixOf, ReadView, Statements
from lowtide.errors import OperationFailure, UsageError, shown
from lowtide.feed.feed import Feed
from lowtide.feed.watch import Watch
from lowtide.system.clock import moment
from lowtide.system.extras import require
from lowtide.values.codec import decode_document, decode_value
from lowtide.values.partial import decoder_for
from lowtide.values.paths import distinct_values, steps_of
from lowtide.values.values import Document

if TYPE_CHECKING:
    from lowtide.documents.aggregation.pipeline import Leading, Pipeline

_Result = TypeVar("_Result")
_BATCH = 8192
"""Number of documents converted to Arrow at once."""
FilterSpec = Mapping[str, Any] | None
ProjectionSpec = Mapping[str, Any] | Sequence[str] | None


class ReadCollection:
    """A read-only collection of documents, as a snapshot opens it. ``Collection`` adds the writes.

    >>> with store.snapshot() as snapshot:
    ...     snapshot.collection("users").find_one({"city": "Bergen"})["name"]
    'Cid'
    """

    __slots__ = ("_feed", "_instant", "_newest", "_statements", "_tx", "_where", "name")

    def __init__(self, statements: Statements, name: str, feed: Feed | None = None) -> None:
        self.name = check_collection_name(name)
        self._statements = statements
        self._feed = feed
        self._newest = PointReader(statements, self.name) if isinstance(statements, AutocommitStatements) else None
        self._instant = instant = statements.instant()
        self._tx = instant if isinstance(instant, EngineTransaction) and not instant.read_only else None
        """The transaction, if it reads one instant and can be written to."""
        self._where: Located | None = None
        """Where the collection is, once the transaction has looked it up. One thread at a time uses it."""

    def find_one(
        self,
        filter: FilterSpec | Any = None,
        projection: ProjectionSpec = None,
        *,
        sort: SortSpec | None = None,
        skip: int = 0,
        hint: Hint | None = None,
    ) -> Document | None:
        """Return the first document that matches the filter, or None. A filter that is not a dict is an ``_id``.

        >>> store.collection("users").find_one({"_id": 2}, {"name": 1})
        {'_id': 2, 'name': 'Bob'}
        """
        instant, newest = self._instant, self._newest
        plain = hint is None and type(skip) is int and not skip
        key = key_of(filter) if plain and sort is None else None
        shape = compile_projection(projection, _spec(filter)) if projection is not None else None
        decode = shape.decode if shape is not None else decode_document
        if key is not None and type(instant) is EngineTransaction:  # the same as ``find_at``, with fewer calls
            stored = instant.read(self._place(instant).prefix + key)
            return decode(stored) if stored is not None else None
        order = compile_sort(sort) if sort is not None else None
        if key is not None:
            if instant is not None:
                return find_at(instant, self.name, key, decode)
            if newest is not None and (engine := newest.engine()) is not None:
                found, sure = newest.by_id(engine, key)
                if sure:
                    return shape(found) if shape is not None and found is not None else found
        elif plain and instant is not None:
            prepared = prepare_filter(_spec(filter))
            if type(prepared) is PreparedFilter:
                found, sure = first_of(instant, self.name, prepared, order.keys if order is not None else (), decode)
                if sure:
                    return found
        point = point_of(filter) if order is None and plain else None
        found, sure = None, False
        if point is not None and newest is not None and (engine := newest.engine()) is not None:
            found, sure = newest.at(engine, point)
        if not sure:
            compiled, count, hinted = prepare_filter(_spec(filter)), check_count("skip", skip), parse_hint(hint)
            found = self._read(lambda reader: _first(reader, compiled, point, order, count, hint=hinted))
        return shape(found) if shape is not None and found is not None else found

    def _place(self, tx: EngineTransaction) -> Located:
        """Return where the collection is. The result is cached, unless the transaction itself has changed it: it may
        roll back to a savepoint."""
        where = self._where
        if where is None or where.row_key in tx.writes:
            where = located(tx, self.name)
            if where.row_key not in tx.writes:
                self._where = where
        return where

    def _read(self, work: Callable[[CollectionReader], _Result]) -> _Result:
        name = self.name
        return self._statements.read(lambda reading, prefix_of: work(CollectionReader(reading, prefix_of, name)))

    def find(
        self,
        filter: FilterSpec = None,
        projection: ProjectionSpec = None,
        skip: int = 0,
        limit: int = 0,
        *,
        sort: SortSpec | None = None,
        hint: Hint | None = None,
    ) -> Cursor:
        """Return a cursor over the documents that match the filter.

        The query runs when the cursor is first iterated, and reads one snapshot to the end.

        >>> [user["name"] for user in store.collection("users").find({"city": "Oslo"}, sort="age")]
        ['Bob', 'Ann']
        """
        compiled = prepare_filter(filter)
        shape = compile_projection(projection, filter) if projection is not None else None
        cursor = Cursor(self._statements, self.name, compiled, shape, filter)
        if sort is not None:
            cursor.sort(sort)
        if skip or limit or hint is not None or type(skip) is not int or type(limit) is not int:
            cursor.skip(skip).limit(limit).hint(hint)
        return cursor

    def count_documents(
        self, filter: FilterSpec, *, skip: int = 0, limit: int | None = None, hint: Hint | None = None
    ) -> int:
        """Return the exact number of documents that match the filter.

        If an index covers the filter, no document is read. With an empty filter, the number comes mostly from the
        storage pages.

        >>> store.collection("users").count_documents({"city": "Oslo"})
        2
        """
        compiled, hinted = prepare_filter(filter), parse_hint(hint)
        skipped = check_count("skip", skip)
        most = check_count("limit", limit, least=1) + skipped if limit is not None else None
        if type(compiled) is PreparedFilter and hint is None and most is None and not skipped:
            instant = self._instant
            counted = count_of(instant, self.name, compiled) if instant is not None else None
            if counted is not None:
                return counted

        def work(reader: CollectionReader) -> int:
            by = reader.plan(compiled, None, hinted)
            if most is None and not skipped and by.reads_everything and compiled.complete and not compiled.conjuncts:
                return reader.count()
            found: Iterator[Any]
            if by.exact or (by.reads_everything and compiled.complete and not compiled.conjuncts):
                found = reader.entries(by) if by.index is not None else reader.stored(by)
            else:
                found = reader.documents(compiled, by, decode=decoder_for(fields_of(compiled)))
            return max(0, sum(1 for _ in islice(found, most)) - skipped)

        return self._read(work)

    def estimated_document_count(self) -> int:
        """Return the number of documents. It is exact: the same as ``count_documents({})``.

        >>> store.collection("users").estimated_document_count()
        3
        """
        return self.count_documents({})

    def distinct(self, key: str, filter: FilterSpec = None, *, hint: Hint | None = None) -> list[Any]:
        """Return the distinct values of a field over the documents that match. Each element of an array counts.

        >>> store.collection("users").distinct("city")
        ['Oslo', 'Bergen']
        """
        if not isinstance(key, str):
            raise OperationFailure(f"distinct requires a field path, a string, got {shown(key)}")
        compiled, steps, hinted = prepare_filter(filter), steps_of(key), parse_hint(hint)
        wanted, instant = frozenset((steps[0][0],)), self._instant
        if instant is not None and hinted is None and type(compiled) is PreparedFilter:
            few = few_of(instant, located(instant, self.name), compiled, ())
            if few is not None:
                return distinct_values(map(decoder_for(wanted), few.stored), steps)

        def work(reader: CollectionReader) -> list[Any]:
            by = reader.plan(compiled, None, hinted)
            decode = decoder_for(fields_read(wanted, compiled, by, None))
            return distinct_values(reader.documents(compiled, by, decode=decode), steps)

        return self._read(work)

    def aggregate(self, pipeline: Sequence[Mapping[str, Any]]) -> Results:
        """Run an aggregation pipeline and return an iterator over its results.

        >>> ages = {"_id": "$city", "age": {"$avg": "$age"}}
        >>> list(store.collection("users").aggregate([{"$group": ages}, {"$sort": {"_id": 1}}]))
        [{'_id': 'Bergen', 'age': 25.0}, {'_id': 'Oslo', 'age': 31.5}]
        """
        from lowtide.documents.aggregation import compile_pipeline  # imported late: many modules, rarely needed

        compiled = compile_pipeline(pipeline)
        held = self._statements.hold()
        try:
            results = self._run(compiled, held.reading, held.prefix_of)
            return Results(results, held, self.name, lambda: self._explain(compiled))
        except BaseException:
            held.close()
            raise

    def _run(self, pipeline: Pipeline, reading: ReadView, prefix_of: PrefixOf) -> Iterator[Document]:
        from lowtide.documents.aggregation import needed_fields

        leading, reader = pipeline.leading, CollectionReader(reading, prefix_of, self.name)
        compiled, order, limit = _led(leading)
        by = reader.plan(compiled, order, limited=bool(limit))
        decode = decoder_for(needed_fields(pipeline))
        documents = islice(reader.documents(compiled, by, order, limit, decode), leading.skip, None)
        return pipeline.rest.run(documents, _foreign(reading, prefix_of), now=moment(reading.time()))

    def _explain(self, pipeline: Pipeline) -> dict[str, Any]:
        """Run a pipeline on a new snapshot, and count what each stage returns."""

        def work(reading: ReadView, prefix_of: PrefixOf) -> dict[str, Any]:
            leading, reader, touched = pipeline.leading, CollectionReader(reading, prefix_of, self.name), ReadCounts()
            compiled, order, limit = _led(leading)
            by = reader.plan(compiled, order, limited=bool(limit))
            found = islice(reader.matching(compiled, by, order, limit, touched), leading.skip, None)
            documents, now = (each[2] for each in found), moment(reading.time())
            came, others = pipeline.rest.counted(documents, _foreign(reading, prefix_of), now=now)
            first = {"$cursor": explained(self.name, by, order, came, touched), "nReturned": came}
            return {"stages": [first, *({stage.name: stage.operand, "nReturned": n} for stage, n in others)]}

        return self._statements.read(work)

    def to_arrow(self, columns: Sequence[str] | None = None, schema: Any = None, *, filter: FilterSpec = None) -> Any:
        """Return the documents that match the filter as a ``pyarrow.Table``. Needs the extra ``arrow``.

        ``columns`` limits the table to some fields. Column types are inferred, and widened until every value fits. If a
        ``pyarrow.Schema`` is given, every value must fit it.

        >>> store.collection("users").to_arrow(["_id", "city"]).to_pylist()[0]
        {'_id': 1, 'city': 'Oslo'}
        """
        if columns is not None and (isinstance(columns, str) or not isinstance(columns, Sequence)):
            raise OperationFailure(f"columns must be a list of field names, got {shown(columns)}")
        require("pyarrow", "arrow", "to_arrow()")
        from lowtide.columnar.table import to_table

        compiled = compile_filter(filter)

        def work(reader: CollectionReader) -> Any:
            by = reader.plan(compiled, None)
            return to_table(lambda: reader.batches(by, _BATCH, compiled), columns, schema, collection=self.name)

        return self._read(work)

    def to_pandas(self, columns: Sequence[str] | None = None, *, filter: FilterSpec = None) -> Any:
        """Return the documents that match the filter as a ``pandas.DataFrame``, through ``to_arrow``.

        >>> list(store.collection("users").to_pandas(["age"])["age"])
        [33, 30, 25]
        """
        require("pandas", None, "to_pandas()")
        return self.to_arrow(columns, filter=filter).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, *, filter: FilterSpec = None) -> Any:
        """Return the documents that match the filter as a ``polars.DataFrame``, through ``to_arrow``.

        >>> store.collection("users").to_polars(["age"])["age"].sum()
        88
        """
        polars = require("polars", None, "to_polars()")
        return polars.from_arrow(self.to_arrow(columns, filter=filter))

    def watch(
        self,
        filter: FilterSpec = None,
        since: int | None = None,
        *,
        before: bool = False,
        timeout: float | None = None,
    ) -> CollectionWatch:
        """Iterate over the changes to the documents that match the filter, and wait for further ones.

        It starts after commit ``since``, by default after the last commit. With ``before``, each change has the
        document as it was before; ``timeout`` is how long to wait for a change. Both work as in ``store.watch``. A
        transaction's collection cannot be watched: use ``store.collection(name).watch()``.

        >>> with store.collection("users").watch({"city": "Oslo"}, since=0, timeout=0) as changes:
        ...     [(change.kind, change.document["name"]) for change in changes]
        [('insert', 'Ann'), ('insert', 'Bob')]
        """
        feed, compiled = self._feed, compile_filter(filter)
        if feed is None:
            raise UsageError(
                f"only a store's own collection can be watched; use store.collection({self.name!r}).watch()"
            )
        feed.check_open()
        start = feed.published() if since is None else feed.check_since(since)
        assert feed.generations is not None
        keyspaces = [feed.generations.named(self.name, start)]
        watch = Watch(feed, start, keyspaces, before, timeout, keep=self._statements, exactly=True)
        return CollectionWatch(watch, self.name, compiled)

    def index_information(self) -> dict[str, dict[str, Any]]:
        """Return the indexes by name, each with its keys and options.

        >>> store.collection("users").index_information()
        {'_id_': {'key': [('_id', 1)]}}
        """
        row = self._row()
        return {PRIMARY: {"key": [("_id", 1)]}} | {each.name: each.information() for each in row.indexes}

    def schema(self) -> dict[str, Any] | None:
        """Return the JSON Schema that documents must satisfy, or None.

        >>> store.collection("users").schema()
        """
        encoded = self._row().schema
        found: dict[str, Any] | None = decode_value(encoded) if encoded is not None else None
        return found

    def keyspaces(self) -> list[str]:
        """Return the keyspaces that hold the documents, the indexes and the catalog row, for ``store.pin``.

        >>> store.collection("users").keyspaces()
        ['lowtide/collections', 'documents/users']
        """
        return self._row().keyspaces

    def _row(self) -> CatalogRow:
        return self._read(lambda reader: reader.row)

    def __repr__(self) -> str:
        return f"<collection {self.name!r}>"


def _first(
    reader: CollectionReader,
    filter: Filter,
    point: Point | None,
    sort: Sort | None,
    skip: int,
    hint: str | SortKeys | None,
) -> Document | None:
    """Return the first document that matches, after ``skip`` others."""
    if point is not None and reader.knows(point):
        stored = reader.at_point(point)
        return decode_document(stored[1]) if stored is not None else None
    by = reader.plan(filter, sort, hint, limited=True)
    return next(islice(reader.documents(filter, by, sort, skip + 1), skip, None), None)


def _led(leading: Leading) -> tuple[Filter, Sort | None, int]:
    """Compile the start of a pipeline: its filter, its order, and how many documents it reads (0: no limit)."""
    limit = leading.limit + leading.skip if leading.limit is not None else 0
    return compile_filter(leading.filter), compiled_sort(leading.sort), limit


def _foreign(reading: ReadView, prefix_of: PrefixOf) -> Callable[[str, Mapping[str, Any]], Iterator[Document]]:
    """Return a function that finds documents of other collections, for ``$lookup``."""

    def foreign(name: str, filter: Mapping[str, Any]) -> Iterator[Document]:
        other, wanted = CollectionReader(reading, prefix_of, check_collection_name(name)), compile_filter(filter)
        return other.documents(wanted, other.plan(wanted, None))

    return foreign


def compiled_sort(sort: SortSpec | None) -> Sort | None:
    return compile_sort(sort) if sort is not None else None


def _spec(filter: Any) -> FilterSpec:
    """Return the filter of ``find_one``: one that is not a dict is an ``_id``."""
    return filter if type(filter) is dict or filter is None or isinstance(filter, Mapping) else {"_id": filter}
