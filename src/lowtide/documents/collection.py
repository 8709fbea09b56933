"""``Collection``: a collection that can be read and written, with the methods of PyMongo's ``Collection``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from lowtide.documents.bulk import Operation, check_operations, insert_all, run_operations
from lowtide.documents.cursor import Hint, parse_hint
from lowtide.documents.indexes.build import Progress, create_index, index_asked_for
from lowtide.documents.indexes.spec import Keys
from lowtide.documents.management import drop, drop_index, rename, set_schema
from lowtide.documents.operations import PlainDocuments, delete, insert, prepare, select, update
from lowtide.documents.prepared.changes import Updated, update_at, update_by_filter, update_by_key, update_known
from lowtide.documents.prepared.inserts import insert_at, insert_batch, insert_fresh, prepare_batch, prepare_one
from lowtide.documents.prepared.statements import at_once, delete_at, delete_by_key, key_of
from lowtide.documents.prepared.updates import prepare_update
from lowtide.documents.projection import compile_projection
from lowtide.documents.read_collection import ProjectionSpec, ReadCollection, compiled_sort
from lowtide.documents.results import (
    BulkWriteResult,
    DeleteResult,
    InsertManyResult,
    InsertOneResult,
    ReturnDocument,
    UpdateResult,
)
from lowtide.documents.schema import Violation
from lowtide.documents.sorting import SortSpec
from lowtide.documents.updates import AnyUpdate, compile_replacement
from lowtide.documents.write_batch import WriteBatch
from lowtide.errors import OperationFailure, shown
from lowtide.values.values import Document

_Result = TypeVar("_Result")
ArrayFilters = Sequence[Mapping[str, Any]] | None


class Collection(ReadCollection):
    """A collection of documents. Each call is one statement, and atomic: if it fails, it changes nothing.

    A collection opened on a transaction (``tx[name]``) runs its statements in that transaction. A collection opened on
    the store (``store[name]``) runs each call in its own transaction and retries it on conflict.

    >>> with store.transaction() as tx:
    ...     tx["users"].insert_one({"_id": 4, "name": "Dan"}).inserted_id
    4
    """

    __slots__ = ()

    def _write(self, work: Callable[[WriteBatch], _Result]) -> _Result:
        name = self.name

        def run(writing: Any, prefix_of: Callable[[str], bytes]) -> _Result:
            batch = WriteBatch(writing, prefix_of, name)
            result = work(batch)
            batch.apply()
            return result

        return self._statements.write(run)

    def insert_one(self, document: Any) -> InsertOneResult:
        """Insert one document. If it has no ``_id``, it gets a new UUID that sorts by time.

        Raises DuplicateKeyError if another document has the same ``_id``, or the same value in a unique index.

        >>> store.collection("users").insert_one({"_id": 4, "name": "Dan"}).inserted_id
        4
        """
        prepared = prepare_one(document)
        if self._tx is not None:
            insert_at(self._tx, self.name, prepared)
        elif not at_once(self._statements, insert_at, self.name, prepared):
            self._write(lambda batch: insert(batch, prepared))
        return InsertOneResult(prepared.id)

    def insert_many(self, documents: Iterable[Any], ordered: bool = True) -> InsertManyResult:
        """Insert many documents in one transaction.

        If a document is refused, for example as a duplicate, the insert stops there; with ``ordered=False`` it
        continues with the next document. The documents that were accepted are inserted, and BulkWriteError lists the
        others. If any document cannot be stored at all, InvalidDocument is raised and none is inserted.

        >>> store.collection("users").insert_many([{"_id": 4}, {"_id": 5}]).inserted_ids
        [4, 5]
        """
        if not isinstance(documents, Iterable) or isinstance(documents, Mapping | str | bytes):
            raise OperationFailure(f"insert_many requires a list of documents, got {type(documents).__name__}")
        listed = documents if type(documents) is PlainDocuments else list(documents)
        if not listed:
            raise OperationFailure("insert_many requires at least one document")
        batch = prepare_batch(listed)
        if batch is not None and at_once(self._statements, insert_batch, self.name, batch):
            return InsertManyResult(batch.ids)
        prepared = list(map(prepare, listed))
        if batch is not None or not at_once(self._statements, insert_fresh, self.name, prepared):
            refusal = self._write(lambda batch: insert_all(batch, prepared, ordered))
            if refusal is not None:
                raise refusal
        return InsertManyResult([each.id for each in prepared])

    def replace_one(
        self,
        filter: Mapping[str, Any],
        replacement: Mapping[str, Any],
        upsert: bool = False,
        *,
        hint: Hint | None = None,
        sort: SortSpec | None = None,
    ) -> UpdateResult:
        """Replace the first document that matches the filter. The new document keeps the ``_id``.

        With ``upsert``, the replacement is inserted if no document matches.

        >>> store.collection("users").replace_one({"_id": 1}, {"name": "Anna"}).modified_count
        1
        """
        change = compile_replacement(replacement)
        return self._update(filter, change, upsert=upsert, sort=sort, hint=hint, replacing=True)[0]

    def update_one(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any],
        upsert: bool = False,
        *,
        array_filters: ArrayFilters = None,
        hint: Hint | None = None,
        sort: SortSpec | None = None,
    ) -> UpdateResult:
        """Update the first document that matches the filter, with operators such as ``$set`` and ``$inc``.

        With ``upsert``, a new document is inserted if none matches.

        >>> store.collection("users").update_one({"_id": 1}, {"$inc": {"age": 1}}).modified_count
        1
        """
        tx = self._tx
        if tx is not None and not upsert and array_filters is None and sort is None and hint is None:
            key = key_of(filter) if type(filter) is dict else None
            done = update_known(tx, self._place(tx), self.name, key, update) if key is not None else None
            if done is not None:
                return done
        return self._update(filter, prepare_update(update, array_filters), upsert=upsert, sort=sort, hint=hint)[0]

    def update_many(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any],
        upsert: bool = False,
        array_filters: ArrayFilters = None,
        *,
        hint: Hint | None = None,
    ) -> UpdateResult:
        """Update every document that matches the filter.

        All matches are found before the first is updated. If the update fails for one document, none is changed.

        >>> store.collection("users").update_many({"city": "Oslo"}, {"$set": {"country": "NO"}}).modified_count
        2
        """
        return self._update(filter, prepare_update(update, array_filters), upsert=upsert, many=True, hint=hint)[0]

    def _update(
        self,
        filter: Mapping[str, Any],
        change: AnyUpdate,
        *,
        upsert: bool,
        many: bool = False,
        sort: SortSpec | None = None,
        hint: Hint | None = None,
        replacing: bool = False,
        returned: bool = False,
    ) -> tuple[UpdateResult, Document | None, Document | None]:
        done: Updated | None = None
        simple = not upsert and hint is None and not change.positional
        if simple and sort is None and type(filter) is dict and (key := key_of(filter)) is not None:
            if self._tx is not None:
                return update_at(self._tx, self.name, key, change, returned)
            done = update_by_key(self._statements, self.name, key, change, returned)
        if done is None:
            selection = select(filter, many=many, sort=compiled_sort(sort), hint=parse_hint(hint))
            if simple:
                done = update_by_filter(self._statements, self.name, selection, change, returned)
        if done is not None:
            return done
        seed = filter if upsert else None
        return self._write(lambda batch: update(batch, selection, change, seed, replacing=replacing))

    def delete_one(
        self, filter: Mapping[str, Any], *, hint: Hint | None = None, sort: SortSpec | None = None
    ) -> DeleteResult:
        """Delete the first document that matches the filter.

        >>> store.collection("users").delete_one({"_id": 1}).deleted_count
        1
        """
        key = key_of(filter) if sort is None and hint is None and type(filter) is dict else None
        if key is not None and self._tx is not None:
            return delete_at(self._tx, self.name, key)
        if key is not None and (done := delete_by_key(self._statements, self.name, key)) is not None:
            return done
        selection = select(filter, many=False, sort=compiled_sort(sort), hint=parse_hint(hint))
        return self._write(lambda batch: delete(batch, selection)[0])

    def delete_many(self, filter: Mapping[str, Any], *, hint: Hint | None = None) -> DeleteResult:
        """Delete every document that matches the filter.

        >>> store.collection("users").delete_many({"city": "Oslo"}).deleted_count
        2
        """
        selection = select(filter, many=True, hint=parse_hint(hint))
        return self._write(lambda batch: delete(batch, selection)[0])

    def find_one_and_update(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any],
        projection: ProjectionSpec = None,
        sort: SortSpec | None = None,
        upsert: bool = False,
        return_document: ReturnDocument | bool = ReturnDocument.BEFORE,
        array_filters: ArrayFilters = None,
        *,
        hint: Hint | None = None,
    ) -> Document | None:
        """Update the first document that matches the filter and return it.

        By default it is returned as it was before the update; with ``ReturnDocument.AFTER``, as it is afterwards.
        Returns None if there is no such document.

        >>> users = store.collection("users")
        >>> users.find_one_and_update({"_id": 1}, {"$inc": {"age": 1}}, return_document=ReturnDocument.AFTER)["age"]
        34
        """
        return self._find_and(
            filter,
            prepare_update(update, array_filters),
            projection=projection,
            sort=sort,
            upsert=upsert,
            return_document=return_document,
            hint=hint,
        )

    def find_one_and_replace(
        self,
        filter: Mapping[str, Any],
        replacement: Mapping[str, Any],
        projection: ProjectionSpec = None,
        sort: SortSpec | None = None,
        upsert: bool = False,
        return_document: ReturnDocument | bool = ReturnDocument.BEFORE,
        *,
        hint: Hint | None = None,
    ) -> Document | None:
        """Replace the first document that matches the filter and return the old document, or, with
        ``ReturnDocument.AFTER``, the new one. Returns None if there is no such document.

        >>> store.collection("users").find_one_and_replace({"_id": 1}, {"name": "Anna"})["name"]
        'Ann'
        """
        return self._find_and(
            filter,
            compile_replacement(replacement),
            projection=projection,
            sort=sort,
            upsert=upsert,
            return_document=return_document,
            hint=hint,
            replacing=True,
        )

    def _find_and(
        self,
        filter: Mapping[str, Any],
        change: AnyUpdate,
        *,
        projection: ProjectionSpec,
        sort: SortSpec | None,
        upsert: bool,
        return_document: ReturnDocument | bool,
        hint: Hint | None,
        replacing: bool = False,
    ) -> Document | None:
        if not isinstance(return_document, ReturnDocument) and type(return_document) is not bool:
            wrong = shown(return_document)
            raise OperationFailure(f"return_document is ReturnDocument.BEFORE or ReturnDocument.AFTER, not {wrong}")
        shape = compile_projection(projection, filter)
        _, before, after = self._update(
            filter, change, upsert=upsert, sort=sort, hint=hint, replacing=replacing, returned=True
        )
        found = after if return_document in (ReturnDocument.AFTER, True) else before
        return shape(found) if shape is not None and found is not None else found

    def find_one_and_delete(
        self,
        filter: Mapping[str, Any],
        projection: ProjectionSpec = None,
        sort: SortSpec | None = None,
        *,
        hint: Hint | None = None,
    ) -> Document | None:
        """Delete the first document that matches the filter and return it. Returns None if none matches.

        >>> store.collection("users").find_one_and_delete({}, sort=[("age", 1)])["name"]
        'Cid'
        """
        shape = compile_projection(projection, filter)
        selection = select(filter, many=False, sort=compiled_sort(sort), hint=parse_hint(hint))
        found = self._write(lambda batch: delete(batch, selection)[1])
        return shape(found) if shape is not None and found is not None else found

    def bulk_write(self, requests: Sequence[Operation], ordered: bool = True) -> BulkWriteResult:
        """Run several operations in one transaction: InsertOne, UpdateOne, UpdateMany, ReplaceOne, DeleteOne and
        DeleteMany.

        If an operation fails, execution stops there; with ``ordered=False`` it continues with the next operation. The
        operations that succeeded are committed, and BulkWriteError lists the others.

        >>> from lowtide import DeleteOne, InsertOne
        >>> store.collection("users").bulk_write([InsertOne({"_id": 4}), DeleteOne({"_id": 1})]).deleted_count
        1
        """
        operations = check_operations(requests)
        result, refusal = self._statements.run(
            lambda statements: run_operations(Collection(statements, self.name), operations, ordered)
        )
        if refusal is not None:
            raise refusal
        return result

    def create_index(
        self,
        keys: Keys,
        *,
        name: str | None = None,
        unique: bool = False,
        sparse: bool = False,
        partialFilterExpression: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> str:
        """Create an index, unless it exists, and return its name.

        On the store, the index is built in steps while other threads read and write. In a transaction, it is built in
        one step. ``progress`` is called with the number of documents that are indexed so far.

        >>> users = store.collection("users")
        >>> users.create_index([("city", 1), ("age", -1)])
        'city_1_age_-1'
        >>> users.find({"city": "Oslo"}).explain()["executionStats"]["totalDocsExamined"]
        2
        """
        asked = index_asked_for(keys, name, unique, sparse, partialFilterExpression)
        return create_index(self._statements, self.name, asked, progress)

    def drop_index(self, index_or_name: str | Keys) -> None:
        """Drop an index, given its name or its keys.

        >>> users = store.collection("users")
        >>> users.drop_index(users.create_index("city"))
        """
        drop_index(self._statements, self.name, index_or_name)

    def drop_indexes(self) -> None:
        """Drop all indexes except the one on ``_id``.

        >>> store.collection("users").drop_indexes()
        """
        for name in list(self.index_information())[1:]:
            self.drop_index(name)

    def set_schema(self, schema: Mapping[str, Any] | None) -> list[tuple[Any, Violation]]:
        """Set the JSON Schema that every document written from now on must satisfy; None removes it.

        Returns the violations of the documents that exist already, each with the document's ``_id``. These documents
        are not changed.

        >>> store.collection("users").set_schema({"properties": {"age": {"maximum": 30}}})
        [(1, Violation(path='age', reason='33 is greater than the maximum of 30'))]
        """
        return set_schema(self._statements, self.name, schema)

    def drop(self) -> None:
        """Drop the collection with its documents, indexes and schema, in time proportional to their number.

        >>> store.collection("users").drop()
        """
        drop(self._statements, self.name)

    def rename(self, new_name: str, *, dropTarget: bool = False) -> None:
        """Rename the collection, in constant time. With ``dropTarget``, an existing collection ``new_name`` is dropped.

        >>> store.collection("users").rename("people")
        >>> store.list_collection_names()
        ['people']
        """
        rename(self._statements, self.name, new_name, dropTarget)
