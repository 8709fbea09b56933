"""Many operations in one statement: ``bulk_write`` and ``insert_many``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lowtide.documents.cursor import Hint
from lowtide.documents.operations import Prepared
from lowtide.documents.results import BulkWriteResult, DeleteResult, InsertOneResult, UpdateResult
from lowtide.documents.sorting import SortSpec
from lowtide.documents.write_batch import WriteBatch
from lowtide.errors import BulkWriteError, DuplicateKeyError, InvalidDocument, OperationFailure, WriteError

if TYPE_CHECKING:
    from lowtide.documents.collection import Collection

_REFUSED = 121
"""MongoDB's error code for a document that is refused."""


@dataclass(frozen=True, slots=True)
class InsertOne:
    """Insert a document, as ``insert_one`` does."""

    document: Any


@dataclass(frozen=True, slots=True)
class UpdateOne:
    """Update the first document that matches, as ``update_one`` does."""

    filter: Mapping[str, Any]
    update: Mapping[str, Any]
    upsert: bool = False
    array_filters: Sequence[Mapping[str, Any]] | None = field(default=None, kw_only=True)
    hint: Hint | None = field(default=None, kw_only=True)
    sort: SortSpec | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class UpdateMany:
    """Update every document that matches, as ``update_many`` does."""

    filter: Mapping[str, Any]
    update: Mapping[str, Any]
    upsert: bool = False
    array_filters: Sequence[Mapping[str, Any]] | None = field(default=None, kw_only=True)
    hint: Hint | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class ReplaceOne:
    """Replace the first document that matches, as ``replace_one`` does."""

    filter: Mapping[str, Any]
    replacement: Mapping[str, Any]
    upsert: bool = False
    hint: Hint | None = field(default=None, kw_only=True)
    sort: SortSpec | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class DeleteOne:
    """Delete the first document that matches, as ``delete_one`` does."""

    filter: Mapping[str, Any]
    hint: Hint | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class DeleteMany:
    """Delete every document that matches, as ``delete_many`` does."""

    filter: Mapping[str, Any]
    hint: Hint | None = field(default=None, kw_only=True)


Operation = InsertOne | UpdateOne | UpdateMany | ReplaceOne | DeleteOne | DeleteMany


def check_operations(requests: Sequence[Operation]) -> list[Operation]:
    """Return the operations as a list, or raise OperationFailure."""
    if not isinstance(requests, Iterable) or isinstance(requests, Mapping | str | bytes):
        raise OperationFailure(f"bulk_write requires a list of operations, got {type(requests).__name__}")
    found = list(requests)
    if not found:
        raise OperationFailure("bulk_write requires at least one operation")
    for each in found:
        if not isinstance(each, Operation):
            raise OperationFailure(f"{each!r} is not an operation; use InsertOne, UpdateOne, ReplaceOne, DeleteOne ...")
    return found


def run_operations(
    collection: Collection, operations: Sequence[Operation], ordered: bool
) -> tuple[BulkWriteResult, BulkWriteError | None]:
    """Run the operations in order. Each sees the writes of those before it. One that fails changes nothing."""
    result, errors = BulkWriteResult(), []
    for place, operation in enumerate(operations):
        try:
            result.add(place, _run(collection, operation))
        except (OperationFailure, InvalidDocument) as error:
            errors.append(described(place, error, operation))
            if ordered:
                break
    return result, BulkWriteError(result.details(errors)) if errors else None


def _run(collection: Collection, operation: Operation) -> InsertOneResult | UpdateResult | DeleteResult:
    match operation:
        case InsertOne(document):
            return collection.insert_one(document)
        case UpdateOne(filter, update, upsert, array_filters=array_filters, hint=hint, sort=sort):
            return collection.update_one(filter, update, upsert, array_filters=array_filters, hint=hint, sort=sort)
        case UpdateMany(filter, update, upsert, array_filters=array_filters, hint=hint):
            return collection.update_many(filter, update, upsert, array_filters, hint=hint)
        case ReplaceOne(filter, replacement, upsert, hint=hint, sort=sort):
            return collection.replace_one(filter, replacement, upsert, hint=hint, sort=sort)
        case DeleteOne(filter, hint=hint):
            return collection.delete_one(filter, hint=hint)
        case DeleteMany(filter, hint=hint):
            return collection.delete_many(filter, hint=hint)


def insert_all(batch: WriteBatch, documents: Sequence[Prepared], ordered: bool) -> BulkWriteError | None:
    """Insert the documents that are not refused. Returns an error that lists the others, or None."""
    result, errors = BulkWriteResult(), []
    known = batch.known_ids([each.key for each in documents if not each.is_new])
    fresh = {each.key for each in documents}
    for place, each in enumerate(documents):
        is_new = each.is_new or (each.key in fresh and each.key not in known)
        fresh.discard(each.key)  # a later document with the same _id is looked up
        try:
            batch.insert(each.key, each.encoded, is_new=is_new)
            result.inserted_count += 1
        except WriteError as error:
            errors.append(described(place, error, each.id))
            if ordered:
                break
    return BulkWriteError(result.details(errors)) if errors else None


def described(place: int, error: Exception, operation: object) -> dict[str, Any]:
    """Return an error in the form of ``BulkWriteError.details``."""
    code = error.code if isinstance(error, OperationFailure) else None
    found = {"index": place, "code": code or _REFUSED, "errmsg": str(error), "op": operation}
    if isinstance(error, DuplicateKeyError):
        found |= {"keyValue": error.details["keyValue"]}
    return found
